"""Any one operation of the store fails: what reports that it failed has changed nothing, and what changed something says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, GetOp, Op, Result

from memory import identity, journal, namespaces
from memory.journal import writing
from settings import Settings
from testing.dev_server import DevServer, dev_token
from testing.scripted_anthropic import Body, Reply, ScriptedAnthropic, Text, ToolCall
from tests.conftest import BuildGraph, model_env
from tests.faults.failing_store import FAULT, FailingStore

PATH = {"path": "/memories/a.md"}
MOST = 100  # operations of one change


# --- Over HTTP -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def http(shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    config = {"store": {"path": "./tests/faults/failing_store.py:store"}}
    server = DevServer(tmp_path_factory.mktemp("failing"), env=model_env(shared_model), config=config)
    anew = httpx.Limits(max_keepalive_connections=0)  # the server ends a connection after an error
    with server, httpx.Client(base_url=server.url, limits=anew, trust_env=False, timeout=60) as client:
        yield client


class Person:
    """Somebody's requests."""

    def __init__(self, http: httpx.Client, name: str) -> None:
        self.http, self.headers = http, {"Authorization": f"Bearer {dev_token('acme', name)}"}

    def ask(self, method: str, url: str, body: Any = None, **params: str) -> httpx.Response:
        return self.http.request(method, url, json=body, params=params, headers=self.headers)

    def write(self, text: str) -> httpx.Response:
        return self.ask("PUT", "/memory/file", {"content": text}, **PATH)

    def remembered(self) -> list[Any]:
        """What memory says, without times and revisions."""
        file = self.ask("GET", "/memory/file", **PATH)
        return [file.json().get("content"), self.ask("GET", "/memory/controls").json()]


EXPORT = {"version": 1, "files": [{"path": PATH["path"], "content": "imported\n"}]}
# What was there before, and the change.
CHANGES: dict[str, tuple[int, Callable[[Person], httpx.Response]]] = {
    "a new file": (0, lambda person: person.write("new")),
    "another text": (1, lambda person: person.write("new")),
    "the last of many": (24, lambda person: person.write("new")),
    "a deletion": (1, lambda person: person.ask("DELETE", "/memory/file", **PATH)),
    "an undo": (2, lambda person: person.ask("POST", "/memory/undo", {**PATH, "revision": 1})),
    "an import": (1, lambda person: person.ask("POST", "/memory/import", EXPORT, dry_run="false")),
    "a pause": (0, lambda person: person.ask("PUT", "/memory/controls", {"paused": True})),
}


def fail(http: httpx.Client, after: int) -> None:
    fault = {"namespace": list(FAULT), "key": "/", "value": {"after": after}}
    assert http.put("/store/items", json=fault, headers={"x-auth-scheme": "langsmith"}).status_code == 204


@pytest.mark.server
@pytest.mark.parametrize("name", CHANGES)
def test_a_request_that_failed_has_changed_nothing(http: httpx.Client, alice: str, name: str) -> None:
    """Whichever operation of the store fails, and whatever the request would have done."""
    before, change = CHANGES[name]
    wrong = list[str]()
    for after in range(MOST):
        person = Person(http, f"{after}.{alice}")
        for number in range(before):
            assert person.write(f"text {number}").status_code == 200
        there = person.remembered()
        fail(http, after)
        try:
            answer = change(person)
            is_done, said = answer.is_success, f"{answer.status_code} {answer.text[:200]}"
        except httpx.TransportError as error:  # a server error ends the connection
            is_done, said = False, repr(error)
        left = http.post("/store/items/search", json={"namespace_prefix": list(FAULT)}, headers={"x-auth-scheme": "langsmith"})
        if left.json()["items"]:
            fail(http, 10**9)
            assert is_done, said
            assert after > 1, "no operation failed"
            break
        if is_done != (person.remembered() != there):
            wrong.append(f"after {after}: {said}; {there} became {person.remembered()}")
    assert wrong == []


# --- By tools --------------------------------------------------------------------------------------------------------


class Failing(FailingStore):
    """The same around another store."""

    def __init__(self, inner: BaseStore) -> None:
        super().__init__()
        self._inner = inner

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        if self.left is not None:
            await super().abatch([GetOp(("any",), "any")])
        return await self._inner.abatch(ops)


CALLS = {
    "append_memory": ToolCall("append_memory", {"path": PATH["path"], "text": "- new"}),
    "write_file": ToolCall("write_file", {"file_path": PATH["path"], "content": "- new"}),
    "edit_file": ToolCall("edit_file", {"file_path": "/memories/old.md", "old_string": "old", "new_string": "new"}),
    "save_profile": ToolCall("save_profile", {"profile": {"name": "new"}}),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_tool_that_failed_has_written_nothing(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore, name: str
) -> None:
    """Whichever operation of the store fails after the model has called the tool: what was written is reported as written."""
    wrong = list[str]()
    for after in range(MOST):
        user, failing, agent = f"alice{after}", Failing(store), graph()
        files = namespaces.memories(identity.Actor(user, "acme"), "", Settings())
        await store.aput(files, "/old.md", {**create_file_data("old")})
        agent.graph.store = failing

        def call(_: Body, failing: Failing = failing, after: int = after) -> Reply:
            failing.left = after
            return [CALLS[name]]

        model.script(f"call {after}.", call, [Text("done")])
        with suppress(OSError):
            await agent.turn(f"call {after}.", user=user)
        has_failed, failing.left = failing.left is None, None
        state = await agent.graph.aget_state({"configurable": {"thread_id": "1"}})
        answers = [message.text for message in state.values["messages"] if message.type == "tool"]
        is_done = bool(answers) and not answers[0].startswith("Error")
        is_written = "new" in str([item.value for item in await store.asearch(files, limit=100)])
        if is_done != is_written:
            wrong.append(f"after {after}: {answers}, written: {is_written}")
        if not has_failed:
            assert is_done
            assert after > 1, "no operation failed"
            break
    assert wrong == []


# --- Making room -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["REVISIONS_KEPT", "MAX_STORED_BYTES", "MAX_DELETED_FILES"])
async def test_a_change_is_made_though_no_room_is_made_after_it(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    author, path = identity.Author("user", "alice"), "/a.md"
    monkeypatch.setattr(writing, "_TRIM_EVERY", 1)
    monkeypatch.setattr(writing, bound, 0)

    async def write(failing: Failing, files: namespaces.Namespace, content: str | None) -> None:
        file = FileData(content=content, encoding="utf-8") if content else None
        await journal.change(failing, files, path, lambda _: file, author)

    for content in ("new", None):
        for after in range(MOST):
            failing, files = Failing(store), ("memories", f"{content}{after}")
            for text in ("1", "2"):
                await write(failing, files, text * 20)
            failing.left = after
            try:
                await write(failing, files, content)
                is_done = True
            except OSError:
                is_done = False
            fired, failing.left = failing.left is None, None
            item = await store.aget(files, path)
            assert is_done == ((item.value["content"] if item else None) == content), after
            if not fired:
                break
        assert after > 3
