"""The part of the platform's client that is used here, in memory: for tests of hours, or of 100,000
people.
"""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Self
from uuid import UUID

import httpx
from langgraph_sdk import schema
from langgraph_sdk.errors import NotFoundError

from lasting_memory.people.identity import Actor
from lasting_memory.testing.people import AGENT

Thread = dict[str, Any]
Run = dict[str, Any]
Before = Callable[[str, Mapping[str, Any]], Awaitable[None]]
After = Callable[[str], Awaitable[None]]


class Platform:
    """Conversations of any number of people, and runs. It is a client as `get_client()` gives one,
    which is everybody's.

    Time stands still unless `now` is set. `calls` counts requests by name ("threads.search"),
    `messages` those in results. With `as_json` results are parsed from JSON, as the real client's
    are. `before` is called with each request's name and arguments, and `after` with its name once
    it was carried out: they may raise, or change what there is.
    """

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.kept = dict[str, Thread]()
        self.calls = Counter[str]()
        self.messages = 0
        self.as_json = False
        self.before: Before | None = None
        self.after: After | None = None
        self.runs = Runs(self)
        self.http = self
        transport = httpx.MockTransport(self._searched)
        self.client = httpx.AsyncClient(base_url="http://platform", transport=transport)
        self._ids = itertools.count(1)
        self._order: list[str] | None = None  # ids, newest first

    @property
    def threads(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def next_id(self) -> str:
        """A new id; those given later are larger."""
        number = next(self._ids)
        return str(UUID(int=number))

    def put(
        self,
        actor: Actor,
        thread_id: str,
        updated_at: str,
        messages: Sequence[Mapping[str, Any]] = (),
        assistant: str = AGENT,
        **more: Any,
    ) -> Thread:
        """A conversation of the actor's with the assistant; `more` are further fields of the
        thread.
        """
        known = self.kept.get(thread_id, {})
        metadata = {
            "graph_id": "agent",
            "user_id": actor.user_id,
            "org_id": actor.org_id,
            "assistant_id": assistant,
        }
        thread = {
            "thread_id": thread_id,
            "created_at": known.get("created_at", updated_at),
            "updated_at": updated_at,
            "status": "idle",
            "metadata": metadata,
            "values": {"messages": list(messages)},
            **more,
        }
        self.kept[thread_id] = thread
        self._order = None
        return thread

    def talk(
        self, user: str, org: str = "acme", *, assistant: str = AGENT, thread_id: str | None = None
    ) -> Thread:
        """A conversation that changes now: a new one, or the one with this id."""
        actor = Actor(user, org)
        now = self.now.isoformat()
        if not thread_id:
            thread_id = self.next_id()
        return self.put(actor, thread_id, now, assistant=assistant)

    def remove(self, thread_id: str) -> None:
        """As if its owner had deleted it."""
        del self.kept[thread_id]
        self._order = None

    async def called(self, name: str, **options: Any) -> None:
        """To be called by each request before it is carried out."""
        self.calls[name] += 1
        if self.before:
            await self.before(name, options)

    async def search(
        self,
        *,
        metadata: Mapping[str, str] | None = None,
        ids: Sequence[str] | None = None,
        status: str | None = None,
        limit: int = 10,
        offset: int = 0,
        sort_by: str = "updated_at",
        sort_order: str = "desc",
        select: Sequence[str] = (),
    ) -> list[schema.Thread]:
        """The conversations that fit, as the platform's client gives them, which calls their dates
        `datetime` and has them as texts.
        """
        assert limit <= 1_000, "the platform refuses more"
        await self.called("threads.search", metadata=metadata, ids=ids, limit=limit, offset=offset)
        descending = sort_order == "desc"
        if ids is not None:
            candidates = self._with_ids(ids)
        elif sort_by == "updated_at" and descending:
            candidates = self._newest_first()
        else:
            candidates = self._sorted(sort_by, descending=descending)
        matching = _matching(candidates, metadata or {}, status)
        page = list(islice(matching, offset, offset + limit))
        if not select or "values" in select:
            for thread in page:
                messages = thread["values"]["messages"]
                self.messages += len(messages)
        results = list[Any]()
        for thread in page:
            fields = select or list(thread)
            results.append({field: thread[field] for field in fields})
        if self.after:
            await self.after("threads.search")
        if self.as_json:
            text = json.dumps(results)
            results = json.loads(text)
        return results

    def _with_ids(self, ids: Sequence[str]) -> Iterable[Thread]:
        return [self.kept[thread_id] for thread_id in ids if thread_id in self.kept]

    def _newest_first(self) -> Iterable[Thread]:
        """Lazily, so that the first page does not cost a scan, as in a database with an index."""
        if self._order is None:
            threads = self._sorted("updated_at", descending=True)
            self._order = [str(thread["thread_id"]) for thread in threads]
        return (self.kept[thread_id] for thread_id in self._order)

    def _sorted(self, field: str, *, descending: bool) -> Iterable[Thread]:
        """All conversations, sorted by a field."""
        threads = list(self.kept.values())
        threads.sort(key=lambda thread: str(thread[field]), reverse=descending)
        return threads

    async def count(self, *, metadata: Mapping[str, str]) -> int:
        """How many conversations have this metadata."""
        await self.called("threads.count", metadata=metadata)
        matching = _matching(self.kept.values(), metadata, None)
        return len(list(matching))

    async def get_state(self, thread_id: str) -> dict[str, Any]:
        """The values of a conversation."""
        await self.called("threads.get_state", thread_id=thread_id)
        if thread_id not in self.kept:
            raise _not_found()
        return {"values": self.kept[thread_id]["values"]}

    async def _searched(self, request: httpx.Request) -> httpx.Response:
        """The answer to a search over HTTP."""
        wanted = json.loads(request.content)
        found = await self.search(**wanted)
        return httpx.Response(200, json=found)

    async def delete(self, thread_id: str) -> None:
        """Delete a conversation."""
        await self.called("threads.delete", thread_id=thread_id)
        if thread_id not in self.kept:
            raise _not_found()
        self.remove(thread_id)

    async def prune(self, ids: Sequence[str]) -> dict[str, int]:
        """Delete those of these conversations that are there."""
        await self.called("threads.prune", ids=ids)
        there = [thread_id for thread_id in ids if thread_id in self.kept]
        for thread_id in there:
            self.remove(thread_id)
        return {"pruned_count": len(there)}


def _matching(
    threads: Iterable[Thread], metadata: Mapping[str, str], status: str | None
) -> Iterator[Thread]:
    """Those of these threads that have this metadata, and this status (None: any)."""
    for thread in threads:
        has_metadata = metadata.items() <= thread["metadata"].items()
        if has_metadata and status in (None, thread["status"]):
            yield thread


class Runs:
    """Its runs, by the thread they are of. One may begin when its `created_at` has come, as the
    platform counts it.
    """

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.kept = defaultdict[str, list[Run]](list)

    def all(self, status: str | None = None) -> list[Run]:
        """Runs of all threads in the order of their creation."""
        chosen = list[Run]()
        for runs in self.kept.values():
            chosen += _with_status(runs, status)
        return sorted(chosen, key=lambda run: str(run["run_id"]))

    def begin(self) -> list[Run]:
        """Let the runs begin whose time has come, one a thread."""
        now = self._platform.now.isoformat()
        begun = list[Run]()
        for runs in self.kept.values():
            if _with_status(runs, "running"):
                continue
            for run in _with_status(runs, "pending"):
                if run["created_at"] <= now:
                    run["status"] = "running"
                    begun.append(run)
                    break
        return begun

    async def list(
        self,
        thread_id: str,
        *,
        status: str | None = None,
        limit: int = 10,
        offset: int = 0,
        **_: Any,
    ) -> list[Run]:
        """The runs of a thread, newest first."""
        await self._platform.called("runs.list", thread_id=thread_id)
        has_runs = thread_id in self.kept
        if not has_runs and thread_id not in self._platform.kept:
            raise _not_found()
        runs = _with_status(self.kept[thread_id], status)
        runs.reverse()
        page = runs[offset : offset + limit]
        return [dict(run) for run in page]

    async def create(
        self,
        thread_id: str,
        assistant: str,
        *,
        multitask_strategy: str = "enqueue",
        after_seconds: float = 0,
        **options: Any,
    ) -> Run:
        """Make a run that waits, and its thread where it has none yet."""
        platform = self._platform
        request = {
            "assistant": assistant,
            "multitask_strategy": multitask_strategy,
            "after_seconds": after_seconds,
            **options,
        }
        await platform.called("runs.create", thread_id=thread_id, **request)
        if thread_id not in platform.kept:  # it takes the run's metadata
            context = options["context"]
            owner = Actor(context["user_id"], context["org_id"])
            now = platform.now.isoformat()
            thread = platform.put(owner, thread_id, now)
            metadata = thread["metadata"]
            metadata.update(options["metadata"])
            metadata["graph_id"] = assistant
        runs = self.kept[thread_id]
        if multitask_strategy == "rollback":
            _roll_back(runs)
        begins = platform.now + timedelta(seconds=after_seconds)
        run = {
            "run_id": platform.next_id(),
            "thread_id": thread_id,
            "status": "pending",
            "created_at": begins.isoformat(),
            **request,
        }
        runs.append(run)
        return dict(run)


def _with_status(runs: Sequence[Run], status: str | None) -> list[Run]:
    """Those of these runs that have this status (None: any)."""
    return [run for run in runs if status in (None, run["status"])]


def _roll_back(runs: list[Run]) -> None:
    """Takes out the runs that wait, and cancels the one that runs."""
    remaining = list[Run]()
    for run in runs:
        status = run["status"]
        if status == "running":
            cancelled = {**run, "status": "error"}
            remaining.append(cancelled)
        elif status != "pending":
            remaining.append(run)
    runs[:] = remaining


def _not_found() -> NotFoundError:
    """The error of the platform's client for what is not there."""
    request = httpx.Request("GET", "http://platform")
    response = httpx.Response(404, request=request)
    return NotFoundError("not found", response=response, body=None)
