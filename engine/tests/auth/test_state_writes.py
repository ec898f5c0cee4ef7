"""When something was said, and which media were refused, says the server: in whatever form a client
writes it, and at whatever door.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lasting_memory import platform
from lasting_memory.auth import state_writes
from lasting_memory.auth.handler_values import RunState
from lasting_memory.auth.state_input import rebuild_state
from lasting_memory.auth.state_writes import rebuilt_state_write
from lasting_memory.days import SAID_AT, said_at
from lasting_memory.sent_content import REFUSED_MEDIA
from lasting_memory.testing.people import Person

Body = dict[str, Any]
OLD = {SAID_AT: "1999-01-01T00:00:00+00:00"}
NOTE = {REFUSED_MEDIA: ["first"]}


def human(content: str, **more: Any) -> Body:
    return {"type": "human", "content": content, "additional_kwargs": {**OLD, "kept": 1}, **more}


FORGED: dict[str, Any] = {
    "a message": human("hello"),
    "a role": {"role": "user", "content": "hello", "additional_kwargs": OLD},
    "a field": {"role": "user", "content": "hello", **OLD},
    "a text": "hello",
    "a pair": ["user", "hello"],
    "several": [human("hello"), human("there")],
    "serialized": {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", "HumanMessage"],
        "kwargs": human("hello"),
    },
    "a note": {"type": "ai", "content": "hello", "response_metadata": NOTE},
    "a serialized note": {
        "lc": 1,
        "type": "constructor",
        "id": ["AIMessage"],
        "kwargs": {"content": "hello", "response_metadata": NOTE, "additional_kwargs": OLD},
    },
}
# Where in the body of a request a state stands.
DOORS: dict[str, Any] = {
    "values": lambda state: {"values": state},
    "a list of values": lambda state: {"values": [{}, state]},
    "supersteps": lambda state: {"supersteps": [{"updates": [{"values": state}]}]},
    "an update": lambda state: {"supersteps": [{"updates": [{"command": {"update": state}}]}]},
    "pairs": lambda state: {
        "supersteps": [{"updates": [{"command": {"update": [*state.items()]}}]}]
    },
}


@pytest.mark.parametrize("messages", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("door", DOORS)
async def test_a_client_s_state_write_sets_no_times_and_no_refused_media(
    door: str, messages: Any
) -> None:
    is_several = messages == FORGED["several"]
    listed: list[Any] = messages if is_several else [messages]
    state = {"messages": listed, "other": 7}
    written = await rebuilt_state_write(json.dumps(DOORS[door](state)).encode(), "")
    text = written.decode()
    assert "1999" not in text
    assert REFUSED_MEDIA not in text
    assert text.count(SAID_AT) == len(listed)
    assert text.count(f'"{SAID_AT}": "{datetime.now(UTC).year}') == len(listed)
    assert text.count("hello") == 1
    assert ("kept" in text) == ("kept" in json.dumps(messages))
    assert "other" in text


@pytest.mark.parametrize("name", ["a note", "a serialized note"])
def test_a_run_s_input_sets_no_refused_media(name: str) -> None:
    request: RunState = {"input": {"messages": [json.loads(json.dumps(FORGED[name]))]}}
    rebuild_state(request)
    assert REFUSED_MEDIA not in json.dumps(request)


@pytest.mark.parametrize(
    "body",
    [b"", b"no JSON", b"[]", b"7", b'{"values": null}', b'{"values": {"other": 1}}', b"[" * 200],
)
async def test_a_state_write_without_messages_passes_as_it_is(body: bytes) -> None:
    assert await rebuilt_state_write(body, "") is body


async def test_numbers_of_any_length_are_numbers() -> None:
    digits = "9" * 30
    body = f'{{"values": {{"messages": ["hello"], "other": [{digits}, {"9" * 9_000}]}}}}'
    written = await rebuilt_state_write(body.encode(), "")
    assert f"[{digits}, " in written.decode()


async def test_an_echo_keeps_the_thread_s_own_marks_and_other_words_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = "2026-01-02T03:04:05+00:00"
    own = [
        {
            "type": "human",
            "id": "a",
            "content": "I have a cat.",
            "additional_kwargs": {SAID_AT: at},
        },
        {"type": "ai", "id": "b", "content": "A note.", "response_metadata": NOTE},
        {"type": "human", "id": "c", "content": "Of before."},
        {"type": "human", "id": ["odd"], "content": "odd"},
    ]

    async def known(*_: object) -> list[object]:
        return own

    monkeypatch.setattr(state_writes, "_stored_messages", known)
    monkeypatch.setattr(platform, "as_nobody", lambda call: call)
    sent = [
        human("I have a cat.", id="a"),
        {"type": "ai", "id": "b", "content": "A note."},
        human("Of before.", id="c"),
        human("I have a cow.", id="a"),
    ]
    body = json.dumps({"values": {"messages": sent}}).encode()
    written = json.loads(await rebuilt_state_write(body, "t"))["values"]["messages"]
    assert [said_at(message) for message in written[:3]] == [at, "", ""]
    assert written[1]["response_metadata"] == NOTE
    assert said_at(written[3]) > at


@pytest.mark.server
async def test_a_person_who_writes_their_thread_s_state_cannot_date_its_messages(
    ada: Person,
) -> None:
    thread = await ada.thread()
    run = {"assistant_id": "agent", "input": {"messages": [human("I have a cat.", id="first")]}}
    await ada.made("POST", f"/threads/{thread}/runs/wait", run)
    before = (await ada.made("GET", f"/threads/{thread}"))["values"]["messages"]
    assert said_at(before[0])[:4] == str(datetime.now(UTC).year)
    other = {**before[1], "response_metadata": NOTE}
    values = {"messages": [human("I have a cat.", id="first"), other, human("And a dog.")]}
    await ada.made("POST", f"/threads/{thread}/state", {"values": values})
    after = (await ada.made("GET", f"/threads/{thread}"))["values"]["messages"]
    assert [message["content"] for message in after][::2] == ["I have a cat.", "And a dog."]
    assert said_at(after[0]) == said_at(before[0]), "an echo keeps its time"
    assert said_at(after[2]) >= said_at(before[0])
    assert REFUSED_MEDIA not in json.dumps(after)
    changed = {"values": {"messages": [human("I have a cow.", id="first")]}}
    await ada.made("POST", f"/threads/{thread}/state", changed)
    steps = [{"updates": [{"values": {"messages": [human("A fish.")]}, "as_node": "__start__"}]}]
    made = await ada.made(
        "POST", "/threads", {"metadata": {"graph_id": "agent"}, "supersteps": steps}
    )
    for thread_id in (thread, made["thread_id"]):
        assert "1999" not in json.dumps(await ada.made("GET", f"/threads/{thread_id}"))
