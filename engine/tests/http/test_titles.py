"""A conversation gets a title once: text, and short, whatever was said first. The real server."""

import uuid
from typing import Any

import pytest

from lasting_memory.conversations.titles import TITLE_CHARS, title_of
from lasting_memory.testing.people import Person
from tests.auth.test_messages import ATTACHED, FILE, PICTURE, TEXT, human

Body = dict[str, Any]


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("I like\n  dill", "I like dill"),
        ([TEXT, PICTURE], "look"),
        ([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, TEXT], "look"),
        ([{"type": "text-plain", "text": "secret", "title": "letter.txt"}], "letter.txt"),
        ([PICTURE], ""),
        ("x" * 80, "x" * 80),
        ("word " * 100_000, "word " * 15 + "word…"),
        ("a\0b\ud800", "a b?"),
        ("a\x1b[31m\x07b", "a [31m b"),
        ("\ufeffI like\u200b dill\u202e", "I like dill"),
        ("\u200b\u2060\u200d", ""),
        (["\u200b", {"type": "text-plain", "text": "secret", "title": "letter.txt"}], "letter.txt"),
        ("می\u200cشد", "می\u200cشد"),
        (None, ""),
        ({"anything": "x"}, ""),
        (" \n ", ""),
    ],
)
def test_a_title_is_text_and_short(content: Any, title: str) -> None:
    made = title_of([{"type": "system", "content": "You"}, {"type": "human", "content": content}])
    assert made == title
    assert len(made) <= TITLE_CHARS


async def metadata_of(person: Person, thread: str) -> Body:
    metadata: Body = (await person.made("GET", f"/threads/{thread}"))["metadata"]
    return metadata


async def sent(person: Person, thread: str, *blocks: Any, **more: Any) -> None:
    body = {
        "assistant_id": "agent",
        "input": {"messages": [human(*blocks, **more)]},
        "if_not_exists": "create",
    }
    await person.made("POST", f"/threads/{thread}/runs/wait", body)


@pytest.mark.server
@pytest.mark.parametrize("is_made_by_run", [False, True])
async def test_a_thread_gets_its_title_once(ada: Person, is_made_by_run: bool) -> None:
    thread = str(uuid.uuid4()) if is_made_by_run else await ada.thread()
    await sent(ada, thread, PICTURE)
    assert "title" not in await metadata_of(ada, thread), "there are no words yet"
    about = {"attachments": [{"name": "notes.txt", "block": 1}]}
    await sent(
        ada,
        thread,
        {"type": "text", "text": "I like dill " * 20},
        FILE,
        PICTURE,
        additional_kwargs=about,
    )
    title = (await metadata_of(ada, thread))["title"]
    assert title.startswith("I like dill I like")
    assert len(title) <= TITLE_CHARS
    assert "wombats" not in title
    await ada.turn(thread, "something else")
    assert (await metadata_of(ada, thread))["title"] == title
    await ada.made("PATCH", f"/threads/{thread}", {"metadata": {"title": "Herbs"}})
    await ada.turn(thread, "and rye")
    assert (await metadata_of(ada, thread))["title"] == "Herbs"


@pytest.mark.server
async def test_a_title_follows_the_only_message_when_that_is_edited(ada: Person) -> None:
    thread = await ada.thread()
    await ada.turn(thread, "I like dill")
    messages = (await ada.made("GET", f"/threads/{thread}"))["values"]["messages"]
    removed = [{"type": "remove", "id": message["id"], "content": ""} for message in messages]
    body = {
        "assistant_id": "agent",
        "input": {"messages": [*removed, human(TEXT)]},
        "multitask_strategy": "reject",
    }
    await ada.made("POST", f"/threads/{thread}/runs/wait", body)
    assert (await metadata_of(ada, thread))["title"] == "look"
    assert "dill" not in str(await metadata_of(ada, thread))


@pytest.mark.server
async def test_lists_name_a_conversation_by_its_first_run(ada: Person) -> None:
    thread = str(uuid.uuid4())
    await sent(ada, thread, TEXT, FILE, {**PICTURE}, additional_kwargs=ATTACHED)
    listed = await ada.made(
        "POST", "/threads/search", {"ids": [thread], "select": ["thread_id", "metadata"]}
    )
    assert listed[0]["metadata"]["title"] == "look"


@pytest.mark.server
async def test_temporary_conversations_have_no_title_and_no_other_thread_a_persons(
    ada: Person,
) -> None:
    thread = await ada.thread(temporary=True)
    await ada.turn(thread, "I like dill")
    assert "title" not in await metadata_of(ada, thread)
    of_run = str(uuid.uuid4())
    body = {
        "assistant_id": "agent",
        "input": {"messages": "hello"},
        "if_not_exists": "create",
        "metadata": {"temporary": True},
    }
    await ada.made("POST", f"/threads/{of_run}/runs/wait", body)
    assert "title" not in await metadata_of(ada, of_run)


@pytest.mark.server
async def test_a_title_is_set_while_the_run_goes_on(ada: Person) -> None:
    thread = await ada.thread()
    await ada.turn(thread, "I like dill")
    found = await ada.made("GET", f"/threads/{thread}")
    history = await ada.made("GET", f"/threads/{thread}/history")
    assert found["metadata"]["title"] == "I like dill"
    states = [state["created_at"] for state in history]
    assert found["updated_at"] >= max(states), "the date is that of the turn's end"
    before = found["updated_at"]
    await ada.made(
        "POST", "/threads/search", {"ids": [thread], "select": ["thread_id", "metadata"]}
    )
    assert (await ada.made("GET", f"/threads/{thread}"))["updated_at"] == before
