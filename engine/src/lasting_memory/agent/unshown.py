"""What the result of a write says of a file of which prompts do not show everything."""

import logging
import re
from collections.abc import Mapping
from typing import Any
from unicodedata import normalize
from urllib.parse import unquote

from deepagents.backends import CompositeBackend
from langchain_core.messages import ToolMessage

from lasting_memory.agent.backends import build_backend
from lasting_memory.agent.file_sections import shared_room
from lasting_memory.agent.prompt import memory_files
from lasting_memory.deployment import Deployment

logger = logging.getLogger(__name__)

# The file that says which others there are.
INDEX_PATH = "/memories/topics/index.md"
_WRITERS = ("write_file", "edit_file")


class UnshownNotes:
    """Adds to the results of deepagents' own writes what `append_memory` says by itself."""

    def __init__(self, d: Deployment) -> None:
        self._deployment = d
        self._backend = build_backend(d) if d.has_memory else None

    async def added(self, name: str, args: Mapping[str, Any], result: object) -> object:
        """The result of a tool's call, with a note if it wrote a file that prompts cut or leave out."""
        path = args.get("file_path")
        if name not in _WRITERS or self._backend is None or not isinstance(path, str):
            return result
        if not isinstance(result, ToolMessage) or not isinstance(result.content, str):
            return result
        if result.status == "error" or not path.startswith("/memories/"):
            return result
        note = await unshown_note(self._backend, self._deployment, path)
        if not note:
            return result
        return result.model_copy(update={"content": f"{result.content}{note}"})


async def unshown_note(
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
    paths = memory_files(d)
    budget = d.limits.memory_block_bytes
    if path not in paths:
        # Of a skill, prompts show the description.
        if INDEX_PATH not in paths or path.startswith("/memories/skills/"):
            return ""
        return await _not_named(backend, path)
    if size is not None and size <= budget // len(paths):
        return ""
    keys = [shown_path.removeprefix("/memories") for shown_path in paths]
    files = await backend.routes["/memories/"].adownload_files(keys)
    sizes = [len(file.content or b"") for file in files]
    place = paths.index(path)
    share = shared_room(sizes, budget)[place]
    if sizes[place] <= share:
        return ""
    return (
        f" It has {sizes[place]:,} bytes, of which prompts show {share:,}: its two ends. "
        "Move details to /memories/topics/."
    )


async def _not_named(backend: CompositeBackend, path: str) -> str:
    """What the model is told of a file that the index of topics does not name; "" of others."""
    key = INDEX_PATH.removeprefix("/memories")
    (index,) = await backend.routes["/memories/"].adownload_files([key])
    text = (index.content or b"").decode(errors="replace")
    if _is_named(path.removeprefix("/memories/topics/"), text):
        return ""
    return f" Prompts do not show this file, and {INDEX_PATH} does not name it: add a line there."


def _is_named(name: str, text: str) -> bool:
    """Whether a text has this name as a whole, as it is or as a link spells it.

    `data.md` does not name `a.md`, and `trips/rome.md` does not name `rome.md`. A letter of a
    script that puts no spaces between words may stand beside a name.
    """
    before = r"(?:(?<![A-Za-z0-9_./-])|(?<=topics/))"
    after = r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
    whole_name = f"{before}{re.escape(normalize('NFC', name))}{after}"
    return any(re.search(whole_name, normalize("NFC", form)) for form in (text, unquote(text)))
