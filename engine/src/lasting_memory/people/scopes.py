"""Scopes of routes: whose the files of a folder are, who writes them, and who reads them.

A scope is a person's, an assistant's, an organization's, or a group's. A route is a folder such as
`/memories/`; the routes of a deployment say which scope each folder has. A claim is what a token says
of a person, such as `team_id`; a group is the people of an organization with the same value of one.
Nothing else knows what `MEMORY_SCOPE` means.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from lasting_memory.people.identity import Actor, IdentityError, part_of
from lasting_memory.people.namespaces import Namespace, files_namespace
from lasting_memory.settings import (
    MemoryScope,
    Settings,
    SettingsError,
    SharedWrites,
    is_peoples_own,
)

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

    def with_layout(self, layout: MemoryScope) -> "Scope":
        """This scope under a `MEMORY_SCOPE`, on which only a person's depends."""
        if self.root != "memories":
            return self
        return replace(self, parts=_LAYOUTS[layout])

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
        """Whether agents write here what people tell them.

        They do not in a temporary conversation, nor while memory is paused.
        """
        return self.root in ("memories", "groups")

    def namespace(
        self, actor: Actor, assistant_id: str, claims: Mapping[str, str] = _NOBODYS
    ) -> Namespace:
        """Where the store has the files of this scope, for a person and an assistant.

        It is the root, and one label of the owners' ids in the order of `parts`, with colons between
        them. So no namespace lies below it. `claims` are the verified ones, by name. Raises
        `NotAMemberError` without the group's claim, `IdentityError` for what no store could hold.
        """
        is_group = "group" in self.parts
        if is_group and self.claim not in claims:
            raise NotAMemberError(
                f"this person's token has no claim {self.claim!r}, which names their group."
            )
        values = {
            "assistant": assistant_id,
            "org": actor.org_id,
            "user": actor.user_id,
            "claim": self.claim,
            "group": claims.get(self.claim, ""),
        }
        owners = [values[part] for part in self.parts]
        return files_namespace(self.root, *owners)

    def rule(self, settings: Settings, *, consolidating: bool = False) -> SharedWrites:
        """Whether an agent writes here.

        Returns `allow`, `deny`, or `interrupt` where an operator approves each write.
        `consolidating` says whether consolidation writes.
        """
        only_consolidation_writes = settings.memory_writes == "background"
        if self.root == "memories" and only_consolidation_writes and not consolidating:
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
        """Whether the store API shows this namespace to an end user.

        It shows their memory, their organization's policies, and their group's files.
        """
        is_shared_memory = self.root == "memories" and self.is_shared
        is_skills = self.root == "skills"
        if is_skills or is_shared_memory or not self.over_http:
            return False
        assistant_id = ""
        try:
            if self.per_assistant:
                assistant, *_ = namespace[1].split(":")
                assistant_id = part_of(assistant)
            readable = self.namespace(actor, assistant_id, claims)
        except (IndexError, ValueError, NotAMemberError):
            # A namespace of another shape, or a group of others.
            return False
        return namespace == readable


def person() -> Scope:
    """The calling person's own: `/memories/`.

    `MEMORY_SCOPE` may divide it by assistant, or make it the assistant's.
    """
    return Scope("memories", _LAYOUTS["user"])


def assistant() -> Scope:
    """The assistant's, shared by its users: `/skills/`. Agents write there as `SHARED_WRITES` says."""
    return Scope("skills", ("assistant",))


def organization() -> Scope:
    """The calling person's organization's: `/policies/`. No agent ever writes there."""
    return Scope("policies", ("org",))


def _is_claim(name: object) -> bool:
    """Whether this is the name of a claim, or a path of such names, with points between them."""
    if not isinstance(name, str):
        return False
    if not name.isprintable():
        return False
    if len(name.encode()) > _MAX_CLAIM_BYTES:
        return False
    for level in name.split("."):
        has_spaces_around = level != level.strip()
        if not level or has_spaces_around:
            return False
    return True


def group(claim: str, *, writes: GroupWrites = "deny", over_http: bool = True) -> Scope:
    """A folder of the people of one organization with the same value of a claim, such as `team_id`.

    Args:
        claim: the claim's name in the verified token, or its path, such as `resource.team`. Its
            value is text, or a list with one; who has none has no such folder.
        writes: whose agents write: nobody's (`deny`: files come from operators), each member's
            after an operator's approval (`interrupt`), or each member's at once (`members`). The
            default is the safe one: what one member's agent writes, private words or an injected
            instruction, all the others' agents read.
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
    """Raises `SettingsError` for routes that would lose or mix files.

    Policies are always there, and nobody's to write.
    """
    for route, scope in REQUIRED.items():
        if route not in routes:
            raise SettingsError(f'routes has no "{route}"; add "{route}": {scope}.')
    route_of_claim = dict[str, str]()
    spellings = dict[str, str]()
    for folder in (*ROUTES, *OFFLOADED):
        spellings[folder.lower()] = folder
    for route, scope in routes.items():
        _check_name(route)
        _check_scope(route, scope)
        # A model, and many disks that hold seeds, take two spellings for one folder.
        other_spelling = spellings.setdefault(route.lower(), route)
        if other_spelling != route:
            fix = f"use {other_spelling!r}, or another name"
            raise SettingsError(
                f"routes has {route!r}, which differs from {other_spelling!r} by capital letters alone; {fix}."
            )
        _check_claim(route, scope, settings)
        _check_files(route, scope)
        if not scope.claim:
            continue
        other_route = route_of_claim.setdefault(scope.claim, route)
        if other_route != route:
            raise SettingsError(
                f"routes has {scope} twice, so {other_route} and {route} would be the same files; keep one."
            )


def _check_name(route: object) -> None:
    """Raises `SettingsError` for what is no name of a folder, or the name of another one."""
    is_folder = isinstance(route, str) and _ROUTE.fullmatch(route)
    if not is_folder or route in OFFLOADED:
        raise SettingsError(
            f"routes has {route!r:.80}, which names no folder of its own; use one like '/team/'."
        )


def _check_files(route: str, scope: Scope) -> None:
    """Raises `SettingsError` for a route whose files would be those of a built-in route."""
    built_in_scope = ROUTES.get(route)
    if scope == built_in_scope:
        return
    if built_in_scope is not None:
        raise SettingsError(f'routes has "{route}": {scope}; use {built_in_scope}.')
    for built_in, other_scope in ROUTES.items():
        if other_scope.root == scope.root:
            raise SettingsError(
                f'routes has "{route}": {scope}, whose files are those of {built_in}; use group("<claim>").'
            )


def _check_scope(route: str, scope: object) -> None:
    """Raises `SettingsError` for what is no scope, such as a text or a function that was not called."""
    if not isinstance(scope, Scope):
        fix = 'person(), assistant(), organization() or group("<claim>")'
        raise SettingsError(f'routes has "{route}": {scope!r:.80}; use {fix}.')


def _check_claim(route: str, scope: Scope, settings: Settings) -> None:
    """Raises `SettingsError` for a group's claim that can say of nobody to which group they belong."""
    if not scope.claim:
        return
    claim = scope.claim
    first_level, *_ = claim.split(".")
    if _overlap(claim, settings.org_claim):
        what = "names the organization (AUTH_ORG_CLAIM)"
    elif _overlap(claim, settings.auth_permissions_claim):
        what = "lists permissions (AUTH_PERMISSIONS_CLAIM)"
    elif _overlap(claim, settings.auth_identity_claim):
        what = "names the person (AUTH_IDENTITY_CLAIM)"
    elif is_peoples_own(claim):
        what = "people write themselves"
    elif first_level.casefold() in _NO_GROUPS:
        what = "is the token's own"
    else:
        return
    raise SettingsError(
        f'routes has "{route}": {scope}, whose claim {what}; use one that names a group, e.g. "team_id".'
    )


def _overlap(claim: str, other: str) -> bool:
    """Whether two claims, or paths of claims, are the same but for capital letters, or one is a part
    of the other.
    """
    path = f"{claim}.".casefold()
    other_path = f"{other}.".casefold()
    return path.startswith(other_path) or other_path.startswith(path)
