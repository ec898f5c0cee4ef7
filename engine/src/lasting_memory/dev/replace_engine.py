"""Another engine in place of the one that a template has: all of it, or nothing.

All is prepared in a folder beside the engine, then swapped by renaming. What git ignores in the
engine's folder stays, but caches.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from lasting_memory.dev.engine_source import FOLDER, WHEELS, UpgradeError

# Made by tools, which make them again. Of what git ignores only these go with an old engine.
_CACHES = (".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build")
_MADE_ANEW = shutil.ignore_patterns(*_CACHES)
# On somebody's machine: no part of an engine.
_SKIPPED = shutil.ignore_patterns(*_CACHES, ".git", ".venv*", ".env", "node_modules", ".upgrade-*")


def replace_engine(
    template: Path, engine: Path, texts: Mapping[Path, str], *, dry_run: bool
) -> list[str]:
    """Put the engine and these texts into the template, all or nothing. Returns the paths in
    `engine/` that were kept.

    With `dry_run` all is prepared, and nothing put.
    """
    folder = template / FOLDER
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
            raise UpgradeError(f"{FOLDER}/ is in {side}/old now; move it back.")
        shutil.rmtree(side, ignore_errors=True)
    return kept


def _prepared(
    template: Path, engine: Path, texts: Mapping[Path, str], side: Path
) -> tuple[dict[Path, Path | None], list[str]]:
    """What is to come to each place, ready in the folder `side`, None for nothing; and the paths in
    `engine/` that are kept.
    """
    folder = template / FOLDER
    wheels = template / WHEELS
    new: dict[Path, Path | None] = {**_prepared_texts(texts, side)}
    for wheel in wheels.glob("lasting_memory-*.whl"):  # one of them may be the new one
        new[wheel] = None
    if engine.resolve() == folder.resolve():
        return new, []
    prepared = side / "new"
    if engine.is_file():
        new[wheels / engine.name] = Path(shutil.copyfile(engine, side / engine.name))
    else:
        _copy(engine, prepared)
    kept = _keep_ignored(template, prepared)
    new[folder] = prepared if prepared.exists() else None
    return new, kept


def _prepared_texts(texts: Mapping[Path, str], side: Path) -> dict[Path, Path]:
    """Writes each text into the folder `side`, with the mode of the file whose place it takes."""
    prepared = dict[Path, Path]()
    for path, text in texts.items():
        prepared[path] = side / path.name
        prepared[path].write_text(text, "utf-8")
        shutil.copymode(path, prepared[path])
    return prepared


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
        path = old.relative_to(template / FOLDER)
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
    folder = template / FOLDER
    command = [
        *("git", "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"),
        *("--", FOLDER),
    ]
    listed = subprocess.run(command, cwd=template, capture_output=True, check=False).stdout  # noqa: S603
    paths = [template / os.fsdecode(name) for name in listed.split(b"\0") if name]
    if folder in paths:  # git has nothing in it
        paths = sorted(folder.iterdir())
    return [path for path in paths if not _MADE_ANEW("", [*path.relative_to(folder).parts])]


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


def refuse_to_lose(template: Path) -> None:
    """What git has can be brought back: whoever edited the engine is told before it is replaced."""
    folder = template / FOLDER
    kind = ""
    if folder.is_symlink():
        kind = "a link"
    elif (folder / ".git").exists():
        kind = "a git repository of its own"
    if kind:
        raise UpgradeError(
            f"{FOLDER}/ is {kind}, which cannot be replaced; put the engine's files in its place first."
        )
    if not folder.exists():
        return
    status = _git(template, "status", "--porcelain", "--", FOLDER)
    if status.returncode or status.stdout:
        first = status.stdout.partition("\n")[0].strip() or "it is in no git repository"
        raise UpgradeError(
            f"{FOLDER}/ has changes that are not committed ({first}); commit or undo them first."
        )
    if not (folder / "pyproject.toml").exists():
        return
    ignored = _git(template, "check-ignore", "--quiet", f"{FOLDER}/pyproject.toml")
    if not ignored.returncode:
        raise UpgradeError(
            f"git ignores {FOLDER}/, so it could not be brought back; commit it first."
        )


def _git(template: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["git", *words]
    return subprocess.run(command, cwd=template, capture_output=True, text=True, check=False)  # noqa: S603
