"""What `platform` asks of this server: its client, its store, its checkpointer and its graphs."""

import aegra_api.services.langgraph_service
from aegra_api.core.database import db_manager
from fastapi import FastAPI
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient

from lasting_memory.platform import Graph
from lasting_memory.platform.aegra.client import in_process_client

# The app that this process serves; `install.install` puts it here.
_apps: list[FastAPI] = []


def set_app(app: FastAPI) -> None:
    """Have `client` call this app."""
    _apps[:] = [app]


def client() -> LangGraphClient:
    """The in-process client."""
    return in_process_client(_apps[0])


def store() -> BaseStore:
    """The runs' store."""
    runs_store: BaseStore = db_manager.get_store()
    return runs_store


def checkpointer() -> BaseCheckpointSaver[str]:
    """The runs' checkpointer."""
    runs_checkpointer: BaseCheckpointSaver[str] = db_manager.get_checkpointer()
    return runs_checkpointer


def loaded_graph(graph_id: str) -> "Graph | None":
    """A graph that this server has loaded; None for one that is made anew for each run."""
    service = aegra_api.services.langgraph_service.get_langgraph_service()
    graph = service._base_graph_cache.get(graph_id)  # noqa: SLF001
    if not isinstance(graph, Pregel):
        return None
    return graph
