"""Prompts: a fork's own in `prompts/`, or the engine's.

A point is one entry of a list in a prompt, with its lines.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic.fields import FieldInfo

from lasting_memory.settings import ENGINE, SettingsError


@cache  # requests read prompts, too, in the event loop
def prompt_file(folder: Path, name: str) -> str:
    """The text of a prompt, from `prompts/` of a fork's folder or from the engine's.

    Raises `FileNotFoundError` if neither has it, and `SettingsError` if it is not UTF-8.
    """
    path = folder / "prompts" / name
    if not path.is_file():
        path = ENGINE / "prompts" / name
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
            name = path.name
            if path.is_file() and not name.startswith("."):
                prompt_file(folder, name)


def with_profile(text: str, fields: Mapping[str, FieldInfo]) -> str:
    """A prompt with the names of the profile's fields, and a list of what they hold."""
    names = list[str]()
    descriptions = list[str]()
    for name, field in fields.items():
        quoted_name = f"`{name}`"
        description = field.description or field.annotation
        names.append(quoted_name)
        descriptions.append(f"  - {quoted_name}: {description}")
    listed_names = ", ".join(names)
    listed_descriptions = "\n".join(descriptions)
    text = text.replace("{profile_fields}", listed_names)
    return text.replace("{profile_descriptions}", listed_descriptions)


def without_profile(text: str) -> str:
    """A prompt without the points of its lists that name the profile."""
    return _without_points(text, "{profile_")


def without_ends(text: str) -> str:
    """A prompt without the points of its lists that tell of facts with an end."""
    return _without_points(text, "(until YYYY-MM-DD)")


def _without_points(text: str, part: str) -> str:
    """A text without the points of its lists, and the paragraphs, that have this part."""
    points = re.split(r"(?m)^(?=- |\s*$)", text)
    remaining_points = [point for point in points if part not in point]
    return "".join(remaining_points)
