"""Notes on lines that prompts leave out or show apart, in the results of `read_file` and
`write_file`.

Prompts leave out lines that are over: the day until which they hold has passed (`memory/ends.py`).
They show unconfirmed lines apart: those for which no person vouches (`unconfirmed.py`). A tool
shows, and replaces, a file as it is. So a note beside its result names such lines.
"""

import logging
from collections.abc import Mapping
from typing import cast

from lasting_memory.agent.backends import build_backend
from lasting_memory.agent.route_files import RouteFiles, StoreOverride
from lasting_memory.agent.tool_calls import ToolResult, text_result
from lasting_memory.agent.unconfirmed import note_of_unconfirmed
from lasting_memory.deployment import Deployment

logger = logging.getLogger(__name__)

_READ_TOOL = "read_file"
# It keeps lines that are over where the new text drops them (`LinesOver.kept_in`).
_WRITE_TOOL = "write_file"


class FileNotes:
    """Adds notes to the results of `read_file` and `write_file`.

    A note stands before a file's content, which is shown as it is: so `edit_file` finds its lines.
    `drafts` gives the store of a consolidation's draft; None in a conversation.
    """

    def __init__(self, d: Deployment, drafts: StoreOverride | None) -> None:
        self._routes = tuple(d.routes)
        self._backend = build_backend(d, drafts)

    async def added(self, name: str, args: Mapping[str, object], result: ToolResult) -> ToolResult:
        """The result of a tool's call, with a note on the file that the call named.

        The result as it is, if it is that of another tool or an error, the file has none of these
        lines or is in no folder of the store, or the store cannot say.
        """
        if name not in (_READ_TOOL, _WRITE_TOOL):
            return result
        path = args.get("file_path")
        if not isinstance(path, str) or not path.startswith(self._routes):
            return result
        message = text_result(result)
        if message is None:
            return result
        try:
            note = await self._note(name, path)
        except Exception as error:  # a store raises what its driver raises, and the file is read
            logger.warning("What is to be said of %s is not known: %r", path, error, exc_info=True)
            return result
        if not note:
            return result
        content = f"{note}\n{message.content}"
        return message.model_copy(update={"content": content})

    async def _note(self, name: str, path: str) -> str:
        """The note for a call of one of the two tools; "" if the file has no such lines.

        For a write it names only lines that are over.
        """
        files, key = self._files_at(path)
        if name == _WRITE_TOOL:
            lines_over = await files.alines_over(key)
            return lines_over.note()
        noted_lines = await files.anotes(key)
        notes = [
            noted_lines.lines_over.note(),
            note_of_unconfirmed(noted_lines.unconfirmed_entries),
        ]
        return "\n".join(note for note in notes if note)

    def _files_at(self, path: str) -> tuple[RouteFiles, str]:
        """The folder of the store in which a file is, and the file's key there."""
        matching_routes = [route for route in self._routes if path.startswith(route)]
        route = matching_routes[0]
        files = cast("RouteFiles", self._backend.routes[route])
        folder = route.removesuffix("/")
        key = path.removeprefix(folder)
        return files, key
