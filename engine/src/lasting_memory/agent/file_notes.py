"""What the results of `read_file` and `write_file` say of lines that prompts leave out or show apart:
those that are over, and those that nobody vouches for.
"""

import logging
from collections.abc import Mapping
from typing import Any, cast

from deepagents.backends import CompositeBackend

from lasting_memory.agent.backends import RouteFiles, StoreOverride, build_backend
from lasting_memory.agent.tool_calls import text_result
from lasting_memory.agent.unconfirmed import note_of_unconfirmed
from lasting_memory.deployment import Deployment

logger = logging.getLogger(__name__)

# The tools after whose calls a model is told: the one that shows lines, and the one that keeps
# those that are over.
_READ, _WRITE = "read_file", "write_file"


class FileNotes:
    """Adds to the result of `read_file` and `write_file` which of the file's lines are over, and of
    what is read, which nobody vouches for.

    The notes stand before a file's content, which is shown as it is: so `edit_file` finds its
    lines. `drafts` gives the store of a consolidation's draft.
    """

    def __init__(self, d: Deployment, drafts: StoreOverride | None) -> None:
        self._routes = tuple(d.routes)
        self._backend = build_backend(d, drafts)

    async def added(self, name: str, args: Mapping[str, Any], result: object) -> object:
        """The result of a tool's call, with a note if the file has such lines."""
        if name not in (_READ, _WRITE):
            return result
        path = args.get("file_path")
        if not isinstance(path, str) or not path.startswith(self._routes):
            return result
        message = text_result(result)
        if message is None:
            return result
        try:
            notes = await self._notes(self._backend, path, is_read=name == _READ)
        except Exception as error:  # a store raises what its driver raises, and the file is read
            logger.warning("What is to be said of %s is not known: %r", path, error, exc_info=True)
            return result
        if not notes:
            return result
        content = "\n".join([*notes, str(message.content)])
        return message.model_copy(update={"content": content})

    async def _notes(self, backend: CompositeBackend, path: str, *, is_read: bool) -> list[str]:
        matching = [route for route in self._routes if path.startswith(route)]
        route = matching[0]
        files = cast("RouteFiles", backend.routes[route])
        folder = route[:-1]
        key = path.removeprefix(folder)
        if not is_read:
            over = await files.aover(key)
            return [over.note()] if over.note() else []
        found = await files.anotes(key)
        notes = [found.over.note(), note_of_unconfirmed(found.unconfirmed)]
        return [note for note in notes if note]
