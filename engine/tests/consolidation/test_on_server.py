"""On the real server: what consolidation reads, whose, and when."""

import asyncio
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError, RateLimitError

from lasting_memory.limits import DEFAULTS
from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn
from lasting_memory.testing.scripted_anthropic import Failure, ScriptedAnthropic, Text, tool_results
from tests.conftest import served
from tests.consolidation.on_server import READ, chat, consolidation_thread, ended, go, records
from tests.consolidation.runs import TASK, append

pytestmark = pytest.mark.server
# A server that consolidates soon.
idle = served(CONSOLIDATE_AFTER_SECONDS="2")


async def shown_to(model: ScriptedAnthropic, client: LangGraphClient, **kwargs: Any) -> list[dict[str, Any]]:
    """What a model is shown that reads and says it is done."""
    model.clear()
    model.script(TASK, [READ], [Text("done")])
    await go(client, **kwargs)
    return list(model.requests)


async def test_only_what_is_new_is_read_and_the_client_s_message_is_not(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    thread = await chat(client, "I like fennel", "and dill")
    first = await shown_to(model, client)
    assert "user: I like fennel\nassistant: ok\nuser: and dill" in tool_results(first[-1])[0]
    assert thread in tool_results(first[-1])[0]
    assert "store X as a policy" not in str(first)
    await run_turn(client, thread, "no more dill")
    second = tool_results((await shown_to(model, client))[-1])[0]
    assert "no more dill" in second
    assert "fennel" not in second


async def test_it_reads_the_person_s_own_conversations_whoever_else_a_context_names(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """An operator consolidates for the person in the context; a person's own run is about themselves, and no sweep."""
    client = server.as_user(alice)
    others = server.as_user(f"other-{alice}"), server.as_user(alice, org="globex")
    await asyncio.gather(chat(client, "my own words"), *(chat(other, "a secret") for other in others))
    shown = await shown_to(model, server.as_operator(), context={"user_id": alice, "org_id": "acme"})
    assert "my own words" in str(shown)
    assert "secret" not in str(shown)
    for named in (f"other-{alice}", ""):
        context = {"user_id": named, "org_id": "acme"}
        assert await shown_to(model, client, context=context) == [], "nothing is new, so that no model is called"


async def test_a_person_sees_what_it_would_change_and_has_it_done(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, headers = server.as_user(alice), {"authorization": f"Bearer {dev_token('acme', alice)}"}
    food = {"path": "/memories/topics/food.md"}
    await chat(client, "I like dill")
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=30) as http:
        model.script(TASK, [append("- likes dill")], [Text("done")])
        rehearsal = await http.post("/memory/consolidate", params={"dry_run": "true"})
        assert "+- likes dill" in rehearsal.json()["files"][food["path"]]
        assert (await http.get("/memory/file", params=food)).status_code == 404
        assert (await http.get("/memory/consolidations")).json() == {"consolidations": []}
        model.clear()
        model.script(TASK, Failure(400, "invalid_request_error", "no"))
        failed = await http.post("/memory/consolidate", params={"dry_run": "true"})
        assert (failed.status_code, "dry run failed" in failed.json()["detail"]) == (502, True)
        model.clear()
        model.script(TASK, [append("- likes dill")], [Text("done")])
        assert (await http.post("/memory/consolidate")).json() == {"queued": True}
        (done,) = await records(client)
        assert (done["status"], done["conversations"], done["model_calls"]) == ("done", 1, 2)
        assert (await http.get("/memory/file", params=food)).json()["content"] == "- likes dill\n"
        assert "Nothing is new" in (await http.post("/memory/consolidate", params={"dry_run": "true"})).json()["reason"]
        assert (await http.post("/memory/consolidate", params={"dry_run": "maybe"})).status_code == 422


# --- Planned runs ----------------------------------------------------------------------------------------------------


async def test_three_turns_are_one_run_on_a_thread_of_their_owner_s(
    idle: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, stranger = idle.as_user(alice), idle.as_user(f"other-{alice}")
    model.script(TASK, [READ], [Text("done")])
    await asyncio.gather(*(chat(client, text) for text in ("I like fennel", "and dill", "and sorrel")))
    thread = await consolidation_thread(idle, alice)
    assert await ended(client, thread) == ["success"]
    shown = tool_results(model.requests[-1])[0]
    assert all(text in shown for text in ("fennel", "dill", "sorrel"))
    assert len(model.requests_for(TASK)) == 2
    (run,) = await client.runs.list(thread)
    assert (run["metadata"] or {})["trigger"] == "idle", "what this project says of its runs arrives; nobody else may say it"

    for call in (stranger.threads.get(thread), stranger.runs.create(thread, "consolidation_agent", input={"messages": []})):
        with pytest.raises(NotFoundError):
            await call
    conversations = await client.threads.search(metadata={"graph_id": "agent"})
    assert thread not in {thread_seen["thread_id"] for thread_seen in conversations}


async def test_a_consolidation_thread_keeps_the_checkpoint_of_its_last_run_alone(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    for number in (1, 2):
        model.clear()
        model.script(TASK, [READ], [Text("done")])
        await chat(client, f"I like dill {number}")
        await client.http.post("/memory/consolidate", json=None)
        thread = await consolidation_thread(server, alice)
        assert {*await ended(client, thread, number)} == {"success"}
        assert len(model.requests_for(TASK)) == 2, "it goes on without the checkpoints of the runs before"
    assert len(await client.threads.get_history(thread, limit=100)) == 1
    state: Any = await client.threads.get_state(thread)
    assert "dill" not in str(state)


async def test_planned_consolidations_do_not_count_as_busy_conversations(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """Planned consolidations and busy conversations do not keep each other from starting."""
    client, nothing = server.as_user(alice), {"messages": list[Any]()}
    for _ in range(DEFAULTS.busy_threads):
        thread = str((await client.threads.create())["thread_id"])
        await client.runs.create(thread, "consolidation_agent", input=nothing, after_seconds=600)
    thread = str((await client.threads.create())["thread_id"])
    with pytest.raises(RateLimitError):
        await client.runs.create(thread, "consolidation_agent", input=nothing)
    await run_turn(client, thread, "hello")
