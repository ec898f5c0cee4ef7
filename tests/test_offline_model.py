"""The model that answers without a key: its answers come from what it is shown, and it drives the real tools."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langchain_core.messages import AIMessage
from langgraph.store.base import BaseStore

from agent import build_agent
from models import build_model
from offline_model import HELLO, OfflineModel, consolidate
from settings import PROJECT, Settings, SettingsError
from tests.conftest import Graph
from tests.dev_server import DevServer, run_turn

MEMORIES = ("memories", "acme:alice")


@pytest.fixture
def offline(store: BaseStore) -> Graph:
    return Graph(build_agent, Settings(), OfflineModel(), store)


def preferences(store: BaseStore) -> str:
    item = store.get(MEMORIES, "/preferences.md")
    return str(item.value["content"]) if item else ""


async def test_it_says_what_it_is_once_a_thread(offline: Graph) -> None:
    texts = await offline.turn("hello")
    texts = await offline.turn("hello")
    assert [text.startswith(HELLO) for text in texts] == [False, True, False, False]


async def test_remembering_and_forgetting_edit_the_file(offline: Graph, store: BaseStore) -> None:
    await offline.turn("Remember that I prefer metric units.")
    await offline.turn("Please remember I am a pilot", thread="2")
    assert re.findall(r"^- .*", preferences(store), re.MULTILINE) == ["- I prefer metric units", "- I am a pilot"]
    await offline.turn("Forget that I prefer metric units.", thread="3")
    assert re.findall(r"^- .*", preferences(store), re.MULTILINE) == ["- I am a pilot"]
    assert "nothing like that" in (await offline.turn("Forget that I like tea", thread="4"))[-1]


async def test_remembering_the_same_twice_writes_it_once(offline: Graph, store: BaseStore) -> None:
    for thread in ("1", "2"):
        await offline.turn("Remember that I prefer metric units.", thread=thread)
    assert preferences(store).count("metric") == 1


async def test_what_it_knows_is_what_the_store_holds(offline: Graph, store: BaseStore) -> None:
    for fact in ("- flies cargo planes", "- has a dog"):
        store.put(MEMORIES, "/preferences.md", {**create_file_data(fact)})
        answer = (await offline.turn("What do you know about me?"))[-1]
        assert [known in answer for known in ("- flies cargo planes", "- has a dog")] == [
            known == fact for known in ("- flies cargo planes", "- has a dog")
        ]


async def test_policies_are_quoted_as_the_store_holds_them(offline: Graph, store: BaseStore) -> None:
    store.put(("policies", "acme"), "/rules.md", {**create_file_data("Never promise a date.")})
    assert "Never promise a date." in (await offline.turn("What are the policies?"))[-1]


async def test_anything_else_gets_an_honest_short_answer(offline: Graph) -> None:
    assert "I cannot answer that." in (await offline.turn("Write me a sonnet"))[-1]


def test_consolidation_adds_what_was_plainly_stated_and_is_not_known_yet() -> None:
    prompt = "<memory>\nintro\n\n## /memories/preferences.md\n\n- I prefer metric units\n</memory>"
    said = (
        "user: I prefer metric units. What is a mile? My dog is Rex.\nassistant: I like trains.\nuser: my dog is Rex!"
    )
    call = consolidate("", prompt, [said])
    assert call.tool_calls[0]["args"] == {"path": "/memories/preferences.md", "text": "- My dog is Rex"}
    assert consolidate("", prompt.replace("metric units", "metric units\n- my dog is Rex"), [said]).tool_calls == []


def test_it_reads_before_it_writes() -> None:
    assert isinstance(consolidate("", "", []), AIMessage)
    assert consolidate("", "", []).tool_calls[0]["name"] == "search_recent_conversations"


def test_it_is_the_model_while_none_is_named() -> None:
    assert isinstance(build_model(None), OfflineModel)


@pytest.mark.parametrize(
    ("provider", "kind"), [("anthropic", "ChatAnthropic"), ("google_genai", "ChatGoogleGenerativeAI")]
)
def test_named_providers_give_their_own_client(provider: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "test")
    assert type(build_model(f"{provider}:some-model")).__name__ == kind


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_a_provider_that_is_not_installed_is_an_error_naming_the_extra(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, f"langchain_{provider}", None)
    with pytest.raises(
        SettingsError, match=re.escape(f"CONSOLIDATION_MODEL is '{provider}:x', whose provider is not installed")
    ) as error:
        build_model(f"{provider}:x", "CONSOLIDATION_MODEL")
    assert f"'.[{provider}]'" in str(error.value)


def test_an_unknown_provider_is_an_error_naming_the_setting() -> None:
    with pytest.raises(SettingsError, match="AGENT_MODEL is 'nobody:x'"):
        build_model("nobody:x")


def test_it_stays_small_enough_to_read_and_delete() -> None:
    assert len((PROJECT / "offline_model.py").read_text().splitlines()) <= 150


@pytest.fixture(scope="module")
def offline_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    with DevServer(tmp_path_factory.mktemp("offline")) as server:
        yield server


@pytest.fixture
async def server(offline_server: DevServer) -> AsyncIterator[DevServer]:
    yield offline_server
    await offline_server.close_clients()


def readme_prompts() -> list[str]:
    section = (PROJECT / "README.md").read_text().partition("## Try this")[2].partition("\n## ")[0]
    return re.findall(r"`([A-Z][^`]+[.?])`", section)


async def say(server: DevServer, identity: str, org: str, text: str, thread: str | None = None) -> tuple[str, str]:
    client = server.as_user(identity, org)
    thread = thread or str((await client.threads.create())["thread_id"])
    values: Any = await run_turn(client, thread, text)
    return values["messages"][-1]["content"], thread


@pytest.mark.server
async def test_the_prompts_of_the_readme_prove_memory_across_threads_and_users(server: DevServer) -> None:
    remember, know, recall, policies = readme_prompts()
    rules = (PROJECT / "policies/acme/compliance.md").read_text()
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
async def test_consolidation_merges_what_was_said_without_duplicates(server: DevServer) -> None:
    who = ("carol@example.com", "acme")
    await say(server, *who, "Remember that I prefer metric units.")
    await say(server, *who, "I prefer metric units. My dog is Rex.")
    client = server.as_user(*who)
    for _ in range(2):
        thread = str((await client.threads.create())["thread_id"])
        await run_turn(client, thread, "go", assistant="consolidation_agent")
    answer, _ = await say(server, *who, "What do you know about me?")
    assert answer.count("metric") == 1
    assert answer.count("Rex") == 1


def test_every_prompt_of_the_readme_is_in_a_row_of_its_table() -> None:
    assert len(readme_prompts()) == 4
    assert Path(PROJECT / "README.md").read_text().count("make chat AS=") >= 3
