"""What is sent to LangSmith where tracing is on: memory in inputs, none of it in metadata, and
nothing where that is hidden.
"""

import json
import re
from collections import defaultdict
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langchain.agents.middleware.types import AgentMiddleware
from langgraph.store.base import BaseStore
from langsmith import Client, tracing_context

from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.testing.loopback import ScriptedLangSmith
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import BuildGraph

# As the client sends a run: its own fields, and those beside them.
_RUN = re.compile(
    rb'name="(?:post|patch)\.([0-9a-f-]+)(?:\.(\w+))?"\r\n.*?\r\n\r\n(.*?)\r\n--', re.DOTALL
)


def _sent(traces: list[bytes]) -> list[dict[bytes, bytes]]:
    """The parts of each run that was sent, by their kind."""
    sent = defaultdict[bytes, dict[bytes, bytes]](dict)
    for body in traces:
        for run, kind, text in _RUN.findall(body):
            sent[run][kind or b"itself"] = text
    return list(sent.values())


def spans(traces: list[bytes]) -> list[tuple[str, str]]:
    """The name of each run that was sent, with its inputs and outputs."""
    return [
        (
            json.loads(of[b"itself"])["name"],
            (of.get(b"inputs", b"") + of.get(b"outputs", b"")).decode(),
        )
        for of in _sent(traces)
    ]


def lineage(traces: list[bytes], name: str) -> set[str]:
    """The names of the runs above those of this name, the outermost first, without hooks."""
    runs = {run["id"]: run for run in (json.loads(of[b"itself"]) for of in _sent(traces))}
    found = set[str]()
    for run in runs.values():
        if run["name"] == name:
            names = [name]
            while run := runs.get(run.get("parent_run_id")):
                names.insert(0, run["name"])
            found.add(" > ".join(each for each in names if "." not in each))
    return found


@pytest.mark.parametrize("hidden", [False, True])
async def test_hooks_copy_neither_messages_nor_memory_into_traces(
    graph: BuildGraph,
    store: BaseStore,
    model: ScriptedAnthropic,
    monkeypatch: pytest.MonkeyPatch,
    hidden: bool,
) -> None:
    """Memory is in what the model was sent; the conversation also in the run's own spans. Hooks of
    ours show times alone.
    """
    monkeypatch.setenv("LANGSMITH_DISABLE_RUN_COMPRESSION", "true")
    store.put(("memories", "acme:alice"), "/preferences.md", {**create_file_data("Likes fennel.")})
    model.script("hello", [ToolCall("ls", {"path": "/memories/"})], [Text("done")])
    with ScriptedLangSmith() as langsmith:
        client = Client(
            api_url=langsmith.url, api_key="test", hide_inputs=hidden, hide_outputs=hidden
        )
        with tracing_context(enabled=True, client=client):
            await graph().turn("hello, dill")
        client.flush()
    assert (b"fennel" in b"".join(langsmith.traces)) is not hidden
    if hidden:
        return
    sent = spans(langsmith.traces)
    assert {name for name, payload in sent if "fennel" in payload} == {"ChatAnthropic"}
    assert {name for name, payload in sent if "dill" in payload} == {
        "ChatAnthropic",
        "agent",
        "model",
    }
    ours = ("IdleTrigger", "Bounds", "SkillsMiddleware", "MemoryMiddleware")
    assert {payload for name, payload in sent if name.startswith(ours)} == {"{}{}"}
    assert {
        kind
        for kind in own_middleware(AgentMiddleware)
        if kind.trace_policy != SPANS_WITHOUT_PAYLOAD
    } == set()


def own_middleware(
    kind: type[AgentMiddleware[Any, Any, Any]],
) -> set[type[AgentMiddleware[Any, Any, Any]]]:
    """The kinds of middleware that this library defines."""
    found = set[Any]().union(*(own_middleware(each) for each in kind.__subclasses__()))
    return {each for each in (kind, *found) if each.__module__.startswith("lasting_memory.")}
