"""Folders of groups to which people may offer lines of their own memory.

A group is the people of an organization whose verified claim has one value. A route whose scope has
this claim is the group's folder. An offer is a line that a member gives to it, for somebody to
accept.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lasting_memory.deployment import Deployment
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.people.namespaces import Namespace
from lasting_memory.people.scopes import Scope
from lasting_memory.settings import SharedWrites

# The file of a group's folder at whose end accepted lines are put.
ACCEPTED_KEY = "/from-members.md"


@dataclass(frozen=True, slots=True)
class GroupFolder:
    """The folder of a group.

    `files` is the namespace of its files, and `route` the folder as the agent sees it, such as
    /team/. `group` is the value of the claim. `writes` says whether agents of members write there.
    """

    files: Namespace
    route: str
    claim: str
    group: str
    writes: SharedWrites

    @property
    def org_id(self) -> str:
        """The group's organization."""
        org_id, _, _ = namespaces.group_of(self.files)
        return org_id

    @property
    def members_decide(self) -> bool:
        """Whether members decide about what is offered. Operators always do."""
        return self.writes == "allow"

    @property
    def accepted_path(self) -> str:
        """The file in which accepted lines stand, as the agent sees it."""
        folder = self.route.removesuffix("/")
        return f"{folder}{ACCEPTED_KEY}"


def group_folders(
    deployment: Deployment, actor: Actor, claims: Mapping[str, str]
) -> list[GroupFolder]:
    """The folders to which a person with these verified claims may offer lines."""
    folders = list[GroupFolder]()
    for route, scope in deployment.routes.items():
        is_of_member = scope.claim in claims
        if not is_of_member or not scope.over_http:
            continue
        group = claims[scope.claim]
        files = scope.namespace(actor, "", claims)
        folder = _folder(deployment, route, scope, files, group)
        folders.append(folder)
    return folders


def folder_of(deployment: Deployment, place: Namespace) -> GroupFolder | None:
    """The folder of a group, by the namespace of its offers. None if the deployment has no such
    folder, or the namespace is that of something else.
    """
    try:
        org_id, claim, group = namespaces.group_of(place)
        files = namespaces.group_files(org_id, claim, group)
    except ValueError:
        return None
    for route, scope in deployment.routes.items():
        has_claim = scope.claim == claim
        if has_claim and scope.over_http:
            return _folder(deployment, route, scope, files, group)
    return None


def _folder(
    deployment: Deployment, route: str, scope: Scope, files: Namespace, group: str
) -> GroupFolder:
    """The folder of a group at a route with this scope."""
    return GroupFolder(
        files=files,
        route=route,
        claim=scope.claim,
        group=group,
        writes=scope.rule(deployment.settings),
    )
