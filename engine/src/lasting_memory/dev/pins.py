"""One list of tested versions: it is resolved here, and written wherever an installer reads it.

pip and make read constraints.txt. uv reads `constraint-dependencies` of pyproject.toml, and so does
the platform's image, which installs with uv and has constraints of its own. An image that installs
with pip reads neither, so pyproject.toml pins what is imported, too. `api_version` of langgraph.json
names the server.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from lasting_memory.dev.engine_source import FOLDER, NAME, WHEELS, UpgradeError
from lasting_memory.dev.upper_bounds import without_upper_bounds

# Packages are resolved for the oldest Python that is tested.
_PYTHON = "3.11"
# A requirement of an exact version: its name, its extras, and the version.
_PIN = re.compile(r'"([A-Za-z0-9._-]+)((?:\[[^\]"]*\])?)==([^";]+)"')
_CONSTRAINTS = re.compile(r"^constraint-dependencies = \[[^\]]*\]$", re.MULTILINE)
_API_VERSION = re.compile('("api_version": *)"[^"]*"')
# A pyproject.toml, as far as it says what is required. A group may include another, by a table.
_Project = TypedDict(
    "_Project",
    {"dependencies": list[str], "optional-dependencies": NotRequired[dict[str, list[str]]]},
)
_Document = TypedDict(
    "_Document",
    {"project": _Project, "dependency-groups": NotRequired[dict[str, list[object]]]},
)


def upgrade_beyond_bounds(template: Path) -> None:
    """Pin the newest releases, also those that the engine's upper bounds exclude; the bounds leave
    engine/pyproject.toml.

    This is for finding out what still breaks, and not for a commit. Raises `UpgradeError`, and
    nothing is changed, where the engine is a wheel, or nothing fits together.
    """
    path = template / FOLDER / "pyproject.toml"
    if not path.is_file():
        raise UpgradeError(
            f"{FOLDER}/ is not here: the engine is a wheel, whose upper bounds cannot be changed; leave out --beyond-bounds."
        )
    text = path.read_text("utf-8")
    text_without_bounds = without_upper_bounds(text)
    path.write_text(text_without_bounds, "utf-8")
    try:
        upgrade_packages(template)
    except BaseException:
        path.write_text(text, "utf-8")
        raise


def upgrade_packages(template: Path) -> None:
    """Pin the newest releases that fit together. Raises `UpgradeError` where there are none, or no
    uv.
    """
    project_path = template / "pyproject.toml"
    project_text = project_path.read_text("utf-8")
    # The form of the file is that of packaging.python.org.
    document = cast("_Document", tomllib.loads(project_text))
    requirements = unpinned(document)
    try:
        # uv reads the list, too, and would resolve the versions of today.
        without_versions = _with_constraints(project_text, {})
        project_path.write_text(without_versions, "utf-8")
        constraints = _resolve(template, requirements)
    finally:
        project_path.write_text(project_text, "utf-8")
    constraints_path = template / "constraints.txt"
    constraints_path.write_text(constraints, "utf-8")
    versions = versions_of(constraints)
    for name in ("pyproject.toml", "langgraph.json"):
        path = template / name
        text = path.read_text("utf-8")
        path.write_text(pinned(text, versions), "utf-8")


def _resolve(template: Path, requirements: list[str]) -> str:
    """The newest versions that fit these requirements and the engine's, a line `name==version` for
    each. Raises `UpgradeError`.
    """
    # `make` puts it into the environment.
    interpreter = Path(sys.executable)
    uv = shutil.which("uv") or shutil.which("uv", path=str(interpreter.parent))
    if uv is None:
        raise UpgradeError("make upgrade needs uv: https://docs.astral.sh/uv/")
    command = [uv, "pip", "compile", "-"]
    engine = template / FOLDER / "pyproject.toml"
    if engine.is_file():
        command += [str(engine), "--all-extras"]
    else:
        command += ["--find-links", WHEELS]
    command += ["--quiet", "--upgrade"]
    command += ["--no-annotate", "--no-header", "--no-emit-package", NAME]
    command += ["--python-version", _PYTHON]
    process = subprocess.run(  # noqa: S603
        command,
        cwd=template,
        input="\n".join(requirements),
        text=True,
        check=False,
        stdout=subprocess.PIPE,
    )
    if process.returncode:  # uv has said why
        raise UpgradeError("Nothing was changed: uv found no releases that fit together.")
    return process.stdout


def versions_of(constraints: str) -> dict[str, str]:
    """The versions of packages, by the names that indexes spell, in a text of constraints.txt."""
    versions = dict[str, str]()
    for line in constraints.splitlines():
        name, is_pin, version = line.partition("==")
        if is_pin:
            versions[name] = version
    return versions


def unpinned(document: _Document) -> list[str]:
    """What a pyproject.toml requires, without exact versions.

    A pin of the engine stays, with the tools of its extra `dev`: a wheel is one version.
    """
    project = document["project"]
    requirements = list(project["dependencies"])
    extras = project.get("optional-dependencies", {})
    for extra in extras.values():
        requirements += extra
    groups = document.get("dependency-groups", {})
    for group in groups.values():
        for part in group:
            # The engine is a folder, or pinned above.
            if isinstance(part, str) and not part.startswith(NAME):
                requirements.append(part)
    return [_without_version(requirement) for requirement in requirements]


def _without_version(requirement: str) -> str:
    """A requirement without its exact version; that of the engine keeps it, and gets the extra."""
    if requirement.startswith(NAME):
        return re.sub(rf"^{NAME}==", f"{NAME}[dev]==", requirement)
    return re.sub("==[^;]+", "", requirement)


def pinned(text: str, versions: Mapping[str, str]) -> str:
    """A text of pyproject.toml or langgraph.json with these versions in its pins, and with all of
    them where it has a list of constraints.

    `versions` are by the names that indexes spell.
    """

    def renew(pin: re.Match[str]) -> str:
        """A pin with its package's version; one that `versions` does not have stays as it is."""
        requirement, extras, old_version = pin.groups()
        name = re.sub(r"[-_.]+", "-", requirement)
        version = versions.get(name.lower(), old_version)
        return f'"{requirement}{extras}=={version}"'

    text = _with_constraints(text, versions)
    text = _PIN.sub(renew, text)
    server = versions.get("langgraph-api")
    if server:
        text = _API_VERSION.sub(rf'\g<1>"{server}"', text)
    return text


def _with_constraints(text: str, versions: Mapping[str, str]) -> str:
    """A text of pyproject.toml with these versions in its list of constraints, if it has one."""
    lines = [f'  "{name}=={version}",\n' for name, version in versions.items()]
    listed_versions = "".join(lines)
    constraints = f"constraint-dependencies = [\n{listed_versions}]"
    return _CONSTRAINTS.sub(constraints, text)
