"""Folders of groups to which people may offer lines of their own memory."""

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
    """The folder of a group: where its files are, and whether agents of members write there."""

    files: Namespace
    route: str  # as the agent sees it, such as /team/
    claim: str
    group: str  # the claim's value
    writes: SharedWrites

    @property
    def org_id(self) -> str:
        return namespaces.group_of(self.files)[0]

    @property
    def members_decide(self) -> bool:
        """Whether members decide about what is offered. Operators always do."""
        return self.writes == "allow"

    @property
    def accepted_path(self) -> str:
        """The file in which accepted lines stand, as the agent sees it."""
        return f"{self.route[:-1]}{ACCEPTED_KEY}"


def group_folders(
    deployment: Deployment, actor: Actor, claims: Mapping[str, str]
) -> list[GroupFolder]:
    """The folders to which a person with these verified claims may offer lines."""
    folders = list[GroupFolder]()
    for route, scope in deployment.routes.items():
        if scope.claim in claims and scope.over_http:
            group = claims[scope.claim]
            files = scope.namespace(actor, "", claims)
            folders.append(_folder(deployment, route, scope, files, group))
    return folders


def folder_of(deployment: Deployment, place: Namespace) -> GroupFolder | None:
    """The folder of a group, by the namespace of its offers. None if the deployment has no such one."""
    try:
        org_id, claim, group = namespaces.group_of(place)
        files = namespaces.group_files(org_id, claim, group)
    except ValueError:  # a namespace of something else
        return None
    for route, scope in deployment.routes.items():
        if scope.claim == claim and scope.over_http:
            return _folder(deployment, route, scope, files, group)
    return None


def _folder(
    deployment: Deployment, route: str, scope: Scope, files: Namespace, group: str
) -> GroupFolder:
    return GroupFolder(
        files=files,
        route=route,
        claim=scope.claim,
        group=group,
        writes=scope.rule(deployment.settings),
    )
