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
from typing import Any

from lasting_memory.dev.engine_source import FOLDER, NAME, WHEELS, UpgradeError

# Packages are resolved for the oldest Python that is tested.
_PYTHON = "3.11"
# A requirement of an exact version: its name, its extras, and the version.
_PIN = re.compile(r'"([A-Za-z0-9._-]+)((?:\[[^\]"]*\])?)==([^";]+)"')
_CONSTRAINTS = re.compile(r"^constraint-dependencies = \[[^\]]*\]$", re.MULTILINE)
_API_VERSION = re.compile('("api_version": *)"[^"]*"')


def upgrade_packages(template: Path) -> None:
    """Pin the newest releases that fit together. Raises `UpgradeError` where there are none, or no
    uv.
    """
    path = template / "pyproject.toml"
    text = path.read_text("utf-8")
    try:
        # uv reads the list, too, and would resolve the versions of today.
        path.write_text(_with_constraints(text, {}), "utf-8")
        resolved = _resolve(template, unpinned(tomllib.loads(text)))
    finally:
        path.write_text(text, "utf-8")
    (template / "constraints.txt").write_text(resolved, "utf-8")
    versions = versions_of(resolved)
    for name in ("pyproject.toml", "langgraph.json"):
        path = template / name
        path.write_text(pinned(path.read_text("utf-8"), versions), "utf-8")


def _resolve(template: Path, requirements: list[str]) -> str:
    """The newest versions that fit these requirements and the engine's, a line `name==version` for
    each. Raises `UpgradeError`.
    """
    # `make` puts it into the environment.
    beside = str(Path(sys.executable).parent)
    uv = shutil.which("uv") or shutil.which("uv", path=beside)
    if uv is None:
        raise UpgradeError("make upgrade needs uv: https://docs.astral.sh/uv/")
    engine = template / FOLDER / "pyproject.toml"
    sources = [str(engine), "--all-extras"] if engine.is_file() else ["--find-links", WHEELS]
    command = [uv, "pip", "compile", "-", *sources, "--quiet", "--upgrade"]
    command += ["--no-annotate", "--no-header", "--no-emit-package", NAME]
    done = subprocess.run(  # noqa: S603
        [*command, "--python-version", _PYTHON],
        cwd=template,
        input="\n".join(requirements),
        text=True,
        check=False,
        stdout=subprocess.PIPE,
    )
    if done.returncode:  # uv has said why
        raise UpgradeError("Nothing was changed: uv found no releases that fit together.")
    return done.stdout


def versions_of(constraints: str) -> dict[str, str]:
    """The versions of packages, by the names that indexes spell, in a text of constraints.txt."""
    versions = dict[str, str]()
    for line in constraints.splitlines():
        name, is_pin, version = line.partition("==")
        if is_pin:
            versions[name] = version
    return versions


def unpinned(document: Mapping[str, Any]) -> list[str]:
    """What a pyproject.toml requires, without exact versions but the engine's: a wheel is one
    version, and its tools are asked for.
    """
    project = document["project"]
    requirements = list[str](project["dependencies"])
    for extra in project.get("optional-dependencies", {}).values():
        requirements += extra
    for group in document.get("dependency-groups", {}).values():
        # A group may also include another, by a table. The engine is a folder, or pinned above.
        own = [part for part in group if isinstance(part, str) and not part.startswith(NAME)]
        requirements += own
    return [_unpinned(requirement) for requirement in requirements]


def _unpinned(requirement: str) -> str:
    if requirement.startswith(NAME):
        return re.sub(rf"^{NAME}==", f"{NAME}[dev]==", requirement)
    return re.sub("==[^;]+", "", requirement)


def pinned(text: str, versions: Mapping[str, str]) -> str:
    """A text of pyproject.toml or langgraph.json with these versions in its pins, and with all of
    them where it has a list of constraints.

    `versions` are by the names that indexes spell.
    """

    def renew(pin: re.Match[str]) -> str:
        requirement = pin[1]
        name = re.sub(r"[-_.]+", "-", requirement).lower()
        version = versions.get(name, pin[3])
        return f'"{requirement}{pin[2]}=={version}"'

    text = _with_constraints(text, versions)
    text = _PIN.sub(renew, text)
    server = versions.get("langgraph-api")
    if server:
        text = _API_VERSION.sub(rf'\g<1>"{server}"', text)
    return text


def _with_constraints(text: str, versions: Mapping[str, str]) -> str:
    """A text of pyproject.toml with these versions in its list of constraints, if it has one."""
    lines = [f'  "{name}=={version}",\n' for name, version in versions.items()]
    listed = "".join(lines)
    return _CONSTRAINTS.sub(f"constraint-dependencies = [\n{listed}]", text)
