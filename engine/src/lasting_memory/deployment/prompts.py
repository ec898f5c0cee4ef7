"""Prompts: a fork's own in `prompts/`, or the engine's."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic.fields import FieldInfo

from lasting_memory.settings import ENGINE, SettingsError


@cache  # requests read prompts, too, in the event loop
def prompt_file(folder: Path, name: str) -> str:
    """The text of a prompt, from `prompts/` of a fork's folder or from the engine's."""
    own = folder / "prompts" / name
    path = own if own.is_file() else ENGINE / "prompts" / name
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text; save it as UTF-8.") from None


def load_prompt_files(folder: Path) -> None:
    """Read every prompt of a fork's folder, and of the engine.

    Raises `SettingsError` for a prompt that is not UTF-8.
    """
    for prompts in (folder / "prompts", ENGINE / "prompts"):
        for path in sorted(prompts.glob("*.md")):
            if path.is_file() and not path.name.startswith("."):
                prompt_file(folder, path.name)


def with_profile(text: str, fields: Mapping[str, FieldInfo]) -> str:
    """A prompt with the names of the profile's fields, and a list of what they hold."""
    descriptions = list[str]()
    for name, field in fields.items():
        description = field.description or field.annotation
        descriptions.append(f"  - `{name}`: {description}")
    names = ", ".join([f"`{name}`" for name in fields])
    text = text.replace("{profile_fields}", names)
    return text.replace("{profile_descriptions}", "\n".join(descriptions))


def without_profile(text: str) -> str:
    """A prompt without the points of its lists that name the profile."""
    return _without_points(text, "{profile_")


def without_ends(text: str) -> str:
    """A prompt without the points of its lists that tell of facts with an end."""
    return _without_points(text, "(until YYYY-MM-DD)")


def _without_points(text: str, part: str) -> str:
    """A text without the points of its lists, and the paragraphs, that have this part."""
    points = re.split(r"(?m)^(?=- |\s*$)", text)
    return "".join(point for point in points if part not in point)
