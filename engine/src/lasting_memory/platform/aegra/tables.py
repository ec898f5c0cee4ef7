"""Makes aegra's tables, those of checkpoints and store, and the assistants of the graphs, before
several processes begin at once: each would make them, and all but one would fail.

python -m lasting_memory.platform.aegra.tables
"""

import asyncio

from aegra_api.core.database import db_manager
from aegra_api.core.migrations import run_migrations_async
from aegra_api.services.langgraph_service import get_langgraph_service


async def make_tables() -> None:
    """Make what is not there yet in the database of this environment (`DATABASE_URL`)."""
    await run_migrations_async()
    await db_manager.initialize()
    await get_langgraph_service().initialize()
    await db_manager.close()


if __name__ == "__main__":
    asyncio.run(make_tables())
