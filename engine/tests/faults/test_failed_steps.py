"""Any one operation of the store fails: what reports that it failed has changed nothing, and what
changed something says so.
"""

from contextlib import suppress
from typing import Any

import pytest
from langgraph.store.base import BaseStore

from lasting_memory.people.identity import Actor
from lasting_memory.testing.contract import http_client
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import FILE, SignedIn
from lasting_memory.testing.scripted_anthropic import Body, Reply, ScriptedAnthropic, Text, ToolCall
from lasting_memory.testing.stores import WrappedStore
from tests.conftest import BuildGraph

MOST = 100  # operations of one change
AT: Any = {"params": {"path": FILE}}
EXPORT = {"version": 1, "files": [{"path": FILE, "content": "imported\n"}]}
# How often the file was written before, and the change: a request, or a call of the model's.
CHANGES: dict[str, tuple[int, tuple[str, str, Any] | ToolCall]] = {
    "a new file": (0, ("PUT", "/memory/file", {**AT, "json": {"content": "new"}})),
    "another text": (1, ("PUT", "/memory/file", {**AT, "json": {"content": "new"}})),
    "the last of many": (24, ("PUT", "/memory/file", {**AT, "json": {"content": "new"}})),
    "a deletion": (1, ("DELETE", "/memory/file", AT)),
    "an undo": (2, ("POST", "/memory/undo", {"json": {"path": FILE, "revision": 1}})),
    "an import": (1, ("POST", "/memory/import", {"json": EXPORT})),
    "a pause": (0, ("PUT", "/memory/controls", {"json": {"paused": True}})),
    "append_memory": (1, ToolCall("append_memory", {"path": FILE, "text": "- new"})),
    "write_file": (0, ToolCall("write_file", {"file_path": FILE, "content": "- new"})),
    "edit_file": (
        1,
        ToolCall("edit_file", {"file_path": FILE, "old_string": "text 0", "new_string": "new"}),
    ),
    "save_profile": (0, ToolCall("save_profile", {"profile": {"name": "new"}})),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_that_failed_has_changed_nothing(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore, name: str
) -> None:
    before, change = CHANGES[name]
    wrong = list[str]()
    for after in range(MOST):
        user, failing, agent = f"alice{after}", WrappedStore(store), graph()
        agent.graph.store = failing
        async with http_client(
            deployed(), failing, SignedIn(identity=user, org_id="acme", permissions=[])
        ) as client:

            async def remembered(client: Any = client, user: str = user) -> list[Any]:
                namespace = deployed().memory.namespace(Actor(user, "acme"), "")
                files = [
                    (item.key, item.value["content"])
                    for item in await store.asearch(namespace, limit=100)
                ]
                return [files, (await client.get("/memory/controls")).json()]

            # Who has a memory is given no first files when a run begins.
            await client.put(
                "/memory/file", params={"path": "/memories/before.md"}, json={"content": "before"}
            )
            for number in range(before):
                assert (
                    await client.put("/memory/file", **AT, json={"content": f"text {number}"})
                ).is_success
            there, is_done = await remembered(), False
            with suppress(OSError):
                if isinstance(change, ToolCall):

                    def call(_: Body, failing: WrappedStore = failing, after: int = after) -> Reply:
                        failing.fail(after)
                        return [change]

                    model.script(f"call {after}.", call, [Text("done")])
                    await agent.turn(f"call {after}.", user=user)
                else:
                    failing.fail(after)
                    is_done = (await client.request(change[0], change[1], **change[2])).is_success
            has_failed, failing.before = failing.has_failed, None
            if isinstance(change, ToolCall):
                messages = (
                    await agent.graph.aget_state({"configurable": {"thread_id": "1"}})
                ).values["messages"]
                answers = [message.text for message in messages if message.type == "tool"]
                is_done = bool(answers) and not answers[0].startswith("Error")
            if is_done != ((now := await remembered()) != there):
                wrong.append(f"after {after}, done: {is_done}; {there} became {now}")
        if not has_failed:
            assert is_done
            assert after > 1, "no operation failed"
            break
    assert wrong == []
