"""What the development server is told in place of a deployment's langgraph.json."""

from collections.abc import Mapping

from lasting_memory import settings

APP = "lasting_memory.dev.app:app"
# What `make dev-postgres` adds to langgraph.json. It can be taken off, so nothing here imports it.
_POSTGRES_STORE = settings.ENGINE / "postgres" / "store.py"
ON_POSTGRES = {name: {"path": f"{_POSTGRES_STORE}:{name}"} for name in ("store", "checkpointer")}


def configuration(project_config: Mapping[str, object], *, postgres: bool) -> dict[str, object]:
    """The server's configuration, given langgraph.json's: the same, with the app and the database
    of development.

    Raises `SettingsError` for a block that is no object.
    """
    development_blocks = {"http": {"app": APP}}
    if postgres:
        development_blocks |= ON_POSTGRES
    config = dict(project_config)
    for name, block in development_blocks.items():
        deployed_block = settings.block_of(project_config, name)
        config[name] = {**deployed_block, **block}
    # If the server read `.env` itself, an empty line there would hide a variable of the process.
    config["env"] = {}
    return config
