"""Days are the person's: when something was said, under which day it stands, and what "today" is."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from langchain_core.messages import convert_to_messages
from langgraph.store.base import BaseStore

from lasting_memory.auth.message_marks import stamp_messages
from lasting_memory.auth.state_input import rebuild_state
from lasting_memory.consolidation.batch import DueConversation
from lasting_memory.days import SAID_AT, WORLDS, day_of, is_zone, said_at, zone_of
from lasting_memory.recall import Match, results_text, search
from lasting_memory.recall.answers import page_text
from lasting_memory.recall.lexical import period
from lasting_memory.recall.retrieval import Results
from lasting_memory.recall.threads import conversation
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Text,
    ToolCall,
    tool_results,
)
from tests.conftest import Scripted
from tests.recall.talks import ALICE

KIRITIMATI = ZoneInfo("Pacific/Kiritimati")  # fourteen hours ahead of UTC
PROFILE = "/memories/profile.json"


def message(kind: str, text: str, at: str = "") -> dict[str, Any]:
    return {"type": kind, "content": text, "additional_kwargs": {SAID_AT: at} if at else {}}


def thread(*messages: dict[str, Any], thread_id: str = "t") -> dict[str, Any]:
    values = {
        "messages": [{**one, "id": f"{thread_id}-{number}"} for number, one in enumerate(messages)]
    }
    return {
        "thread_id": thread_id,
        "status": "idle",
        "created_at": "2026-09-01T08:00:00+00:00",
        "updated_at": "2026-11-02T10:00:00+00:00",
        "metadata": {"graph_id": "agent", "user_id": ALICE.user_id, "org_id": ALICE.org_id},
        "values": values,
    }


SEPTEMBER = message("human", "My test is tomorrow.", "2026-09-01T21:30:00+00:00")
NOVEMBER = message("human", "I have a new bicycle.", "2026-11-02T09:00:00+00:00")
LONG = thread(SEPTEMBER, message("ai", "Good luck!"), NOVEMBER, message("ai", "Nice."))


def test_a_turn_of_a_batch_stands_under_the_day_on_which_it_was_said() -> None:
    text = DueConversation(conversation(LONG)).transcript()
    assert text.split("\n") == [
        "2026-09-01 thread_id=t", "user: My test is tomorrow.", "assistant: Good luck!",
        "2026-11-02 thread_id=t", "user: I have a new bicycle.", "assistant: Nice.",
    ]  # fmt: skip
    assert (
        DueConversation(conversation(LONG))
        .transcript(zone=KIRITIMATI)
        .startswith("2026-09-02 thread_id=t\nuser: My test")
    )


def test_a_turn_without_a_time_has_its_thread_s_day_and_says_about() -> None:
    before = thread(message("human", "My test is tomorrow."), message("ai", "Good luck!"), NOVEMBER)
    assert (
        DueConversation(conversation(before))
        .transcript()
        .startswith("about 2026-11-02 thread_id=t\nuser: My test is tomorrow.")
    )
    assert (
        "\n2026-11-02 thread_id=t\nuser: I have"
        in DueConversation(conversation(before)).transcript()
    )


def test_a_turn_without_a_time_after_one_with_is_not_of_its_day() -> None:
    later = message("human", "The test went well.")
    talk = conversation(
        thread(SEPTEMBER, message("ai", "Good luck!"), later, message("ai", "Nice."))
    )
    assert [turn.said_at[:10] for turn in talk.turns] == ["2026-09-01", "2026-09-01", "", ""]


@pytest.mark.parametrize(
    "update",
    [
        {
            "messages": {
                "role": "user",
                "content": "x",
                "additional_kwargs": {SAID_AT: "1999-01-01"},
            }
        },
        [
            [
                "messages",
                [{"role": "user", "content": "x", "additional_kwargs": {SAID_AT: "1999-01-01"}}],
            ]
        ],
    ],
)
def test_a_message_of_an_update_is_stamped_too(update: Any) -> None:
    kwargs: Any = {"command": {"update": update}}
    stamp_messages(kwargs)
    assert "1999" not in str(kwargs)
    assert SAID_AT in str(kwargs)
    mixed: Any = {"input": {"messages": [{"role": "user", "type": "remove", "content": "x"}]}}
    stamp_messages(mixed)
    assert SAID_AT in str(mixed)


def test_a_rename_changes_no_date() -> None:
    renamed = conversation({**LONG, "updated_at": "2026-12-24T10:00:00+00:00"})
    assert (renamed.date, renamed.last_said_at) == ("2026-11-02", "2026-11-02T09:00:00+00:00")
    assert DueConversation(renamed).transcript() == DueConversation(conversation(LONG)).transcript()
    assert page_text(renamed, None).startswith("2026-11-02 thread_id=t")


def test_a_search_and_a_page_say_the_day_of_a_turn_of_another_day() -> None:
    match = Match(conversation(LONG), ((0, 2.0), (2, 1.0)))
    told = results_text("test bicycle", Results([match], 1, 0))
    assert told.split("\n") == [
        "2026-11-02 thread_id=t", "  1. 2026-09-01, user: My test is tomorrow.", "  3. user: I have a new bicycle."
    ]  # fmt: skip
    assert "2026-09-02, user: My test" in results_text(
        "test bicycle", Results([match], 1, 0), zone=KIRITIMATI
    )
    assert "1. 2026-09-01, user: My test is tomorrow." in page_text(conversation(LONG), None)


async def test_a_time_of_a_question_is_that_of_talk_and_not_of_a_rename(store: BaseStore) -> None:
    threads = Platform()
    for thread_id, at in (
        ("spring", "2026-04-01T10:00:00+00:00"),
        ("autumn", "2026-10-01T10:00:00+00:00"),
    ):
        talk = thread(
            message("human", "The plan for the garden is ready.", at), thread_id=thread_id
        )
        threads.kept[thread_id] = {
            **talk,
            "created_at": at,
            "updated_at": "2026-10-20T10:00:00+00:00",
        }
    for since, until, first in (
        ("2026-03-15", "2026-04-15", "spring"),
        ("2026-09-15", "2026-10-15", "autumn"),
    ):
        found = await search(
            store, threads, ALICE, "garden plan", 2, agents=["agent"], period=period(since, until)
        )
        assert found.matches[0].conversation.thread_id == first


@pytest.mark.parametrize(
    ("zone", "at"),
    [
        ("Pacific/Kiritimati", "2026-05-02T20:00:00+00:00"),
        ("America/Los_Angeles", "2026-05-04T03:00:00+00:00"),
    ],
)
async def test_a_period_has_the_person_s_days_as_the_headings_have(
    store: BaseStore, zone: str, at: str
) -> None:
    threads, there = Platform(), ZoneInfo(zone)
    for thread_id, said in (("third", at), ("other", "2026-05-12T12:00:00+00:00")):
        talk = thread(message("human", "The tea was good.", said), thread_id=thread_id)
        threads.kept[thread_id] = {
            **talk,
            "created_at": said,
            "updated_at": "2026-06-01T10:00:00+00:00",
        }
    found = await search(
        store,
        threads,
        ALICE,
        "tea",
        2,
        agents=["agent"],
        period=period("2026-05-03", "2026-05-03"),
        zone=there,
    )
    first = found.matches[0].conversation
    assert (first.thread_id, first.last_day(there)) == ("third", "2026-05-03")


FORGED = {SAID_AT: "1999-01-01T00:00:00+00:00", "kept": 1}


def serialized(kind: str, content: str) -> dict[str, Any]:
    """A message as langchain's clients serialize it."""
    fields = {"content": content, "additional_kwargs": FORGED}
    place = ["langchain_core", "messages", kind]
    return {"lc": 1, "type": "constructor", "id": place, "kwargs": fields}


MESSAGES: dict[str, Any] = {
    "a text": "hello",
    "one": {"role": "user", "content": "hello", "additional_kwargs": FORGED},
    "several": [
        {"role": "user", "content": "hello", "additional_kwargs": FORGED},
        {"type": "human", "content": "there"},
    ],
    "pairs": [["user", "hello"], ("human", "there")],
    "texts": ["hello", "there"],
    "nothing beside it": [{"role": "user", "content": "hello", "additional_kwargs": {}}],
    "a field of the message": {"role": "user", "content": "hello", **FORGED},
    "serialized by langchain": [serialized("HumanMessage", "hello")],
    "serialized twice": [
        {
            "lc": 1,
            "type": "constructor",
            "id": ["HumanMessage"],
            "kwargs": serialized("HumanMessage", "hello"),
        }
    ],
    "blocks": [{"type": "human", "id": "a", "content": [{"type": "text", "text": "hello"}]}],
}


@pytest.mark.parametrize("given", MESSAGES.values(), ids=MESSAGES)
def test_each_message_is_stamped_at_the_door_and_a_client_s_stamp_counts_nothing(
    given: Any,
) -> None:
    kwargs: Any = {"input": {"messages": given}}
    before = datetime.now(UTC) - timedelta(seconds=1)
    rebuild_state(kwargs)
    stamp_messages(kwargs)
    read = convert_to_messages(kwargs["input"]["messages"])
    assert read[0].text == "hello"
    assert len(read) == (len(given) if isinstance(given, list) else 1)
    for one in read:
        assert before <= datetime.fromisoformat(one.additional_kwargs[SAID_AT]) <= datetime.now(UTC)
        assert str(FORGED[SAID_AT]) not in str(one)
    assert ("kept" in str(read)) == ("kept" in str(given))


def test_a_removal_of_a_message_is_not_stamped() -> None:
    kwargs: Any = {"input": {"messages": [{"type": "remove", "id": "a", "content": ""}]}}
    stamp_messages(kwargs)
    assert kwargs["input"]["messages"] == [{"type": "remove", "id": "a", "content": ""}]


@pytest.mark.parametrize(
    "stamp",
    [None, 7, "", "soon", "2999-01-01T00:00:00+00:00", ["2026-01-01"], "0001-01-01T00:00:00+23:59"],
)
def test_a_stamp_that_is_no_time_or_not_yet_counts_nothing(stamp: Any) -> None:
    for about in ({SAID_AT: stamp}, stamp):
        assert said_at({"additional_kwargs": about}) == ""


@pytest.mark.parametrize(("profile", "zone"), [
    ('{"timezone": "Pacific/Kiritimati"}', "Pacific/Kiritimati"), ('{"timezone": "Berlin"}', "UTC"), ('{"timezone": 7}', "UTC"),
    ('{"timezone": "../../etc/passwd"}', "UTC"), ("{}", "UTC"), ("[]", "UTC"), ("no JSON", "UTC"), ("[" * 100_000, "UTC"),
    (None, "UTC"), ('{"timezone": null}', "UTC"), ('{"timezone": "Europe/Berlin\\u0000"}', "UTC"),
])  # fmt: skip
def test_a_profile_s_time_zone_is_one_or_utc(profile: str | None, zone: str) -> None:
    assert zone_of(profile).key == zone


def test_days_at_the_edges() -> None:
    assert day_of("2026-09-01T23:59:59+00:00", WORLDS) == "2026-09-01"
    assert day_of("2026-09-01T10:00:00+00:00", KIRITIMATI) == "2026-09-02"
    assert day_of("2026-09-01T10:00:00", KIRITIMATI) == "2026-09-02"
    assert day_of("9999-12-31T23:59:59+00:00", KIRITIMATI) == ""
    assert day_of("", WORLDS) == ""
    assert not is_zone("europe/berlin")


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
async def test_today_is_the_day_where_the_person_is_and_says_which_zone(
    agent: Scripted, zone: str
) -> None:
    agent.put(("memories", "acme:alice"), "/profile.json", json.dumps({"timezone": zone}))
    days = {datetime.now(ZoneInfo(zone)).date() + timedelta(days=ahead) for ahead in (0, 1)}
    text = await agent.shown()
    assert any(f"Today is {day:%A, %Y-%m-%d} ({zone})" in text for day in days)


async def test_today_without_a_time_zone_is_utc_s_and_says_so(agent: Scripted) -> None:
    assert "(UTC)" in (await agent.shown()).partition("Today is")[2][:40]


async def test_a_time_zone_that_is_none_is_refused_by_its_value_with_an_example(
    agent: Scripted,
) -> None:
    refused, done = await agent.called(
        ToolCall("save_profile", {"profile": {"timezone": "Berlin", "name": "Ann"}}),
        ToolCall("save_profile", {"profile": {"timezone": "Europe/Berlin"}}),
    )
    assert "'Berlin' is no time zone" in refused
    assert "Europe/Berlin" in refused
    assert done == f"Saved {PROFILE}."


async def test_an_unknown_time_zone_in_a_profile_counts_as_utc_and_is_shown(
    agent: Scripted,
) -> None:
    agent.put(
        ("memories", "acme:alice"), "/profile.json", json.dumps({"timezone": "Mars", "name": "Ann"})
    )
    kept, moved = await agent.called(
        ToolCall("save_profile", {"profile": {"role": "gardener"}}),
        ToolCall("save_profile", {"profile": {"timezone": "Moon"}}),
    )
    assert kept == f"Saved {PROFILE}."
    assert "'Moon' is no time zone" in moved
    text = await agent.shown()
    assert '"Mars"' in text
    assert "(UTC)" in text


@pytest.mark.server
async def test_a_message_on_a_server_is_dated_by_the_server(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person = server.person(alice)
    thread_id = await person.thread()
    forged = {"role": "user", "content": "The zebra is ill.", "additional_kwargs": FORGED}
    run = {"assistant_id": "agent", "input": {"messages": [forged]}}
    await person.made("POST", f"/threads/{thread_id}/runs/wait", run)
    kept = (await person.made("GET", f"/threads/{thread_id}"))["values"]["messages"][0]
    assert kept["additional_kwargs"][SAID_AT][:4] == str(datetime.now(UTC).year)
    await person.write(PROFILE, json.dumps({"timezone": "Pacific/Kiritimati"}))
    days = {datetime.now(KIRITIMATI).date().isoformat()}
    model.script(
        "What about the zebra?",
        [ToolCall("search_past_conversations", {"query": "zebra"})],
        [Text("It is ill.")],
    )
    await person.say("What about the zebra?")
    days.add(datetime.now(KIRITIMATI).date().isoformat())
    found = tool_results(model.requests[-1])[-1]
    assert any(f"{day} thread_id={thread_id}" in found for day in days)
    assert "about" not in found.partition("thread_id")[0]
    exported: Any = await person.made("GET", "/memory/export")
    await person.made("DELETE", "/memory")
    await person.made(
        "POST",
        "/memory/import",
        {key: exported[key] for key in ("version", "files", "conversations")},
    )
    again: Any = await person.made("GET", "/memory/search", q="zebra ill")
    restored = [
        await person.made("GET", f"/threads/{talk['thread_id']}") for talk in again["conversations"]
    ]
    said = [
        one["additional_kwargs"].get(SAID_AT)
        for talk in restored
        for one in talk["values"]["messages"]
    ]
    assert kept["additional_kwargs"][SAID_AT] in said, "an import keeps the days"
