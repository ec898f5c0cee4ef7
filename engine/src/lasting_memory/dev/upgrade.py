"""`make upgrade-engine FROM=<folder or wheel>`: another engine in place of the one in use. `make
upgrade`: newer packages.

python -m lasting_memory.dev.upgrade [--dry-run] [FROM]

Of an engine, a folder becomes `engine/`. A wheel goes into `wheels/`, `pyproject.toml` pins its
version, and `engine/` goes. What git ignores in `engine/` stays, but caches. A step that fails
changes nothing. It says what changed since the engine in use, by the changelog and for this fork
(`changes.py`). With `--dry-run` it says that and tries all steps but the swap. `langgraph.json` and
`pyproject.toml` say which of the two a deployment installs. Nothing else of a fork is touched.

Without FROM come the newest releases that fit together, pinned for this machine and for the image
alike. `constraints.txt` pins all that is installed here. The image has constraints of its own, so
it gets what was tested by what the platform reads: exact versions in `pyproject.toml`, and
`api_version` in `langgraph.json`, which is the server's.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from email.parser import Parser
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from lasting_memory.dev.changes import for_fork, sources_of

NAME = "lasting-memory"
_FOLDER, _WHEELS = "engine", "wheels"
# Made by tools, which make them again. Of what git ignores only these go with an old engine.
_CACHES = (".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build")
_MADE_ANEW = shutil.ignore_patterns(*_CACHES)
# On somebody's machine: no part of an engine.
_SKIPPED = shutil.ignore_patterns(*_CACHES, ".git", ".venv*", ".env", "node_modules", ".upgrade-*")
_NAMED = 10  # paths in a message
_FIND_LINKS = f'find-links = ["./{_WHEELS}"]  # where uv finds {NAME}\n'
# A requirement of an exact version: its name, its extras, and the version.
_PIN = re.compile(r'"([A-Za-z0-9._-]+)((?:\[[^\]"]*\])?)==([^";]+)"')


class UpgradeError(ValueError):
    """An upgrade that cannot be made; nothing was changed. The message is one line: what is wrong,
    and the fix.
    """


def upgrade_engine(template: Path, source: Path, current: str, *, dry_run: bool = False) -> str:
    """Replace the engine of `template` by `source`. Returns what changes since the version
    `current`, and what was done.

    All is prepared in a folder beside the engine, then swapped by renaming; with `dry_run` the
    prepared is thrown away, and the text says what would be done. What git ignores in `engine/` is
    kept.

    Raises `UpgradeError`, and nothing is changed, where `source` is no engine, git does not have
    the rest of `engine/`, or a step fails.
    """
    number, changes, engine = _read(source)
    _refuse_to_lose(template)
    is_wheel = engine.is_file()
    texts = _named(template, number if is_wheel else None)
    mine = for_fork(template, sources_of(_in_use(template, current)), sources_of(engine))
    kept = _replace(template, engine, texts, dry_run=dry_run)
    where = (
        f"a wheel in {_WHEELS}/, which pyproject.toml pins; {_FOLDER}/ is gone"
        if is_wheel
        else f"the folder {_FOLDER}/"
    )
    if kept:
        where += f"; what git ignores in {_FOLDER}/ was kept: {', '.join(kept[:_NAMED])}"
    _, heading, newer = f"\n{changes}".partition(f"\n## {current}")[0].partition("\n## ")
    listed = f"{heading}{newer}".strip() or f"Nothing is listed since {current}."
    done = f"The engine was {current} and is {number}, from {source}. It is {where}."
    if dry_run:
        done = f"Nothing was changed. Without DRY_RUN one would read here: {done}"
    return f"{listed}\n\n{mine}\n\n{done}"


def _in_use(template: Path, current: str) -> Path:
    """The engine that the template has now: its folder, or the wheel of the version in use."""
    folder, wheels = (
        template / _FOLDER,
        sorted((template / _WHEELS).glob(f"lasting_memory-{current}-*.whl")),
    )
    return wheels[0] if wheels and not (folder / "pyproject.toml").exists() else folder


def _replace(
    template: Path, engine: Path, texts: Mapping[Path, str], *, dry_run: bool
) -> list[str]:
    """Put the engine and these texts into the template, all or nothing. Returns the paths in
    `engine/` that were kept.

    With `dry_run` all is prepared, and nothing put.
    """
    folder = template / _FOLDER
    had_folder = folder.exists()
    done = False
    try:
        side = Path(tempfile.mkdtemp(prefix=".upgrade-", dir=template))
    except OSError as error:
        raise UpgradeError(f"Nothing was changed: {_in_one_line(error)}.") from None
    try:
        new, kept = _prepared(template, engine, texts, side)
        if not dry_run:
            _swap(new, side / "old")
        done = True
    except OSError as error:
        raise UpgradeError(f"Nothing was changed: {_in_one_line(error)}.") from None
    except KeyboardInterrupt:
        raise UpgradeError("Stopped; nothing was changed.") from None
    finally:
        if had_folder and not done and not folder.exists():  # it could not be put back
            raise UpgradeError(f"{_FOLDER}/ is in {side}/old now; move it back.")
        shutil.rmtree(side, ignore_errors=True)
    return kept


def _prepared(
    template: Path, engine: Path, texts: Mapping[Path, str], side: Path
) -> tuple[dict[Path, Path | None], list[str]]:
    """What is to come to each place, ready in the folder `side`, None for nothing; and the paths in
    `engine/` that are kept.
    """
    folder, wheels = template / _FOLDER, template / _WHEELS
    new = dict[Path, Path | None]()
    for path, text in texts.items():
        new[path] = side / path.name
        (side / path.name).write_text(text, "utf-8")
        shutil.copymode(path, side / path.name)
    for wheel in wheels.glob("lasting_memory-*.whl"):  # one of them may be the new one
        new[wheel] = None
    if engine.is_file():
        new[wheels / engine.name] = Path(shutil.copyfile(engine, side / engine.name))
        kept = _keep_ignored(template, side / "new")
        new[folder] = side / "new" if kept else None
        return new, kept
    if engine.resolve() == folder.resolve():
        return new, []
    _copy(engine, side / "new")
    new[folder] = side / "new"
    return new, _keep_ignored(template, side / "new")


def _copy(engine: Path, new: Path) -> None:
    """Copy the folder of an engine. Raises `UpgradeError` for one with links, or that is not whole."""
    for folder, folders, files in os.walk(engine):
        skipped = _SKIPPED(folder, [*folders, *files])
        folders[:] = [name for name in folders if name not in skipped]
        for name in [*folders, *files]:
            path = Path(folder, name)
            if path.is_symlink() and name not in skipped:
                raise UpgradeError(
                    f"{path} is a link, and an engine has none; put what it leads to in its place."
                )
    shutil.copytree(engine, new, symlinks=True, ignore=_SKIPPED)
    if not (new / "src" / "lasting_memory" / "__init__.py").is_file():
        raise UpgradeError(f"{engine} has no src/lasting_memory/__init__.py; name a whole engine.")


def _keep_ignored(template: Path, new: Path) -> list[str]:
    """Copy what git ignores in `engine/`, but caches, into the new engine. Returns its paths there."""
    kept = list[str]()
    for old in _ignored(template):
        path = old.relative_to(template / _FOLDER)
        _keep(old, new / path)
        kept.append(str(path))
    return kept


def _keep(old: Path, copy: Path) -> None:
    """Copy a file or folder of the old engine into the new one. Raises `UpgradeError` for a file
    that the new one has, too.
    """
    is_folder = old.is_dir() and not old.is_symlink()
    if is_folder and copy.is_dir():
        for part in sorted(old.iterdir()):
            if not _MADE_ANEW("", [part.name]):
                _keep(part, copy / part.name)
    elif os.path.lexists(copy):
        raise UpgradeError(
            f"git ignores {old}, and the new engine has one, too; move yours away first."
        )
    elif is_folder:
        shutil.copytree(old, copy, symlinks=True, ignore=_MADE_ANEW)
    else:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(old, copy, follow_symlinks=False)


def _ignored(template: Path) -> list[Path]:
    """The files and folders in `engine/` that git ignores, but caches. Of a folder that it ignores,
    the folder alone.
    """
    folder = template / _FOLDER
    command = [
        "git",
        "ls-files",
        "--others",
        "--ignored",
        "--exclude-standard",
        "--directory",
        "-z",
        "--",
        _FOLDER,
    ]
    listed = subprocess.run(command, cwd=template, capture_output=True, check=False).stdout  # noqa: S603
    found = [template / os.fsdecode(name) for name in listed.split(b"\0") if name]
    if folder in found:  # git has nothing in it
        found = sorted(folder.iterdir())
    return [
        path
        for path in found
        if not any(_MADE_ANEW("", [part]) for part in path.relative_to(folder).parts)
    ]


def _swap(new: Mapping[Path, Path | None], old: Path) -> None:
    """Put each new file or folder into its place, None for nothing, by renaming. If one fails, all
    are as they were.
    """
    old.mkdir()
    with ExitStack() as undo:
        for number, (place, path) in enumerate(new.items()):
            was = old / str(number)
            if not place.parent.exists():
                undo.callback(_remove, place.parent)
                place.parent.mkdir()
            undo.callback(_put_back, place, was, existed=place.exists())
            if place.exists():
                place.rename(was)
            if path is not None:
                path.rename(place)
        undo.pop_all()


def _remove(folder: Path) -> None:
    """Undo the making of a folder."""
    if folder.exists():
        folder.rmdir()


def _put_back(place: Path, was: Path, *, existed: bool) -> None:
    """Undo one swap, whether it was done, half done or not begun."""
    if existed and not was.exists():
        return
    if place.exists():
        place.rename(was.with_name(f"{was.name}-new"))
    if existed:
        was.rename(place)


def _in_one_line(error: OSError) -> str:
    """What failed first. `shutil.Error` has a list of all."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        path, _, reason = error.args[0][0]
        return f"{path}: {reason}".replace("\n", " ")
    return str(error).replace("\n", " ")


class _UnreadableError(ValueError):
    """What is wrong with FROM, in words that follow a colon."""


def _read(source: Path) -> tuple[str, str, Path]:
    """The version of the engine in `source`, its changelog, and itself: the wheel, or the folder,
    which may be a template's.
    """
    try:
        found = (
            _read_wheel(source)
            if source.suffix == ".whl" and source.is_file()
            else _read_folder(source)
        )
    except _UnreadableError as error:
        raise UpgradeError(
            f"FROM is {str(source)!r}, which cannot be read as {NAME}: {error}."
        ) from None
    except OSError as error:
        reason = f"{error.filename or source}: {error.strerror or 'it cannot be read'}"
        raise UpgradeError(
            f"FROM is {str(source)!r}, which cannot be read as {NAME}: {reason}."
        ) from None
    if found is None:
        raise UpgradeError(
            f"FROM is {str(source)!r}; name a folder or a wheel (.whl) of {NAME}, e.g. FROM=../newer/{_FOLDER}."
        )
    return found


def _read_wheel(source: Path) -> tuple[str, str, Path] | None:
    try:
        with zipfile.ZipFile(source) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
            if len(names) != 1:
                raise _UnreadableError(
                    f"it has {len(names)} files *.dist-info/METADATA, and a wheel has one"
                )
            text = wheel.read(names[0]).decode()
            broken = wheel.testzip()
    except UnicodeDecodeError:
        raise _UnreadableError("its METADATA is not UTF-8 text") from None
    except zipfile.BadZipFile:
        raise _UnreadableError(
            "it is no zip file, or a damaged one; copy or build the wheel again"
        ) from None
    except (
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ):  # damaged, packed in an unknown way, or with a password
        raise _UnreadableError(
            "what is in it cannot be unpacked; copy or build the wheel again"
        ) from None
    if broken:
        raise _UnreadableError(f"{broken} in it is damaged; copy or build the wheel again")
    metadata = Parser().parsestr(text)
    if metadata["Name"] != NAME:
        return None
    if not metadata["Version"]:
        raise _UnreadableError("its METADATA has no Version")
    return metadata["Version"], str(metadata.get_payload()).partition("# Changelog\n")[2], source


def _read_folder(source: Path) -> tuple[str, str, Path] | None:
    for folder in (source, source / _FOLDER) if source.name else ():
        path = folder / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            project = tomllib.loads(_text(path)).get("project")
        except tomllib.TOMLDecodeError as error:
            raise _UnreadableError(f"{path} is no TOML ({error})") from None
        if not isinstance(project, dict) or project.get("name") != NAME:
            continue
        number = project.get("version")
        if not isinstance(number, str) or not number:
            what = f"has version = {number!r:.80}" if "version" in project else "has no version"
            raise _UnreadableError(f'{path} {what}; use a text, e.g. version = "0.3.0"')
        changelog = folder / "CHANGELOG.md"
        if not changelog.is_file():
            raise _UnreadableError(f"{changelog} is not there; name a whole engine")
        return number, _text(changelog), folder
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise _UnreadableError(f"{path} is not UTF-8 text") from None


def _refuse_to_lose(template: Path) -> None:
    """What git has can be brought back: whoever edited the engine is told before it is replaced."""
    folder = template / _FOLDER
    if folder.is_symlink() or (folder / ".git").exists():
        what = "a link" if folder.is_symlink() else "a git repository of its own"
        raise UpgradeError(
            f"{_FOLDER}/ is {what}, which cannot be replaced; put the engine's files in its place first."
        )
    if not folder.exists():
        return
    command = ["git", "status", "--porcelain", "--", _FOLDER]
    asked = subprocess.run(command, cwd=template, capture_output=True, text=True, check=False)  # noqa: S603
    if asked.returncode or asked.stdout:
        first = asked.stdout.partition("\n")[0].strip() or "it is in no git repository"
        raise UpgradeError(
            f"{_FOLDER}/ has changes that are not committed ({first}); commit or undo them first."
        )
    command = ["git", "check-ignore", "--quiet", f"{_FOLDER}/pyproject.toml"]
    if (folder / "pyproject.toml").exists() and not subprocess.run(  # noqa: S603
        command, cwd=template, check=False
    ).returncode:
        raise UpgradeError(
            f"git ignores {_FOLDER}/, so it could not be brought back; commit it first."
        )


def _named(template: Path, pinned: str | None) -> dict[Path, str]:
    """The texts that name the engine for who installs it. Raises `UpgradeError` if it has no place
    there.
    """
    config, project = template / "langgraph.json", template / "pyproject.toml"
    listed = re.sub(rf'"\./{_FOLDER}"(, ?)?', "", config.read_text("utf-8"))
    text = re.sub(rf'"{NAME}==[^"]*"(, ?)?', "", project.read_text("utf-8"))
    text = text.removesuffix(f"\n[tool.uv]\n{_FIND_LINKS}").replace(_FIND_LINKS, "")
    if pinned:
        text = re.sub(
            r"^dependencies = \[", rf'\g<0>"{NAME}=={pinned}", ', text, count=1, flags=re.MULTILINE
        )
        table = "[tool.uv]\n"
        text = (
            text.replace(table, table + _FIND_LINKS)
            if table in text
            else f"{text}\n{table}{_FIND_LINKS}"
        )
    else:
        listed = re.sub(r'"dependencies":\s*\[', rf'\g<0>"./{_FOLDER}", ', listed, count=1)
    found = tomllib.loads(text)["project"].get("dependencies", [])
    folders = json.loads(listed).get("dependencies", [])
    if (f"{NAME}=={pinned}" in found, f"./{_FOLDER}" in folders) != (bool(pinned), not pinned):
        raise UpgradeError(
            "pyproject.toml has no line `dependencies = [`, or langgraph.json no such list; write them so."
        )
    return {config: listed, project: text}


def upgrade_packages(template: Path) -> None:
    """Pin the newest releases that fit together. Raises `UpgradeError` where there are none, or no
    uv.
    """
    uv = shutil.which("uv") or shutil.which(
        "uv", path=str(Path(sys.executable).parent)
    )  # `make` puts it into the environment
    engine = template / _FOLDER / "pyproject.toml"
    if uv is None:
        raise UpgradeError("make upgrade needs uv: https://docs.astral.sh/uv/")
    given = [str(engine), "--all-extras"] if engine.is_file() else ["--find-links", _WHEELS]
    command = [
        uv,
        "pip",
        "compile",
        "-",
        *given,
        "--quiet",
        "--upgrade",
        "--no-annotate",
        "--no-header",
    ]
    command += ["--no-emit-package", NAME, "--python-version", "3.11"]
    asked = "\n".join(
        unpinned(tomllib.loads((template / "pyproject.toml").read_text("utf-8"))["project"])
    )
    done = subprocess.run(  # noqa: S603
        command, cwd=template, input=asked, text=True, check=False, stdout=subprocess.PIPE
    )
    if done.returncode:  # uv has said why
        raise UpgradeError("Nothing was changed: uv found no releases that fit together.")
    (template / "constraints.txt").write_text(done.stdout, "utf-8")
    versions = dict(line.split("==", 1) for line in done.stdout.splitlines() if "==" in line)
    for name in ("pyproject.toml", "langgraph.json"):
        (template / name).write_text(
            pinned((template / name).read_text("utf-8"), versions), "utf-8"
        )


def unpinned(project: dict[str, Any]) -> list[str]:
    """What a project requires, without exact versions but the engine's: a wheel is one version, and
    its tools are asked for.
    """
    extras = project.get("optional-dependencies", {})
    listed = list(chain(project["dependencies"], *extras.values()))
    return [
        re.sub(rf"^{NAME}==", f"{NAME}[dev]==", one)
        if one.startswith(NAME)
        else re.sub("==[^;]+", "", one)
        for one in listed
    ]


def pinned(text: str, versions: dict[str, str]) -> str:
    """A text of `pyproject.toml` or `langgraph.json` with these versions, by the names that indexes
    spell, in its pins.
    """

    def newer(pin: re.Match[str]) -> str:
        name = re.sub(r"[-_.]+", "-", pin[1]).lower()
        return f'"{pin[1]}{pin[2]}=={versions.get(name, pin[3])}"'

    server = versions.get("langgraph-api")
    return re.sub(
        '("api_version": *)"[^"]*"',
        rf'\g<1>"{server}"' if server else r"\g<0>",
        _PIN.sub(newer, text),
    )


def main() -> None:
    """The command, in the folder of the template."""
    parser = argparse.ArgumentParser(
        prog="python -m lasting_memory.dev.upgrade", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "source",
        metavar="FROM",
        nargs="?",
        help="a folder or a wheel of another engine (default: newer packages)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="of an engine: say what would change, and change nothing",
    )
    args = parser.parse_args()
    try:
        if args.source is None:
            upgrade_packages(Path.cwd())
        else:
            said = upgrade_engine(
                Path.cwd(), Path(args.source), version(NAME), dry_run=args.dry_run
            )
            print(said)  # noqa: T201  # a command's answer
    except UpgradeError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Stopped.")


if __name__ == "__main__":
    main()
