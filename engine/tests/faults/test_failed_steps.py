"""Any one operation of the store fails: what reports that it failed has changed nothing, and what changed something says so."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.people import identity
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import FILE, OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import Body, Reply, ScriptedAnthropic, Text, ToolCall
from lasting_memory.testing.stores import WrappedStore
from tests.conftest import BuildGraph
from tests.faults.failing_store import FAULT

MOST = 100  # operations of one change


# --- Over HTTP -------------------------------------------------------------------------------------------------------


EXPORT = {"version": 1, "files": [{"path": FILE, "content": "imported\n"}]}
# What was there before, and the change.
CHANGES: dict[str, tuple[int, Callable[[Person], Awaitable[httpx.Response]]]] = {
    "a new file": (0, lambda person: person.write("new")),
    "another text": (1, lambda person: person.write("new")),
    "the last of many": (24, lambda person: person.write("new")),
    "a deletion": (1, lambda person: person.ask("DELETE", "/memory/file", path=FILE)),
    "an undo": (2, lambda person: person.ask("POST", "/memory/undo", {"path": FILE, "revision": 1})),
    "an import": (1, lambda person: person.ask("POST", "/memory/import", EXPORT)),
    "a pause": (0, lambda person: person.ask("PUT", "/memory/controls", {"paused": True})),
}


async def remembered(person: Person) -> list[Any]:
    """What memory says, without times and revisions."""
    return [await person.read(), await person.made("GET", "/memory/controls")]


@pytest.mark.server
@pytest.mark.parametrize("name", CHANGES)
async def test_a_request_that_failed_has_changed_nothing(faulty: DevServer, alice: str, name: str) -> None:
    """Whichever operation of the store fails, and whatever the request would have done."""
    before, change = CHANGES[name]
    operator, wrong = faulty.person("", headers=OPERATOR), list[str]()
    for after in range(MOST):
        fault: dict[str, Any] = {"namespace": list(FAULT), "key": "/", "value": {"after": after}}
        anew = httpx.Limits(max_keepalive_connections=0)  # the server ends a connection after an error
        async with Person(faulty.url, f"{after}.{alice}", limits=anew) as person:
            for number in range(before):
                assert (await person.write(f"text {number}")).status_code == 200
            there = await remembered(person)
            await operator.made("PUT", "/store/items", fault)
            try:
                answer = await change(person)
                is_done, said = answer.is_success, f"{answer.status_code} {answer.text[:200]}"
            except httpx.TransportError as error:
                is_done, said = False, repr(error)
            left = await operator.made("POST", "/store/items/search", {"namespace_prefix": list(FAULT)})
            if left["items"]:
                await operator.made("PUT", "/store/items", {**fault, "value": {"after": 10**9}})
                assert is_done, said
                assert after > 1, "no operation failed"
                break
            if is_done != ((now := await remembered(person)) != there):
                wrong.append(f"after {after}: {said}; {there} became {now}")
    assert wrong == []


# --- By tools --------------------------------------------------------------------------------------------------------

CALLS = {
    "append_memory": ToolCall("append_memory", {"path": FILE, "text": "- new"}),
    "write_file": ToolCall("write_file", {"file_path": FILE, "content": "- new"}),
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
        user, failing, agent = f"alice{after}", WrappedStore(store), graph()
        files = deployed().memory.namespace(identity.Actor(user, "acme"), "")
        await store.aput(files, "/old.md", {**create_file_data("old")})
        agent.graph.store = failing

        def call(_: Body, failing: WrappedStore = failing, after: int = after) -> Reply:
            failing.fail(after)
            return [CALLS[name]]

        model.script(f"call {after}.", call, [Text("done")])
        with suppress(OSError):
            await agent.turn(f"call {after}.", user=user)
        has_failed, failing.before = failing.has_failed, None
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
