"""Identities: the person a run acts for, the author of a write, and their labels in namespaces.

The user is who is signed in, as the platform passes it; the actor is the person for whom a run or a
request acts. They differ for an operator, a user who may act for others. A claim is what the user's
token says of them. A label is an identity as a part of a namespace.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated
from urllib.parse import quote, unquote_to_bytes
from uuid import UUID, uuid5

from langgraph.config import get_config
from langgraph.runtime import Runtime, get_runtime
from langgraph_sdk.auth.types import BaseUser, StudioUser
from pydantic import Field

from lasting_memory.settings import CONSOLIDATION_GRAPH, Settings

OPERATE = "memory:operate"
WRITE_POLICIES = "policies:write"
# As OpenID Connect bounds a subject.
MAX_IDENTITY_BYTES = 255
# The version of run ids, which begin with a time.
_WITH_TIME = 7
# How the platform derives the id of the assistant it creates for every graph
# (langgraph_api.graph.NAMESPACE_GRAPH).
_PLATFORM = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")


# The signed-in user as the platform passes it to auth handlers, routes and runs.
User = BaseUser


# In `additional_kwargs`: an operator said it who acts for somebody else. The server marks it.
SPOKEN_FOR = "spoken_for"
# Kinds of authors who act at the person's word. Consolidation merges and shortens, seeds and
# scripts know nothing of the person.
AT_THEIR_WORD = frozenset({"person", "operator", "agent", "subagent", "client"})


class IdentityError(RuntimeError):
    """The signed-in identity is missing or unusable. The message names the fix."""


@dataclass
class Context:
    """A run's context.

    On a server `user_id` and `org_id` count for operators alone. A token identifies everyone else.

    Only `consolidation_agent` reads the others: the assistant whose conversations it consolidates
    (under `MEMORY_SCOPE=user+assistant`), and whether it only reports its changes.
    """

    user_id: str | None = None
    org_id: str | None = None
    assistant_id: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Actor:
    """The person in an organization whose memory a run reads and writes."""

    user_id: str
    org_id: str


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a revision."""

    # Agent, subagent, consolidation, person (over HTTP), client (another program of the person's),
    # operator, seed, or outside (not through the journal)
    kind: str
    # The person, if known.
    user_id: str = ""
    # The author's run.
    run_id: str = ""
    # The run's thread; for consolidation the conversations that it read, separated by spaces.
    thread_id: str = ""


@dataclass(frozen=True, slots=True)
class ClientAuthor(Author):
    """Another program of a person's, as the author of a revision.

    `client` is what it says it is called, which proves nothing.
    """

    client: str = field(kw_only=True)


# Any author as it is stored.
StoredAuthor = Annotated[ClientAuthor | Author, Field(union_mode="left_to_right")]


class _Readable(ABC):
    """A user whose claims can be read: one that answers `in` and `[]` itself.

    Python answers `in` for any object that can be iterated, and says that nothing is in it. Whether
    a class is readable is worked out once: claims are read at every access.
    """

    @abstractmethod
    def __contains__(self, name: object) -> bool: ...

    @abstractmethod
    def __getitem__(self, name: str) -> object: ...

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return hasattr(kind, "__contains__") and hasattr(kind, "__getitem__")


def _unreadable(user: object) -> IdentityError:
    """The error for a user whose claims cannot be read."""
    return IdentityError(
        f"The signed-in user is a {type(user).__name__}, whose claims cannot be read; "
        "it must answer `in` and `[]`."
    )


def claim(user: User | Mapping[str, object], name: str) -> object:
    """A claim of the signed-in user, or None.

    Its value is whatever the token, or a fork's own sign-in, has there.

    Raises `IdentityError` for a user whose claims cannot be read: otherwise every claim would look
    missing, and the people of all organizations would be in the default one.
    """
    if not isinstance(user, _Readable):
        raise _unreadable(user)
    return user[name] if name in user else None  # noqa: SIM401  # the platform's users have no .get


def _is_over(expires_at: object) -> bool:
    """Whether a token's lifetime is over.

    None is a lifetime without end. What is no time counts as over.
    """
    if expires_at is None:
        return False
    if not isinstance(expires_at, int | float):
        return True
    return time.time() >= expires_at


@dataclass(frozen=True, slots=True)
class Membership:
    """The verified claims that say to which groups a person belongs.

    `expires_at` is when the token expires that proved them, in seconds since 1970. None is a token
    without an end, such as a development token. What is no time counts as over.
    """

    claims: Mapping[str, str]
    expires_at: object = None

    @property
    def is_over(self) -> bool:
        """Whether the token that proved the claims has expired."""
        return _is_over(self.expires_at)


def membership_of(user: User | Mapping[str, object] | None) -> Membership:
    """The groups of the person for whom this user's run acts.

    In a run that an operator resumes for somebody they are those of the run that was interrupted.
    Otherwise they are the caller's own, also where an operator acts for somebody: nobody has claims
    that no token of theirs holds. A claim whose value is no text names no group. Raises
    `IdentityError` for claims, or an owner, that cannot be read.
    """
    if user is None:
        return Membership({})
    holder = user
    owner = claim(user, "thread_owner")
    if owner:
        holder = _checked_owner(owner)
    # Read as `claim` does, which has looked at the user: this is asked at every access.
    claims = holder["claims"] if "claims" in holder else None  # noqa: SIM401
    expires_at = holder["expires_at"] if "expires_at" in holder else None  # noqa: SIM401
    if not claims:
        return Membership({}, expires_at)
    if not isinstance(claims, Mapping):
        raise IdentityError(
            f"The claims of this user are {type(claims).__name__}; make them an object of names and values."
        )
    texts = {name: value for name, value in claims.items() if isinstance(value, str)}
    return Membership(texts, expires_at)


def _checked_owner(owner: object) -> Mapping[str, object]:
    """What says who owns the thread that an operator resumes. Raises `IdentityError` for anything
    else.
    """
    if not isinstance(owner, Mapping):
        raise IdentityError(
            f"The owner of this run's thread is {type(owner).__name__}, which names nobody."
        )
    return owner


def claims_of(user: User | Mapping[str, object] | None) -> Mapping[str, str]:
    """The claims of groups that hold now (`membership_of`).

    None of them hold once the token that proved them has expired. A run is planned long before it
    begins, and goes on after it began, so this is asked at every access.
    """
    membership = membership_of(user)
    return {} if membership.is_over else membership.claims


def permissions_of(user: User | Mapping[str, object]) -> Collection[str]:
    """The permissions that hold now: none once the token that proved them has expired.

    Raises `IdentityError` for what is no collection of names.
    """
    if not isinstance(user, _Readable):
        raise _unreadable(user)
    # Read as `claim` does: this is asked at every access.
    permissions = user["permissions"] if "permissions" in user else None  # noqa: SIM401
    if not isinstance(permissions, list | tuple | set | frozenset | None):
        raise IdentityError(
            f"The permissions of this user are {type(permissions).__name__}; make them a list of names."
        )
    if not permissions or _is_over(claim(user, "expires_at")):
        return ()
    return permissions


def is_operator(user: User, settings: Settings) -> bool:
    """Whether this user may act for others.

    That is Studio, an identity in `OPERATORS`, and who has the permission `memory:operate`.
    """
    if isinstance(user, StudioUser):
        return settings.accepts_studio
    if user.identity in settings.operators:
        return True
    return OPERATE in permissions_of(user)


def may_write_policies(user: User, settings: Settings) -> bool:
    """Whether this user may change their organization's policies."""
    return WRITE_POLICIES in permissions_of(user) or is_operator(user, settings)


def acting(
    user: User | None, context: Context, settings: Settings, *, operates: bool | None = None
) -> Actor:
    """The person that a run on a server acts for.

    That is the end user, the person whom an operator names, or the owner of a thread that an
    operator resumes. `user` is None without authentication. `operates` says whether the user is an
    operator, where that is known. Raises `IdentityError` if no identity or organization is known:
    nothing falls back to a shared one.
    """
    if user is None or not user.identity:
        raise IdentityError(
            "This run has no signed-in user, so there is no memory it may use; keep the "
            '"auth": {"path": "./auth.py:auth"} entry in langgraph.json and send an Authorization header.'
        )
    # `auth.py` sets the owner when an operator resumes another person's run; clients cannot set it.
    owner = claim(user, "thread_owner")
    if owner:
        return _actor_of(owner)
    if operates is None:
        operates = is_operator(user, settings)
    if operates:
        user_id = context.user_id or user.identity
        org_id = context.org_id or settings.fallback_org
        return Actor(user_id, org_id)
    # An end user's context counts nothing. A former operator's would: the run was created for whom
    # it names.
    names_another = context.user_id or context.org_id
    if names_another:
        permissions = claim(user, "permissions")
        was_operator = isinstance(permissions, Collection) and OPERATE in permissions
        if was_operator:
            raise IdentityError(
                "This run acts for somebody else, and its operator's token has expired; start it with a new token."
            )
    org_id = _org_of(user, settings)
    return Actor(user.identity, org_id)


def _actor_of(owner: object) -> Actor:
    """The person who owns a resumed run's thread. Raises `IdentityError` for one who names nobody."""
    fields = _checked_owner(owner)
    user_id = fields.get("user_id")
    org_id = fields.get("org_id")
    if not isinstance(user_id, str) or not isinstance(org_id, str):
        raise IdentityError(
            "The owner of this run's thread names nobody: its `user_id` and `org_id` must be text."
        )
    return Actor(user_id, org_id)


def _org_of(user: User, settings: Settings) -> str:
    """The organization of an end user: their claim, or else the setting `DEFAULT_ORG`.

    `auth/tokens.py` always sets the claim. A user of another origin may lack it. Raises
    `IdentityError` without both, and for a claim that is no text.
    """
    org_id = claim(user, "org_id")
    if isinstance(org_id, str) and org_id:
        return org_id
    if org_id in (None, "") and settings.default_org:
        return settings.default_org
    raise IdentityError(
        "This user has no organization, so there is no memory it may use; set `org_id`, or DEFAULT_ORG."
    )


def run_user(runtime: Runtime[Context] | None) -> User | None:
    """The user a server authenticated for this run, or None."""
    server = runtime.server_info if runtime else None
    return server.user if server else None


def on_server(runtime: Runtime[Context] | None = None) -> bool:
    """Whether a server runs this, and not a script that calls the graph."""
    present_runtime = runtime or get_runtime()
    return present_runtime.server_info is not None


def current_actor(
    settings: Settings, runtime: Runtime[Context] | None = None, *, operates: bool | None = None
) -> Actor:
    """The person that the current run acts for (`acting`), or whom the context names in a script.

    Raises `IdentityError` also for a person who cannot have namespaces.
    """
    runtime = runtime or get_runtime()
    context = run_context(runtime)
    server = runtime.server_info
    if server is not None:
        actor = acting(server.user, context, settings, operates=operates)
    elif context.user_id:
        org_id = context.org_id or settings.fallback_org
        actor = Actor(context.user_id, org_id)
    else:
        raise IdentityError(
            "No user is named; pass context=Context(user_id=...) when calling the graph without a server."
        )
    check_person(actor)
    return actor


def run_context(runtime: Runtime[Context]) -> Context:
    """A run's context; an empty one for a run without, or with a context of another class."""
    context = runtime.context
    return context if isinstance(context, Context) else Context()


def names_nobody(settings: Settings, runtime: Runtime[Context]) -> bool:
    """Whether this is an operator's run without a target, such as the cron's."""
    user = run_user(runtime)
    if user is None:
        return False
    context = run_context(runtime)
    names_somebody = context.user_id or claim(user, "thread_owner")
    if names_somebody:
        return False
    return is_operator(user, settings)


def assistant_of(graph: str) -> str:
    """Id of the assistant that the platform makes for a graph."""
    return str(uuid5(_PLATFORM, graph))


def current_assistant(default: str, runtime: Runtime[Context] | None = None) -> str:
    """Id of the assistant whose skills this run uses; `default` if none is named.

    Under `user+assistant` the run uses this assistant's memory, too.
    """
    runtime = runtime or get_runtime()
    server = runtime.server_info
    if server and server.graph_id != CONSOLIDATION_GRAPH and server.assistant_id:
        return server.assistant_id
    # Consolidation's context names the assistant whose conversations it reads.
    context = run_context(runtime)
    return context.assistant_id or default


def current_run_id() -> str | None:
    """The current run's id; None without a server, or outside of a run."""
    try:
        config = get_config()
    except RuntimeError:
        return None
    run_id = config.get("configurable", {}).get("run_id")
    return str(run_id) if run_id else None


def current_thread_id() -> str:
    """The current run's thread; "" outside of a run."""
    try:
        config = get_config()
    except RuntimeError:
        return ""
    thread_id = config.get("configurable", {}).get("thread_id")
    return str(thread_id or "")


def time_of_run(run_id: str) -> str:
    """The time in a run's id, in ISO format, UTC.

    An id without a time has the time 0, which is older than any forgetting.
    """
    milliseconds = 0
    with suppress(ValueError):
        uuid = UUID(run_id)
        if uuid.version == _WITH_TIME:
            milliseconds = uuid.int >> 80
    seconds = milliseconds / 1_000
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="microseconds")


@lru_cache(maxsize=10_000)
def label(part: str) -> str:
    """An identity, organization or assistant as a part of a namespace label.

    `part_of` is the inverse. Ordinary characters stay; each other UTF-8 byte becomes `~` and two hex digits. The store
    forbids periods, `StoreBackend` everything outside `[A-Za-z0-9-_.@+:~]`; `:` joins parts. Raises
    `IdentityError` for what no store should hold.
    """
    try:
        raw = part.encode()
    except UnicodeEncodeError:
        raw = b""
    has_size = 0 < len(raw) <= MAX_IDENTITY_BYTES
    if not has_size or b"\0" in raw:
        limit = f"1 to {MAX_IDENTITY_BYTES} bytes of UTF-8, without NUL"
        raise IdentityError(f"The identity {part[:20]!r} cannot be used; send one of {limit}.")
    # `quote` leaves periods and `~` as they are.
    quoted = quote(raw, safe="@+").replace("~", "~7E").replace(".", "~2E")
    return quoted.replace("%", "~")


def part_of(text: str) -> str:
    """The inverse of `label`. Raises `ValueError` for a text that `label` never made."""
    quoted = text.replace("~", "%")
    with suppress(IdentityError, UnicodeDecodeError):
        part = unquote_to_bytes(quoted).decode()
        if label(part) == text:
            return part
    raise ValueError(f"{text[:80]!r} is not a namespace label of this deployment.")


def check_person(actor: Actor) -> None:
    """Raises `IdentityError` for a person who cannot have namespaces."""
    label(actor.org_id)
    label(actor.user_id)
