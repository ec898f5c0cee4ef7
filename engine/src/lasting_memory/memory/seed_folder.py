"""What the folders `policies/` and `seeds/` of a deployment put into which namespaces, and what is
wrong with their files.

A place is a namespace of the store into which a folder's files are put. A file is refused, faulty or
skipped: `SeedFolder` says what each means. The target of a file is its path as the agent sees it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar
from urllib.parse import unquote

from deepagents.backends.protocol import FileData

from lasting_memory.deployment import Deployment
from lasting_memory.memory import validation
from lasting_memory.memory.new_memory import first_files
from lasting_memory.memory.seeded import (
    SeedError,
    check_quota,
    files_below,
    folders_in,
    paths_in,
    seed_value,
)
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, IdentityError, label
from lasting_memory.people.namespaces import Namespace
from lasting_memory.people.scopes import Scope

SKILL_FILE = "SKILL.md"
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

Files = dict[str, FileData]  # by store key


@dataclass(slots=True)
class SeedFolder:
    """What a folder puts into a deployment.

    `refused` are the reasons why nothing of it may be written: a link, or a folder whose owner is
    not certain. `faults` are the files that cannot be seeded, and `skipped` those that nobody would
    look for; the rest of the folder can be seeded. Each is one line that names the file.
    `left_alone` are the keys of a namespace that the folder has and this does not put there.
    """

    files: dict[Namespace, Files] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    left_alone: defaultdict[Namespace, set[str]] = field(default_factory=lambda: defaultdict(set))


def read_seed_folder(
    deployment: Deployment, parts: Sequence[str], agents: Sequence[str]
) -> SeedFolder:
    """Read what the namespaces of these parts shall hold. `agents` are the ids of assistants.
    Raises nothing for a bad file.
    """
    return _Reader(deployment, agents).read(parts)


class _Reader:
    """Reads one folder. Each of its methods notes what is wrong, and goes on with what is left."""

    def __init__(self, deployment: Deployment, agents: Sequence[str]) -> None:
        self._deployment = deployment
        self._agents = agents
        self._policies = deployment.folder / "policies"
        self._seeds = deployment.folder / "seeds"
        self._result = SeedFolder()

    def read(self, parts: Sequence[str]) -> SeedFolder:
        """What the folder puts into the namespaces of these parts: "policies", "skills", "memories"."""
        self._skip_others()
        if "policies" in parts:
            self._read_policies()
        has_skills = "/skills/" in self._deployment.routes
        if has_skills and "skills" in parts:
            self._read_skills()
        if "memories" in parts and self._deployment.has_memory:
            self._read_memories()
        if "memories" in parts:
            self._read_groups()
        return self._result

    def _skip_others(self) -> None:
        """Note what stands in `seeds/` beside the folders that are read, and its program."""
        for path in self._paths_in(self._seeds):
            is_read = path.name in ("skills", "memories")
            if is_read or path.suffix == ".py":
                continue
            self._skip(
                f"{path} is skipped: seeds are in {self._seeds}/skills and {self._seeds}/memories."
            )

    def _read_policies(self) -> None:
        """The policies of each organization."""
        self._skip_files_in(self._policies, "put it into the folder of an organization")
        for org, folder in self._named_folders(self._policies):
            place = namespaces.policies(org)
            files = self._files(folder, "/policies", [place], needed_suffix=".md")
            self._result.files[place] = files

    def _read_skills(self) -> None:
        """The skills of each assistant: all have the same ones."""
        root = self._seeds / "skills"
        self._skip_files_in(root, f"a skill is a folder with a {SKILL_FILE}")
        places = list[Namespace]()
        for agent in self._agents:
            place = namespaces.skills(agent)
            places.append(place)
        files: Files = {}
        for folder in self._folders_in(root):
            files |= self._read_skill(folder, places)
        for place in places:
            self._result.files[place] = files

    def _read_skill(self, folder: Path, places: Sequence[Namespace]) -> Files:
        """The files of one skill; none where its SKILL.md is missing or cannot be seeded."""
        count_before = len(self._result.faults)
        self._check_skill_file(folder)
        prefix = f"/{folder.name}"
        files = self._files(folder, f"/skills{prefix}", places, prefix=prefix)
        has_new_faults = len(self._result.faults) > count_before
        skill_file = f"{prefix}/{SKILL_FILE}"
        if skill_file in files or not has_new_faults:
            return files
        # What the deployment has of this skill stays as it is.
        for place in places:
            self._leave_alone(place, skill_file, *files)
        return {}

    def _check_skill_file(self, folder: Path) -> None:
        """Note the folder of a skill without a SKILL.md."""
        similar_names = list[str]()
        for path in self._paths_in(folder):
            if path.name == SKILL_FILE:
                return
            if path.name.casefold() == SKILL_FILE.casefold():
                similar_names.append(path.name)
        fix = "add one, or move the folder away"
        if similar_names:
            fix = f"rename {min(similar_names)}"
        self._fault(f"{folder} has no {SKILL_FILE}; {fix}.")

    def _read_memories(self) -> None:
        """First memories of each person that `<org>/<identity>/` names.

        Files at the top are for everyone. Named people get them too, unless their own folder has a
        file of that name; others get them with their first conversation, and so does a shared
        memory. What is one person's is never put into that.
        """
        root = self._seeds / "memories"
        for_everyone = self._first_files()
        for org, org_folder in self._named_folders(root):
            self._skip_files_in(org_folder, "put it into the folder of a person")
            for user_id, folder in self._named_folders(org_folder):
                if self._deployment.memory.is_shared:
                    continue
                person = Actor(user_id, org)
                self._read_memory(person, folder, for_everyone)

    def _read_memory(self, person: Actor, folder: Path, for_everyone: Files) -> None:
        """First memories of one person."""
        scope = self._deployment.memory
        places = list[Namespace]()
        for agent in self._agents:
            place = scope.namespace(person, agent)
            places.append(place)
        own_files = self._files(folder, "/memories", places)
        files = {**for_everyone, **own_files}
        contents = [file["content"] for file in files.values()]
        limits = self._deployment.limits
        self._result_or_refusal(check_quota, folder, contents, limits)
        for place in places:
            self._result.files[place] = files

    def _first_files(self) -> Files:
        """The files in `seeds/memories/` itself, by key: every new memory gets them. What cannot be
        seeded is noted, and left out.
        """
        files: Files = {}
        folder = self._deployment.folder
        paths = self._result_or_refusal(first_files, folder)
        for path in paths or []:
            key = f"/{path.name}"
            value = self._read_file(path, f"/memories{key}")
            if value is not None:
                files[key] = value
        return files

    def _read_groups(self) -> None:
        """First files of each group: in `team/acme/red/` those of `/team/` for the people of acme
        whose claim is "red".
        """
        root = self._seeds / "memories" / "_groups"
        for folder in self._folders_in(root):
            route = f"/{folder.name}"
            scope = self._deployment.routes.get(f"{route}/")
            if scope is None or not scope.claim:
                fix = f'add "/{folder.name}/": group("<claim>") to routes, or move it away'
                self._refuse(f"{folder} is the folder of no group; {fix}.")
                continue
            for org, org_folder in self._named_folders(folder):
                self._read_groups_of(org, org_folder, scope, route)

    def _read_groups_of(self, org: str, folder: Path, scope: Scope, route: str) -> None:
        """First files of the groups of an organization, under one route."""
        member = Actor("", org)
        for group, group_folder in self._named_folders(folder):
            claims = {scope.claim: group}
            place = scope.namespace(member, "", claims)
            files = self._files(group_folder, route, [place])
            self._result.files[place] = files

    def _named_folders(self, path: Path) -> list[tuple[str, Path]]:
        """The folders of organizations, people or groups, with the name that each spells,
        percent-encoded or not.

        Notes a name that nobody can have, and two folders of one name: the second would replace the
        first.
        """
        named_folders = list[tuple[str, Path]]()
        folder_of = dict[str, Path]()
        for folder in self._folders_in(path):
            try:
                name = unquote(folder.name, errors="strict")
                label(name)
            except (UnicodeDecodeError, IdentityError):
                self._refuse(
                    f"{folder} spells no name that somebody could have; rename it, or move it away."
                )
                continue
            if name in folder_of:
                self._refuse(
                    f"{folder_of[name]} and {folder} both spell {name!r}; put the files into one of them."
                )
            folder_of[name] = folder
            named_folders.append((name, folder))
        return named_folders

    def _files(
        self,
        folder: Path,
        route: str,
        places: Sequence[Namespace],
        *,
        prefix: str = "",
        needed_suffix: str = "",
    ) -> Files:
        """The files of a folder and of those below it that can be written under `route`, by key.
        Keys begin with `prefix`. In the `places` a file that cannot be seeded is left alone.
        """
        files: Files = {}
        paths = self._result_or_refusal(files_below, folder)
        for path in paths or []:
            path_below = path.relative_to(folder).as_posix()
            if not path.name.endswith(needed_suffix):
                self._skip(f"{path} is skipped: the name of a policy ends in {needed_suffix}.")
                continue
            key = f"{prefix}/{path_below}"
            value = self._read_file(path, f"{route}/{path_below}")
            if value is not None:
                files[key] = value
                continue
            for place in places:
                self._leave_alone(place, key)
        return files

    def _read_file(self, path: Path, target: str) -> FileData | None:
        """A file as the store's value. None for a file that cannot be seeded, which is noted."""
        try:
            size = path.stat().st_size
        except OSError as error:
            self._fault(f"{path} cannot be read: {error.strerror}.")
            return None
        if size > validation.MAX_FILE_BYTES:
            limit = f"a file may have {validation.MAX_FILE_BYTES:,}"
            self._skip(
                f"{path} is skipped: it has {size:,} bytes, and {limit}; split or shorten it."
            )
            return None
        try:
            return seed_value(path, target, self._deployment)
        except SeedError as error:
            self._fault(str(error))
            return None

    def _paths_in(self, folder: Path) -> list[Path]:
        """The files and folders in a folder; none if one of them is refused."""
        return self._result_or_refusal(paths_in, folder) or []

    def _folders_in(self, folder: Path) -> list[Path]:
        """The folders in a folder; none if something in it is refused."""
        return self._result_or_refusal(folders_in, folder) or []

    def _result_or_refusal(
        self,
        reader: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result | None:
        """What a function returns. Where it raises `SeedError`, None: this refuses the folder."""
        try:
            return reader(*arguments, **options)
        except SeedError as error:
            self._refuse(str(error))
            return None

    def _skip_files_in(self, folder: Path, fix: str) -> None:
        """Note the files of a folder in which only folders are looked at."""
        for path in self._paths_in(folder):
            if path.is_file():
                self._skip(f"{path} is skipped: {fix}.")

    def _refuse(self, reason: str) -> None:
        """Note why nothing of the folder may be written."""
        if reason not in self._result.refused:
            self._result.refused.append(reason)

    def _fault(self, reason: str) -> None:
        """Note a file that cannot be seeded."""
        self._result.faults.append(reason)

    def _skip(self, reason: str) -> None:
        """Note a file that nobody would look for."""
        self._result.skipped.append(reason)

    def _leave_alone(self, place: Namespace, *keys: str) -> None:
        """Note keys of which the deployment keeps what it has."""
        self._result.left_alone[place].update(keys)
