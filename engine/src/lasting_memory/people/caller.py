"""The caller: who is signed in, for whom they act, with which claims, and since when.

It is worked out once a run, or once a request, from what the platform says of it; everything after
that is passed the caller.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import Runtime, get_runtime

from lasting_memory.people import identity
from lasting_memory.people.identity import Actor, Author, Context, Membership, User
from lasting_memory.settings import Settings

# Runs of this process whose callers are kept: more than can be under way at once.
_RUNS_KEPT = 1_000


class Decides(Protocol):
    """What of a deployment decides who acts: a `Deployment`."""

    @property
    def settings(self) -> Settings: ...

    @property
    def default_assistant(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who acts in a run or a request.

    `actor` is the person for whom, `is_operator` whether the signed-in `user` may act for others
    (None: a script, without a server), `membership` the claims of the groups of that person,
    `assistant` the assistant whose skills and memory it is about. `run_id` and `thread_id` are ""
    outside of a run, `began` is the time of the run, in ISO format, UTC.
    """

    actor: Actor
    user: User | None = field(repr=False)
    is_operator: bool
    membership: Membership = field(repr=False)
    assistant: str
    run_id: str = ""
    thread_id: str = ""
    began: str = ""

    @property
    def claims(self) -> Mapping[str, str]:
        """The claims of groups that hold now: none once the token that proved them has expired."""
        return {} if self.membership.is_over else self.membership.claims

    def author(self, kind: str) -> Author:
        """The author of what this run writes."""
        return Author(kind, self.actor.user_id, self.run_id, self.thread_id)

    @classmethod
    def of_run(cls, deployment: Decides, runtime: Runtime[Any] | None = None) -> "Caller":
        """The caller of the current run. Raises `IdentityError` for a run that is nobody's.

        It is worked out once a run that has an id, which a server's run has; a new token, user or
        context is another run. What a token proved is worked out anew once the token has expired.
        """
        runtime = runtime or get_runtime()
        server, context = runtime.server_info, runtime.context
        configurable = (var_child_runnable_config.get() or {}).get("configurable") or {}
        user = server.user if server else None
        run_id, thread_id = (str(configurable.get(name) or "") for name in ("run_id", "thread_id"))
        evidence = (server.assistant_id if server else "", context)
        kept = _KEPT.get(run_id)
        if (
            kept is not None
            and kept.caller.user is user
            and kept.settings is deployment.settings
            and kept.evidence == evidence
            and (kept.until is None or time.time() < kept.until)
        ):
            return kept.caller
        is_operator = user is not None and identity.is_operator(user, deployment.settings)
        caller = cls(
            actor=identity.current_actor(deployment.settings, runtime, operates=is_operator),
            user=user,
            is_operator=is_operator,
            membership=identity.membership_of(user),
            assistant=identity.current_assistant(deployment.default_assistant, runtime),
            run_id=run_id,
            thread_id=thread_id,
            began=identity.time_of_run(run_id) if run_id else "",
        )
        if run_id:
            _keep(run_id, _Kept(caller, deployment.settings, evidence, _end_of(user)))
        return caller

    @classmethod
    def of_request(cls, user: User, context: Context, settings: Settings) -> "Caller":
        """The caller of a request by a signed-in user; an operator's `context` names the person
        whom it is about.

        Raises `IdentityError` if no person is known, or none that could have memory.
        """
        is_operator = identity.is_operator(user, settings)
        actor = identity.acting(user, context, settings, operates=is_operator)
        identity.check_person(actor)
        return cls(actor, user, is_operator, identity.membership_of(user), "")


@dataclass(frozen=True, slots=True)
class _Kept:
    """A run's caller, and what it was worked out from, beside its user."""

    caller: Caller
    settings: Settings
    evidence: tuple[str, Any]  # the assistant, and the context
    until: float | None  # when the user's token expires, in seconds since 1970; None: never


# By the run's id, the oldest first. Runs may be in threads of their own: each operation on it is
# one step.
_KEPT = OrderedDict[str, _Kept]()


def _keep(run_id: str, kept: _Kept) -> None:
    _KEPT[run_id] = kept
    if len(_KEPT) > _RUNS_KEPT:
        _KEPT.popitem(last=False)


def _end_of(user: User | None) -> float | None:
    """When the token of this user expires; what is no time has been."""
    expires_at = identity.claim(user, "expires_at") if user else None
    return expires_at if expires_at is None or isinstance(expires_at, int | float) else 0.0
