"""What the results of `read_file` and `write_file` say of lines that are over, which prompts leave
out.
"""

import logging
from collections.abc import Mapping
from typing import Any, cast

from deepagents.backends import CompositeBackend

from lasting_memory.agent.backends import Over, RouteFiles, StoreOverride, build_backend
from lasting_memory.agent.tool_calls import text_result
from lasting_memory.deployment import Deployment

logger = logging.getLogger(__name__)

# The tools after whose calls a model is told.
_NOTED = ("read_file", "write_file")


class OverNotes:
    """Adds to the result of `read_file` and `write_file` which of the file's lines are over.

    The note stands before a file's content, which is shown as it is: so `edit_file` finds its
    lines. `drafts` gives the store of a consolidation's draft.
    """

    def __init__(self, d: Deployment, drafts: StoreOverride | None) -> None:
        self._routes = tuple(d.routes)
        self._backend = build_backend(d, drafts) if d.ends else None

    async def added(self, name: str, args: Mapping[str, Any], result: object) -> object:
        """The result of a tool's call, with a note if the file has lines that are over."""
        backend = self._backend
        if name not in _NOTED or backend is None:
            return result
        path = args.get("file_path")
        if not isinstance(path, str) or not path.startswith(self._routes):
            return result
        message = text_result(result)
        if message is None:
            return result
        try:
            over = await self._over(backend, path)
        except Exception as error:  # a store raises what its driver raises, and the file is read
            logger.warning(
                "Which lines of %s are over is not known: %r", path, error, exc_info=True
            )
            return result
        note = over.note()
        if not note:
            return result
        return message.model_copy(update={"content": f"{note}\n{message.content}"})

    async def _over(self, backend: CompositeBackend, path: str) -> Over:
        matching = [route for route in self._routes if path.startswith(route)]
        route = matching[0]
        files = cast("RouteFiles", backend.routes[route])
        folder = route[:-1]
        key = path.removeprefix(folder)
        return await files.aover(key)
