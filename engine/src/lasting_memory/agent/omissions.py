"""What the result of a write says of a file of which prompts do not show everything.

Prompts show the files that the deployment names, each with its share of the room for memory, and
leave out the rest: details have files of their own under `/memories/topics/`. The index of topics,
which prompts show, names these files, so that the model finds them.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from unicodedata import normalize
from urllib.parse import unquote

from deepagents.backends import CompositeBackend

from lasting_memory.agent.backends import build_backend
from lasting_memory.agent.file_sections import shared_room
from lasting_memory.agent.memory_block import memory_files
from lasting_memory.agent.tool_calls import ToolResult, text_result
from lasting_memory.deployment import Deployment

logger = logging.getLogger(__name__)

# The index of topics.
INDEX_PATH = "/memories/topics/index.md"
_WRITERS = ("write_file", "edit_file")


class OmissionNotes:
    """Adds notes to the results of deepagents' own writes.

    `append_memory` says by itself what `omission_note` returns.
    """

    def __init__(self, d: Deployment) -> None:
        self._deployment = d
        self._backend = build_backend(d) if d.has_memory else None

    async def added(self, name: str, args: Mapping[str, object], result: ToolResult) -> ToolResult:
        """The result of a tool's call, with a note if it wrote a file that prompts cut or leave out.

        The result as it is, if it is that of another tool or an error, or the file is no memory.
        """
        if name not in _WRITERS or self._backend is None:
            return result
        path = args.get("file_path")
        if not isinstance(path, str) or not path.startswith("/memories/"):
            return result
        message = text_result(result)
        if message is None:
            return result
        note = await omission_note(self._backend, self._deployment, path)
        if not note:
            return result
        content = f"{message.content}{note}"
        return message.model_copy(update={"content": content})


async def omission_note(
    backend: CompositeBackend, d: Deployment, path: str, size: int | None = None
) -> str:
    """What the model is told if prompts will not show all of a file of memory; "" if they will.

    `size` is the file's bytes now. None: they are read. A store that fails now has made the write:
    nothing is said then.
    """
    try:
        return await _note(backend, d, path, size)
    except Exception as error:  # a store raises what its driver raises
        logger.warning(
            "Whether prompts show %s as a whole is not known: %r", path, error, exc_info=True
        )
        return ""


async def _note(backend: CompositeBackend, d: Deployment, path: str, size: int | None) -> str:
    """As `omission_note`. Raises what the store raises."""
    shown_paths = memory_files(d)
    if path not in shown_paths:
        # Of a skill, prompts show the description.
        if INDEX_PATH not in shown_paths or path.startswith("/memories/skills/"):
            return ""
        return await _note_of_index(backend, path)
    budget = d.limits.memory_block_bytes
    equal_share = budget // len(shown_paths)
    if size is not None and size <= equal_share:
        return ""
    sizes = list[int]()
    for content in await _contents(backend, shown_paths):
        sizes.append(len(content))
    shares = shared_room(sizes, budget)
    place = shown_paths.index(path)
    present_size = sizes[place]
    share = shares[place]
    if present_size <= share:
        return ""
    return (
        f" It has {present_size:,} bytes, of which prompts show {share:,}: its two ends. "
        "Move details to /memories/topics/."
    )


async def _contents(backend: CompositeBackend, paths: Sequence[str]) -> list[bytes]:
    """The contents of files under /memories/; b"" of one that is not there."""
    memory = backend.routes["/memories/"]
    keys = [path.removeprefix("/memories") for path in paths]
    files = await memory.adownload_files(keys)
    return [file.content or b"" for file in files]


async def _note_of_index(backend: CompositeBackend, path: str) -> str:
    """What the model is told of a file that the index of topics does not name; "" of others."""
    contents = await _contents(backend, [INDEX_PATH])
    index = contents[0].decode(errors="replace")
    name = path.removeprefix("/memories/topics/")
    if _is_named(name, index):
        return ""
    return f" Prompts do not show this file, and {INDEX_PATH} does not name it: add a line there."


def _is_named(name: str, text: str) -> bool:
    """Whether a text has this name as a whole, as it is or as a link spells it.

    `data.md` does not name `a.md`, and `trips/rome.md` does not name `rome.md`. A letter of a
    script that puts no spaces between words may stand beside a name.
    """
    left_boundary = r"(?:(?<![A-Za-z0-9_./-])|(?<=topics/))"
    right_boundary = r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
    literal = re.escape(normalize("NFC", name))
    whole_name = re.compile(left_boundary + literal + right_boundary)
    if whole_name.search(normalize("NFC", text)):
        return True
    unescaped_text = unquote(text)
    return bool(whole_name.search(normalize("NFC", unescaped_text)))
