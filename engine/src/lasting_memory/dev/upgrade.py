"""`make upgrade-engine FROM=<folder or wheel>`: another engine in place of the one in use. `make upgrade`: newer packages.

python -m lasting_memory.dev.upgrade [FROM]

Of an engine, a folder becomes `engine/`. A wheel goes into `wheels/`, `pyproject.toml` pins its version, and `engine/` goes.
`langgraph.json` and `pyproject.toml` say which of the two a deployment installs. Nothing else of a fork is touched.

Without FROM come the newest releases that fit together, pinned for this machine and for the image alike. `constraints.txt` pins
all that is installed here. The image has constraints of its own, so it gets what was tested by what the platform reads: exact
versions in `pyproject.toml`, and `api_version` in `langgraph.json`, which is the server's.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

NAME = "lasting-memory"
_FOLDER, _WHEELS = "engine", "wheels"
# Made on somebody's machine: no part of an engine.
_SKIPPED = shutil.ignore_patterns(
    ".git", ".venv*", ".env", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build", "node_modules"
)
_FIND_LINKS = f'find-links = ["./{_WHEELS}"]  # where uv finds {NAME}\n'
# A requirement of an exact version: its name, its extras, and the version.
_PIN = re.compile(r'"([A-Za-z0-9._-]+)((?:\[[^\]"]*\])?)==([^";]+)"')


class UpgradeError(ValueError):
    """An upgrade that cannot be made; nothing was changed. The message is one line: what is wrong, and the fix."""


def upgrade_engine(template: Path, source: Path, current: str) -> str:
    """Replace the engine of `template` by `source`. Returns what changes since the version `current`, and what was done.

    Raises `UpgradeError`, before anything is changed, where `source` is no engine or git does not have all of `engine/`.
    """
    number, changes, engine = _read(source)
    _refuse_to_lose(template)
    texts = _named(template, number if engine.is_file() else None)
    content = engine.read_bytes() if engine.is_file() else None  # it may be one of `wheels/`
    for other in (template / _WHEELS).glob("lasting_memory-*.whl"):
        other.unlink()
    if engine.resolve() != (template / _FOLDER).resolve():
        shutil.rmtree(template / _FOLDER, ignore_errors=True)
        if content is None:
            shutil.copytree(engine, template / _FOLDER, ignore=_SKIPPED)
        else:
            (template / _WHEELS).mkdir(exist_ok=True)
            (template / _WHEELS / engine.name).write_bytes(content)
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    where = f"a wheel in {_WHEELS}/, which pyproject.toml pins; {_FOLDER}/ is gone" if content else f"the folder {_FOLDER}/"
    _, heading, newer = f"\n{changes}".partition(f"\n## {current}")[0].partition("\n## ")
    told = f"{heading}{newer}".strip() or f"Nothing is listed since {current}."
    return f"{told}\n\nThe engine was {current} and is {number}, from {source}. It is {where}."


def _read(source: Path) -> tuple[str, str, Path]:
    """The version of the engine in `source`, its changelog, and itself: the wheel, or the folder, which may be a template's."""
    if source.suffix == ".whl" and source.is_file():
        with zipfile.ZipFile(source) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            told = Parser().parsestr(wheel.read(name).decode())
        if told["Name"] == NAME:
            return told["Version"], str(told.get_payload()).partition("# Changelog\n")[2], source
    for folder in (source, source / _FOLDER) if source.name else ():
        path = folder / "pyproject.toml"
        if path.is_file() and (project := tomllib.loads(path.read_text("utf-8"))["project"])["name"] == NAME:
            return project["version"], (folder / "CHANGELOG.md").read_text("utf-8"), folder
    raise UpgradeError(f"FROM is {str(source)!r}; name a folder or a wheel (.whl) of {NAME}, e.g. FROM=../newer/{_FOLDER}.")


def _refuse_to_lose(template: Path) -> None:
    """What git has can be brought back: whoever edited the engine is told before it is replaced."""
    if not (template / _FOLDER).exists():
        return
    command = ["git", "status", "--porcelain", "--", _FOLDER]
    asked = subprocess.run(command, cwd=template, capture_output=True, text=True, check=False)  # noqa: S603
    if asked.returncode or asked.stdout:
        first = asked.stdout.partition("\n")[0].strip() or "it is in no git repository"
        raise UpgradeError(f"{_FOLDER}/ has changes that are not committed ({first}); commit or undo them first.")


def _named(template: Path, pinned: str | None) -> dict[Path, str]:
    """The texts that name the engine for who installs it. Raises `UpgradeError` if it has no place there."""
    config, project = template / "langgraph.json", template / "pyproject.toml"
    listed = re.sub(rf'"\./{_FOLDER}"(, ?)?', "", config.read_text("utf-8"))
    text = re.sub(rf'"{NAME}==[^"]*"(, ?)?', "", project.read_text("utf-8"))
    text = text.removesuffix(f"\n[tool.uv]\n{_FIND_LINKS}").replace(_FIND_LINKS, "")
    if pinned:
        text = re.sub(r"^dependencies = \[", rf'\g<0>"{NAME}=={pinned}", ', text, count=1, flags=re.MULTILINE)
        table = "[tool.uv]\n"
        text = text.replace(table, table + _FIND_LINKS) if table in text else f"{text}\n{table}{_FIND_LINKS}"
    else:
        listed = re.sub(r'"dependencies":\s*\[', rf'\g<0>"./{_FOLDER}", ', listed, count=1)
    found = tomllib.loads(text)["project"].get("dependencies", [])
    folders = json.loads(listed).get("dependencies", [])
    if (f"{NAME}=={pinned}" in found, f"./{_FOLDER}" in folders) != (bool(pinned), not pinned):
        raise UpgradeError("pyproject.toml has no line `dependencies = [`, or langgraph.json no such list; write them so.")
    return {config: listed, project: text}


def upgrade_packages(template: Path) -> None:
    """Pin the newest releases that fit together. Raises `UpgradeError` where there are none, or no uv."""
    uv, engine = shutil.which("uv"), template / _FOLDER / "pyproject.toml"
    if uv is None:
        raise UpgradeError("make upgrade needs uv: https://docs.astral.sh/uv/")
    given = [str(engine), "--all-extras"] if engine.is_file() else ["--find-links", _WHEELS]
    command = [uv, "pip", "compile", "-", *given, "--quiet", "--upgrade", "--no-annotate", "--no-header"]
    command += ["--no-emit-package", NAME, "--python-version", "3.11"]
    asked = "\n".join(unpinned(tomllib.loads((template / "pyproject.toml").read_text("utf-8"))["project"]))
    done = subprocess.run(command, cwd=template, input=asked, text=True, check=False, stdout=subprocess.PIPE)  # noqa: S603
    if done.returncode:  # uv has said why
        raise UpgradeError("Nothing was changed: uv found no releases that fit together.")
    (template / "constraints.txt").write_text(done.stdout, "utf-8")
    versions = dict(line.split("==", 1) for line in done.stdout.splitlines() if "==" in line)
    for name in ("pyproject.toml", "langgraph.json"):
        (template / name).write_text(pinned((template / name).read_text("utf-8"), versions), "utf-8")


def unpinned(project: dict[str, Any]) -> list[str]:
    """What a project requires, without exact versions but the engine's: a wheel is one version, and its tools are asked for."""
    extras = project.get("optional-dependencies", {})
    listed = list(chain(project["dependencies"], *extras.values()))
    return [
        re.sub(rf"^{NAME}==", f"{NAME}[dev]==", one) if one.startswith(NAME) else re.sub("==[^;]+", "", one) for one in listed
    ]


def pinned(text: str, versions: dict[str, str]) -> str:
    """A text of `pyproject.toml` or `langgraph.json` with these versions, by the names that indexes spell, in its pins."""

    def newer(pin: re.Match[str]) -> str:
        name = re.sub(r"[-_.]+", "-", pin[1]).lower()
        return f'"{pin[1]}{pin[2]}=={versions.get(name, pin[3])}"'

    server = versions.get("langgraph-api")
    return re.sub('("api_version": *)"[^"]*"', rf'\g<1>"{server}"' if server else r"\g<0>", _PIN.sub(newer, text))


def main() -> None:
    """The command, in the folder of the template. Its one argument is FROM."""
    try:
        if len(sys.argv) == 1:
            upgrade_packages(Path.cwd())
        else:
            print(upgrade_engine(Path.cwd(), Path(sys.argv[1]), version(NAME)))  # noqa: T201  # a command's answer
    except UpgradeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
