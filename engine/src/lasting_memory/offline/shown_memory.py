"""Reads the prompt as the offline model sees it: its blocks, and the lines of memory in them.

A block stands between `<name>` and `</name>`. The block `memory` has files, each below a heading
with its path. One of them, the profile, is a JSON object.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lasting_memory.deployment import PROFILE_PATH
from lasting_memory.offline.phrases import LINE

_FILE_TITLE = re.compile(r"(?m)^## (/memories/\S+)$")


class RememberedLine(NamedTuple):
    """A line of a file under `/memories/`, or a field of the profile.

    To take it out, `old_text` in the file at `path` becomes `new_text`.
    """

    text: str
    path: str
    old_text: str
    new_text: str


def block_of(prompt: str, name: str) -> str:
    """The text of the first block of this name in the prompt; "" if it has none."""
    pattern = rf"(?s)<{name}>(.*?)</{name}>"
    match = re.search(pattern, prompt)
    if match is None:
        return ""
    return match[1]


def remembered_lines(prompt: str) -> Iterator[RememberedLine]:
    """The lines of the files in the block `memory`; of the profile, its fields."""
    memory = block_of(prompt, "memory")
    for path, text in files_of(memory):
        if path == PROFILE_PATH and _is_object(text):
            yield from _profile_lines(path, text)
            continue
        for line in LINE.finditer(text):
            whole_line = line[0]
            line_text = line[1]
            yield RememberedLine(line_text, path, old_text=whole_line, new_text="")


def _is_object(text: str) -> bool:
    """Whether a text looks like a JSON object: it may be cut off."""
    return text.startswith("{") and text.endswith("}")


def _profile_lines(path: str, text: str) -> Iterator[RememberedLine]:
    """The fields of a profile that have a value, each as a line. To take one out is to make it
    null. Raises `ValueError` for a text that is no JSON.
    """
    fields = json.loads(text)
    for name, value in fields.items():
        if value is None:
            continue
        value_json = json.dumps(value, ensure_ascii=False)
        line = f"My {name} is {value}"
        old_text = f'"{name}": {value_json}'
        new_text = f'"{name}": null'
        yield RememberedLine(line, path, old_text, new_text)


def files_of(block: str) -> Iterator[tuple[str, str]]:
    """The files of a block, in order: path and text."""
    # A path and a text in turn, after what stands before the first path.
    _, *paths_and_texts = _FILE_TITLE.split(block)
    paths = paths_and_texts[::2]
    texts = paths_and_texts[1::2]
    for path, text in zip(paths, texts, strict=True):
        yield path, text.strip()


def as_list(lines: Iterable[RememberedLine]) -> str:
    """The lines as a list in Markdown."""
    items = list[str]()
    for line in lines:
        items.append(f"- {line.text}")
    return "\n".join(items)
