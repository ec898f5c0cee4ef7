"""The model that answers without a key: its answers come from what it is shown, and it drives the real tools."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from agent import build_agent
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.agent.models import build_model
from lasting_memory.agent.offline_model import HELLO, OfflineModel, consolidate
from lasting_memory.settings import ENGINE, SettingsError
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from tests.conftest import Graph, served

MEMORIES = ("memories", "acme:alice")


@pytest.fixture
def offline(store: BaseStore) -> Graph:
    return Graph(build_agent(deployed(), OfflineModel()), store)


def preferences(store: BaseStore) -> str:
    item = store.get(MEMORIES, "/preferences.md")
    return str(item.value["content"]) if item else ""


async def test_remembering_and_forgetting_edit_the_file(offline: Graph, store: BaseStore) -> None:
    texts = await offline.turn("Remember that I prefer metric units.")
    texts = await offline.turn("hello")
    assert [text.startswith(HELLO) for text in texts if text.startswith("(")] == [True], "it says what it is once a thread"
    await offline.turn("Please remember I am a pilot", thread="2")
    assert re.findall(r"^- .*", preferences(store), re.MULTILINE) == ["- I prefer metric units", "- I am a pilot"]
    await offline.turn("Forget that I prefer metric units.", thread="3")
    assert re.findall(r"^- .*", preferences(store), re.MULTILINE) == ["- I am a pilot"]
    assert "I do not know that" in (await offline.turn("Forget that I like tea", thread="4"))[-1]
    answer = (await offline.turn("What do you know about me?", thread="5"))[-1]
    assert ["I am a pilot" in answer, "metric" in answer] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        "What do you remember about cars?",
        "Do you remember what I said about cars?",
        "Please do not remember that I live in Rome",
        "Forget it.",
        "Forget ...",
        "Forget that I like te",
    ],
)
async def test_nothing_is_written_or_deleted_that_was_not_asked_for(offline: Graph, store: BaseStore, text: str) -> None:
    before = "- I like tea\n- I like teapots\n- it rains on metric units\n- it snows\n"
    store.put(MEMORIES, "/preferences.md", {**create_file_data(before)})
    await offline.turn(text)
    assert preferences(store) == before


PROMPT = "<memory>\nintro\n\n## /memories/preferences.md\n\n- I prefer metric units\n</memory>"


@pytest.mark.parametrize(
    ("said", "added"),
    [
        (
            "user: I prefer metric units. What is a mile? My dog is Rex.\nassistant: I like trains.\nuser: my dog is Rex!",
            "- my dog is Rex",
        ),
        ("user: Remember that I am a pilot.\nuser: Forget that I am a pilot.", None),
        ("user: Do you know if I am late?\nuser: Tell me if I am late.", None),
        ("tool: 1. user: I like tea\n  2. user: I like tea", None),
    ],
)
def test_consolidation_adds_what_was_plainly_stated(said: str, added: str | None) -> None:
    """Consolidation adds what was plainly stated, is not known, and was not taken back."""
    calls = consolidate(PROMPT, [said]).tool_calls
    assert [call["args"]["text"] for call in calls] == ([added] if added else [])


def test_it_answers_on_langgraph_dev_where_no_model_is_named() -> None:
    on_dev = deployed(local_dev=True)
    assert isinstance(build_model(on_dev), OfflineModel)
    assert isinstance(build_model(on_dev, consolidating=True), OfflineModel)
    with pytest.raises(SettingsError, match="AGENT_MODEL is empty"):
        build_model(replace(on_dev, offline_model=False))


server = served(AGENT_MODEL="")


def readme_prompts() -> list[str]:
    section = (ENGINE.parents[2] / "README.md").read_text().partition("## Try this")[2].partition("\n## ")[0]
    return re.findall(r"`([A-Z][^`]+[.?])`", section)


async def say(server: DevServer, identity: str, org: str, text: str, thread: str | None = None) -> tuple[str, str]:
    client = server.as_user(identity, org)
    thread = thread or str((await client.threads.create())["thread_id"])
    values: Any = await run_turn(client, thread, text)
    return values["messages"][-1]["content"], thread


@pytest.mark.server
async def test_the_prompts_of_the_readme_prove_memory_across_threads_and_users(server: DevServer) -> None:
    remember, know, recall, policies = readme_prompts()
    rules = "# Acme compliance\n\n1. Never give a personal opinion on an investment.\n"
    await server.as_operator().store.put_item(["policies", "acme"], "/compliance.md", create_file_data(rules))
    alice = ("alice@example.com", "acme")
    _, first = await say(server, *alice, remember)
    answer, second = await say(server, *alice, know)
    assert "metric units" in answer
    answer, _ = await say(server, *alice, recall, second)
    assert f"thread_id={first}" in answer
    assert "metric units" in answer
    answer, _ = await say(server, *alice, policies, second)
    assert "Acme compliance" in answer
    for stranger in (("bob@example.com", "acme"), ("alice@example.com", "globex")):
        assert "metric" not in (await say(server, *stranger, know))[0]
        assert first not in (await say(server, *stranger, recall))[0]
    assert "Acme compliance" not in (await say(server, "alice@example.com", "globex", policies))[0]


@pytest.mark.server
async def test_consolidation_does_not_bring_back_what_was_forgotten(server: DevServer) -> None:
    who = ("erin@example.com", "acme")
    client = server.as_user(*who)
    for text in ("Remember that I prefer metric units.", "Forget that I prefer metric units."):
        await say(server, *who, text)
        thread = str((await client.threads.create())["thread_id"])
        await run_turn(client, thread, "go", assistant="consolidation_agent")
    answer, _ = await say(server, *who, "What do you know about me?")
    assert "metric" not in answer
