"""However a run ends (a refusal, an error, a cancellation at any step), its slot is free, and its
record and memory agree.
"""

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.store.memory import InMemoryStore

from lasting_memory.agent.provider_errors import ProviderBadRequestError
from lasting_memory.consolidation import records, run_beginning
from lasting_memory.people.identity import Context
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.scripted_anthropic import Body, Ended, Failure, Reply, Text
from lasting_memory.testing.stores import WrappedStore
from tests.consolidation.conftest import (
    AGAIN,
    ALICE,
    MY_FOOD,
    READY,
    TASK,
    Runs,
    append,
    while_it_works,
    write,
)

SAID = "I like fennel at nine"
LINE = "- dill"


def say(run: Runs) -> None:
    """She says something new."""
    message = {"type": "human", "id": "1", "content": SAID}
    run.platform.put(ALICE, "t", run.platform.now.isoformat(), [message])


def config(run_id: str, recursion_limit: int | None = None) -> RunnableConfig:
    """Of a run as a server begins it."""
    user = SignedIn(identity="alice", org_id="acme")
    ids = {
        "thread_id": "hers",
        "run_id": run_id,
        "graph_id": CONSOLIDATION_GRAPH,
        "langgraph_auth_user": user,
    }
    return (
        {"configurable": ids}
        if recursion_limit is None
        else {"configurable": ids, "recursion_limit": recursion_limit}
    )


ASKED: Any = {"messages": [{"role": "user", "content": "go"}]}


def in_checkpoints(run: Runs) -> str:
    """All that checkpoints hold."""
    saver = run.built.checkpointer
    return str([dict(saver.storage), dict(saver.writes), dict(saver.blobs)])


def held() -> list[Any]:
    return run_beginning.SLOTS._held_slots


CUT, FILTERED = Ended([Text("I wr")], "max_tokens"), Ended([], "refusal")
REFUSED = [[write(MY_FOOD, f"{LINE} <b>")], READY]


class Ending(NamedTuple):
    """What the model does, what it does once it is told that this was refused, and the status of
    the run's record.
    """

    first: list[Any]
    again: list[Any]
    status: str


ENDINGS = {
    "well": Ending([[append(LINE)], READY], [], "done"),
    "refused once": Ending(REFUSED, [[append(LINE)], READY], "done"),
    "refused twice": Ending(REFUSED, REFUSED, "undone"),
    "filtered": Ending([[append(LINE)], FILTERED], [], "failed"),
    "cut": Ending([[append(LINE)], CUT], [], "failed"),
    "an error": Ending([[append(LINE)], Failure(400, "invalid_request_error", "no")], [], "failed"),
    "too many steps": Ending([[append(f"{LINE} {number}")] for number in range(50)], [], "undone"),
}


LONG = ("too many steps", "exit")  # half a minute
CASES = [(ending, durability) for ending in ENDINGS for durability in ("sync", "exit")]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("ending", "durability"),
    [pytest.param(*case, marks=[pytest.mark.proof] if case == LONG else []) for case in CASES],
)
async def test_no_checkpoint_has_what_was_said_nor_what_the_model_did(
    run: Runs, ending: str, durability: Any
) -> None:
    first, again, status = ENDINGS[ending]
    run.model.script(AGAIN, *again)
    run.model.script(TASK, *first)
    say(run)
    await run.saved("- likes leek\n", "/topics/old.md")
    run.built.store = run.store
    stream = run.built.astream(
        ASKED,
        config(ending),
        context=Context(),
        durability=durability,
        subgraphs=True,
        stream_mode=["values", "debug"],
    )
    streamed = ""
    with suppress(ProviderBadRequestError):
        async for part in stream:
            streamed += str(part)
    assert SAID in str(run.model.requests)
    assert SAID in streamed, "whoever asks for it sees the model at work"
    for text in (SAID, LINE, "likes leek", "append_memory", "batch-"):
        assert text not in in_checkpoints(run)
    assert held() == []
    (record,) = await records(run.store, ALICE)
    assert record["ended_at"]
    assert record["status"] == status
    is_done = status == "done"
    assert await run.text() == (f"{LINE}\n" if is_done else "")
    assert await run.consolidated() == ({"t"} if is_done else set())


async def test_a_run_that_is_cancelled_while_the_model_answers_leaves_no_checkpoint_of_it(
    run: Runs,
) -> None:
    async def cancel() -> None:
        task.cancel()
        await asyncio.wait([task])

    run.model.script(TASK, [append(LINE)], while_it_works(cancel))
    say(run)
    run.built.store = run.store
    task = asyncio.create_task(
        run.built.ainvoke(ASKED, config("r1"), context=Context(), durability="sync")
    )
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert held() == []
    assert SAID not in in_checkpoints(run)
    assert LINE not in in_checkpoints(run)
    (record,) = await records(run.store, ALICE)
    assert (record["status"], record["reason"], record["model_calls"]) == (
        "failed",
        "It was cancelled.",
        2,
    )


class Steps:
    """The steps of a run on an empty memory: operations of the store, requests to the platform,
    calls of the model.

    At the step with this number it is cancelled, or the process dies: from there on nothing is
    written, and nothing answers.
    """

    def __init__(self, run: Runs, number: int, *, kills: bool) -> None:
        self._left, self._kills = number, kills
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[str] | None = None
        self._run = run
        run.model.clear()
        run.model.script(TASK, *[self._answer] * 10)

    async def ended(self, run_id: str) -> bool:
        """Begin the run. Returns whether it reached the step, once it has ended."""
        for item in await self._run.store.asearch((), limit=1_000):
            await self._run.store.adelete(item.namespace, item.key)
        store, platform = WrappedStore(self._run.store, before=self._take), self._run.platform
        platform.before = self._take
        self._task = asyncio.create_task(self._run(run_id, store, t=[SAID]))
        await asyncio.wait([self._task])
        platform.before = None
        is_reached = self._left <= 0
        self._left = 1_000
        if not is_reached:
            await self._task
        elif not self._task.cancelled():
            self._task.exception()
        return is_reached

    async def _take(self, *_: object) -> None:
        self._left -= 1
        if self._left <= 0 and self._kills:
            raise ConnectionError
        if self._left == 0 and self._task:
            self._task.cancel()
            await asyncio.sleep(
                0.05
            )  # the cancellation arrives before this step has ended, but where it goes on all the same

    def _answer(self, body: Body) -> Reply:
        asyncio.run_coroutine_threadsafe(self._take(), self._loop).result()
        return READY if len(body["messages"]) > 3 else [append(LINE)]


@pytest.mark.proof
async def test_a_run_that_is_cancelled_at_any_step_has_committed_all_or_nothing_and_the_next_goes_on(
    run: Runs,
) -> None:
    if not isinstance(run.store, InMemoryStore):
        pytest.skip("what matters is the order of operations, which is the same")
    seen, number = set[str](), 1
    while await Steps(run, number, kills=False).ended(f"{number}"):
        assert held() == [], number
        kept = await records(run.store, ALICE)
        status = kept[0]["status"] if kept else "not begun"
        seen.add(status)
        if status == "failed":
            assert kept[0]["reason"] == "It was cancelled."
        is_done = status == "done"
        assert await run.text() == (f"{LINE}\n" if is_done else ""), number
        assert await run.consolidated() == ({"t"} if is_done else set()), number
        await run(f"{number} then")
        assert await run.text() == f"{LINE}\n", number
        assert await run.consolidated() == {"t"}, number
        number += 1
    assert seen == {"not begun", "failed", "done"}
    assert number > 10


async def test_a_run_that_is_killed_at_any_step_loses_nothing_and_blocks_nobody(run: Runs) -> None:
    """Whatever it has written: the line is there once, or at worst twice, and the conversation is
    not read again.
    """
    if not isinstance(run.store, InMemoryStore):
        pytest.skip("what matters is the order of operations, which is the same")
    number = 1
    while await Steps(run, number, kills=True).ended(f"{number}"):
        assert held() == [], number
        assert await run.text() in {"", f"{LINE}\n"}, number
        await run(f"{number} then")
        assert await run.text() in {f"{LINE}\n", f"{LINE}\n{LINE}\n"}, number
        assert await run.consolidated() == {"t"}, number
        number += 1
    assert number > 10


@pytest.mark.parametrize("recursion_limit", [None, 2, 3])
async def test_the_limit_that_a_client_sends_for_its_run_is_not_the_model_s(
    run: Runs, recursion_limit: int | None
) -> None:
    run.model.script(TASK, *[[append(f"- {number}")] for number in range(6)], READY)
    say(run)
    run.built.store = run.store
    await run.built.ainvoke(ASKED, config("r1", recursion_limit), context=Context())
    assert await run.text() == "".join(f"- {number}\n" for number in range(6))
    assert (await records(run.store, ALICE))[0]["status"] == "done"


async def test_a_limit_with_which_no_run_could_end_is_refused_before_anything_is_done(
    run: Runs,
) -> None:
    say(run)
    run.built.store = run.store
    with pytest.raises(
        RuntimeError, match=r"^recursion_limit is below 2; a consolidation takes 2 steps"
    ):
        await run.built.ainvoke(ASKED, config("r1", 1), context=Context())
    assert run.model.requests == []
    assert await run.consolidated() == set()
