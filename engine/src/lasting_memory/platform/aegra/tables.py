"""Makes aegra's tables, and those of checkpoints and store, before several processes begin at once.

python -m lasting_memory.platform.aegra.tables
"""

import asyncio

from aegra_api.core.database import db_manager
from aegra_api.core.migrations import run_migrations_async


async def make_tables() -> None:
    """Make what is not there yet in the database of this environment (`DATABASE_URL`)."""
    await run_migrations_async()
    await db_manager.initialize()
    await db_manager.close()


if __name__ == "__main__":
    asyncio.run(make_tables())
