"""What a browser's front end needs of the server: headers that scripts may read, and titles in the list of threads."""

import httpx
import pytest
from langgraph_sdk.errors import NotFoundError

from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn

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
async def test_a_list_of_threads_has_what_was_said_first_without_their_messages(server: DevServer, alice: str) -> None:
    """Which front ends show as the title, until the owner renames it."""
    client = server.as_user(alice)
    thread = str((await client.threads.create())["thread_id"])
    for text in ("I moved to Oslo", "and now?"):
        await run_turn(client, thread, text)
    shown = {"select": ["thread_id", "metadata"], "extract": {"title": "values.messages[0].content"}}
    (listed,) = await client.http.post("/threads/search", json=shown)
    assert (listed["extracted"]["title"], "values" in listed) == ("I moved to Oslo", False)
    await client.threads.update(thread, metadata={"title": "Oslo"})
    (listed,) = await client.http.post("/threads/search", json=shown)
    assert (listed["metadata"]["title"], listed["metadata"]["user_id"]) == ("Oslo", alice)
    with pytest.raises(NotFoundError):
        await server.as_user(f"other-{alice}").threads.update(thread, metadata={"title": "not mine"})
