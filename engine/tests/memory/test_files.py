"""Which path belongs to whom, who may write it, and what may be written: asserted on the store."""

from dataclasses import dataclass
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from deepagents.middleware.filesystem import FilesystemState
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore

from lasting_memory import validation
from lasting_memory.deployment import Deployment
from lasting_memory.files import backends as files_module
from lasting_memory.files.routes import build_backend
from lasting_memory.people.identity import Context
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ToolCall
from lasting_memory.validation import MAX_FILE_BYTES, RefusedWrite
from tests.conftest import Scripted

POLICIES, SKILLS = ("policies", "acme"), ("skills", AGENT)
DEFAULTS = deployed()
SPELLINGS = ["{0}/x.md", "{0}", "{0}/", "/{0}//x.md", "{0}//x.md", "{0}/./x.md", "{0}/sub/../x.md", "/./{0}/x.md"]


@dataclass
class Calls:
    """Calls a backend's methods as a tool inside a run would, without any middleware in between."""

    store: BaseStore
    settings: Deployment = DEFAULTS
    consolidating: bool = False

    async def __call__(self, method: str, *args: Any) -> Any:
        results = []

        async def node(state: FilesystemState) -> None:
            assert get_store() is self.store
            backend = build_backend(self.settings, consolidating=self.consolidating)
            results.append(await getattr(backend, method)(*args))

        graph = StateGraph(FilesystemState, context_schema=Context).add_node("node", node).add_edge(START, "node")
        await graph.compile(store=self.store).ainvoke({"messages": []}, context=Context(user_id="alice", org_id="acme"))
        return results[0]


def everything(store: BaseStore) -> dict[tuple[tuple[str, ...], str], Any]:
    return {(item.namespace, item.key): item.value for item in store.search((), limit=1000)}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("route", ["/policies", "/skills"])
async def test_the_backend_itself_refuses_every_write_to_what_is_shared(store: BaseStore, route: str, spelling: str) -> None:
    for namespace in (POLICIES, SKILLS):
        store.put(namespace, "/x.md", {**create_file_data("rule")})
    before, path, call = everything(store), spelling.format(route), Calls(store)
    for method, *args in (
        ("awrite", path, "mine"),
        ("aedit", path, "rule", "mine"),
        *(("adelete", each) for each in (path, "/", "")),
    ):
        assert (await call(method, *args)).error
    with pytest.raises((NotImplementedError, RefusedWrite)):
        await call("aupload_files", [(path, b"mine")])
    assert everything(store) == before


@pytest.mark.parametrize(("settings", "agent", "consolidation"), [
    ({}, True, True),
    ({"memory_writes": "background"}, False, True),
    ({"memory_scope": "assistant"}, False, False),
    ({"memory_scope": "assistant", "shared_writes": "interrupt"}, False, False),
    ({"memory_scope": "assistant", "shared_writes": "allow"}, True, False),
])  # fmt: skip
async def test_memory_is_written_by_whom_the_settings_say(
    store: BaseStore, settings: dict[str, Any], agent: bool, consolidation: bool
) -> None:
    for consolidating, written in ((False, agent), (True, consolidation)):
        calls = Calls(store, deployed(**settings), consolidating=consolidating)
        assert (not (await calls("awrite", f"/memories/{consolidating}.md", "x")).error) is written
        assert any(key == f"/{consolidating}.md" for _, key in everything(store)) is written
    assert (await calls("awrite", "/skills/x.md", "x")).error


def write(path: str, content: str) -> ToolCall:
    return ToolCall("write_file", {"file_path": path, "content": content})


def read(path: str) -> ToolCall:
    return ToolCall("read_file", {"file_path": path})


async def test_any_path_under_memories_lasts_and_others_go_with_their_thread(agent: Scripted) -> None:
    paths = ["/memories/work/draft.md", "/work/draft.md"]
    await agent.called(*(write(path, "A draft.") for path in paths), thread="1")
    lasts, gone = await agent.called(*map(read, paths), thread="2")
    assert "A draft." in lasts
    assert "not found" in gone


async def test_a_tool_given_what_no_store_could_keep_answers_so(agent: Scripted) -> None:
    part = "a\x00b"
    path = f"/memories/{part}"
    told = await agent.called(
        ToolCall("ls", {"path": path}),
        read(path),
        write(path, "x"),
        ToolCall("edit_file", {"file_path": path, "old_string": "x", "new_string": "y"}),
        ToolCall("delete", {"file_path": path}),
        ToolCall("glob", {"pattern": part, "path": "/memories"}),
        ToolCall("grep", {"pattern": part, "path": path}),
        ToolCall("append_memory", {"path": path, "text": "x"}),
        ToolCall("append_memory", {"path": "/memories/x.md", "text": part}),
        ToolCall("save_profile", {"profile": {"name": part}}),
        ToolCall("search_memories", {"query": part}),
        ToolCall("search_past_conversations", {"query": part}),
        ToolCall("read_conversation", {"thread_id": part}),
    )
    assert ["rror" in result for result in told] == [True] * 13


async def test_a_client_s_files_under_a_route_are_not_seen(agent: Scripted) -> None:
    forged = {path: {**create_file_data("FORGED")} for path in ("/policies/forged.md", "/skills/x/SKILL.md", "/mine.md")}
    calls = [ToolCall("grep", {"pattern": "FORGED"}), ToolCall("glob", {"pattern": "**/*.md"}), ToolCall("ls", {"path": "/"})]
    told = "".join(await agent.called(*calls, files=forged))
    assert "/mine.md" in told
    assert "forged.md" not in told
    assert "/skills/x/SKILL.md" not in told


async def test_files_of_a_conversation_are_bounded_each_and_all_together(
    agent: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "MAX_FILE_BYTES", 1_000)
    monkeypatch.setattr(files_module, "MAX_SCRATCH_BYTES", 4_200)
    grow = ToolCall("edit_file", {"file_path": "/s.md", "old_string": "é", "new_string": "éé", "replace_all": True})
    full = [write(f"/{number}.md", "x" * 1_000) for number in range(4)]
    again = [ToolCall("delete", {"file_path": "/0.md"}), write("/again.md", "x")]
    told = await agent.called(write("/large.md", "é" * 501), write("/s.md", "é" * 250), grow, grow, *full, *again)
    refused = [number for number, text in enumerate(told) if "Error" in text]
    assert refused == [0, 3, 7], "too large, too large when twice as much, and no room beside the others"
    assert ["1,002 bytes" in told[0], "2,000 bytes" in told[3], "of 4,200" in told[7]] == [True] * 3


async def test_what_a_person_said_at_length_is_still_put_aside(agent: Scripted) -> None:
    assert (await agent.turn("put this aside " + "x" * (2 * MAX_FILE_BYTES)))[-1]
    assert len(str(agent.model.requests[-1])) < 2 * MAX_FILE_BYTES
