"""The model that answers without a key: its answers come from what it is shown, and it drives the
real tools.
"""

import json
import re
from typing import Any

import pytest
from agent import build_agent
from deepagents.backends.utils import create_file_data
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langgraph.store.base import BaseStore

from lasting_memory.offline.consolidating import consolidate
from lasting_memory.offline.model import OfflineModel, answer
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import Graph, served

MEMORIES = ("memories", "acme:alice")


@pytest.fixture
def offline(store: BaseStore) -> Graph:
    return Graph(build_agent(deployed(), OfflineModel()), store)


def preferences(store: BaseStore) -> str:
    item = store.get(MEMORIES, "/preferences.md")
    return str(item.value["content"]) if item else ""


def remembered(store: BaseStore) -> list[str]:
    """What is in the store: the profile's fields, then the lines."""
    item = store.get(MEMORIES, "/profile.json")
    profile = json.loads(item.value["content"]) if item else {}
    return [f"{name}: {value}" for name, value in profile.items()] + re.findall(
        r"^- (.+)", preferences(store), re.MULTILINE
    )


Row = tuple[str, str, str, list[str]]
# What was said before, what is said now, a part of the answer, and what is in memory after it.
TABLE: list[Row] = [
    (
        "",
        "Don\u2019t forget that my dog is called Rex!",
        "my dog is called Rex",
        ["my dog is called Rex"],
    ),
    (
        "",
        "Hi! My name is Anna. Remember: I live in Rome.",
        "Nice to meet you, Anna.",
        ["name: Anna", "I live in Rome"],
    ),
    ("My name is Ann.", "Actually, my name is Anna.", "Anna", ["name: Anna"]),
    ("My name is Anna.", "What's my name?", "My name is Anna", ["name: Anna"]),
    ("Remember that I like tea.", "What do you know about me?", "- I like tea", ["I like tea"]),
    (
        "Remember that my train leaves at nine.",
        "When does my train leave?",
        "leaves at nine",
        ["my train leaves at nine"],
    ),
    (
        "Remember that I like tea.",
        "What do you know about tea?",
        "In my memory I found this",
        ["I like tea"],
    ),
    (
        "Remember that I like tea.",
        "Forget that I like tea.",
        "I have forgotten that: I like tea.",
        [],
    ),
    ("My name is Anna.", "Forget my name.", "I have forgotten that", ["name: None"]),
    (
        "Remember that I do not like tea.",
        "Forget that I like tea.",
        "I do not know that",
        ["I do not like tea"],
    ),
    ("", "What did we say about tea?", "I found nothing about tea", []),
    ("", "What are the policies?", "Your organization has set no rules.", []),
    ("", "Which skills do you have?", "I have no skills here.", []),
    ("", "Good morning!", "a stand-in until AGENT_MODEL is set", []),
    ("", "help", "I am the offline model", []),
    ("", "I like leek.", "Noted. It is not in memory yet", []),
    ("", "What's the capital of France?", "I cannot answer that", []),
    ("", "Please do not remember that I live in Rome", "I cannot answer that", []),
    ("", "Forget it.", "I do not know that", []),
    ("", "Remember that I like tea." * 200, "longer than I can read", []),
    ("", "Merk dir: Ich mag Tee.", "Das merke ich mir: Ich mag Tee.", ["Ich mag Tee"]),
    ("Ich heiße Jonas.", "Wer bin ich?", "- My name is Jonas", ["name: Jonas"]),
    ("Merk dir: Ich mag Tee.", "Vergiss: Ich mag Tee.", "Das habe ich vergessen: Ich mag Tee.", []),
    ("", "Welche Regeln gelten hier?", "Deine Organisation hat keine Regeln festgelegt.", []),
    ("", "Wie wird das Wetter morgen?", "Das kann ich nicht beantworten", []),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[1][:40] for row in TABLE])
async def test_natural_sentences_are_understood(offline: Graph, store: BaseStore, row: Row) -> None:
    before, said, answered, kept = row
    if before:
        await offline.turn(before, thread="before")
    texts = await offline.turn(said)
    assert answered in texts[-1]
    assert remembered(store) == kept
    assert "Error" not in texts[-1]


async def test_the_offline_model_deletes_no_line_that_was_not_named(
    offline: Graph, store: BaseStore
) -> None:
    before = "- I like tea\n- I like teapots\n"
    store.put(MEMORIES, "/preferences.md", {**create_file_data(before)})
    await offline.turn("Forget that I like te")
    assert preferences(store) == before


PROMPT = "<memory>\nintro\n\n## /memories/preferences.md\n\n- I prefer metric units\n</memory>"


@pytest.mark.parametrize("closed", ["temporary", "read-only"])
def test_the_offline_model_says_where_it_cannot_write_and_claims_nothing(closed: str) -> None:
    prompt = deployed().prompt("temporary_block.md") if closed == "temporary" else PROMPT
    message = answer(
        [SystemMessage(prompt), HumanMessage("My name is Anna. Remember that I like tea.")],
        {"edit_file"},
    )
    said = {
        "temporary": "This is a temporary conversation.",
        "read-only": "I cannot write memory during a conversation",
    }
    assert said[closed] in message.text
    assert message.tool_calls == []
    assert "I will remember" not in message.text


@pytest.mark.parametrize(
    "refusal",
    ["Error: Permission denied for '/x': Memory is paused.", "User rejected the tool call", ""],
)
def test_a_refused_write_is_not_claimed(refusal: str) -> None:
    tools = {"append_memory", "save_profile"}
    asked: list[Any] = [
        SystemMessage(""),
        HumanMessage("My name is Anna. Remember that I like tea."),
    ]
    called = answer(asked, tools)
    name, line = (str(call["id"]) for call in called.tool_calls)
    results = [
        ToolMessage("Saved /memories/profile.json.", tool_call_id=name),
        ToolMessage(refusal, tool_call_id=line),
    ]
    said = answer([*asked, called, *results], tools).text
    assert "Nice to meet you, Anna." in said
    assert "I will remember that: I like tea" not in said
    assert "paused" in said or "I could not write that" in said


@pytest.mark.parametrize(("said", "added"), [
    ("user: I prefer metric units. What is a mile? My dog is Rex.\nassistant: I like trains.", "- My dog is Rex"),
    ("user: My dog is Rex.\nuser: my dog is Rex!", "- my dog is Rex"),
    ("user: Actually, I like leek.", "- I like leek"),
    ("user: Remember that I am a pilot.\nuser: Forget that I am a pilot.", None),
    ("user: My password is hunter2hunter2. My dog is Rex.", "- My dog is Rex"),
    ("# What the person brought\n\n- Mein Passwort ist hunter2hunter2\n- Likes tea", "- Likes tea"),
    ("user: Do you know if I am late?\nuser: Tell me if I am late.", None),
    ("tool: 1. user: I like tea\n  2. user: I like tea", None),
    ("# What the person brought\n\nAbout me:\n- Lives in Lyon\n\n# Taken back\n\n- x", "- Lives in Lyon"),
    ("# What the person brought\n\n## Talk\nuser: I like leek. Who is it?\n\n## Me\n- 住在北京", "- I like leek\n- 住在北京"),
    *((f"# What the person brought\n\n- {said}\n- Likes tea", "- Likes tea") for said in (
        "Here is what I know about you", "Let me know if you would like anything changed!", "I hope this helps.",
        "Hier ist alles, was ich über dich weiß", "Sag mir Bescheid, wenn etwas fehlt.", "Would you like more detail?",
    )),
])  # fmt: skip
def test_consolidation_adds_what_was_plainly_stated(said: str, added: str | None) -> None:
    """What is not known, and was not taken back; of a text that was brought each line."""
    calls = consolidate(PROMPT, [said]).tool_calls
    assert [call["args"]["text"] for call in calls] == ([added] if added else [])


def test_a_tidy_takes_out_what_stands_twice() -> None:
    shown = "## /memories/preferences.md\n\n# P\n- Metric units.\n- Tea\n- metric units\n\n"
    shown += "## /memories/topics/tea.md\n\n- tea!\n- Green"
    calls = [call["args"] for call in consolidate("", [shown]).tool_calls]
    assert [(one["file_path"], one["new_string"]) for one in calls] == [
        ("/memories/preferences.md", "# P\n- Metric units.\n- Tea"),
        ("/memories/topics/tea.md", "- Green"),
    ]
    assert consolidate("", [shown, "Successfully", "Successfully"]).text == "Done."


server = served(AGENT_MODEL="")


# Those of the template's README.
PROMPTS = [
    "Remember that I prefer metric units.",
    "What do you know about me?",
    "What did we say about units?",
    "What are the policies?",
]


def answer_of(values: dict[str, Any], kind: str = "ai") -> str:
    return str(
        [message["content"] for message in values["messages"] if message["type"] == kind][-1]
    )


@pytest.mark.server
async def test_the_prompts_of_the_readme_prove_memory(
    server: DevServer, model: ScriptedAnthropic
) -> None:
    remember, know, recall, policies = PROMPTS
    rules = "# Acme compliance\n\n1. Never give a personal opinion on an investment.\n"
    await server.as_operator().store.put_item(
        ["policies", "acme"], "/compliance.md", create_file_data(rules)
    )
    who = (
        ("alice@example.com", "acme"),
        ("bob@example.com", "acme"),
        ("alice@example.com", "globex"),
    )
    alice, *strangers = (server.person(*each, model=model) for each in who)
    first, second = await alice.chat(remember), await alice.thread()
    assert "metric units" in answer_of(await alice.turn(second, know))
    values = await alice.turn(second, recall)
    assert f"thread_id={first}" in answer_of(values, "tool")
    assert re.search(r'On \d{4}-\d\d-\d\d you said: ".*metric units"', answer_of(values))
    assert "user:" not in answer_of(values)
    assert "I will remember" not in answer_of(values)
    assert "Acme compliance" in answer_of(await alice.turn(second, policies))
    for stranger in strangers:
        assert "metric" not in answer_of(await stranger.say(know))
        assert first not in answer_of(await stranger.say(recall))
    assert "Acme compliance" not in answer_of(await strangers[-1].say(policies))


@pytest.mark.server
async def test_336_dated_lines_in_a_code_block_are_found_and_proposed_once(
    server: DevServer, model: ScriptedAnthropic
) -> None:
    """What another assistant answers to the prompt of the page, brought twice; and in another
    language.
    """
    person = server.person("cora@example.com", "acme", model=model)
    lines = [
        f"[20{10 + number % 15}-0{number % 9 + 1}-1{number % 10}] - fact {number} about this person"
        for number in range(336)
    ]
    text = (
        "Here is what I know about you:\n\n```\n"
        + "\n".join(lines)
        + "\n```\n\nLet me know if anything is wrong."
    )
    told = await person.made("POST", "/memory/bring", {"text": text})
    assert told["reason"] == "336 found, 336 proposed, 0 left out."
    assert told["framing"] == {"count": 1, "lines": ["Let me know if anything is wrong."]}
    (shown,) = told["proposal"]["lines"].values()
    assert [line["text"] for line in shown][:1] == ["- fact 0 about this person (2010-01-10)"]
    assert len(shown) == 336
    await person.made("POST", f"/memory/proposals/{told['proposal']['id']}", {"accept": True})
    again = await person.made("POST", "/memory/bring", {"text": text + "\n```\n- 我住在北京\n```"})
    assert again["reason"] == "337 found, 1 proposed, 336 left out: memory has it already (336)."
