"""The part of the platform's client that the triggers use, without a server: for tests of hours, or of 100,000 people."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import httpx
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

AGENT = "fe096781-5601-53d2-b2f6-0d3403f7e9ca"


class FakePlatform:
    """Conversations, and a queue in which a run may begin when its `created_at` has come, as the platform counts it.

    Time stands still unless `now` is set. `calls` counts the requests by name.
    """

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.threads: list[dict[str, Any]] = []
        self.runs: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.failing: set[str] = set()  # people for whom no run can be created
        self.foreign: set[str] = set()  # threads that are somebody else's
        self.away = False  # whether no list can be read
        self.calls = Counter[str]()
        self._ids = itertools.count(1)
        self._sorted = False
        self._by_id: dict[str, dict[str, Any]] = {}

    @property
    def client(self) -> LangGraphClient:
        """The client, in place of `get_client()`'s."""
        runs = SimpleNamespace(list=self._list, create=self._create, cancel=self._cancel)
        return cast("LangGraphClient", SimpleNamespace(runs=runs, threads=SimpleNamespace(search=self._search)))

    def clock(self) -> datetime:
        """The time, as the triggers are given it."""
        return self.now

    def talk(self, user: str, org: str = "acme", *, assistant: str = AGENT, thread_id: str | None = None) -> dict[str, Any]:
        """A conversation that changes now."""
        thread = self._by_id.get(thread_id or "")
        if thread is None:
            metadata = {"graph_id": "agent", "user_id": user, "org_id": org, "assistant_id": assistant}
            thread = {"thread_id": thread_id or str(UUID(int=next(self._ids))), "metadata": metadata}
            self.threads.append(thread)
            self._by_id[thread["thread_id"]] = thread
        thread["updated_at"] = self.now.isoformat()
        self._sorted = False
        return thread

    def delete(self, thread: dict[str, Any]) -> None:
        self.threads.remove(thread)
        del self._by_id[thread["thread_id"]]

    def all_runs(self, status: str | None = None) -> list[dict[str, Any]]:
        """Runs of all threads in the order of their creation."""
        chosen = [run for runs in self.runs.values() for run in runs if status in (None, run["status"])]
        return sorted(chosen, key=lambda run: int(run["run_id"]))

    def begin(self) -> list[dict[str, Any]]:
        """Let the runs begin whose time has come, one a thread."""
        begun = []
        for runs in self.runs.values():
            due = [run for run in runs if run["status"] == "pending" and run["created_at"] <= self.now.isoformat()]
            if due and not any(run["status"] == "running" for run in runs):
                due[0]["status"] = "running"
                begun.append(due[0])
        return begun

    async def _search(
        self, *, metadata: dict[str, str], limit: int, ids: Sequence[str] | None = None, offset: int = 0, **_: Any
    ) -> list[dict[str, Any]]:
        if self.away:
            raise httpx.ConnectError("gone")
        self.calls["threads.search"] += 1
        assert limit <= 1_000, "the platform refuses more"
        assert metadata == {"graph_id": "agent"}
        if ids is not None:
            return [dict(self._by_id[thread_id]) for thread_id in ids if thread_id in self._by_id][offset : offset + limit]
        if not self._sorted:
            self.threads.sort(key=lambda thread: str(thread["updated_at"]), reverse=True)
            self._sorted = True
        return [dict(thread) for thread in self.threads[offset : offset + limit]]

    async def _list(self, thread_id: str, *, status: str, limit: int, select: Sequence[str]) -> list[dict[str, Any]]:
        self.calls["runs.list"] += 1
        if thread_id not in self.runs or thread_id in self.foreign:
            raise _not_found()
        return [dict(run) for run in self.runs[thread_id] if run["status"] == status][:limit]

    async def _create(self, thread_id: str, assistant: str, **options: Any) -> dict[str, Any]:
        self.calls["runs.create"] += 1
        assert (assistant, options["if_not_exists"]) == ("consolidation_agent", "create")
        assert options["multitask_strategy"] == "enqueue", "every other one cancels or refuses"
        if thread_id in self.foreign:
            raise _not_found()
        if options["context"]["user_id"] in self.failing:
            raise httpx.ConnectError("the queue is full")
        begins = self.now + timedelta(seconds=options["after_seconds"])
        run = {"run_id": str(next(self._ids)), "thread_id": thread_id, "status": "pending", "created_at": begins.isoformat()}
        self.runs[thread_id].append({**run, "metadata": options["metadata"], "context": options["context"]})
        return run

    async def _cancel(self, thread_id: str, run_id: str, *, action: str) -> None:
        self.calls["runs.cancel"] += 1
        run = next((run for run in self.runs[thread_id] if run["run_id"] == run_id), None)
        if run is None:
            raise _not_found()
        assert (run["status"], action) == ("pending", "rollback"), "what a running one has written would stay"
        self.runs[thread_id].remove(run)


def _not_found() -> NotFoundError:
    response = httpx.Response(404, request=httpx.Request("GET", "http://platform"))
    return NotFoundError("not found", response=response, body=None)
