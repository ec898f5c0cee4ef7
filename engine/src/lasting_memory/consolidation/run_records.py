"""Records of runs: one a run for its person, and a log line for operators."""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import BaseStore, Item, PutOp

from lasting_memory import journal
from lasting_memory.limits import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.people import identity, namespaces

logger = logging.getLogger(__name__)

_LOGGED = ("run_id", "conversations", "model_calls", "input_tokens", "output_tokens", "undone")


@dataclass
class Record:
    """One run's work, as `GET /memory/consolidations` shows it. Times are ISO in UTC; `files` are diffs by path.

    `status` is running, done, proposed (the person decides), undone (its changes were refused) or failed; `reason` says why.
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
    kind: str = "conversations"  # or "tidy", "bring"
    files: dict[str, str] = field(default_factory=dict)

    def count_call(self, answer: Iterable[object]) -> None:
        """Count a model call, whose answer has these messages."""
        self.model_calls += 1
        for message in answer:
            usage = getattr(message, "usage_metadata", None) or {}
            self.input_tokens += usage.get("input_tokens", 0)
            self.output_tokens += usage.get("output_tokens", 0)

    def ended(self, status: str, reason: str = "", **more: Any) -> "Record":
        return replace(self, status=status, reason=reason, ended_at=now(), undone=int(status == "undone"), **more)

    def log(self) -> None:
        """Log `consolidation` and a JSON object, for log pipelines."""
        seconds = (datetime.now(UTC) - datetime.fromisoformat(self.started_at)).total_seconds()
        status = "dry_run" if self.dry_run and self.status == "done" else self.status
        told = {"status": status, "people": 1, **{name: getattr(self, name) for name in _LOGGED}, "seconds": round(seconds, 1)}
        logger.info("consolidation %s", json.dumps(told))


def now() -> str:
    return datetime.now(UTC).isoformat()


async def keep(store: BaseStore, actor: identity.Actor, record: Record, rules: Consolidation) -> None:
    """Keep a record, and the newest of all."""
    namespace = namespaces.run_records(actor)
    await store.aput(namespace, f"{record.started_at}-{record.run_id}", asdict(record), index=False)
    old = (await _newest_first(store, actor))[rules.records_kept :]
    await store.abatch([PutOp(namespace, item.key, None) for item in old])


async def records(
    store: BaseStore, actor: identity.Actor, rules: Consolidation = DEFAULT_CONSOLIDATION
) -> list[dict[str, Any]]:
    """A person's last records, newest first."""
    newest = (await _newest_first(store, actor))[: rules.records_kept]
    return [{**asdict(Record("", "")), **item.value} for item in newest]


async def _newest_first(store: BaseStore, actor: identity.Actor) -> list[Item]:
    return (await journal.all_items(store, namespaces.run_records(actor)))[::-1]
