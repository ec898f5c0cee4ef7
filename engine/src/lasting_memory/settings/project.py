"""What langgraph.json says, and what the platform hands to its server of it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from lasting_memory.settings.errors import SettingsError

# The folder of this package.
ENGINE = Path(__file__).parent.parent
# The graph that turns conversations into memory. Every other graph is an agent that people talk to.
CONSOLIDATION_GRAPH = "consolidation_agent"
_HTTP = '{"app": "./http_api.py:app", "enable_custom_route_auth": true}'
_GRAPHS = '{"agent": "./agent.py:agent"}'
_BLOCKS = {
    "http": _HTTP,
    "store": '{"index": {"embed": "openai:text-embedding-3-small", "dims": 1536}}',
    "checkpointer": '{"ttl": {"strategy": "delete", "default_ttl": 43200}}',
}


def json_of(text: str, where: str) -> object:
    """The value of a JSON text. Raises `SettingsError`, which names where it stands."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{error.msg} in line {error.lineno}, column {error.colno}"
        raise SettingsError(f"{where} is no JSON ({place}); correct it there.") from None
    except RecursionError:
        raise SettingsError(f"{where} is nested too deeply; write it flatter.") from None


def object_of(value: object, where: str, example: str) -> dict[str, object]:
    """A JSON object; an empty one for null. Raises `SettingsError` for anything else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingsError(f"{where} is {value!r:.80}; use an object, e.g. {example}.")
    return value


def http_of(variable: str | None) -> dict[str, object]:
    """The `http` block that the platform hands to its server in LANGGRAPH_HTTP."""
    block = None
    if variable:
        block = json_of(variable, "LANGGRAPH_HTTP")
    return object_of(block, "LANGGRAPH_HTTP", _HTTP)


def project_config(folder: Path) -> dict[str, object]:
    """What langgraph.json of a folder says.

    Raises `SettingsError` if it is not there, or no JSON object.
    """
    path = folder / "langgraph.json"
    try:
        text = path.read_text("utf-8")
    except OSError:
        raise SettingsError(
            f"{path.absolute()} is not there; run this in the project's folder."
        ) from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
    config = json_of(text, str(path))
    if not isinstance(config, dict):
        raise SettingsError(
            f'{path} is {config!r:.80}; use an object, e.g. {{"graphs": {_GRAPHS}}}.'
        )
    return config


def registered_graphs(folder: Path) -> tuple[str, ...]:
    """Ids of all graphs that the server has; without a server, those that langgraph.json names.

    Raises as `project_config`.
    """
    variable = os.environ.get("LANGSERVE_GRAPHS")
    if variable:
        where = "LANGSERVE_GRAPHS"
        graphs = json_of(variable, where)
    else:
        path = folder / "langgraph.json"
        where = f"{path}: graphs"
        config = project_config(folder)
        graphs = config.get("graphs")
    return tuple(object_of(graphs, where, _GRAPHS))


def served_http(folder: Path) -> dict[str, object]:
    """The `http` block with which the server runs; without a server, that of langgraph.json.

    An empty one if there is none. Raises as `project_config`.
    """
    variable = os.environ.get("LANGGRAPH_HTTP")
    if variable:
        return http_of(variable)
    return project_http(folder)


def project_http(folder: Path) -> dict[str, object]:
    """The `http` block of langgraph.json; an empty one if it has none. Raises as `project_config`."""
    config = project_config(folder)
    return block_of(config, "http", folder)


def block_of(config: Mapping[str, object], name: str, folder: Path = Path()) -> dict[str, object]:
    """A block of a folder's langgraph.json; an empty one if it has none.

    Raises `SettingsError` for what is no object.
    """
    path = folder / "langgraph.json"
    block = config.get(name)
    example = _BLOCKS[name]
    return object_of(block, f"{path}: {name}", example)
