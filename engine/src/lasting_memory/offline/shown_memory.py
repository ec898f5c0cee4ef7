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
    if match is None:
        return ""
    return match[1]


def remembered_lines(prompt: str) -> Iterator[RememberedLine]:
    """The lines of the files in the memory block; of the profile, its fields."""
    memory = block_of(prompt, "memory")
    for path, text in files_of(memory):
        is_object = text.startswith("{") and text.endswith("}")
        if path == PROFILE_PATH and is_object:
            yield from _profile_lines(path, text)
            continue
        for line in LINE.finditer(text):
            yield RememberedLine(line[1], path, old=line[0], without="")


def _profile_lines(path: str, text: str) -> Iterator[RememberedLine]:
    fields = json.loads(text)
    for name, value in fields.items():
        if value is None:
            continue
        written = json.dumps(value, ensure_ascii=False)
        old = f'"{name}": {written}'
        without = f'"{name}": null'
        yield RememberedLine(f"My {name} is {value}", path, old, without)


def files_of(block: str) -> Iterator[tuple[str, str]]:
    """The files of a block: path and text."""
    _, *parts = _FILE_TITLE.split(block)
    paths = parts[::2]
    texts = parts[1::2]
    for path, text in zip(paths, texts, strict=True):
        yield path, text.strip()


def as_list(lines: Iterable[RememberedLine]) -> str:
    """The lines as a list in Markdown."""
    items = [f"- {line.text}" for line in lines]
    return "\n".join(items)
