"""An app with routes of a fork's, code that fails and a name server that does not answer: what its
callers are told of that.
"""

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lasting_memory.deployment import DEFAULTS
from lasting_memory.http.errors import FAILED
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import FILE, OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, after
from tests.conftest import served

pytestmark = pytest.mark.server

server = served({"http": {"app": f"{Path(__file__).parent / 'own_app.py'}:app"}}, OPERATORS="root")

# Python's own words, which are others in each version.
with pytest.raises(ValueError, match="empty") as EMPTY:
    max([])
FAILS = str(EMPTY.value)
THREAD: dict[str, Any] = {"metadata": {"title": FAILS}}


@pytest.mark.parametrize(
    ("route", "body", "words"),
    [
        ("GET /own/fails", None, FAILS),
        ("GET /own/decodes", None, "can't decode byte"),
        (f"GET /memory/search?q={FAILS}", None, FAILS),
        ("POST /threads", THREAD, FAILS),
    ],
)
async def test_an_error_of_the_server_s_is_no_request_that_was_wrong(
    server: DevServer, alice: str, route: str, body: Any, words: str
) -> None:
    before = len(server.log)
    method, path = route.split(" ", 1)
    answer = await server.person(alice).ask(method, path, body)
    assert (answer.status_code, answer.json()) == (500, {"detail": FAILED})
    async with asyncio.timeout(300):
        while words not in server.log[before:] or "Traceback" not in server.log[before:]:  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.1)


async def test_refusals_of_a_fork_s_route_and_of_the_platform_keep_their_answers(
    server: DevServer, alice: str
) -> None:
    person = server.person(alice)
    refused = await person.ask("GET", "/own/refuses")
    assert (refused.status_code, refused.json()) == (422, {"detail": "Say it differently."})
    assert (
        await person.ask("GET", f"/threads/{await person.thread()}/runs", limit="many")
    ).status_code == 400


async def test_a_slow_name_server_stops_nobody_who_may_not_ask_it(
    server: DevServer, alice: str, model: ScriptedAnthropic
) -> None:
    """A run's webhook and a cron are for operators: nobody else has the server look for a host."""
    flooder, other = server.person(f"flooder-{alice}"), server.person(alice)
    thread = await flooder.thread()
    asked = {
        "assistant_id": "agent",
        "input": {"messages": []},
        "webhook": "https://slow-name.example/",
    }
    cron, own = {**asked, "schedule": "0 0 1 1 *"}, f"/threads/{thread}/runs"
    requests: list[tuple[str, str, Any]] = [
        *(
            ("POST", path, asked)
            for path in (own, f"{own}/stream", f"{own}/wait", "/runs", "/runs/stream", "/runs/wait")
        ),
        ("POST", "/runs/batch", [{"assistant_id": "agent", "input": {}}, asked]),
        ("POST", "/runs/crons", cron),
        ("POST", f"{own}/crons", cron),
        ("PATCH", f"/runs/crons/{thread}", {"webhook": asked["webhook"]}),
    ]
    flood = [asyncio.create_task(flooder.ask(*request)) for request in requests * 4]
    await other.say("hello")
    answers = [await each for each in flood]
    assert {answer.status_code for answer in answers} == {403}
    assert {answer.json()["detail"] for answer in answers} == {
        "webhook is for operators; leave it out.", "Crons are for operators.",
    }  # fmt: skip
    assert not (server.folder / "asked.txt").exists()
    assert await flooder.made("GET", own) == []


async def test_an_operator_s_webhook_is_looked_at(server: DevServer, alice: str) -> None:
    """So that the test above would see what was asked for."""
    operator = server.person("", headers=OPERATOR)
    thread = await operator.thread()
    body = {
        "assistant_id": "agent",
        "input": {"messages": []},
        "webhook": "https://slow-name.example/",
    }
    await operator.ask("POST", f"/threads/{thread}/runs", body)
    assert (server.folder / "asked.txt").read_text() == "slow-name.example\n"
    (server.folder / "asked.txt").unlink()


def slow(model: ScriptedAnthropic, said: str) -> tuple[threading.Event, dict[str, Any]]:
    """What lets the model answer, and a run's request that is long in getting into the queue."""
    over = threading.Event()
    model.script(said, after(over, [Text("done")]))
    message = {"messages": [{"role": "user", "content": said}]}
    return over, {"assistant_id": "agent", "input": message, "metadata": {"note": "slow"}}


async def said_in_the_end(person: Person) -> dict[str, Any]:
    """The first turn that is admitted. Of a batch that is refused the platform may still put runs
    into the queue after the refusal: they hold a place until they have ended.
    """
    hello = {"messages": [{"role": "user", "content": "hello"}]}
    async with asyncio.timeout(300):
        while True:
            path = f"/threads/{await person.thread()}/runs/wait"
            answer = await person.ask("POST", path, {"assistant_id": "agent", "input": hello})
            if answer.status_code != 429:
                return dict(answer.raise_for_status().json())
            await person.idle()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("where", ["on their own threads", "on new threads", "in a batch"])
async def test_runs_that_are_not_in_the_queue_yet_count(
    server: DevServer, alice: str, model: ScriptedAnthropic, where: str
) -> None:
    person, most = server.person(alice), DEFAULTS.busy_threads
    over, asked = slow(model, f"slow {alice}")
    try:
        if where == "in a batch":
            assert (
                await person.ask("POST", "/runs/batch", [asked] * (most + 1))
            ).status_code == 429
        else:
            paths = [
                f"/threads/{await person.thread()}/runs" if "own" in where else "/runs"
                for _ in range(10)
            ]
            answers = await asyncio.gather(*(person.ask("POST", path, asked) for path in paths))
            assert Counter(answer.status_code for answer in answers) == {200: most, 429: 10 - most}
    finally:
        over.set()
    await person.idle()
    assert await said_in_the_end(person), "what was refused or has ended holds nothing"


async def test_runs_that_are_not_in_the_queue_yet_wait_on_their_thread(
    server: DevServer, alice: str, model: ScriptedAnthropic
) -> None:
    person = server.person(alice)
    over, asked = slow(model, f"slow {alice}")
    thread = await person.thread()
    try:
        answers = await asyncio.gather(
            *(person.ask("POST", f"/threads/{thread}/runs", asked) for _ in range(10))
        )
        accepted = Counter(answer.status_code for answer in answers)[200]
        assert (
            DEFAULTS.waiting_runs <= accepted <= DEFAULTS.waiting_runs + 1
        )  # one of them may be at work
    finally:
        over.set()
    await person.idle()


async def test_expired_temporary_conversations_that_stay_are_in_the_log_once_a_minute(
    server: DevServer, alice: str
) -> None:
    unlucky, before = server.person(f"unlucky-{alice}"), len(server.log)
    for _ in range(3):
        await unlucky.thread()
    async with asyncio.timeout(300):
        while "the list is locked" not in server.log[before:]:  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.1)
    lines = [
        line
        for line in server.log[before:].splitlines()
        if "temporary conversations were not deleted" in line
    ]
    assert len(lines) == 1
    assert "the list is locked" in lines[0]


NOTE = ToolCall("append_memory", {"path": FILE, "text": "- written late"})


async def streamed(person: Person, path: str, body: Any) -> str:
    """The whole stream."""
    return (await person.ask("POST", path, body)).text


@pytest.mark.parametrize("how", ["delete", "prune", "as an operator"])
async def test_deleting_a_conversation_stops_its_run_which_writes_nothing_more(
    server: DevServer, alice: str, model: ScriptedAnthropic, how: str
) -> None:
    over, person, said = threading.Event(), server.person(alice), f"take your time {alice}"
    model.script(said, after(over, [NOTE]), [Text("done")])
    thread, other = await person.thread(), await person.thread()
    body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": said}]}}
    stream = asyncio.create_task(streamed(person, f"/threads/{thread}/runs/stream", body))
    await model.asked(said)
    caller = server.person("", headers=OPERATOR) if "operator" in how else person
    if how == "prune":
        assert await caller.made("POST", "/threads/prune", {"thread_ids": [thread]}) == {
            "pruned_count": 1
        }
    else:
        assert (await caller.ask("DELETE", f"/threads/{thread}")).status_code == 204
    async with asyncio.timeout(300):
        await stream  # which ends
    over.set()
    assert (await person.ask("GET", f"/threads/{thread}")).status_code == 404
    model.script("remember the other", [NOTE], [Text("done")])
    await person.turn(other, "hello")
    assert await person.read() is None
    await person.turn(other, "remember the other")
    assert await person.read() == "- written late\n", "a run of another conversation writes"
    await person.made("POST", "/threads", {"thread_id": thread})
    later = ToolCall("append_memory", {"path": FILE, "text": "- written later"})
    model.script("remember here", [later], [Text("done")])
    await person.turn(thread, "remember here")
    assert str(await person.read()).count("written late") == 2, "so does a later one of the same id"


@pytest.mark.parametrize("how", ["by its owner", "as an operator"])
async def test_deleting_a_run_stops_it_and_it_writes_nothing_more(
    server: DevServer, alice: str, model: ScriptedAnthropic, how: str
) -> None:
    over, person = threading.Event(), server.person(alice)
    caller = server.person("", headers=OPERATOR) if "operator" in how else person
    threads = [await person.thread() for _ in range(DEFAULTS.busy_threads)]
    streams = []
    for number, thread in enumerate(threads):
        said = f"take your time, {number} {alice}"
        model.script(said, after(over, [NOTE]), [Text("done")])
        body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": said}]}}
        streams.append(
            asyncio.create_task(streamed(person, f"/threads/{thread}/runs/stream", body))
        )
        await model.asked(said)
        (run,) = await person.made("GET", f"/threads/{thread}/runs")
        assert (
            await caller.ask("DELETE", f"/threads/{thread}/runs/{run['run_id']}")
        ).status_code == 204
        assert await person.made("GET", f"/threads/{thread}/runs") == []
        left = await person.made("GET", f"/threads/{thread}")
        assert (left["status"], said in str(left)) == ("idle", False)
    async with asyncio.timeout(60):
        await asyncio.gather(*streams)  # which end
    over.set()
    await person.say("hello")  # none of the deleted ones counts as going
    assert await person.read() is None
    model.script("remember here", [NOTE], [Text("done")])
    await person.turn(threads[0], "remember here")
    assert await person.read() == "- written late\n", "a later run of the conversation writes"


async def test_deleting_a_run_that_waits_leaves_the_one_at_work(
    server: DevServer, alice: str, model: ScriptedAnthropic
) -> None:
    over, person, said = threading.Event(), server.person(alice), f"take your time {alice}"
    model.script(said, after(over, [NOTE]), [Text("done")])
    thread = await person.thread()
    turn = asyncio.create_task(person.turn(thread, said))
    await model.asked(said)
    body = {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": "and then"}]},
    }
    waits = await person.made(
        "POST", f"/threads/{thread}/runs", {**body, "multitask_strategy": "enqueue"}
    )
    assert (
        await person.ask("DELETE", f"/threads/{thread}/runs/{waits['run_id']}")
    ).status_code == 204
    assert (await person.made("GET", f"/threads/{thread}"))["status"] == "busy"
    over.set()
    await turn
    await person.idle()
    assert await person.read() == "- written late\n"


@pytest.mark.parametrize("who", ["its owner", "an operator"])
@pytest.mark.parametrize("how", ["delete", "prune", "delete the run"])
async def test_deleting_a_stateless_run_s_conversation_says_that_it_did(
    server: DevServer, alice: str, model: ScriptedAnthropic, how: str, who: str
) -> None:
    """Stopping the run makes the platform delete its thread: it is not one that was not there."""
    over, person, said = threading.Event(), server.person(alice), f"take your time {alice}"
    caller = server.person("", headers=OPERATOR) if "operator" in who else person
    model.script(said, after(over, [NOTE]), [Text("done")])
    message = {"messages": [{"role": "user", "content": said}]}
    run = await person.made(
        "POST", "/runs", {"assistant_id": "agent", "input": message, "on_completion": "delete"}
    )
    thread = run["thread_id"]
    await model.asked(said)
    if how == "prune":
        assert await caller.made("POST", "/threads/prune", {"thread_ids": [thread]}) == {
            "pruned_count": 1
        }
    else:
        path = (
            f"/threads/{thread}/runs/{run['run_id']}"
            if how == "delete the run"
            else f"/threads/{thread}"
        )
        assert (await caller.ask("DELETE", path)).status_code == 204
    over.set()
    assert (await caller.ask("DELETE", f"/threads/{thread}")).status_code == 404, (
        "there is nothing left of it"
    )
    await person.say("hello")
    assert await person.read() is None


async def test_a_stranger_cannot_stop_a_run_by_deleting_it(
    server: DevServer, alice: str, model: ScriptedAnthropic
) -> None:
    over, person, mallory = (
        threading.Event(),
        server.person(alice),
        server.person(f"mallory-{alice}"),
    )
    said = f"take your time {alice}"
    model.script(said, after(over, [NOTE]), [Text("done")])
    thread, own = await person.thread(), await mallory.thread()
    turn = asyncio.create_task(person.turn(thread, said))
    await model.asked(said)
    assert (await mallory.ask("DELETE", f"/threads/{thread}")).status_code == 404
    (run,) = await person.made("GET", f"/threads/{thread}/runs")
    for path in (f"/threads/{thread}/runs/{run['run_id']}", f"/threads/{own}/runs/{run['run_id']}"):
        assert (await mallory.ask("DELETE", path)).status_code == 404
    assert (
        await mallory.ask("POST", "/threads/prune", {"thread_ids": [own, thread]})
    ).status_code == 404
    over.set()
    await turn
    assert await person.read() == "- written late\n"


async def test_a_consolidation_keeps_nothing_of_a_batch_of_which_a_conversation_was_deleted(
    server: DevServer, alice: str, model: ScriptedAnthropic
) -> None:
    over, person = threading.Event(), server.person(alice)
    gone, stays = (
        await person.chat(f"my code is 4711 {alice}"),
        await person.chat(f"I like dill {alice}"),
    )
    model.script("Conversations with something new", after(over, [NOTE]), [Text("done")])
    consolidation = await person.thread()
    run = asyncio.create_task(person.turn(consolidation, "go", "consolidation_agent"))
    await model.asked("Conversations with something new")
    assert (await person.ask("DELETE", f"/threads/{gone}")).status_code == 204
    later = len(model.requests)
    model.script("Conversations with something new", [Text("nothing")])
    over.set()
    await run
    assert await person.read() is None
    (record,) = [
        each for each in await person.listed("consolidations") if each["status"] == "undone"
    ]
    assert ("was deleted meanwhile" in record["reason"], record["files"]) == (True, {})
    async with asyncio.timeout(600):
        records = await person.listed("consolidations")
        while "done" not in [record["status"] for record in records]:
            await asyncio.sleep(0.2)
            records = await person.listed("consolidations")
    shown = str(model.requests[later:])
    assert ("I like dill" in shown, stays in shown) == (True, True)
    assert "my code is 4711" not in str(model.requests_for("Conversations with something new")[-1])
