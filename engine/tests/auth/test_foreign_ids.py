"""Ids of somebody else's runs, checkpoints and threads, sent beside one's own thread: nothing of theirs is shown or changed.

On both stores.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lasting_memory.dev.server import ON_POSTGRES
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, after
from tests.conftest import model_env, stores

SECRET = "the-safe-opens-with-4711"


@pytest.fixture(scope="module", params=stores())
def door(request: pytest.FixtureRequest, shared_model: ScriptedAnthropic) -> Iterator[DevServer]:
    if request.param == "memory":
        yield request.getfixturevalue("shared_server")
        return
    env = {**model_env(shared_model), "MEMORY_POSTGRES_URI": request.getfixturevalue("postgres_uri")}
    with TemporaryDirectory() as folder, DevServer(Path(folder), env=env, config=ON_POSTGRES) as server:
        yield server


class Talker(Person):
    """Somebody with conversations, and all that the platform shows of them."""

    def __init__(self, server: DevServer, name: str) -> None:
        super().__init__(server.url, name)
        self.threads: list[str] = []

    async def thread(self, **metadata: Any) -> str:
        self.threads.append(await super().thread(**metadata))
        return self.threads[-1]

    async def run(self, thread: str, text: str) -> str:
        await self.turn(thread, text)
        return str((await self.made("GET", f"/threads/{thread}/runs"))[0]["run_id"])

    async def state(self, thread: str) -> dict[str, Any]:
        return dict(await self.made("GET", f"/threads/{thread}/state"))

    async def everything(self) -> dict[str, str]:
        """Every byte of the answers about one's conversations, as an operator is shown them: nobody slows operators down."""
        paths = [f"/threads/{thread}{of}" for thread in self.threads for of in ("", "/state", "/history?limit=100", "/runs")]
        return {path: (await self.http.get(path, headers=OPERATOR)).text for path in paths}


@pytest.fixture
async def people(door: DevServer, model: ScriptedAnthropic, alice: str) -> AsyncIterator[tuple[Talker, Talker]]:
    async with Talker(door, alice) as hers, Talker(door, f"mallory of {alice}") as other:
        yield hers, other


def asked(text: str, **more: Any) -> dict[str, Any]:
    return {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}, **more}


def on_own_thread(own: str, thread: str, run: str, checkpoint: str) -> dict[tuple[str, str], Any]:
    """Requests about one's own thread with somebody else's ids, and those with their thread and one's own. Their bodies."""
    there = {"thread_id": thread, "checkpoint_id": checkpoint, "checkpoint_ns": ""}
    task = {"id": f"{own}:{run}"}
    return {
        ("GET", f"/threads/{own}/runs/{run}"): None,
        ("GET", f"/threads/{own}/runs/{run}/join"): None,
        ("GET", f"/threads/{own}/runs/{run}/join?cancel_on_disconnect=true"): None,
        ("GET", f"/threads/{own}/runs/{run}/stream"): None,
        ("GET", f"/threads/{thread}/runs/{run}/stream?cancel_on_disconnect=true"): None,
        ("POST", f"/threads/{own}/runs/{run}/cancel"): None,
        ("POST", f"/threads/{own}/runs/{run}/cancel?action=rollback&wait=true"): None,
        ("POST", "/runs/cancel"): {"thread_id": own, "run_ids": [run]},
        ("POST", "/runs/cancel?action=rollback"): {"thread_id": own, "run_ids": [run]},
        ("POST", "/runs/cancel?action=rollback&"): {"thread_id": thread, "run_ids": [run]},
        ("DELETE", f"/threads/{own}/runs/{run}"): None,
        ("DELETE", f"/threads/{thread}/runs/{run}"): None,
        ("GET", f"/threads/{own}/state/{checkpoint}"): None,
        ("POST", f"/threads/{own}/state/checkpoint"): {"checkpoint": there},
        ("POST", f"/threads/{own}/state/checkpoint?subgraphs"): {"checkpoint": there, "subgraphs": True},
        ("POST", f"/threads/{own}/state"): {"values": {}, "checkpoint_id": checkpoint, "checkpoint": there},
        ("POST", f"/threads/{own}/state?as"): {"values": {"messages": []}, "as_node": "model", "checkpoint": there},
        ("GET", f"/threads/{own}/history?limit=100&before={checkpoint}"): None,
        ("POST", f"/threads/{own}/history"): {
            "limit": 100, "before": {"configurable": there}, "checkpoint": there, "metadata": {"run_id": run},
        },
        ("POST", f"/threads/{own}/runs/wait"): asked("hello", checkpoint_id=checkpoint, multitask_strategy="rollback"),
        ("POST", f"/threads/{own}/runs/wait?at"): asked("hello", checkpoint=there, config={"configurable": there, **there}),
        ("POST", f"/threads/{own}/runs/wait?map"): asked("hello", config={"configurable": {"checkpoint_map": {"": run}}}),
        ("POST", f"/threads/{thread}/copy"): None,
        ("POST", "/threads/prune"): {"thread_ids": [own, thread]},
        ("POST", "/threads/prune?latest"): {"thread_ids": [own, thread], "strategy": "keep_latest"},
        ("POST", "/threads"): {"thread_id": thread, "if_exists": "do_nothing"},
        ("POST", "/a2a/agent"): {"jsonrpc": "2.0", "id": "1", "method": "tasks/get", "params": {**task, "contextId": own}},
        ("POST", "/a2a/agent?cancel"): {"jsonrpc": "2.0", "id": "1", "method": "tasks/cancel", "params": task},
        ("DELETE", f"/threads/{thread}"): None,
    }  # fmt: skip


# What may succeed, since it is about one's own thread.
OWN = ("/state", "/history", "/runs/wait")


@pytest.mark.server
async def test_with_one_s_own_thread_nobody_reaches_another_s_run_or_checkpoint(
    people: tuple[Talker, Talker], model: ScriptedAnthropic
) -> None:
    """Of a conversation that rests and of one whose run goes on: state, history and runs are byte-equal afterwards."""
    alice, mallory = people
    rests, busy, own = await alice.thread(), await alice.thread(), await mallory.thread()
    run = await alice.run(rests, f"remember {SECRET}")
    await alice.run(rests, f"and again {SECRET}")
    await alice.run(busy, SECRET)
    await mallory.run(own, "hello")
    go_on = threading.Event()
    model.script("goes on", after(go_on, [Text("done")]))
    going = (await alice.made("POST", f"/threads/{busy}/runs", asked("goes on")))["run_id"]
    while not model.requests_for("goes on"):  # noqa: ASYNC110  # the scripted server's thread sets no event
        await asyncio.sleep(0.05)
    faults = dict[str, str]()
    before = await alice.everything()
    try:
        for thread, of in ((rests, run), (busy, going)):
            checkpoint = (await alice.state(thread))["checkpoint"]["checkpoint_id"]
            for (method, path), body in on_own_thread(own, thread, of, checkpoint).items():
                answer = await mallory.ask(method, path, body)
                name = f"{'the busy' if thread == busy else 'the resting'}: {method} {path}"
                if SECRET in answer.text:
                    faults[name] = f"shows it: {answer.text[:300]}"
                is_refused = not answer.is_success or '"error"' in answer.text or '"__error__"' in answer.text
                is_own = f"/threads/{own}/" in path and any(part in path for part in OWN)
                if not is_refused and not is_own and "event: error" not in answer.text:
                    faults[name] = f"{answer.status_code} {answer.text[:300]}"
            now = await alice.everything()
            if changed := [path for path in before if before[path] != now[path]]:
                faults[f"of {thread}"] = f"one of these requests changes {changed}"
                before = now
    finally:
        go_on.set()
    assert faults == {}
    await alice.ask("GET", f"/threads/{busy}/runs/{going}/join")
    assert (await alice.ask("GET", f"/threads/{busy}/runs/{going}")).json()["status"] == "success"
    assert SECRET in str(await alice.state(busy))


@pytest.mark.server
async def test_a_run_is_deleted_with_its_own_thread_alone(people: tuple[Talker, Talker]) -> None:
    """Not with another thread of the same person, which answers 404, nor from a copy that has the same run in its history."""
    alice, _ = people
    first, second = await alice.thread(), await alice.thread()
    run, _ = await alice.run(first, SECRET), await alice.run(second, "hello")
    copy = (await alice.made("POST", f"/threads/{first}/copy", None))["thread_id"]
    alice.threads.append(copy)
    before = await alice.everything()
    for thread in (second, copy):
        assert (await alice.ask("DELETE", f"/threads/{thread}/runs/{run}")).status_code == 404
    assert await alice.everything() == before
    assert (await alice.ask("DELETE", f"/threads/{first}/runs/{run}")).status_code == 204
    assert SECRET not in str(await alice.state(first))
    now = await alice.everything()
    assert {path for path in before if before[path] != now[path]} <= {path for path in before if first in path}
