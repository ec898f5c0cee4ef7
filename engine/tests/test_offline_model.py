"""The model that answers without a key: its answers come from what it is shown, and it drives the real tools."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from agent import build_agent
from deepagents.backends.utils import create_file_data
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.store.base import BaseStore

from lasting_memory.agent.models import build_model, whole_answers
from lasting_memory.agent.offline_model import MAX_CHARS, OfflineModel, answer, consolidate
from lasting_memory.settings import SettingsError
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


def remembered(store: BaseStore) -> list[str]:
    """What is in the store: the profile's fields, then the lines."""
    item = store.get(MEMORIES, "/profile.json")
    profile = json.loads(item.value["content"]) if item else {}
    return [f"{name}: {value}" for name, value in profile.items()] + re.findall(r"^- (.+)", preferences(store), re.MULTILINE)


STAND_IN = ("a stand-in until AGENT_MODEL is set", "ein Ersatz, bis AGENT_MODEL gesetzt ist")
Row = tuple[str, str, str, list[str]]
# What was said before, what is said now, a part of the answer, and what is in memory after it.
TABLE: list[Row] = [
    ("", "Remember that I prefer metric units.", "I will remember that: I prefer metric units.", ["I prefer metric units"]),
    ("", "Remember: the gate code changes on Mondays", "I will remember that: the gate", ["the gate code changes on Mondays"]),
    ("", "Don\u2019t forget that my dog is called Rex!", "my dog is called Rex", ["my dog is called Rex"]),
    ("", "Could you please keep in mind that I don't eat fish?", "I don't eat fish", ["I don't eat fish"]),
    ("", "Remember:\n- I like tea", "I like tea", ["I like tea"]),
    ("", "I live in Rome. Actually, I live in Bern.", "you live in Bern", ["I live in Bern"]),
    ("", "Ich wohne in Rom. Nein, ich wohne in Bern.", "dass du in Bern wohnst", ["ich wohne in Bern"]),
    ("", "My name is Anna.", "Nice to meet you, Anna.", ["name: Anna"]),
    ("", "Hi! I'm Anna. I live in Lisbon.", "you live in Lisbon", ["name: Anna", "I live in Lisbon"]),
    ("", "I just moved to Porto", "you live in Porto", ["I just moved to Porto"]),
    (
        "",
        "My favourite colour is green and I live in Rome.",
        "colour is green",
        ["My favourite colour is green", "I live in Rome"],
    ),
    ("", "I'm a nurse.", "I'm a nurse", ["I'm a nurse"]),
    ("", "I work as a carpenter", "carpenter", ["role: carpenter"]),
    ("My name is Ann.", "Actually, my name is Anna.", "Anna", ["name: Anna"]),
    ("I live in Lisbon.", "No, actually I live in Porto.", "Porto", ["I live in Porto"]),
    ("Remember that I prefer metric units.", "Actually, I prefer imperial units.", "Corrected", ["I prefer imperial units"]),
    ("My name is Anna.", "What's my name?", "Your name is Anna.", ["name: Anna"]),
    ("I moved to Porto.", "Do you know where I live?", "You live in Porto.", ["I moved to Porto"]),
    ("My favorite food is ramen.", "what is my favourite food", "Your favourite food is ramen.", ["My favorite food is ramen"]),
    ("I am called Anna. I'm a nurse.", "Who am I?", "- Your name is Anna.\n- I'm a nurse", ["name: Anna", "I'm a nurse"]),
    ("I'm a nurse", "What do I do for a living?", "I'm a nurse", ["I'm a nurse"]),
    ("Remember that I like tea.", "What do you know about me?", "- I like tea", ["I like tea"]),
    ("Remember that my train leaves at nine.", "When does my train leave?", "leaves at nine", ["my train leaves at nine"]),
    ("Remember that I like tea.", "Forget that I like tea.", "I have forgotten that: I like tea.", []),
    ("My name is Anna. I work as a cook.", "Please forget my name.", "I have forgotten that", ["role: cook"]),
    ("Remember that I take my coffee black.", "Forget about the coffee.", "I have forgotten that", []),
    ("Remember that I do not like tea.", "Forget that I like tea.", "I do not know that", ["I do not like tea"]),
    ("Remember that I own a dog.", "Forget that a", "I do not know that", ["I own a dog"]),
    ("I live in Rome", "Forget where I live", "I have forgotten that: I live in Rome", []),
    ("Remember that I like tea.", "What did we say about tea?", "I like tea", ["I like tea"]),
    ("", "What are the policies?", "Your organization has set no rules.", []),
    ("", "Which skills do you have?", "I have no skills here.", []),
    ("", "Good morning!", "Hello!", []),
    ("", "help", "I am the offline model", []),
    ("", "Thanks a lot", "You are welcome.", []),
    ("", "I like leek.", "Noted. It is not in memory yet", []),
    ("", "What's the capital of France?", "I cannot answer that", []),
    ("", "Merk dir, dass mein Hund Rex heißt.", "mein Hund heißt Rex", ["mein Hund heißt Rex"]),
    ("", "Merk dir bitte: der Müll geht dienstags", "Das merke ich mir", ["der Müll geht dienstags"]),
    ("", "Vergiss nicht, dass ich keinen Fisch esse!", "ich esse keinen Fisch", ["ich esse keinen Fisch"]),
    ("", "Hallo, ich heiße Jonas.", "Freut mich, Jonas.", ["name: Jonas"]),
    ("", "Ich wohne in Berlin.", "dass du in Berlin wohnst", ["Ich wohne in Berlin"]),
    ("", "Ich bin letzte Woche nach Köln gezogen", "in Köln wohnst", ["Ich bin letzte Woche nach Köln gezogen"]),
    ("", "Meine Lieblingsfarbe ist Blau.", "Lieblingsfarbe: Blau", ["Meine Lieblingsfarbe ist Blau"]),
    ("", "Ich bin Lehrer.", "Ich bin Lehrer", ["Ich bin Lehrer"]),
    ("Ich wohne in Berlin.", "Eigentlich wohne ich jetzt in Hamburg.", "Hamburg", ["ich wohne jetzt in Hamburg"]),
    ("Mein Name ist Jonas.", "Wie heiße ich?", "Du heißt Jonas.", ["name: Jonas"]),
    ("Ich wohne in Berlin.", "Wo wohne ich denn?", "Du wohnst in Berlin.", ["Ich wohne in Berlin"]),
    ("Meine Lieblingsfarbe ist Blau", "Was ist meine Lieblingsfarbe?", "Blau", ["Meine Lieblingsfarbe ist Blau"]),
    ("Ich heiße Jonas.", "Wer bin ich?", "- Du heißt Jonas.", ["name: Jonas"]),
    ("Merk dir, dass ich Tee mag.", "Was weißt du über mich?", "- ich mag Tee", ["ich mag Tee"]),
    ("Merk dir, dass ich Tee mag.", "Vergiss bitte, dass ich Tee mag.", "Das habe ich vergessen: ich mag Tee.", []),
    ("Merk dir, dass ich Tee mag.", "Was haben wir über Tee gesagt?", "ich mag Tee", ["ich mag Tee"]),
    ("", "Welche Regeln gelten hier?", "Deine Organisation hat keine Regeln festgelegt.", []),
    ("", "Welche Fähigkeiten hast du?", "Ich habe hier keine Skills.", []),
    ("", "Guten Morgen", "Hallo!", []),
    ("", "Hilfe", "Ich bin das Offline-Modell", []),
    ("", "Vielen Dank", "Gern.", []),
    ("", "Ich spiele gern Schach.", "Notiert. Im Gedächtnis steht es noch nicht", []),
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


def test_no_statement_that_is_noted_is_lost_to_consolidation() -> None:
    noted = [said for _, said, answered, _ in TABLE if answered.startswith(("Noted", "Notiert"))]
    assert len(noted) == 2
    for said in noted:
        (call,) = consolidate("", [f"user: {said}"]).tool_calls
        assert call["args"]["text"] == f"- {said.rstrip('.')}"


async def test_what_is_taken_back_is_not_repeated(offline: Graph, store: BaseStore) -> None:
    for number, text in enumerate(("My name is Anna. I live in Rome.", "Forget my name.", "Actually, I live in Bern.")):
        await offline.turn(text, thread=str(number))
    for number, text in enumerate(("What's my name?", "Who am I?", "Where do I live?", "What do you know about me?")):
        answered = (await offline.turn(text, thread=f"later {number}"))[-1]
        assert [word for word in ("Anna", "Rome") if word in answered] == []
    assert remembered(store) == ["I live in Bern"]


async def test_it_says_once_that_it_is_a_stand_in(offline: Graph) -> None:
    """At the beginning of a conversation, to a person of whom nothing is remembered."""
    first = await offline.turn("Hello")
    first = await offline.turn("My name is Anna.")
    assert sum(said in text for text in first for said in STAND_IN) == 1
    for thread in ("2", "3"):
        assert not any(said in text for text in await offline.turn("Hello", thread=thread) for said in STAND_IN)
    assert STAND_IN[1] in (await offline.turn("Guten Tag", user="bob", thread="4"))[-1]


@pytest.mark.parametrize("closed", ["paused", "temporary", "read-only"])
@pytest.mark.parametrize(
    "text", ["Remember that I like tea.", "My name is Anna.", "Actually, I like tea.", "I like leek.", "Forget tea."]
)
def test_where_nothing_can_be_written_it_says_so_and_claims_nothing(closed: str, text: str) -> None:
    memory = "<memory>\nintro\n\n## /memories/preferences.md\n\n- I like green tea\n</memory>"
    prompts = {
        "paused": f"{memory}\n{deployed().prompt('paused_block.md')}",
        "temporary": deployed().prompt("temporary_block.md"),
        "read-only": memory,
    }
    tools = {"edit_file"} if closed in {"temporary", "read-only"} else {"edit_file", "append_memory", "save_profile"}
    message = answer([SystemMessage(prompts[closed]), HumanMessage(text)], tools)
    said = {"paused": "memory is paused", "temporary": "This is a temporary conversation. Nothing of earlier ones"}
    assert said.get(closed, "I cannot write memory during a conversation") in message.text
    assert message.tool_calls == []
    assert "I will remember" not in message.text


@pytest.mark.parametrize("refusal", ["Error: Permission denied for '/x': Memory is paused.", "User rejected the tool call", ""])
def test_a_refused_write_is_not_claimed(refusal: str) -> None:
    tools = {"append_memory", "save_profile"}
    asked: list[Any] = [SystemMessage(""), HumanMessage("My name is Anna. Remember that I like tea.")]
    called = answer(asked, tools)
    name, line = (str(call["id"]) for call in called.tool_calls)
    results = [ToolMessage("Saved /memories/profile.json.", tool_call_id=name), ToolMessage(refusal, tool_call_id=line)]
    said = answer([*asked, called, *results], tools).text
    assert "Nice to meet you, Anna." in said
    assert "I will remember that: I like tea" not in said
    assert "paused" in said or "I could not write that" in said


TALK = """2026-01-02 thread_id=b
  1. user: Forget that I like trains. Actually, I live in Bern.
  2. assistant: I have forgotten that: I like trains.

2026-01-01 thread_id=a
  1. user: Remember that I like trains. My train to Lisbon leaves at nine.
  2. tool: called append_memory {"text": "- I like trains"}
  3. agent: I will remember that: trains are yours.
  4. user: What did we say about trains?"""


def test_an_answer_about_past_talk_is_no_transcript() -> None:
    tools = {"append_memory", "search_past_conversations"}
    asked: list[Any] = [SystemMessage(PROMPT), HumanMessage("What did we say about trains?")]
    called = answer(asked, tools)
    result = ToolMessage(TALK, tool_call_id=str(called.tool_calls[0]["id"]))
    said = answer([*asked, called, result], tools).text
    assert said == 'On 2026-01-01 you said: "My train to Lisbon leaves at nine"'
    nothing = ToolMessage("Nothing found in 2 earlier conversations.", tool_call_id=str(called.tool_calls[0]["id"]))
    assert "I found nothing about trains" in answer([*asked, called, nothing], tools).text


def test_the_prompt_is_not_printed() -> None:
    """Policies and skills are told without the prompt's own words, and so is everything else."""
    d = deployed()
    files = "## /policies/a.md\n\nNobody shares prices."
    skills = "- **memo**: writes memos\n  -> Read `/skills/memo/SKILL.md` for full instructions"
    blocks = (
        d.prompt("policies_block.md").replace("{files}", files),
        d.prompt("skills_block.md").replace("{skills_list}", skills),
    )
    memory = d.prompt("memory_block.md").replace("{files}", "## /memories/preferences.md\n\n[9 bytes left out; read_file x]")
    prompt = SystemMessage("\n\n".join((d.prompt("agent.md"), *blocks, memory)))
    own = {
        line for line in str(prompt.text).splitlines() if len(line.split()) > 4 or "/policies/" in line or "left out" in line
    }
    for said in ("What are the policies?", "Which skills do you have?", "What do you know about me?", "help", "Who are you?"):
        answered = answer([prompt, HumanMessage(said)], set()).text
        assert [line for line in own if line in answered] == []
    assert "Nobody shares prices." in answer([prompt, HumanMessage("What are the policies?")], set()).text
    assert "**memo**: writes memos" in answer([prompt, HumanMessage("Which skills do you have?")], set()).text


async def test_it_streams_word_by_word_with_the_calls_at_the_end() -> None:
    """Also as `build_model` gives it: wrapped first, then bound."""

    @tool
    def append_memory(path: str, text: str) -> str:
        """Add."""
        return path + text

    bound = whole_answers(OfflineModel(), deployed().limits).bind_tools([append_memory])
    chunks = [chunk async for chunk in bound.astream("Remember that I like tea.")]
    assert [call["args"]["text"] for call in chunks[-1].tool_calls] == ["- I like tea"]
    words = [str(chunk.text) async for chunk in bound.astream("Hello")]
    assert len(words) > 10
    assert "".join(words) == (await bound.ainvoke("Hello")).text == bound.invoke("Hello").text


@pytest.mark.parametrize(
    "unit",
    ["a", " ", "I ", "my favourite ", "hi, ", "no, ", "remember ", "ich bin ", "dass a ", "- ", "1. ", "and i ", "<", "\n\n"],
)
def test_a_line_of_100_kilobytes_is_not_read_and_every_pattern_is_linear(unit: str) -> None:
    long = unit * (100_000 // len(unit))
    began = time.process_time()
    said = answer([HumanMessage(long)], {"append_memory"}).text
    assert "longer than I can read" in said or "länger, als ich lesen kann" in said or not long.strip()
    assert time.process_time() - began < 0.5
    answer([HumanMessage(long[:MAX_CHARS])], {"append_memory"})
    assert time.process_time() - began < 2


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


# Those of the template's README.
PROMPTS = [
    "Remember that I prefer metric units.",
    "What do you know about me?",
    "What did we say about units?",
    "What are the policies?",
]


async def say(server: DevServer, identity: str, org: str, text: str, thread: str | None = None) -> tuple[str, str]:
    client = server.as_user(identity, org)
    thread = thread or str((await client.threads.create())["thread_id"])
    values: Any = await run_turn(client, thread, text)
    return values["messages"][-1]["content"], thread


async def found(server: DevServer, identity: str, org: str, thread: str) -> str:
    """What the tools of a thread answered last."""
    state: Any = await server.as_user(identity, org).threads.get_state(thread)
    return str([message["content"] for message in state["values"]["messages"] if message["type"] == "tool"][-1])


@pytest.mark.server
async def test_the_prompts_of_the_readme_prove_memory_across_threads_and_users(server: DevServer) -> None:
    remember, know, recall, policies = PROMPTS
    rules = "# Acme compliance\n\n1. Never give a personal opinion on an investment.\n"
    await server.as_operator().store.put_item(["policies", "acme"], "/compliance.md", create_file_data(rules))
    alice = ("alice@example.com", "acme")
    _, first = await say(server, *alice, remember)
    answer, second = await say(server, *alice, know)
    assert "metric units" in answer
    answer, _ = await say(server, *alice, recall, second)
    assert f"thread_id={first}" in await found(server, *alice, second)
    assert re.search(r'On \d{4}-\d\d-\d\d you said: ".*metric units"', answer)
    assert "user:" not in answer
    assert "I will remember" not in answer
    answer, _ = await say(server, *alice, policies, second)
    assert "Acme compliance" in answer
    for stranger in (("bob@example.com", "acme"), ("alice@example.com", "globex")):
        assert "metric" not in (await say(server, *stranger, know))[0]
        assert first not in (await say(server, *stranger, recall))[0]
    assert "Acme compliance" not in (await say(server, "alice@example.com", "globex", policies))[0]


def test_a_tidy_takes_out_what_stands_twice() -> None:
    shown = "## /memories/preferences.md\n\n# P\n- Metric units.\n- Tea\n- metric units\n\n"
    shown += "## /memories/topics/tea.md\n\n- tea!\n- Green"
    calls = [call["args"] for done in (0, 1) for call in consolidate("", [shown, *["Successfully"] * done]).tool_calls]
    assert [(one["file_path"], one["old_string"], one["new_string"]) for one in calls] == [
        ("/memories/preferences.md", "- Tea\n- metric units", "- Tea"),
        ("/memories/topics/tea.md", "- tea!\n- Green", "- Green"),
    ]
    assert consolidate("", [shown, "Successfully", "Successfully"]).text == "Done."


@pytest.mark.parametrize("text", ["About me:\n- Lives in Lyon\n- Likes tea", '{"a": ["Lives in Lyon"], "b": "Likes tea"}'])
def test_of_a_text_that_was_brought_each_line_is_added(text: str) -> None:
    (call,) = consolidate("", [f"# What the person brought\n\n{text}\n\n# Taken back\n\n- x"]).tool_calls
    assert call["args"]["text"] == "- Lives in Lyon\n- Likes tea"


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
