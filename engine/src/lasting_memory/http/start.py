"""What the app looks at when its server starts.

These are whether each agent is safe, and whether somebody has seeded the store.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from langgraph.store.base import BaseStore

from lasting_memory import platform
from lasting_memory.agent.checks import check_graph
from lasting_memory.deployment import Deployment
from lasting_memory.memory.seeded import SeedError, shared_seeds
from lasting_memory.settings import SettingsError

logger = logging.getLogger("start")


@asynccontextmanager
async def looking_around(app: FastAPI) -> AsyncIterator[None]:
    """The app's lifespan. The platform loads graphs and store before.

    Raises `SettingsError` for an agent that lacks a part which keeps it safe: the server does not
    start.
    """
    deployment: Deployment = app.state.deployment
    # It seeds after the start, and says what this would.
    by_make_dev = getattr(app.state, "by_make_dev", False)
    try:
        _check_agents(deployment)
    except SettingsError as error:
        # On `langgraph dev` the reloader would say nothing of it.
        if deployment.settings.local_dev and not by_make_dev:
            logger.error(  # noqa: TRY400
                "%s Nothing is served until a file changes, which starts the server again; Ctrl-C ends.",
                error,
            )
        raise
    has_store = platform.is_server() or app.state.store is not platform.store
    if has_store and not by_make_dev:
        await _log_first_steps(deployment, await app.state.store(), has_page=app.state.has_page)
    yield


def _check_agents(deployment: Deployment) -> None:
    """Raise `SettingsError` for an agent that lacks a part which keeps it safe."""
    for name in deployment.agents:
        graph = platform.loaded_graph(name)
        if not graph:
            continue
        try:
            check_graph(graph)
        except SettingsError as error:
            raise SettingsError(f"The graph {name!r} of langgraph.json: {error}") from None


async def _log_first_steps(deployment: Deployment, store: BaseStore, *, has_page: bool) -> None:
    """Log where the page is, on a development server, and how to seed what this folder has and the
    store has not.
    """
    settings = deployment.settings
    page = ""
    if has_page and settings.local_dev:
        page = f"The page is at {settings.served_at}/app."
    try:
        kinds = await platform.in_thread(shared_seeds, deployment)
    except SeedError as error:  # `python -m seeds` refuses it, too
        logger.warning("%s Nothing can be seeded before. %s", error, page)
        return
    lacks = list[str]()
    for kind in kinds:
        if not await store.alist_namespaces(prefix=(kind,), limit=1):
            lacks.append(f"no {kind}")
    if lacks:
        url = settings.served_at if settings.local_dev else "<the address of this deployment>"
        logger.warning(
            "Not seeded: this server has %s, though its folder does. `make seed URL=%s` puts them there. %s",
            " and ".join(lacks),
            url,
            page,
        )
    elif page:
        logger.info(page)
