"""The caller: who is signed in, for whom they act, with which claims, and since when.

It is worked out once a run, or once a request, from what the platform says of it; everything after
that is passed the caller.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import Runtime, get_runtime

from lasting_memory.people import identity
from lasting_memory.people.identity import Actor, Author, Context, Membership, User
from lasting_memory.settings import Settings

# Runs of this process whose callers are cached: more than can be under way at once.
_RUNS_CACHED = 1_000


class Decides(Protocol):
    """What of a deployment decides who acts: a `Deployment`."""

    @property
    def settings(self) -> Settings: ...

    @property
    def default_assistant(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who acts in a run or a request.

    `actor` is the person for whom it acts. `user` is who is signed in; None in a script, without a
    server. `is_operator` says whether the user may act for others. `membership` has the claims of
    the groups of that person. `assistant` is the assistant whose skills and memory it is about.
    `run_id`, `thread_id` and `began` are "" outside of a run; `began` is the time of the run, in
    ISO format, UTC.
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
        if self.membership.is_over:
            return {}
        return self.membership.claims

    @property
    def speaks_for_another(self) -> bool:
        """Whether an operator sent what is said in this run, to act for somebody else: it is not that
        person's word. A run that an operator only resumes has the person's own messages.
        """
        user = self.user
        if user is None or not self.is_operator:
            return False
        is_resumed = identity.claim(user, "thread_owner")
        if is_resumed:
            return False
        return user.identity != self.actor.user_id

    def author(self, kind: str) -> Author:
        """The author of what this run writes. `kind` is a kind of author, such as "agent"."""
        user_id = self.actor.user_id
        return Author(kind, user_id, self.run_id, self.thread_id)

    @classmethod
    def of_run(cls, deployment: Decides, runtime: Runtime[Context] | None = None) -> "Caller":
        """The caller of the current run. Raises `IdentityError` for a run that is nobody's.

        It is worked out once a run that has an id, which a server's run has; a new token, user or
        context is another run. What a token proved is worked out anew once the token has expired.
        """
        # It is asked at each access to a file, so a caller that is known is found here.
        runtime = runtime or get_runtime()
        server = runtime.server_info
        user = server.user if server else None
        assistant_id = server.assistant_id if server else ""
        config = var_child_runnable_config.get() or {}
        configurable = config.get("configurable") or {}
        run_id = str(configurable.get("run_id") or "")
        cached = _CACHE.get(run_id)
        if (
            cached is not None
            and cached.caller.user is user
            and cached.settings is deployment.settings
            and cached.assistant_id == assistant_id
            and cached.context == runtime.context
            and time.time() < cached.expires_at
        ):
            return cached.caller
        settings = deployment.settings
        is_operator = user is not None and identity.is_operator(user, settings)
        caller = cls(
            actor=identity.current_actor(settings, runtime, operates=is_operator),
            user=user,
            is_operator=is_operator,
            membership=identity.membership_of(user),
            assistant=identity.current_assistant(deployment.default_assistant, runtime),
            run_id=run_id,
            thread_id=str(configurable.get("thread_id") or ""),
            began=identity.time_of_run(run_id) if run_id else "",
        )
        if run_id:
            expires_at = _expiry_of(user)
            cached = _CachedCaller(caller, settings, assistant_id, runtime.context, expires_at)
            _cache(run_id, cached)
        return caller

    @classmethod
    def of_request(cls, user: User, context: Context, settings: Settings) -> "Caller":
        """The caller of a request by a signed-in user.

        An operator's `context` names the person whom the request is about. Raises `IdentityError`
        if no person is known, or none that could have memory.
        """
        is_operator = identity.is_operator(user, settings)
        actor = identity.acting(user, context, settings, operates=is_operator)
        identity.check_person(actor)
        membership = identity.membership_of(user)
        return cls(actor, user, is_operator, membership, "")


@dataclass(frozen=True, slots=True)
class _CachedCaller:
    """A run's caller, and what it was worked out from.

    `expires_at` is when the user's token expires, in seconds since 1970.
    """

    caller: Caller
    settings: Settings
    assistant_id: str
    context: object
    expires_at: float


# By the run's id, the oldest first. Runs may be in threads of their own: each operation on it is
# one step.
_CACHE = OrderedDict[str, _CachedCaller]()


def _cache(run_id: str, cached: _CachedCaller) -> None:
    """Keeps a run's caller. Beyond `_RUNS_CACHED` the oldest one is dropped."""
    _CACHE[run_id] = cached
    if len(_CACHE) > _RUNS_CACHED:
        _CACHE.popitem(last=False)


def _expiry_of(user: User | None) -> float:
    """When the token of this user expires, in seconds since 1970.

    It is infinity for a token without an end, and without a user. It is 0 for what is no time, so
    that such a token counts as expired.
    """
    if not user:
        return math.inf
    expires_at = identity.claim(user, "expires_at")
    if expires_at is None:
        return math.inf
    if not isinstance(expires_at, int | float):
        return 0.0
    return expires_at
