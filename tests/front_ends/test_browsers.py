"""What a browser's front end needs of the server: headers that scripts may read, and titles in the list of threads."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

import httpx
import pytest
from langchain_core.messages import HumanMessage
from langgraph_sdk.errors import NotFoundError

from memory.recall.titles import MAX_TITLE_CHARS, title_of
from testing.dev_server import DevServer, dev_token, run_turn
from testing.scripted_anthropic import Failure, ScriptedAnthropic, Text, after

ORIGIN = {"Origin": "http://localhost:3000"}


@pytest.mark.server
async def test_scripts_may_read_by_which_path_a_stream_is_joined_again(server: DevServer, alice: str) -> None:
    headers = {**ORIGIN, "Authorization": f"Bearer {dev_token('acme', alice)}"}
    body = {"assistant_id": "agent", "input": {"messages": "hello"}, "on_disconnect": "continue", "stream_resumable": True}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=30) as http:
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        answer = await http.post(f"/threads/{thread}/runs/stream", json=body)
        exposed = {name.strip() for name in answer.headers["access-control-expose-headers"].lower().split(",")}
        assert {"location", "content-location", "x-pagination-total"} <= exposed
        assert answer.headers["access-control-allow-origin"] == ORIGIN["Origin"]
        joined = await http.get(answer.headers["location"], headers={"last-event-id": "-1"})
        assert "event: values" in joined.text


@pytest.mark.server
async def test_a_thread_is_titled_once_by_what_was_said_first(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    client = server.as_user(alice)
    made = [await client.threads.create(metadata=metadata) for metadata in ({}, {"title": "Mine"})]
    threads = [str(thread["thread_id"]) for thread in made]

    async def talk(thread: str) -> str:
        for text in ("I moved to Oslo", "and now?"):
            await run_turn(client, thread, text)
        metadata: Any = (await client.threads.get(thread))["metadata"]
        return str(metadata["title"])

    assert await asyncio.gather(*map(talk, threads)) == ["I moved to Oslo", "Mine"]
    created = str(uuid.uuid4())
    await run_turn(client, created, "hello", if_not_exists="create")
    metadata: Any = (await client.threads.get(created))["metadata"]
    assert (metadata["title"], metadata["user_id"]) == ("hello", alice)
    stranger = server.as_user(f"other-{alice}")
    with pytest.raises(NotFoundError):
        await stranger.threads.update(threads[0], metadata={"title": "not mine"})


@pytest.mark.server
async def test_a_thread_has_its_title_before_the_model_has_answered(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, go_on = server.as_user(alice), threading.Event()
    model.script("Rain in Bergen", after(go_on, [Text("always")]))
    thread = str((await client.threads.create())["thread_id"])
    turn = asyncio.create_task(run_turn(client, thread, "Rain in Bergen"))
    title = None
    for _ in range(400):
        if title := ((await client.threads.get(thread))["metadata"] or {}).get("title"):
            break
        await asyncio.sleep(0.05)
    running = not turn.done()
    go_on.set()
    await turn
    assert (title, running) == ("Rain in Bergen", True)


@pytest.mark.server
async def test_a_turn_that_fails_has_titled_its_thread(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    client = server.as_user(alice)
    model.script("Snow in Bergen", Failure(400, "invalid_request_error", "no"))
    thread = str((await client.threads.create())["thread_id"])
    with pytest.raises(Exception, match="internal error"):
        await run_turn(client, thread, "Snow in Bergen")
    metadata: Any = (await client.threads.get(thread))["metadata"]
    assert metadata["title"] == "Snow in Bergen"


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("  Two\nlines\tand \x00 more ", "Two lines and more"),
        ([{"type": "text", "text": "with a picture"}, {"type": "image_url", "image_url": "data:,"}], "with a picture"),
        ("", ""),
        ("word " * 100, ("word " * 15).strip() + "…"),
        ("x" * 10_000_000, "x" * (MAX_TITLE_CHARS - 1) + "…"),
    ],
)
def test_a_title_is_one_short_line(content: Any, title: str) -> None:
    assert title_of(HumanMessage(content)) == title
