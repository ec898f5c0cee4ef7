"""What the folders `policies/` and `seeds/` of a deployment put into which namespaces, and what is
wrong with their files.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lasting_memory.deployment import Deployment
from lasting_memory.memory import validation
from lasting_memory.memory.seeded import (
    SeedError,
    all_files,
    check_quota,
    entries,
    first_files,
    folders,
    seed_value,
)
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, IdentityError, label
from lasting_memory.people.namespaces import Namespace
from lasting_memory.people.scopes import Scope

SKILL_FILE = "SKILL.md"

Files = dict[str, dict[str, Any]]  # by store key


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
        self._skip_others()
        if "policies" in parts:
            self._read_policies()
        if "skills" in parts and "/skills/" in self._deployment.routes:
            self._read_skills()
        if "memories" in parts and self._deployment.has_memory:
            self._read_memories()
        if "memories" in parts:
            self._read_groups()
        return self._result

    def _skip_others(self) -> None:
        """Note what stands in `seeds/` beside the folders that are read, and its program."""
        for path in self._entries(self._seeds):
            if path.suffix != ".py" and path.name not in ("skills", "memories"):
                self._result.skipped.append(
                    f"{path} is skipped: seeds are in {self._seeds}/skills and {self._seeds}/memories."
                )

    def _read_policies(self) -> None:
        self._skip_files_in(self._policies, "put it into the folder of an organization")
        for org, folder in self._named_folders(self._policies):
            place = namespaces.policies(org)
            files = self._files(folder, "/policies", [place], needed_suffix=".md")
            self._result.files[place] = files

    def _read_skills(self) -> None:
        root = self._seeds / "skills"
        self._skip_files_in(root, f"a skill is a folder with a {SKILL_FILE}")
        places = [namespaces.skills(agent) for agent in self._agents]
        found: Files = {}
        for folder in self._folders(root):
            found |= self._read_skill(folder, places)
        for place in places:
            self._result.files[place] = found

    def _read_skill(self, folder: Path, places: Sequence[Namespace]) -> Files:
        """The files of one skill; none where its SKILL.md is missing or cannot be seeded."""
        faults = self._result.faults
        count_before = len(faults)
        self._check_skill_file(folder)
        prefix = f"/{folder.name}"
        files = self._files(folder, f"/skills{prefix}", places, prefix=prefix)
        main = f"{prefix}/{SKILL_FILE}"
        if main in files or len(faults) == count_before:
            return files
        for place in places:  # what the deployment has of this skill stays as it is
            left_alone = self._result.left_alone[place]
            left_alone.add(main)
            left_alone.update(files)
        return {}

    def _check_skill_file(self, folder: Path) -> None:
        """Note the folder of a skill without a SKILL.md."""
        similar = list[str]()
        for path in self._entries(folder):
            if path.name == SKILL_FILE:
                return
            if path.name.casefold() == SKILL_FILE.casefold():
                similar.append(path.name)
        fix = f"rename {min(similar)}" if similar else "add one, or move the folder away"
        self._result.faults.append(f"{folder} has no {SKILL_FILE}; {fix}.")

    def _read_memories(self) -> None:
        """First memories of each person that `<org>/<identity>/` names.

        Files at the top are for everyone. Named people get them too, unless their own folder has a
        file of that name; others get them with their first conversation, and so does a shared
        memory. What is one person's is never put into that.
        """
        root = self._seeds / "memories"
        everyone = self._first_files()
        for org, org_folder in self._named_folders(root):
            self._skip_files_in(org_folder, "put it into the folder of a person")
            for person, folder in self._named_folders(org_folder):
                if not self._deployment.memory.is_shared:
                    self._read_memory(Actor(person, org), folder, everyone)

    def _read_memory(self, person: Actor, folder: Path, everyone: Files) -> None:
        """First memories of one person."""
        scope = self._deployment.memory
        places = [scope.namespace(person, agent) for agent in self._agents]
        own = self._files(folder, "/memories", places)
        files = {**everyone, **own}
        contents = [file["content"] for file in files.values()]
        self._note(check_quota, folder, contents, self._deployment.limits)
        for place in places:
            self._result.files[place] = files

    def _first_files(self) -> Files:
        """What every new memory gets."""
        paths: Sequence[Path] = self._note(first_files, self._deployment.folder) or []
        found: Files = {}
        for path in paths:
            key = f"/{path.name}"
            value = self._value(path, f"/memories{key}")
            if value is not None:
                found[key] = value
        return found

    def _read_groups(self) -> None:
        """First files of each group: in `team/acme/red/` those of `/team/` for the people of acme
        whose claim is "red".
        """
        for folder in self._folders(self._seeds / "memories" / "_groups"):
            route = f"/{folder.name}"
            scope = self._deployment.routes.get(f"{route}/")
            if scope is None or not scope.claim:
                fix = f'add "/{folder.name}/": group("<claim>") to routes, or move it away'
                self._result.refused.append(f"{folder} is the folder of no group; {fix}.")
                continue
            for org, org_folder in self._named_folders(folder):
                self._read_groups_of(org, org_folder, scope, route)

    def _read_groups_of(self, org: str, folder: Path, scope: Scope, route: str) -> None:
        """First files of the groups of an organization, under one route."""
        member = Actor("", org)
        for group, group_folder in self._named_folders(folder):
            place = scope.namespace(member, "", {scope.claim: group})
            files = self._files(group_folder, route, [place])
            self._result.files[place] = files

    # --- Parts of the folder

    def _note(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """What a function returns; None, and a reason to write nothing, where it raises
        `SeedError`.
        """
        try:
            return read(*arguments)
        except SeedError as error:
            if str(error) not in self._result.refused:
                self._result.refused.append(str(error))
            return None

    def _entries(self, folder: Path) -> list[Path]:
        return self._note(entries, folder) or []

    def _folders(self, folder: Path) -> list[Path]:
        return self._note(folders, folder) or []

    def _named_folders(self, path: Path) -> list[tuple[str, Path]]:
        """The folders of organizations, people or groups, with the name that each spells,
        percent-encoded or not.

        Notes a name that nobody can have, and two folders of one name: the second would replace the
        first.
        """
        found = list[tuple[str, Path]]()
        folder_of = dict[str, Path]()
        for folder in self._folders(path):
            try:
                name = unquote(folder.name, errors="strict")
                label(name)
            except (UnicodeDecodeError, IdentityError):
                fault = (
                    f"{folder} spells no name that somebody could have; rename it, or move it away."
                )
                self._result.refused.append(fault)
                continue
            if name in folder_of:
                fault = f"{folder_of[name]} and {folder} both spell {name!r}; put the files into one of them."
                self._result.refused.append(fault)
            folder_of[name] = folder
            found.append((name, folder))
        return found

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
        Keys begin with `prefix`.
        """
        paths: Sequence[Path] = self._note(all_files, folder) or []
        found: Files = {}
        for path in paths:
            below = f"/{path.relative_to(folder).as_posix()}"
            key = f"{prefix}{below}"
            if not path.name.endswith(needed_suffix):
                self._result.skipped.append(
                    f"{path} is skipped: the name of a policy ends in {needed_suffix}."
                )
                continue
            value = self._value(path, f"{route}{below}")
            if value is not None:
                found[key] = value
                continue
            for place in places:
                self._result.left_alone[place].add(key)
        return found

    def _value(self, path: Path, target: str) -> dict[str, Any] | None:
        """A file as the store's value. None for a file that cannot be seeded, which is noted."""
        try:
            size = path.stat().st_size
        except OSError as error:
            self._result.faults.append(f"{path} cannot be read: {error.strerror}.")
            return None
        if size > validation.MAX_FILE_BYTES:
            limit = f"a file may have {validation.MAX_FILE_BYTES:,}"
            self._result.skipped.append(
                f"{path} is skipped: it has {size:,} bytes, and {limit}; split or shorten it."
            )
            return None
        try:
            return seed_value(path, target, self._deployment)
        except SeedError as error:
            self._result.faults.append(str(error))
            return None

    def _skip_files_in(self, folder: Path, fix: str) -> None:
        """Note the files of a folder in which only folders are looked at."""
        for path in self._entries(folder):
            if path.is_file():
                self._result.skipped.append(f"{path} is skipped: {fix}.")
