"""Every namespace of the store: the writer and the reader of an item both take it from here.

Those of files come from a route's scope: a person's, an assistant's, an organization's, or a
group's. It knows who writes the files, and who reads them over the store API. Nothing else knows
what `MEMORY_SCOPE` means.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, get_args

from lasting_memory.people.identity import Actor, IdentityError, label, part_of
from lasting_memory.settings import (
    MemoryScope,
    Settings,
    SettingsError,
    SharedWrites,
    is_peoples_own,
)

Namespace = tuple[str, ...]
GroupWrites = Literal["deny", "interrupt", "members"]
# What a namespace's label is made of, in this order.
_Part = Literal["assistant", "org", "user", "claim", "group"]
_LAYOUTS: Mapping[MemoryScope, tuple[_Part, ...]] = {
    "user": ("org", "user"),
    "user+assistant": ("assistant", "org", "user"),
    "assistant": ("assistant", "org"),
}
# With the longest organization, group and path, a namespace still fits a Postgres index entry.
_MAX_CLAIM_BYTES = 64
_ROUTE = re.compile(r"/[A-Za-z0-9_-]+/")
# Claims that are no group's: of the token itself (RFC 7519, OpenID Connect), of one person, or of
# what they may do.
_NO_GROUPS = frozenset({
    "acr", "amr", "at_hash", "aud", "auth_time", "azp", "c_hash", "exp", "iat", "identity", "iss", "jti", "nbf", "nonce",
    "permissions", "scope", "scp", "sid", "sub",
})  # fmt: skip
# deepagents puts there messages and tool results that are too long for the prompt.
OFFLOADED = ("/conversation_history/", "/large_tool_results/")
_NOBODYS: Mapping[str, str] = MappingProxyType({})


class NotAMemberError(IdentityError):
    """The signed-in person's token does not say to which group they belong."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose the files of a route are. Made by `person`, `assistant`, `organization` and `group`."""

    root: Literal["memories", "skills", "policies", "groups"]
    parts: tuple[_Part, ...]
    claim: str = ""
    writes: GroupWrites = "deny"
    over_http: bool = True

    def __str__(self) -> str:
        names = {"memories": "person()", "skills": "assistant()", "policies": "organization()"}
        return names.get(self.root, f"group({self.claim!r})")

    def laid_out(self, layout: MemoryScope) -> "Scope":
        """This scope under a `MEMORY_SCOPE`, on which only a person's depends."""
        return replace(self, parts=_LAYOUTS[layout]) if self.root == "memories" else self

    @property
    def is_shared(self) -> bool:
        """Whether several people read the same files. Private conversations must not flow there."""
        return "user" not in self.parts

    @property
    def per_assistant(self) -> bool:
        """Whether a person has such files with each assistant."""
        return "assistant" in self.parts and not self.is_shared

    @property
    def remembers(self) -> bool:
        """Whether agents write here what people tell them: not in a temporary conversation, nor
        while memory is paused.
        """
        return self.root in ("memories", "groups")

    def namespace(
        self, actor: Actor, assistant_id: str, claims: Mapping[str, str] = _NOBODYS
    ) -> Namespace:
        """Where the files are of a person with an assistant. No namespace lies below it, so a
        prefix search finds only itself.

        `claims` are the verified ones, by name. Raises `NotAMemberError` without the group's,
        `IdentityError` for what no store could hold.
        """
        if "group" in self.parts and self.claim not in claims:
            raise NotAMemberError(
                f"this person's token has no claim {self.claim!r}, which names their group."
            )
        values = {
            "assistant": assistant_id,
            "org": actor.org_id,
            "user": actor.user_id,
            "claim": self.claim,
        }
        values["group"] = claims.get(self.claim, "")
        return (self.root, ":".join(label(values[part]) for part in self.parts))

    def rule(self, settings: Settings, *, consolidating: bool = False) -> SharedWrites:
        """Whether an agent writes here: `allow`, `deny`, or `interrupt` where an operator approves
        each write.
        """
        if self.root == "memories" and settings.memory_writes == "background" and not consolidating:
            return "deny"
        if not self.is_shared:
            return "allow"
        if self.root == "policies" or consolidating:  # which works from private conversations
            return "deny"
        if self.root == "groups":
            return "allow" if self.writes == "members" else self.writes
        return settings.shared_writes

    def may_read(
        self, namespace: Namespace, actor: Actor, claims: Mapping[str, str] = _NOBODYS
    ) -> bool:
        """Whether the store API shows this to an end user: their memory, their organization's
        policies, their group's files.
        """
        if (
            self.root == "skills"
            or (self.root == "memories" and self.is_shared)
            or not self.over_http
        ):
            return False
        try:
            assistant_id = part_of(namespace[1].partition(":")[0]) if self.per_assistant else ""
            return namespace == self.namespace(actor, assistant_id, claims)
        except (
            IndexError,
            ValueError,
            NotAMemberError,
        ):  # a namespace of another shape, or a group of others
            return False


def person() -> Scope:
    """The calling person's own: `/memories/`. `MEMORY_SCOPE` may divide it by assistant, or make it
    the assistant's.
    """
    return Scope("memories", _LAYOUTS["user"])


def assistant() -> Scope:
    """The assistant's, shared by its users: `/skills/`. Agents write there as `SHARED_WRITES` says."""
    return Scope("skills", ("assistant",))


def organization() -> Scope:
    """The calling person's organization's: `/policies/`. No agent ever writes there."""
    return Scope("policies", ("org",))


def _is_claim(name: object) -> bool:
    """Whether this is the name of a claim, or a path of such names."""
    if not isinstance(name, str) or not name.isprintable() or len(name.encode()) > _MAX_CLAIM_BYTES:
        return False
    return all(level and level == level.strip() for level in name.split("."))


def group(claim: str, *, writes: GroupWrites = "deny", over_http: bool = True) -> Scope:
    """A folder of the people of one organization whose verified token has the same value of this
    claim, such as `team_id`.

    Args:
        claim: the claim's name in the token, or its path, such as `resource.team`. Its value is
        text, or a list with one; who
            has none has no such folder.
        writes: whose agents write: nobody's (`deny`: files come from operators), each member's
        after an operator's approval
            (`interrupt`), or each member's at once (`members`). The default is the safe one: what
            one member's agent writes, private words or an injected instruction, all the others'
            agents read.
        over_http: whether members read the files over the store API and on the page, too.

    Raises `SettingsError` for a claim that has no usable name, and for other values of `writes`.
    """
    if not _is_claim(claim):
        raise SettingsError(
            f"group({claim!r:.80}) names no claim; use a printable name, e.g. 'team_id'."
        )
    if writes not in ("deny", "interrupt", "members"):
        raise SettingsError(
            f"group({claim!r}, writes={writes!r}): use one of 'deny', 'interrupt', 'members'."
        )
    return Scope("groups", ("org", "claim", "group"), claim, writes, over_http)


REQUIRED: Mapping[str, Scope] = MappingProxyType({"/policies/": organization()})
ROUTES: Mapping[str, Scope] = MappingProxyType(
    {"/memories/": person(), **REQUIRED, "/skills/": assistant()}
)


def check_routes(routes: Mapping[str, Scope], settings: Settings) -> None:
    """Raise `SettingsError` for routes that would lose or mix files. Policies are always there, and
    nobody's to write.
    """
    for route, scope in REQUIRED.items():
        if route not in routes:
            raise SettingsError(f'routes has no "{route}"; add "{route}": {scope}.')
    claims = dict[str, str]()
    spellings = {route.lower(): route for route in (*ROUTES, *OFFLOADED)}
    for route, scope in routes.items():
        if not isinstance(route, str) or not _ROUTE.fullmatch(route) or route in OFFLOADED:
            raise SettingsError(
                f"routes has {route!r:.80}, which names no folder of its own; use one like '/team/'."
            )
        _check_scope(route, scope)
        # A model, and many disks that hold seeds, take two spellings for one folder.
        if (other := spellings.setdefault(route.lower(), route)) != route:
            fix = f"use {other!r}, or another name"
            raise SettingsError(
                f"routes has {route!r}, which differs from {other!r} by capital letters alone; {fix}."
            )
        _check_claim(route, scope, settings)
        if route in ROUTES and scope != ROUTES[route]:
            raise SettingsError(f'routes has "{route}": {scope}; use {ROUTES[route]}.')
        if route not in ROUTES and scope.root != "groups":
            own = next(name for name, of in ROUTES.items() if of.root == scope.root)
            raise SettingsError(
                f'routes has "{route}": {scope}, whose files are those of {own}; use group("<claim>").'
            )
        if scope.claim and (other := claims.setdefault(scope.claim, route)) != route:
            raise SettingsError(
                f"routes has {scope} twice, so {other} and {route} would be the same files; keep one."
            )


def _check_scope(route: str, scope: object) -> None:
    """Raise `SettingsError` for what is no scope, such as a text or a function that was not called."""
    if not isinstance(scope, Scope):
        fix = 'person(), assistant(), organization() or group("<claim>")'
        raise SettingsError(f'routes has "{route}": {scope!r:.80}; use {fix}.')


def _check_claim(route: str, scope: Scope, settings: Settings) -> None:
    """Raise `SettingsError` for a group's claim that can say of nobody to which group they belong."""
    if not scope.claim:
        return
    if _is_of(scope.claim, settings.org_claim):
        what = "names the organization (AUTH_ORG_CLAIM)"
    elif _is_of(scope.claim, settings.auth_permissions_claim):
        what = "lists permissions (AUTH_PERMISSIONS_CLAIM)"
    elif _is_of(scope.claim, settings.auth_identity_claim):
        what = "names the person (AUTH_IDENTITY_CLAIM)"
    elif is_peoples_own(scope.claim):
        what = "people write themselves"
    elif scope.claim.partition(".")[0].casefold() in _NO_GROUPS:
        what = "is the token's own"
    else:
        return
    raise SettingsError(
        f'routes has "{route}": {scope}, whose claim {what}; use one that names a group, e.g. "team_id".'
    )


def _is_of(claim: str, other: str) -> bool:
    """Whether two claims are the same but for capital letters, or one is a part of the other."""
    claim = claim.casefold()
    other = other.casefold()
    return f"{claim}.".startswith(f"{other}.") or f"{other}.".startswith(f"{claim}.")


# --- Namespaces of other items


def skills(assistant_id: str) -> Namespace:
    """Namespace of `/skills/`: the assistant's, shared by its users."""
    return assistant().namespace(Actor("", ""), assistant_id)


def policies(org_id: str) -> Namespace:
    """Namespace of `/policies/`: the organization's."""
    return organization().namespace(Actor("", org_id), "")


def person_label(actor: Actor) -> str:
    """The label of a person in an organization."""
    return f"{label(actor.org_id)}:{label(actor.user_id)}"


def _of_person(name: str) -> Callable[[Actor], Namespace]:
    return lambda actor: (name, person_label(actor))


# How far consolidation has read each of a person's conversations; keys are thread ids.
positions = _of_person("consolidation")
# What was said in a person's conversations before a fact from them was deleted for good: it is not
# consolidated again. Keys are thread ids.
kept_out = _of_person("kept_out")
# What consolidation did for a person; keys are times, with the run's id.
run_records = _of_person("consolidations")
# Namespace and key of when the last sweep that ended began.
LAST_SWEEP: tuple[Namespace, str] = ("sweep",), "last"
# With which assistants a person has memory, under `user+assistant`; keys are the assistants.
# `noted` says who puts them.
assistants = _of_person("assistants")
# Whether a person paused memory or reviews changes; keys are the names in `controls.py`.
controls = _of_person("controls")
# The time before which nothing of a person is due; keys are assistants, or "all".
reading = _of_person("reading")
# Changes that wait for a person's decision, and what was declined; keys are their ids.
proposals = _of_person("proposals")
# When each of a person's conversations, or a run of one, was deleted, as long as the run may go on;
# keys are ids of threads and runs.
deleted_threads = _of_person("deleted_threads")
# The time at which a person was forgotten last. It stays, so that writes of older runs are refused.
forgotten = _of_person("forgotten")
FORGOTTEN = "last"  # its key
# A person's tokens by day and run. It stays when they are forgotten: otherwise forgetting would
# renew the day's budget.
usage = _of_person("usage")


def noted(files: Namespace) -> tuple[Namespace, str] | None:
    """Under which item of `assistants` a namespace of files is noted, if it is one person's with
    one assistant.

    The journal puts it with a file's first revision, `auth.py` with what comes over the store API:
    so nobody has to look through everybody's namespaces for one person's.
    """
    assistant, _, person = (
        files[1].partition(":") if len(files) == 2 and files[0] == "memories" else ("", "", "")  # noqa: PLR2004
    )
    try:
        part_of(assistant)
    except ValueError:  # an operator put it, and no assistant has such a label
        return None
    return (("assistants", person), assistant) if ":" in person else None


def journals(files: Namespace) -> Namespace:
    """Namespace under which the logs of all files of a namespace are."""
    return ("journal", *files)


def journal(files: Namespace, key: str) -> Namespace:
    """Namespace of one file's log. It holds a digest of the key: a whole key would not fit a
    Postgres index entry.
    """
    return (*journals(files), hashlib.sha256(key.encode()).hexdigest()[:32])


RecallPart = Literal["documents", "new", "segments", "texts", "waiting"]
RECALL_PARTS: tuple[RecallPart, ...] = get_args(RecallPart)
RECALL_PREFIX = "recall_"


def recall(actor: Actor, part: RecallPart) -> Namespace:
    """Namespaces of the index of a person's past conversations (`recall/index.py` says what each
    part holds).
    """
    return (f"{RECALL_PREFIX}{part}", person_label(actor))


def namespaces_of(actor: Actor, files: Iterable[Namespace]) -> list[Namespace]:
    """Every namespace, or prefix of one, that is deleted when a person is forgotten: all of theirs
    but `forgotten` and `usage`.

    A new namespace of a person must be added here, before `assistants`, which leads to the others.
    `files` are the namespaces of their memory files.
    """
    of_files = [part for namespace in files for part in (namespace, journals(namespace))]
    others = [
        of(actor)
        for of in (
            positions,
            kept_out,
            reading,
            proposals,
            run_records,
            controls,
            deleted_threads,
            assistants,
        )
    ]
    return [*of_files, *(recall(actor, part) for part in RECALL_PARTS), *others]
