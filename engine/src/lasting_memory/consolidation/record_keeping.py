"""Keeps the record of a run (`record.py`) with how far its conversations are read, also where the run
fails.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from types import MappingProxyType

from langgraph.store.base import Item, PutOp, Result, SearchOp

from lasting_memory import platform
from lasting_memory.consolidation.brought import Part
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.no_batch import NothingToDoError
from lasting_memory.consolidation.positions import Position, position_ops
from lasting_memory.consolidation.record import Record, note, record_in
from lasting_memory.memory import journal
from lasting_memory.people import namespaces

logger = logging.getLogger(__name__)

# Records that are read to delete those beyond `records_kept`.
_RECORDS_READ = 1_000


async def keep_record(
    draft: Draft,
    record: Record,
    positions: Mapping[str, Position] = MappingProxyType({}),
    *,
    quotes_facts: bool = True,
) -> None:
    """Log a record of the run, and keep it with its positions.

    Nothing is kept of a dry run, nor of who was forgotten meanwhile; nor, where the record
    `quotes_facts`, if a fact was deleted for good since the run began.
    """
    record.log()
    if draft.reading:
        # Nothing is kept of a text but what is proposed.
        record_without_notes = replace(record, notes=[])
        record = await _with_earlier_record(draft, record_without_notes, draft.reading.part)
    if record.dry_run:
        return
    memory = draft.memory
    place = namespaces.run_records(memory.actor)
    search = SearchOp(place, limit=_RECORDS_READ)
    deletions, (stored_records,) = await draft.since_it_began_and([search])
    if deletions.everything or deletions.conversation:
        return
    if quotes_facts and deletions.fact:
        return
    key = f"{record.started_at}-{record.run_id}"
    ops = [
        *draft.reading_ops,
        *position_ops(memory.actor, positions),
        PutOp(place, key, asdict(record), index=False),
    ]
    old_keys = _too_old(draft, stored_records, key)
    ops += [PutOp(place, old_key, None) for old_key in old_keys]
    await journal.put_unless_forgotten(
        memory.store, ops, memory.writer, quotes_facts=quotes_facts, is_checked=True
    )


def _too_old(draft: Draft, records: Result, new_key: str) -> list[str]:
    """The keys of the stored records for which the new one leaves no room. `records` is what a
    search has found.
    """
    if not isinstance(records, list):
        return []
    other_keys = list[str]()
    for item in records:
        if isinstance(item, Item) and item.key != new_key:
            other_keys.append(item.key)
    other_keys.sort()  # a key begins with a time
    number = len(other_keys) + 1
    number_too_many = max(0, number - draft.rules.records_kept)
    return other_keys[:number_too_many]


async def _with_earlier_record(draft: Draft, record: Record, part: Part) -> Record:
    """The one record of all runs that have read parts of a text up to now; this one is of the
    last.
    """
    record = replace(record, run_id=part.text_id, started_at=part.began)
    place = namespaces.run_records(draft.memory.actor)
    key = f"{part.began}-{part.text_id}"
    item = await draft.memory.store.aget(place, key)
    if item is None:
        return record
    earlier_record = record_in(item)
    status = record.status
    if earlier_record["status"] == "proposed":
        status = "proposed"
    return replace(
        record,
        status=status,
        files={**earlier_record["files"], **record.files},
        model_calls=earlier_record["model_calls"] + record.model_calls,
        input_tokens=earlier_record["input_tokens"] + record.input_tokens,
        output_tokens=earlier_record["output_tokens"] + record.output_tokens,
        found=earlier_record["found"] + record.found,
        proposed=earlier_record["proposed"] + record.proposed,
    )


@asynccontextmanager
async def failure_recorded(draft: Draft) -> AsyncIterator[None]:
    """If an error or a cancellation ends the run within, this keeps a record that it failed. The
    error is raised in any case.
    """
    try:
        yield
    except NothingToDoError:
        raise
    except BaseException as error:
        await platform.to_the_end(_record_failure(draft, error))
        raise


async def _record_failure(draft: Draft, error: BaseException) -> None:
    """Keep a record of a run that failed. Logs an error instead of raising it."""
    reason = _why_failed(error)
    failed_record = draft.record.ended("failed", reason, notes=[note("failed")])
    try:
        await keep_record(draft, failed_record)
    # A store raises what its driver raises. The run's own error counts.
    except Exception as failure:
        logger.warning(
            "The record of consolidation %s could not be kept: %r.",
            failed_record.run_id,
            failure,
            exc_info=True,
        )


def _why_failed(error: BaseException) -> str:
    """Why a run ended, in a sentence for people.

    The message of an error that is not this library's may be of no use to them.
    """
    if not isinstance(error, Exception):
        return "It was cancelled."
    error_type = type(error)
    package_of_error, *_ = error_type.__module__.split(".")
    this_package, *_ = __name__.split(".")
    is_ours = package_of_error == this_package
    message = str(error)
    if is_ours and message:
        return message
    return f"The run failed: {error_type.__name__}; see the server's log."
