"""Another engine in place of the one that a template has: all of it, or nothing.

All is prepared in a folder beside the engine (`side`), then swapped by renaming. What git ignores in
the engine's folder stays (it is kept), but caches. A place is the path of a file or folder of the
template that is replaced.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from lasting_memory.dev.engine_source import FOLDER, WHEELS, UpgradeError

# Tools make these, and make them again. Of what git ignores only they go with an old engine.
_CACHES = (".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build")
_caches_in = shutil.ignore_patterns(*_CACHES)
# These are on somebody's machine, and no part of an engine.
_skipped_in = shutil.ignore_patterns(
    *_CACHES, ".git", ".venv*", ".env", "node_modules", ".upgrade-*"
)


def replace_engine(
    template: Path, engine: Path, texts: Mapping[Path, str], *, dry_run: bool
) -> list[str]:
    """Put the engine and these texts into the template, all or nothing. Returns the paths in
    `engine/` that were kept.

    With `dry_run` all is prepared, and nothing put.
    """
    folder = template / FOLDER
    had_folder = folder.exists()
    succeeded = False
    try:
        side = Path(tempfile.mkdtemp(prefix=".upgrade-", dir=template))
    except OSError as error:
        reason = _in_one_line(error)
        raise UpgradeError(f"Nothing was changed: {reason}.") from None
    try:
        new_by_place, kept_paths = _prepare(template, engine, texts, side)
        if not dry_run:
            _swap(new_by_place, side / "old")
        succeeded = True
    except OSError as error:
        reason = _in_one_line(error)
        raise UpgradeError(f"Nothing was changed: {reason}.") from None
    except KeyboardInterrupt:
        raise UpgradeError("Stopped; nothing was changed.") from None
    finally:
        is_lost = had_folder and not folder.exists()
        if is_lost and not succeeded:  # it could not be put back
            raise UpgradeError(f"{FOLDER}/ is in {side}/old now; move it back.")
        shutil.rmtree(side, ignore_errors=True)
    return kept_paths


def _prepare(
    template: Path, engine: Path, texts: Mapping[Path, str], side: Path
) -> tuple[dict[Path, Path | None], list[str]]:
    """What is to come to each place, ready in the folder `side`, None for nothing; and the paths in
    `engine/` that are kept.
    """
    folder = template / FOLDER
    wheels = template / WHEELS
    new_by_place = dict[Path, Path | None]()
    new_by_place.update(_write_texts(texts, side))
    for wheel in wheels.glob("lasting_memory-*.whl"):  # one of them may be the new one
        new_by_place[wheel] = None
    if engine.resolve() == folder.resolve():
        return new_by_place, []
    new_folder = side / "new"
    if engine.is_file():
        place = wheels / engine.name
        new_by_place[place] = Path(shutil.copyfile(engine, side / engine.name))
    else:
        _copy_engine(engine, new_folder)
    kept_paths = _copy_ignored_files(template, new_folder)
    new_by_place[folder] = None
    if new_folder.exists():  # with a wheel, only if something is kept
        new_by_place[folder] = new_folder
    return new_by_place, kept_paths


def _write_texts(texts: Mapping[Path, str], side: Path) -> dict[Path, Path]:
    """Write each text into the folder `side`, with the mode of the file whose place it takes.

    Returns the written file of each place.
    """
    new_by_place = dict[Path, Path]()
    for place, text in texts.items():
        new_file = side / place.name
        new_file.write_text(text, "utf-8")
        shutil.copymode(place, new_file)
        new_by_place[place] = new_file
    return new_by_place


def _copy_engine(engine: Path, new_folder: Path) -> None:
    """Copy the folder of an engine. Raises `UpgradeError` for one with links, or that is not whole."""
    for folder, subfolders, files in os.walk(engine):
        skipped_names = _skipped_in(folder, [*subfolders, *files])
        subfolders[:] = [name for name in subfolders if name not in skipped_names]
        for name in [*subfolders, *files]:
            path = Path(folder, name)
            if path.is_symlink() and name not in skipped_names:
                raise UpgradeError(
                    f"{path} is a link, and an engine has none; put what it leads to in its place."
                )
    shutil.copytree(engine, new_folder, symlinks=True, ignore=_skipped_in)
    package = new_folder / "src" / "lasting_memory"
    if not (package / "__init__.py").is_file():
        raise UpgradeError(f"{engine} has no src/lasting_memory/__init__.py; name a whole engine.")


def _copy_ignored_files(template: Path, new_folder: Path) -> list[str]:
    """Copy what git ignores in `engine/`, but caches, into the new engine. Returns its paths there."""
    kept_paths = list[str]()
    folder = template / FOLDER
    for old_path in _ignored_paths(template):
        path = old_path.relative_to(folder)
        _copy_kept(old_path, new_folder / path)
        kept_paths.append(str(path))
    return kept_paths


def _copy_kept(old_path: Path, new_path: Path) -> None:
    """Copy a file or folder of the old engine into the new one. Raises `UpgradeError` for a file
    that the new one has, too.
    """
    is_folder = old_path.is_dir() and not old_path.is_symlink()
    if is_folder and new_path.is_dir():
        for part in sorted(old_path.iterdir()):
            if not _caches_in("", [part.name]):
                _copy_kept(part, new_path / part.name)
    elif os.path.lexists(new_path):
        raise UpgradeError(
            f"git ignores {old_path}, and the new engine has one, too; move yours away first."
        )
    elif is_folder:
        shutil.copytree(old_path, new_path, symlinks=True, ignore=_caches_in)
    else:
        new_path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(old_path, new_path, follow_symlinks=False)


def _ignored_paths(template: Path) -> list[Path]:
    """The files and folders in `engine/` that git ignores, but caches. Of a folder that it ignores,
    the folder alone.
    """
    folder = template / FOLDER
    command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard"]
    command += ["--directory", "-z", "--", FOLDER]
    listing = subprocess.run(command, cwd=template, capture_output=True, check=False)  # noqa: S603
    paths = list[Path]()
    for name in listing.stdout.split(b"\0"):
        if name:
            path = template / os.fsdecode(name)
            paths.append(path)
    if folder in paths:  # git has nothing in it
        paths = sorted(folder.iterdir())
    ignored_paths = list[Path]()
    for path in paths:
        names = path.relative_to(folder).parts
        if not _caches_in("", list(names)):
            ignored_paths.append(path)
    return ignored_paths


def _swap(new_by_place: Mapping[Path, Path | None], old_folder: Path) -> None:
    """Put each new file or folder into its place, None for nothing, by renaming. If one fails, all
    are as they were.
    """
    old_folder.mkdir()
    with ExitStack() as undo:
        for number, place in enumerate(new_by_place):
            old_path = old_folder / str(number)
            new_path = new_by_place[place]
            if not place.parent.exists():
                undo.callback(_remove, place.parent)
                place.parent.mkdir()
            undo.callback(_put_back, place, old_path, existed=place.exists())
            if place.exists():
                place.rename(old_path)
            if new_path is not None:
                new_path.rename(place)
        undo.pop_all()


def _remove(folder: Path) -> None:
    """Undo the making of a folder."""
    if folder.exists():
        folder.rmdir()


def _put_back(place: Path, old_path: Path, *, existed: bool) -> None:
    """Undo one swap, whether it was done, half done or not begun.

    `old_path` is where the swap moved what was at the place; `existed` says whether there was any.
    """
    if existed and not old_path.exists():
        return
    if place.exists():
        new_name = f"{old_path.name}-new"
        place.rename(old_path.with_name(new_name))
    if existed:
        old_path.rename(place)


def _in_one_line(error: OSError) -> str:
    """What failed first, as a line of text. `shutil.Error` has a list of all."""
    text = str(error)
    if isinstance(error, shutil.Error):
        failures = error.args[0]
        if isinstance(failures, list):
            path, _, reason = failures[0]
            text = f"{path}: {reason}"
    return text.replace("\n", " ")


def refuse_to_lose(template: Path) -> None:
    """Raise `UpgradeError` for an `engine/` that git could not bring back: a link, a repository of
    its own, one with changes that are not committed, or one that git ignores.
    """
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
        first_line, _, _ = status.stdout.partition("\n")
        reason = first_line.strip() or "it is in no git repository"
        raise UpgradeError(
            f"{FOLDER}/ has changes that are not committed ({reason}); commit or undo them first."
        )
    if not (folder / "pyproject.toml").exists():
        return
    check = _git(template, "check-ignore", "--quiet", f"{FOLDER}/pyproject.toml")
    if not check.returncode:
        raise UpgradeError(
            f"git ignores {FOLDER}/, so it could not be brought back; commit it first."
        )


def _git(template: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What git answers to these words, in the template's folder."""
    command = ["git", *words]
    return subprocess.run(command, cwd=template, capture_output=True, text=True, check=False)  # noqa: S603
