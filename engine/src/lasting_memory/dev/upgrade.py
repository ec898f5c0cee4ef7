"""`make upgrade-engine FROM=<folder or wheel>`: another engine in place of the one in use. It touches nothing else of a fork.

A folder becomes `engine/`. A wheel goes into `wheels/`, `pyproject.toml` pins its version, and `engine/` goes.
`langgraph.json` and `pyproject.toml` say which of the two a deployment installs.
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
from pathlib import Path

NAME = "lasting-memory"
_FOLDER, _WHEELS = "engine", "wheels"
# Made on somebody's machine: no part of an engine.
_SKIPPED = shutil.ignore_patterns(
    ".git", ".venv*", ".env", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build", "node_modules"
)
_FIND_LINKS = f'find-links = ["./{_WHEELS}"]  # where uv finds {NAME}\n'


class UpgradeError(ValueError):
    """An upgrade that cannot be made; nothing was changed. The message is one line: what is wrong, and the fix."""


def upgrade(template: Path, source: Path, current: str) -> str:
    """Replace the engine of `template` by `source`. Returns what changes since the version `current`, and what was done.

    Raises `UpgradeError`, before anything is changed, where `source` is no engine or git does not have all of `engine/`.
    """
    number, changes = _read(source)
    _refuse_to_lose(template)
    is_wheel = source.is_file()
    texts = _named(template, number if is_wheel else None)
    wheel = source.read_bytes() if is_wheel else None
    for other in (template / _WHEELS).glob("lasting_memory-*.whl"):
        other.unlink()
    if wheel:
        shutil.rmtree(template / _FOLDER, ignore_errors=True)
        (template / _WHEELS).mkdir(exist_ok=True)
        (template / _WHEELS / source.name).write_bytes(wheel)
    else:
        engine = source if (source / "src").is_dir() else source / _FOLDER
        if engine.resolve() != (template / _FOLDER).resolve():
            shutil.rmtree(template / _FOLDER, ignore_errors=True)
            shutil.copytree(engine, template / _FOLDER, ignore=_SKIPPED)
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    where = f"a wheel in {_WHEELS}/, which pyproject.toml pins; {_FOLDER}/ is gone" if wheel else f"the folder {_FOLDER}/"
    return f"{since(changes, current)}\n\nThe engine was {current} and is {number}, from {source}. It is {where}."


def since(changes: str, current: str) -> str:
    """The parts of a changelog above the heading of version `current`."""
    _, heading, listed = f"\n{changes}".partition(f"\n## {current}")[0].partition("\n## ")
    return f"{heading}{listed}".strip() or f"Nothing is listed since {current}."


def _read(source: Path) -> tuple[str, str]:
    """The version of the engine in `source`, and its changelog."""
    if source.suffix == ".whl" and source.is_file():
        with zipfile.ZipFile(source) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            told = Parser().parsestr(wheel.read(name).decode())
        if told["Name"] != NAME:
            raise UpgradeError(f"FROM is {source}, a wheel of {told['Name']}; name one of {NAME}.")
        return told["Version"], str(told.get_payload()).partition("# Changelog\n")[2]
    for folder in (source, source / _FOLDER):
        project = folder / "pyproject.toml"
        if project.is_file() and (said := tomllib.loads(project.read_text("utf-8"))["project"])["name"] == NAME:
            return said["version"], (folder / "CHANGELOG.md").read_text("utf-8")
    raise UpgradeError(f"FROM is {str(source)!r}; name a folder or a wheel (.whl) of {NAME}, e.g. FROM=../newer/{_FOLDER}.")


def _refuse_to_lose(template: Path) -> None:
    """What git has can be brought back: whoever edited the engine is told before it is replaced."""
    if not (template / _FOLDER).exists():
        return
    command = ["git", "status", "--porcelain", "--", _FOLDER]
    asked = subprocess.run(command, cwd=template, capture_output=True, text=True, check=False)  # noqa: S603
    if asked.returncode:
        raise UpgradeError(f"{_FOLDER}/ is in no git repository, so it could not be brought back; commit it first.")
    if asked.stdout:
        first = asked.stdout.splitlines()[0].strip()
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


def main() -> None:
    """The command. Its one argument is FROM."""
    if not "".join(sys.argv[1:]):
        sys.exit(f"FROM is empty; name a folder or a wheel of {NAME}, e.g. make upgrade-engine FROM=../newer/{_FOLDER}.")
    try:
        print(upgrade(Path.cwd(), Path(sys.argv[1]), version(NAME)))  # noqa: T201  # a command's answer
    except UpgradeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
