"""Records of runs: one a run for its person; for operators a log line a run, and counts that name nobody."""

import json
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from langgraph.store.base import BaseStore, Item, PutOp, SearchItem
from pydantic import TypeAdapter, ValidationError

from memory import identity, namespaces
from memory.usage import count, counted
from settings import CONSOLIDATIONS_KEPT

logger = logging.getLogger(__name__)

# UTF-8 bytes of all records of a person, and characters of all diffs in one.
MAX_CONSOLIDATIONS_BYTES, MAX_RECORD_CHARS = 1_048_576, 200_000
_DAY = timedelta(hours=24)
_COUNTED = ("model_calls", "input_tokens", "output_tokens", "undone")


def _hour(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H}"


@dataclass
class Record:
    """One run's work, as `GET /memory/consolidations` shows it. Times are ISO in UTC; `files` are diffs by path.

    `status` is running, done, proposed (the person decides), undone (a batch was refused), failed, or interrupted (a later run
    began first). `reason` says why; `undone` counts refused batches.
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

    @property
    def key(self) -> str:
        """Key in the store: records sort by their start."""
        return f"{self.started_at}-{self.run_id}"

    def count_call(self, answer: Iterable[object]) -> None:
        """Count a model call, whose answer has these messages."""
        self.model_calls += 1
        for message in answer:
            usage = getattr(message, "usage_metadata", None) or {}
            self.input_tokens += usage.get("input_tokens", 0)
            self.output_tokens += usage.get("output_tokens", 0)


async def kept_record(store: BaseStore, actor: identity.Actor, of: Record) -> Record:
    """A run's last kept record, if it is further than `of`; otherwise `of`."""
    item = await store.aget(namespaces.run_records(actor), of.key)
    kept = (_read(item) if item else None) or of
    return kept if kept.conversations >= of.conversations else of


async def record(store: BaseStore, actor: identity.Actor, done: Record) -> None:
    """Keep a record, and the newest others within `CONSOLIDATIONS_KEPT` and `MAX_CONSOLIDATIONS_BYTES`."""
    namespace = namespaces.run_records(actor)
    await store.aput(namespace, done.key, asdict(shortened(done)), index=False)
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
    shown = list[dict[str, Any]]()
    for item in (await _newest_first(store, actor))[:CONSOLIDATIONS_KEPT]:
        kept = _read(item) or Record("", item.key, status="failed", reason="The record of this run is damaged.")
        # A run that had not ended when a later one began is taken for dead, until it says more.
        dead = shown and kept.status == "running"
        ended = {"status": "interrupted", "ended_at": shown[-1]["started_at"]} if dead else {}
        shown.append({**asdict(kept), **ended})
    return shown


def _read(item: Item) -> Record | None:
    """A kept record; None for a damaged value."""
    try:
        return _RECORDS.validate_python(item.value)
    except ValidationError:
        return None


_RECORDS = TypeAdapter(Record)


async def _newest_first(store: BaseStore, actor: identity.Actor) -> list[SearchItem]:
    items = await store.asearch(namespaces.run_records(actor), limit=10 * CONSOLIDATIONS_KEPT)
    return sorted(items, key=lambda item: item.key, reverse=True)


async def tell(store: BaseStore, report: Record) -> None:
    """Log a run that had something to do, and count it unless it was dry. A failure is logged."""
    now = datetime.now(UTC)
    seconds = (now - datetime.fromisoformat(report.started_at)).total_seconds()
    status = "dry_run" if report.dry_run and report.status == "done" else report.status
    told = {name: getattr(report, name) for name in ("run_id", "conversations", *_COUNTED)}
    log_line({"status": status, "people": 1, **told, "seconds": round(seconds, 1)})
    if report.dry_run:  # it changes nothing
        return
    try:
        added = {f"runs_{status}": 1, **{name: told[name] for name in _COUNTED}}
        await count(store, namespaces.operations(), _hour(now), added, keep=_hour(now - _DAY))
    except Exception as error:  # whatever it is, memory is consolidated
        logger.warning("A consolidation was not counted: %r.", error, exc_info=True)


def log_line(told: dict[str, Any]) -> None:
    """Log `consolidation` and a JSON object, for log pipelines."""
    logger.info("consolidation %s", json.dumps(told))


async def last_day(store: BaseStore) -> tuple[dict[str, int], Counter[str]]:
    """Runs by status and their costs, since the beginning of the hour 24 hours ago."""
    counts = await counted(store, namespaces.operations(), _hour(datetime.now(UTC) - _DAY))
    runs = {name.removeprefix("runs_"): number for name, number in sorted(counts.items()) if name.startswith("runs_")}
    return runs, Counter({name: counts[name] for name in _COUNTED})
