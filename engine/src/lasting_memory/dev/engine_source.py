"""Reads an engine that is to be used: its folder, or its wheel."""

import tomllib
import zipfile
import zlib
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple

NAME = "lasting-memory"
# Where a template has its engine, and the wheels in place of it.
FOLDER = "engine"
WHEELS = "wheels"


class UpgradeError(ValueError):
    """An upgrade that cannot be made; nothing was changed. The message is one line: what is wrong,
    and the fix.
    """


class Engine(NamedTuple):
    """An engine that can be used."""

    version: str
    changelog: str
    path: Path  # the wheel, or the folder


class _UnreadableError(ValueError):
    """What is wrong with FROM, in words that follow a colon."""


def read_engine(source: Path) -> Engine:
    """The engine in `source`, which is a wheel, a folder or a template's folder. Raises
    `UpgradeError`.
    """
    try:
        engine = _read(source)
    except _UnreadableError as error:
        raise UpgradeError(
            f"FROM is {str(source)!r}, which cannot be read as {NAME}: {error}."
        ) from None
    except OSError as error:
        reason = f"{error.filename or source}: {error.strerror or 'it cannot be read'}"
        raise UpgradeError(
            f"FROM is {str(source)!r}, which cannot be read as {NAME}: {reason}."
        ) from None
    if engine is None:
        raise UpgradeError(
            f"FROM is {str(source)!r}; name a folder or a wheel (.whl) of {NAME},"
            f" e.g. FROM=../newer/{FOLDER}."
        )
    return engine


def _read(source: Path) -> Engine | None:
    """The engine in `source`; None if there is none. Raises `_UnreadableError` for a damaged one."""
    if source.suffix == ".whl" and source.is_file():
        return _read_wheel(source)
    if not source.name:  # the current folder
        return None
    return _read_folder(source) or _read_folder(source / FOLDER)


def _read_wheel(source: Path) -> Engine | None:
    """The engine in a wheel; None if it is another package's."""
    text = _metadata_of(source)
    metadata = Parser().parsestr(text)
    if metadata["Name"] != NAME:
        return None
    version = metadata["Version"]
    if not version:
        raise _UnreadableError("its METADATA has no Version")
    description = str(metadata.get_payload())
    _, _, changelog = description.partition("# Changelog\n")
    return Engine(version, changelog, source)


def _metadata_of(source: Path) -> str:
    """The text METADATA of a wheel that can be unpacked."""
    try:
        with zipfile.ZipFile(source) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
            if len(names) != 1:
                raise _UnreadableError(
                    f"it has {len(names)} files *.dist-info/METADATA, and a wheel has one"
                )
            text = wheel.read(names[0]).decode()
            damaged_member = wheel.testzip()
    except UnicodeDecodeError:
        raise _UnreadableError("its METADATA is not UTF-8 text") from None
    except zipfile.BadZipFile:
        raise _UnreadableError(
            "it is no zip file, or a damaged one; copy or build the wheel again"
        ) from None
    # Damaged, packed in an unknown way, or with a password.
    except (zlib.error, EOFError, NotImplementedError, RuntimeError):
        raise _UnreadableError(
            "what is in it cannot be unpacked; copy or build the wheel again"
        ) from None
    if damaged_member:
        raise _UnreadableError(f"{damaged_member} in it is damaged; copy or build the wheel again")
    return text


def _read_folder(folder: Path) -> Engine | None:
    """The engine that is this folder; None if it is none."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        return None
    try:
        project = tomllib.loads(_text(path)).get("project")
    except tomllib.TOMLDecodeError as error:
        raise _UnreadableError(f"{path} is no TOML ({error})") from None
    if not isinstance(project, dict) or project.get("name") != NAME:
        return None
    version = project.get("version")
    if not isinstance(version, str) or not version:
        fault = f"has version = {version!r:.80}" if "version" in project else "has no version"
        raise _UnreadableError(f'{path} {fault}; use a text, e.g. version = "0.3.0"')
    changelog = folder / "CHANGELOG.md"
    if not changelog.is_file():
        raise _UnreadableError(f"{changelog} is not there; name a whole engine")
    return Engine(version, _text(changelog), folder)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise _UnreadableError(f"{path} is not UTF-8 text") from None
