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
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, tool_results
from lasting_memory.validation import MAX_FILE_BYTES, RefusedWrite
from tests.conftest import BuildGraph

POLICIES = ("policies", "acme")
MEMORIES = ("memories", "acme:alice")
SKILLS = ("skills", AGENT)
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


async def test_any_path_under_memories_lasts_and_others_go_with_their_thread(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic
) -> None:
    paths, agent = ["/memories/work/draft.md", "/work/draft.md"], graph()
    model.script(
        "write", [ToolCall("write_file", {"file_path": path, "content": "A draft."}) for path in paths], [Text("done")]
    )
    model.script("read", [ToolCall("read_file", {"file_path": path}) for path in paths], [Text("done")])
    await agent.turn("write", thread="1")
    await agent.turn("read", thread="2")
    lasts, gone = tool_results(model.requests[-1])
    assert "A draft." in lasts
    assert "not found" in gone


def everything(store: BaseStore) -> dict[tuple[tuple[str, ...], str], Any]:
    return {(item.namespace, item.key): item.value for item in store.search((), limit=1000)}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("route", ["/policies", "/skills"])
async def test_the_backend_itself_refuses_every_write_to_what_is_shared(store: BaseStore, route: str, spelling: str) -> None:
    store.put(POLICIES, "/x.md", {**create_file_data("rule")})
    store.put(SKILLS, "/x.md", {**create_file_data("rule")})
    before = everything(store)
    path = spelling.format(route)
    call = Calls(store)
    assert (await call("awrite", path, "mine")).error
    assert (await call("aedit", path, "rule", "mine")).error
    assert (await call("adelete", path)).error
    with pytest.raises((NotImplementedError, RefusedWrite)):
        await call("aupload_files", [(path, b"mine")])
    for parent in ("/", ""):
        assert (await call("adelete", parent)).error
    assert everything(store) == before


async def test_in_the_background_only_consolidation_writes_memory(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic
) -> None:
    settings = deployed(memory_writes="background")
    write = ToolCall("write_file", {"file_path": "/memories/topics/a.md", "content": "x"})
    model.script("note", [write], [Text("done")])
    await graph(settings).turn("note")
    assert store.get(MEMORIES, "/topics/a.md") is None
    assert not {"append_memory", "save_profile"} & {tool["name"] for tool in model.requests[0]["tools"]}
    assert (await Calls(store, settings)("awrite", "/memories/topics/a.md", "x")).error
    assert not (await Calls(store, settings, consolidating=True)("awrite", "/memories/topics/a.md", "x")).error


@pytest.mark.parametrize(("shared_writes", "written"), [("deny", False), ("interrupt", False), ("allow", True)])
async def test_shared_memory_is_written_as_shared_writes_says(store: BaseStore, shared_writes: Any, written: bool) -> None:
    """Memory shared by an assistant's users is written as `SHARED_WRITES` says."""
    settings = deployed(memory_scope="assistant", shared_writes=shared_writes)
    await Calls(store, settings)("awrite", "/memories/a.md", "x")
    assert bool(store.get(("memories", f"{AGENT}:acme"), "/a.md")) is written
    for path in ("/memories/b.md", "/skills/x.md"):
        assert (await Calls(store, settings, consolidating=True)("awrite", path, "x")).error


async def test_a_tool_given_what_no_store_could_keep_answers_so(graph: BuildGraph, model: ScriptedAnthropic) -> None:
    """A tool that is given what no store could keep answers so, and the run goes on."""
    part = "a\x00b"
    path = f"/memories/{part}"
    calls = [
        ToolCall("ls", {"path": path}),
        ToolCall("read_file", {"file_path": path}),
        ToolCall("write_file", {"file_path": path, "content": "x"}),
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
    ]
    model.script("use odd characters", *([call] for call in calls), [Text("done")])
    assert (await graph().turn("use odd characters"))[-1] == "done"
    told = [results[-1] for body in model.requests if (results := tool_results(body))]
    assert ["rror" in result for result in told] == [True] * len(calls)


async def test_a_client_s_files_under_a_route_are_not_seen(graph: BuildGraph, model: ScriptedAnthropic) -> None:
    forged = {path: {**create_file_data("FORGED")} for path in ("/policies/forged.md", "/skills/x/SKILL.md", "/mine.md")}
    calls = [ToolCall("grep", {"pattern": "FORGED"}), ToolCall("glob", {"pattern": "**/*.md"}), ToolCall("ls", {"path": "/"})]
    model.script("look around", calls, [Text("done")])
    await graph().turn("look around", files=forged)
    told = "".join(tool_results(model.requests[-1]))
    assert "/mine.md" in told
    assert "forged.md" not in told
    assert "/skills/x/SKILL.md" not in told


async def test_files_of_a_conversation_are_bounded_each_and_all_together(
    graph: BuildGraph, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "MAX_FILE_BYTES", 1_000)
    monkeypatch.setattr(files_module, "MAX_SCRATCH_BYTES", 4_200)

    def write(path: str, content: str) -> list[ToolCall]:
        return [ToolCall("write_file", {"file_path": path, "content": content})]

    grow = [ToolCall("edit_file", {"file_path": "/s.md", "old_string": "é", "new_string": "éé", "replace_all": True})]
    full = [write(f"/{number}.md", "x" * 1_000) for number in range(4)]
    again = [[ToolCall("delete", {"file_path": "/0.md"})], write("/again.md", "x")]
    large, fits = write("/large.md", "é" * 501), write("/s.md", "é" * 250)
    model.script("fill it", large, fits, grow, grow, *full, *again, [Text("done")])
    assert (await graph().turn("fill it"))[-1] == "done"
    told = [results[-1] for body in model.requests if (results := tool_results(body))]
    refused = [number for number, text in enumerate(told) if "Error" in text]
    assert refused == [0, 3, 7], "too large, too large when twice as much, and no room beside the others"
    assert "1,002 bytes" in told[0]
    assert "2,000 bytes" in told[3]
    assert "of 4,200" in told[7]


async def test_what_a_person_said_at_length_is_still_put_aside(graph: BuildGraph, model: ScriptedAnthropic) -> None:
    assert (await graph().turn("put this aside " + "x" * (2 * MAX_FILE_BYTES)))[-1]
    assert len(str(model.requests[-1])) < 2 * MAX_FILE_BYTES
