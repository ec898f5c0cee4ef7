"""Writes that bypass the journal: what is put for a person beside their files.

They are refused as those of the journal (`writers.py`), and taken back where the person is forgotten
while they are put.
"""

import asyncio
import json
import logging
from collections.abc import Sequence

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from lasting_memory.memory.journal.writers import ERASED, Writer, is_erased, read_deleted
from lasting_memory.memory.stored_files import deletions
from lasting_memory.memory.validation import RefusedWrite

# Items of one batch.
_PUT_AT_ONCE = 200
_FORGOTTEN_MEANWHILE = "What is remembered of this person was deleted meanwhile."
logger = logging.getLogger(__name__)


async def put_unless_forgotten(
    store: BaseStore,
    ops: Sequence[PutOp],
    writer: Writer | None,
    *,
    quotes_facts: bool = False,
    is_checked: bool = False,
) -> bool:
    """Carry out puts and deletions for a person, unless they were forgotten since the `writer` began.
    Returns whether it did.

    With `quotes_facts` also unless a fact of theirs was deleted for good since then: the values may
    have its words. With `is_checked` the caller has looked at this moment (`read_deleted`).

    For writes that bypass the journal. A put may take seconds, because it embeds first. So this
    looks again afterwards, and takes back what was put. A forgetting that begins after that finds
    the items and deletes them itself.
    """
    if not is_checked:
        since = await read_deleted(store, writer)
        if since.refuses(quotes_facts=quotes_facts):
            return False
    for start in range(0, len(ops), _PUT_AT_ONCE):
        end = start + _PUT_AT_ONCE
        batch = ops[start:end]
        try:
            await store.abatch(batch)
        finally:  # an error, or a cancellation, does not say what was put
            second_look = _delete_if_refused(store, batch, writer, quotes_facts=quotes_facts)
            is_refused = await asyncio.shield(second_look)
        if is_refused:
            return False
    return True


async def put_or_refuse(store: BaseStore, ops: Sequence[PutOp], writer: Writer | None) -> None:
    """Carry out puts that may quote facts of a person, as `put_unless_forgotten`. Raises
    `RefusedWrite` where it does not.
    """
    if await put_unless_forgotten(store, ops, writer, quotes_facts=True):
        return
    is_fact_erased = await is_erased(store, writer)
    raise RefusedWrite(ERASED if is_fact_erased else _FORGOTTEN_MEANWHILE)


async def _delete_if_refused(
    store: BaseStore, ops: Sequence[PutOp], writer: Writer | None, *, quotes_facts: bool
) -> bool:
    """Delete the items that these operations put, if they are refused by now. Returns whether they
    are; False where the store does not say: the put itself succeeded, and a failure of this look
    must not be reported as a failed put.

    The person may have come back: only values equal to ours are deleted. If a later run put an
    equal one, it is lost too, and is derived again when it is missed.
    """
    try:
        since = await read_deleted(store, writer)
    except Exception:
        logger.warning(
            "The store failed after a put; whether its person was forgotten meanwhile is not known.",
            exc_info=True,
        )
        return False
    if not since.refuses(quotes_facts=quotes_facts):
        return False
    try:
        await _delete_equal(store, ops)
    except Exception:
        logger.warning(
            "The store failed to delete what was put while its person was forgotten; forget them "
            "once more.",
            exc_info=True,
        )
    return True


async def _delete_equal(store: BaseStore, ops: Sequence[PutOp]) -> None:
    """Delete the items whose values are those of these puts."""
    puts = [op for op in ops if op.value is not None]
    gets = [GetOp(op.namespace, op.key) for op in puts]
    items = await store.abatch(gets)
    put_by_us = list[Item]()
    for op, item in zip(puts, items, strict=True):
        if not isinstance(item, Item):
            continue
        if _as_json(item.value) == _as_json(op.value):
            put_by_us.append(item)
    await store.abatch(deletions(put_by_us))


def _as_json(value: object) -> str:
    """A value as JSON, as a store may have changed it: its tuples are lists."""
    return json.dumps(value, sort_keys=True, default=str)
