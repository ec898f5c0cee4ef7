"""Reads the prompt as the offline model sees it: its blocks, and the lines of memory in them."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lasting_memory.deployment import PROFILE_PATH
from lasting_memory.offline.phrases import LINE

_FILE_TITLE = re.compile(r"(?m)^## (/memories/\S+)$")


class RememberedLine(NamedTuple):
    """A line of a file under `/memories/`, or a field of the profile.

    To take it out, `old` in the file at `path` becomes `without`.
    """

    text: str
    path: str
    old: str
    without: str


def block_of(prompt: str, name: str) -> str:
    """A block of the prompt; empty if it has none."""
    match = re.search(rf"(?s)<{name}>(.*?)</{name}>", prompt)
    return match[1] if match else ""


def remembered_lines(prompt: str) -> Iterator[RememberedLine]:
    """The lines of the files in the memory block; of the profile, its fields."""
    for path, text in files_of(block_of(prompt, "memory")):
        if path == PROFILE_PATH and text.startswith("{") and text.endswith("}"):
            yield from _profile_lines(path, text)
        else:
            for line in LINE.finditer(text):
                yield RememberedLine(line[1], path, line[0], "")


def _profile_lines(path: str, text: str) -> Iterator[RememberedLine]:
    for name, value in json.loads(text).items():
        if value is not None:
            old = f'"{name}": {json.dumps(value, ensure_ascii=False)}'
            yield RememberedLine(f"My {name} is {value}", path, old, f'"{name}": null')


def files_of(block: str) -> Iterator[tuple[str, str]]:
    """The files of a block: path and text."""
    parts = _FILE_TITLE.split(block)[1:]
    for path, text in zip(parts[::2], parts[1::2], strict=True):
        yield path, text.strip()


def as_list(lines: Iterable[RememberedLine]) -> str:
    """The lines as a list in Markdown."""
    return "\n".join(f"- {line.text}" for line in lines)
