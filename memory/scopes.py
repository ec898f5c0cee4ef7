"""Whose memory: from the caller to an identity, from an identity to store namespaces.

The only module that decides who a run acts as, and the only one that spells a namespace. Everything else asks here, so
that the writer and the reader of a memory cannot disagree about where it is.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args
from uuid import UUID, uuid5

from langgraph.config import get_config
from langgraph.runtime import Runtime, get_runtime
from langgraph_sdk.auth.types import StudioUser

from settings import Settings

Namespace = tuple[str, ...]

OPERATE = "memory:operate"
# OpenID Connect allows a subject 255 ASCII characters.
MAX_IDENTITY_BYTES = 1_024
# Characters of an organization's and a person's labels together: with an assistant's, and the longest path, they still fit the
# 2,704 bytes of a Postgres index entry, also beside the name of a vector's field.
MAX_PERSON_CHARS = 2_050
# How the platform derives the id of the assistant it creates for every graph (langgraph_api.graph.NAMESPACE_GRAPH).
_PLATFORM = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
DEFAULT_AGENT_ASSISTANT = str(uuid5(_PLATFORM, "agent"))
DEFAULT_CONSOLIDATION_ASSISTANT = str(uuid5(_PLATFORM, "consolidation_agent"))

_PLAIN = re.compile(rb"[A-Za-z0-9_@+-]")
_ESCAPED = re.compile(r"~([0-9A-F]{2})|([A-Za-z0-9_@+-])")
_BASE64 = "~~"


class IdentityError(RuntimeError):
    """Nobody, or nobody usable, is signed in. The message says what to do."""


class User(Protocol):
    """What the platform hands to auth handlers and runs as the signed-in user."""

    @property
    def identity(self) -> str: ...
    def __getitem__(self, key: str) -> Any: ...
    def __contains__(self, key: object) -> bool: ...


@dataclass
class Context:
    """A run's context. On a server only operators' counts; everyone else is who their token says.

    The others are read by `consolidation_agent` alone: `assistant_id`, under `MEMORY_SCOPE=user+assistant`, is the assistant
    whose conversations it consolidates; with `dry_run` it says what it would change, and changes nothing.
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
    """Who wrote something.

    Args:
        kind: agent, subagent, consolidation, person (over HTTP), operator, seed, or outside (not through the journal).
        user_id: the person, where one is known.
        run_id: the run it was written in.
        thread_id: the thread of that run.
    """

    kind: str
    user_id: str = ""
    run_id: str = ""
    thread_id: str = ""


def claim(user: User | Mapping[str, Any], name: str) -> Any:
    """A claim of the signed-in user, or None."""
    return user[name] if name in user else None  # noqa: SIM401  # the platform's users have no .get


def is_operator(user: User | StudioUser, settings: Settings) -> bool:
    """Whether this user may act for others: Studio, an identity in `OPERATORS`, or the permission `memory:operate`."""
    if isinstance(user, StudioUser):
        return settings.accepts_studio
    return user.identity in settings.operators or OPERATE in (claim(user, "permissions") or ())


def acting(user: User | None, context: Context | None, settings: Settings, *, on_server: bool) -> Actor:
    """Who a run acts as: the table "Who is acting" of the design, row by row.

    Args:
        user: the signed-in user, None without authentication.
        context: the run's context.
        settings: for `DEFAULT_ORG` and `OPERATORS`.
        on_server: False in a script or test that calls the graph itself.

    Raises:
        IdentityError: no identity is known. Nothing falls back to a shared one.
    """
    context = context or Context()
    if on_server and (user is None or not user.identity):
        raise IdentityError(
            "This run has no signed-in user, so there is no memory it may use; keep the "
            '"auth": {"path": "./auth.py:auth"} entry in langgraph.json and send an Authorization header.'
        )
    if user is not None and on_server:
        # `auth.py` puts the owner there when an operator resumes somebody's run; clients cannot.
        if owner := claim(user, "thread_owner"):
            return Actor(owner["user_id"], owner["org_id"])
        if not is_operator(user, settings):
            return Actor(user.identity, claim(user, "org_id") or settings.default_org)
        return Actor(context.user_id or user.identity, context.org_id or settings.default_org)
    if not context.user_id:
        raise IdentityError("No user is named; pass context=Context(user_id=...) when calling the graph without a server.")
    return Actor(context.user_id, context.org_id or settings.default_org)


def run_user(runtime: Runtime[Any] | None) -> User | None:
    """The user a server authenticated for this run, or None."""
    server = runtime.server_info if runtime else None
    return server.user if server else None


def on_server(runtime: Runtime[Any] | None = None) -> bool:
    """Whether this run is one of the platform's, which keeps threads; False in a script that calls the graph."""
    return (runtime or get_runtime()).server_info is not None


def current_actor(settings: Settings, runtime: Runtime[Any] | None = None) -> Actor:
    """`acting` for the run this is called in.

    Raises:
        IdentityError: as `acting` and `check_person`.
    """
    runtime = runtime or get_runtime()
    context = runtime.context if isinstance(runtime.context, Context) else None
    actor = acting(run_user(runtime), context, settings, on_server=runtime.server_info is not None)
    check_person(actor)
    return actor


def names_nobody(settings: Settings, runtime: Runtime[Any]) -> bool:
    """Whether this is an operator's run without a target, for nobody in particular: the cron's, for one."""
    user = run_user(runtime)
    target = runtime.context.user_id if isinstance(runtime.context, Context) else None
    return user is not None and is_operator(user, settings) and not target and not claim(user, "thread_owner")


def current_assistant(runtime: Runtime[Any] | None = None) -> str:
    """Id of the assistant whose skills and, under `user+assistant`, whose memory this run uses."""
    runtime = runtime or get_runtime()
    server = runtime.server_info
    if server and server.graph_id == "agent" and server.assistant_id:
        return server.assistant_id
    named = runtime.context.assistant_id if isinstance(runtime.context, Context) else None
    return named or DEFAULT_AGENT_ASSISTANT


def current_run_id() -> str | None:
    """The server's id of the run this is called in; None without a server, or outside of a run."""
    try:
        run_id = get_config().get("configurable", {}).get("run_id")
    except RuntimeError:
        return None
    return str(run_id) if run_id else None


def current_author(settings: Settings, *, consolidating: bool = False) -> Author:
    """Who writes in the run this is called in."""
    configurable = get_config().get("configurable", {})
    kind = "subagent" if configurable.get("ls_agent_type") == "subagent" else "agent"
    return Author(
        kind="consolidation" if consolidating else kind,
        user_id=current_actor(settings).user_id,
        run_id=current_run_id() or "",
        thread_id=str(configurable.get("thread_id") or ""),
    )


def label(part: str) -> str:
    """One identity, organization or assistant as (part of) a namespace label.

    Ordinary characters stay; others become `~` and two hex digits a UTF-8 byte; where base64url is shorter than that,
    `~~` and base64url. Injective and reversible (`part_of`); at most 1,368 characters. The store forbids periods,
    `StoreBackend` everything outside `[A-Za-z0-9-_.@+:~]`, and `:` joins parts.

    Raises:
        IdentityError: empty, longer than `MAX_IDENTITY_BYTES`, or not Unicode text (a lone surrogate).
    """
    try:
        raw = part.encode()
    except UnicodeEncodeError:
        raise IdentityError(f"The identity {part!r} is not valid Unicode; send it as UTF-8.") from None
    if not raw:
        raise IdentityError("An identity is empty; a token needs a subject and an organization of at least a character.")
    if len(raw) > MAX_IDENTITY_BYTES:
        raise IdentityError(f"The identity {part[:20]!r}... has {len(raw)} bytes; at most {MAX_IDENTITY_BYTES} are accepted.")
    escaped = "".join(chr(byte) if _PLAIN.match(bytes([byte])) else f"~{byte:02X}" for byte in raw)
    encoded = _BASE64 + base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return escaped if len(escaped) <= len(encoded) else encoded


def check_person(actor: Actor) -> None:
    """Refuse somebody whose namespaces, or whose name beside what they wrote, some store could not hold.

    Raises:
        IdentityError: a part is not usable (`label`) or holds a NUL character, or both together are too long.
    """
    for part in (actor.org_id, actor.user_id):
        if "\x00" in part:  # Postgres cannot keep one
            raise IdentityError(f"The identity {part[:40]!r} holds a NUL character; send it without.")
    chars = len(label(actor.org_id)) + len(label(actor.user_id))
    if chars > MAX_PERSON_CHARS:
        raise IdentityError(f"Identity and organization take {chars} characters together; at most {MAX_PERSON_CHARS} fit.")


def part_of(text: str) -> str:
    """The inverse of `label`.

    Raises:
        ValueError: `label` never made this text.
    """
    if text.startswith(_BASE64):
        encoded = text[len(_BASE64) :]
        part = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    else:
        raw = _ESCAPED.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2], text)
        part = raw.encode("latin-1").decode()
    if not 0 < len(part.encode()) <= MAX_IDENTITY_BYTES or label(part) != text:
        raise ValueError(f"{text!r} is not a namespace label of this deployment.")
    return part


def memories(actor: Actor, assistant_id: str, settings: Settings) -> Namespace:
    """Namespace of `/memories/`, as `MEMORY_SCOPE` lays it out. It has no deeper ones: a prefix search finds only itself."""
    person = (actor.org_id, actor.user_id)
    parts = {"user": person, "user+assistant": (assistant_id, *person), "assistant": (assistant_id,)}[settings.memory_scope]
    return ("memories", ":".join(map(label, parts)))


def skills(assistant_id: str) -> Namespace:
    """Namespace of `/skills/`: the assistant's, shared by its users."""
    return ("skills", label(assistant_id))


def policies(org_id: str) -> Namespace:
    """Namespace of `/policies/`: the organization's."""
    return ("policies", label(org_id))


def consolidation(actor: Actor) -> Namespace:
    """Namespace of how far each of a person's conversations has been consolidated; keys are thread ids."""
    return ("consolidation", f"{label(actor.org_id)}:{label(actor.user_id)}")


def consolidations(actor: Actor) -> Namespace:
    """Namespace of what consolidation did for a person; keys are times, with the run's id."""
    return ("consolidations", f"{label(actor.org_id)}:{label(actor.user_id)}")


def lease(actor: Actor) -> Namespace:
    """Namespace of which consolidation is at work for a person; journaled, and keyed by the memory it works on."""
    return ("lease", f"{label(actor.org_id)}:{label(actor.user_id)}")


# Key of the count in the namespace `epoch`.
EPOCH = "epoch"


def epoch(actor: Actor) -> Namespace:
    """Namespace of a count that goes up when a person is forgotten. It stays: runs from before are known by it."""
    return ("epoch", f"{label(actor.org_id)}:{label(actor.user_id)}")


def journals(files: Namespace) -> Namespace:
    """Namespace under which the logs of all files of a namespace are."""
    return ("journal", *files)


def journal(files: Namespace, key: str) -> Namespace:
    """Namespace of one file's log. The key's digest, because a whole key beside the rest would not fit a Postgres index."""
    return (*journals(files), hashlib.sha256(key.encode()).hexdigest()[:32])


def retained(files: Namespace) -> Namespace:
    """Namespace of the note of how much the logs of a namespace take up (`memory/retention.py`)."""
    return (*journals(files), "retained")


def unsettled(files: Namespace) -> Namespace:
    """Namespace of marks at files that may be copies of an old revision; keys are the files' own."""
    return ("unsettled", *files)


def schedule(actor: Actor) -> Namespace:
    """Namespace of the ids of a person's consolidation threads; keys are `memory/triggers.py`'s."""
    return ("schedule", f"{label(actor.org_id)}:{label(actor.user_id)}")


# When the last sweep began (key `mark`), and the ids of the threads that were due then.
SWEEP: Namespace = ("sweep",)
DUE: Namespace = ("due",)


RecallPart = Literal["documents", "new", "segments", "texts"]
RECALL_PARTS: tuple[RecallPart, ...] = get_args(RecallPart)


def recall(actor: Actor, part: RecallPart) -> Namespace:
    """Namespaces of the index of a person's past conversations (`memory/recall.py` says what each part holds)."""
    return (f"recall_{part}", f"{label(actor.org_id)}:{label(actor.user_id)}")


def recalled(org_id: str, namespace: Namespace) -> Actor | None:
    """Whose index a namespace of `recall` is part of, if they are of this organization."""
    org, _, user = namespace[-1].partition(":")
    return Actor(part_of(user), org_id) if org == label(org_id) else None


def namespaces_of(actor: Actor, files: Iterable[Namespace]) -> list[Namespace]:
    """Every namespace with something of a person in it, or a prefix of such: what goes when they are forgotten.

    All but `epoch`. Whoever adds a namespace of a person's adds it here.

    Args:
        actor: the person.
        files: namespaces of their memory files.
    """
    journaled = [*files, lease(actor)]
    of_files = [part for namespace in journaled for part in (namespace, journals(namespace), unsettled(namespace))]
    index = [recall(actor, part) for part in RECALL_PARTS]
    return [*of_files, *index, consolidation(actor), consolidations(actor), schedule(actor)]


def is_memory_of(namespace: Namespace, actor: Actor, settings: Settings) -> bool:
    """Whether a namespace is one of `memories` of this person alone."""
    if settings.memory_scope == "assistant" or namespace[:1] != ("memories",) or len(namespace[1:]) != 1:
        return False
    *assistant, org, user = ["", *namespace[1].split(":")]
    layout = {"user": 1, "user+assistant": 2}[settings.memory_scope]
    return len(assistant) == layout and (org, user) == (label(actor.org_id), label(actor.user_id))


def may_read(namespace: Namespace, actor: Actor, settings: Settings) -> bool:
    """Whether the store API may show this namespace to an end user: their own memory, their organization's policies."""
    return namespace == policies(actor.org_id) or is_memory_of(namespace, actor, settings)
