"""`make upgrade-engine FROM=<folder or wheel>`: another engine in place of the one in use. `make
upgrade`: newer packages.

python -m lasting_memory.dev.upgrade [--dry-run] FROM
python -m lasting_memory.dev.upgrade [--beyond-bounds]

Of an engine, a folder becomes `engine/`. A wheel goes into `wheels/`, `pyproject.toml` pins its
version, and `engine/` goes. What git ignores in `engine/` stays, but caches. A step that fails
changes nothing. It says what changed since the engine in use, by the changelog and for this fork
(`changes.py`). With `--dry-run` it says that and tries all steps but the swap. `langgraph.json` and
`pyproject.toml` say which of the two is installed (`engine_names.py`). Nothing else of a fork is
touched.

Without FROM come the newest releases that fit together (`pins.py`), with `--beyond-bounds` also
those that the engine excludes.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from lasting_memory.dev.changes import for_fork
from lasting_memory.dev.engine_names import name_engine
from lasting_memory.dev.engine_source import FOLDER, NAME, WHEELS, Engine, UpgradeError, read_engine
from lasting_memory.dev.package_sources import sources_of
from lasting_memory.dev.pins import upgrade_beyond_bounds, upgrade_packages
from lasting_memory.dev.replace_engine import refuse_to_lose, replace_engine

_MAX_NAMED = 10  # paths in a message


def upgrade_engine(
    template: Path, source: Path, version_in_use: str, *, dry_run: bool = False
) -> str:
    """Replace the engine of `template` by `source`. Returns what changes since the version
    `version_in_use`, and what was done.

    With `dry_run` nothing is changed, and the text says what would be done.

    Raises `UpgradeError`, and nothing is changed, where `source` is no engine, git does not have
    the rest of `engine/`, or a step fails.
    """
    engine = read_engine(source)
    refuse_to_lose(template)
    texts = name_engine(template, engine)
    engine_in_use = _engine_in_use(template, version_in_use)
    old_sources = sources_of(engine_in_use)
    new_sources = sources_of(engine.path)
    points = for_fork(template, old_sources, new_sources)
    kept_paths = replace_engine(template, engine.path, texts, dry_run=dry_run)
    place = _place(engine, kept_paths)
    summary = f"The engine was {version_in_use} and is {engine.version}, from {source}. {place}."
    if dry_run:
        summary = f"Nothing was changed. Without DRY_RUN one would read here: {summary}"
    changes = _newer_changes(engine, version_in_use)
    return f"{changes}\n\n{points}\n\n{summary}"


def _place(engine: Engine, kept_paths: list[str]) -> str:
    """Where the engine is now, and what of the old folder was kept, in a sentence."""
    place = f"It is the folder {FOLDER}/"
    if engine.path.is_file():
        place = f"It is a wheel in {WHEELS}/, which pyproject.toml pins; {FOLDER}/ is gone"
    if kept_paths:
        listed_paths = ", ".join(kept_paths[:_MAX_NAMED])
        place += f"; what git ignores in {FOLDER}/ was kept: {listed_paths}"
    return place


def _newer_changes(engine: Engine, version_in_use: str) -> str:
    """The sections of its changelog above that of the version in use, or a line that says that
    there are none.
    """
    changelog = f"\n{engine.changelog}"
    newer_part, _, _ = changelog.partition(f"\n## {version_in_use}")
    _, heading, sections = newer_part.partition("\n## ")
    changes = f"{heading}{sections}".strip()
    return changes or f"Nothing is listed since {version_in_use}."


def _engine_in_use(template: Path, version_in_use: str) -> Path:
    """The engine that the template has now: its folder, or the wheel of the version in use."""
    folder = template / FOLDER
    if (folder / "pyproject.toml").exists():
        return folder
    wheels = (template / WHEELS).glob(f"lasting_memory-{version_in_use}-*.whl")
    return min(wheels, default=folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command, in the folder of the template. Its arguments are by default those of the
    process.
    """
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
    parser.add_argument(
        "--beyond-bounds",
        action="store_true",
        help="of packages: also releases that the engine's upper bounds exclude, to see what breaks",
    )
    args = parser.parse_args(arguments)
    if args.beyond_bounds and args.source is not None:
        parser.error("--beyond-bounds is of packages, and goes without FROM")
    if args.dry_run and args.source is None:
        parser.error("--dry-run is of an engine, and needs FROM")
    try:
        if args.beyond_bounds:
            upgrade_beyond_bounds(Path.cwd())
        elif args.source is None:
            upgrade_packages(Path.cwd())
        else:
            source = Path(args.source)
            version_in_use = version(NAME)
            answer = upgrade_engine(Path.cwd(), source, version_in_use, dry_run=args.dry_run)
            print(answer)  # noqa: T201  # a command's answer
    except UpgradeError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Stopped.")


if __name__ == "__main__":
    main()
