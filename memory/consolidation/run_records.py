"""Records of runs: one a run for its person, and a log line for operators."""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from langgraph.store.base import BaseStore, PutOp, SearchItem
from pydantic import TypeAdapter, ValidationError

from memory import identity, namespaces
from settings import CONSOLIDATIONS_KEPT

logger = logging.getLogger(__name__)

# UTF-8 bytes of all records of a person, and characters of all diffs in one.
MAX_CONSOLIDATIONS_BYTES, MAX_RECORD_CHARS = 1_048_576, 200_000
_LOGGED = ("run_id", "conversations", "model_calls", "input_tokens", "output_tokens", "undone")


@dataclass
class Record:
    """One run's work, as `GET /memory/consolidations` shows it. Times are ISO in UTC; `files` are diffs by path.

    `status` is running, done, proposed (the person decides), undone (its changes were refused), failed, or interrupted (the
    run's process died, and a later run finished it). `reason` says why.
    """

    run_id: str
    started_at: str
    ended_at: str = ""
    status: str = "running"
    reason: str = ""
    conversations: int = 0
    messages: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    undone: int = 0
    dry_run: bool = False
    files: dict[str, str] = field(default_factory=dict)

    def count_call(self, answer: Iterable[object]) -> None:
        """Count a model call, whose answer has these messages."""
        self.model_calls += 1
        for message in answer:
            usage = getattr(message, "usage_metadata", None) or {}
            self.input_tokens += usage.get("input_tokens", 0)
            self.output_tokens += usage.get("output_tokens", 0)

    def ended(self, status: str, reason: str = "") -> "Record":
        return replace(self, status=status, reason=reason, ended_at=now(), undone=int(status == "undone"))


def now() -> str:
    return datetime.now(UTC).isoformat()


async def keep(store: BaseStore, actor: identity.Actor, done: Record) -> None:
    """Keep a record, and the newest others within `CONSOLIDATIONS_KEPT` and `MAX_CONSOLIDATIONS_BYTES`."""
    namespace = namespaces.run_records(actor)
    await store.aput(namespace, f"{done.started_at}-{done.run_id}", asdict(shortened(done)), index=False)
    kept = await _newest_first(store, actor)
    sizes = accumulate(len(json.dumps(item.value).encode()) for item in kept)
    numbered = enumerate(zip(kept, sizes, strict=True))
    old = [item.key for n, (item, size) in numbered if n and (n >= CONSOLIDATIONS_KEPT or size > MAX_CONSOLIDATIONS_BYTES)]
    await store.abatch([PutOp(namespace, key, None) for key in old])


def shortened(done: Record) -> Record:
    """A record whose diffs have at most `MAX_RECORD_CHARS` together; a line stands for each further one."""
    room, files = MAX_RECORD_CHARS, dict[str, str]()
    for path, text in done.files.items():
        files[path] = text if len(text) <= room else "(left out: too many changes in one run; /memory/history has them)"
        room -= len(files[path])
    return replace(done, files=files)


async def records(store: BaseStore, actor: identity.Actor) -> list[dict[str, Any]]:
    """A person's last records, newest first."""
    items = (await _newest_first(store, actor))[:CONSOLIDATIONS_KEPT]
    return [asdict(_read(item)) for item in items]


def _read(item: SearchItem) -> Record:
    try:
        return _RECORDS.validate_python(item.value)
    except ValidationError:
        return Record("", item.key, status="failed", reason="The record of this run is damaged.")


_RECORDS = TypeAdapter(Record)


async def _newest_first(store: BaseStore, actor: identity.Actor) -> list[SearchItem]:
    items = await store.asearch(namespaces.run_records(actor), limit=10 * CONSOLIDATIONS_KEPT)
    return sorted(items, key=lambda item: item.key, reverse=True)


def log(done: Record) -> None:
    """Log a run that had something to do."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(done.started_at)).total_seconds()
    status = "dry_run" if done.dry_run and done.status == "done" else done.status
    log_line({"status": status, "people": 1, **{name: getattr(done, name) for name in _LOGGED}, "seconds": round(seconds, 1)})


def log_line(told: dict[str, Any]) -> None:
    """Log `consolidation` and a JSON object, for log pipelines."""
    logger.info("consolidation %s", json.dumps(told))
