"""`langgraph dev` as `make dev` runs it: it ends if the server does not start, and says so if a
changed one does not.

python -m lasting_memory.dev.langgraph_dev dev --config ...
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn.supervisors.basereload import BaseReload

# `langgraph dev` waits for every answer before it ends, even for a model that hangs: here that is a
# second. It closes an idle connection after 5 s, and so does httpx: a request sent in that moment
# is lost. Here clients close first.
SERVING = {"timeout_graceful_shutdown": 1, "timeout_keep_alive": 75}


def main() -> None:
    """The command: `langgraph dev`, whose reloader is watched, and which ends and keeps connections as
    `SERVING` says.
    """
    # Here, because what serves imports this file, too, and shall log as it does without.
    import langgraph_api.cli  # type: ignore[import-untyped]  # noqa: PLC0415
    import langgraph_cli.cli  # noqa: PLC0415
    from uvicorn.supervisors.basereload import BaseReload  # noqa: PLC0415

    watch = _Watch()

    # A function, to which the class gives the reloader.
    def changes(self: BaseReload) -> list[Path] | None:
        return watch.changes(self)

    BaseReload.__next__ = changes  # type: ignore[method-assign]
    langgraph_api.cli.run_server = partial(langgraph_api.cli.run_server, **SERVING)
    langgraph_cli.cli.cli()


class _Watch:
    """Looks after the process that serves. The reloader itself waits for a changed file in silence,
    whatever became of that.
    """

    def __init__(self) -> None:
        # In the order of their starts; the last one serves, or has ended.
        self._servers = list[object]()
        self._reported_server: object = None  # the last one whose end was reported

    def changes(self, reloader: "BaseReload") -> list[Path] | None:
        """What has changed, for uvicorn's reloader. Ends it if its first server ended by an error."""
        server = reloader.process
        if server not in self._servers:
            self._servers.append(server)
        if server.exitcode and server is not self._reported_server:
            if len(self._servers) == 1:
                raise StopIteration
            self._reported_server = server
            print(  # noqa: T201
                "The server has ended; why is above. The next change of a file starts it again, Ctrl-C ends.",
                flush=True,
            )
        return reloader.should_restart()


if __name__ == "__main__":
    main()
