"""The version of the layout, and the step from each version to the next."""

import logging
from collections.abc import Awaitable, Callable, Mapping

from langgraph.store.base import BaseStore

from memory import namespaces
from memory.schema.steps import complete_run_records

logger = logging.getLogger(__name__)

Step = Callable[[BaseStore], Awaitable[int]]
# The step from each schema to the next. A step changes items one by one, and returns their number. It must be safe to interrupt
# and repeat, also by two servers at once while people use the store. A store of version 0.1 has schema 1, without a number.
STEPS: Mapping[int, Step] = {1: complete_run_records}
# The schema of this version.
SCHEMA = max(STEPS) + 1
_KEY = "schema"


class SchemaError(RuntimeError):
    """The store cannot be used by this version. One line, with the fix."""


async def migrate(store: BaseStore) -> int:
    """Bring the store to `SCHEMA`. Returns its old schema. Raises `SchemaError` if a later version wrote it."""
    item = await store.aget(namespaces.schema(), _KEY)
    had = int(item.value["version"]) if item else 1
    if had > SCHEMA:
        raise SchemaError(
            f"The store has schema {had}, and this version knows {SCHEMA}: deploy the later version again, or restore a dump."
        )
    for number in range(had, SCHEMA):
        changed = await STEPS[number](store)
        await store.aput(namespaces.schema(), _KEY, {"version": number + 1}, index=False)
        logger.warning("The store was brought from schema %d to %d: %d items changed.", number, number + 1, changed)
    return had
