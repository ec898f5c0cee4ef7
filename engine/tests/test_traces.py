"""What is sent to LangSmith where tracing is on: memory in inputs, none of it in metadata, and nothing where that is hidden."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langchain.agents.middleware.types import AgentMiddleware
from langgraph.store.base import BaseStore
from langsmith import Client, tracing_context

from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from lasting_memory.testing.scripted_langsmith import ScriptedLangSmith
from tests.conftest import BuildGraph, model_env
from tests.turns import note, people

# As the client sends a run: its own fields, and those beside them.
_RUN = re.compile(rb'name="(?:post|patch)\.([0-9a-f-]+)(?:\.(\w+))?"\r\n.*?\r\n\r\n(.*?)\r\n--', re.DOTALL)


def spans(traces: list[bytes]) -> list[tuple[str, str]]:
    """The name of each run that was sent, with its inputs and outputs."""
    sent = defaultdict[bytes, dict[bytes, bytes]](dict)
    for body in traces:
        for run, kind, text in _RUN.findall(body):
            sent[run][kind or b"itself"] = text
    return [
        (json.loads(of[b"itself"])["name"], (of.get(b"inputs", b"") + of.get(b"outputs", b"")).decode()) for of in sent.values()
    ]


async def test_hooks_copy_neither_messages_nor_memory_into_traces(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is in what the model was sent; the conversation also in the run's own spans. Hooks of ours show times alone."""
    monkeypatch.setenv("LANGSMITH_DISABLE_RUN_COMPRESSION", "true")
    store.put(("memories", "acme:alice"), "/preferences.md", {**create_file_data("Likes fennel.")})
    model.script("hello", [ToolCall("ls", {"path": "/memories/"})], [Text("done")])
    with ScriptedLangSmith() as langsmith:
        client = Client(api_url=langsmith.url, api_key="test")
        with tracing_context(enabled=True, client=client):
            await graph().turn("hello, dill")
        client.flush()
    sent = spans(langsmith.traces)
    assert {name for name, payload in sent if "fennel" in payload} == {"ChatAnthropic"}
    assert {name for name, payload in sent if "dill" in payload} == {"ChatAnthropic", "agent", "model"}
    ours = ("IdleTrigger", "Bounds", "SkillsMiddleware", "MemoryMiddleware")
    assert {payload for name, payload in sent if name.startswith(ours)} == {"{}{}"}
    assert {kind for kind in own_middleware(AgentMiddleware) if kind.trace_policy != SPANS_WITHOUT_PAYLOAD} == set()


def own_middleware(kind: type[AgentMiddleware[Any, Any, Any]]) -> set[type[AgentMiddleware[Any, Any, Any]]]:
    """The kinds of middleware that this library defines."""
    found = set[Any]().union(*(own_middleware(each) for each in kind.__subclasses__()))
    return {each for each in (kind, *found) if each.__module__.startswith("lasting_memory.")}


@pytest.mark.server
@pytest.mark.proof
async def test_hidden_inputs_and_outputs_send_no_memory(model: ScriptedAnthropic, tmp_path: Path) -> None:
    """Memory is in no metadata, which names the person, and hidden inputs and outputs send none of it."""
    with ScriptedLangSmith() as langsmith:
        env = {"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": "test", "LANGSMITH_ENDPOINT": langsmith.url}
        env |= {"LANGSMITH_HIDE_INPUTS": "true", "LANGSMITH_HIDE_OUTPUTS": "true"}
        env |= {"LANGSMITH_DISABLE_RUN_COMPRESSION": "true", **model_env(model)}
        with DevServer(tmp_path, env=env) as server:
            (alice,) = people(server, model, "alice")
            await alice.called(note("likes fennel"))
            await alice.say("hello")
            kept = await alice.http.client.delete("/memory", timeout=60)
            assert 'eq(metadata_key, "user_id"), eq(metadata_value, "alice")' in " ".join(kept.json()["kept"])
            await server.close_clients()  # when it stops, it sends the rest
        sent = b"".join(langsmith.traces)
        assert b'"user_id":"alice"' in sent
        assert b"fennel" not in sent
