"""What a run shows of the store is read once, in one batch, and is the run's alone."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import GetOp, Op, SearchOp

from lasting_memory.agent import snapshot
from lasting_memory.people.identity import Context
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import Text, ToolCall, system_text
from lasting_memory.testing.stores import WrappedStore
from tests.conftest import Scripted, note

POLICIES, SKILLS = ("policies", "acme"), ("skills", AGENT)
HELP = [
    ToolCall("task", {"description": "write a letter", "subagent_type": name})
    for name in ("writer", "general-purpose")
]


def memories(user: str) -> tuple[str, str]:
    return "memories", f"acme:{user}"


class Runs(Scripted):
    """Turns with ids, as a server's runs have. `batches` are those of the store."""

    def __init__(self, agent: Scripted) -> None:
        self.batches = list[list[Op]]()
        store = WrappedStore(agent.store, before=self.batches.append)
        super().__init__(agent.graph, store, agent.model)

    async def run(self, text: str = "go on", user: str = "alice") -> list[str]:
        """The system prompts of the model calls of one turn."""
        before = len(self.model.requests)
        # Ids as a server gives them: with a time.
        run_id = f"0199d4a0-0000-7000-8000-{uuid4().hex[:12]}"
        ids = {"thread_id": f"thread of {user}", "run_id": run_id}
        config: RunnableConfig = {"configurable": ids}
        message = {"messages": [{"role": "user", "content": text}]}
        await self.graph.ainvoke(message, config, context=Context(user_id=user, org_id="acme"))
        return [system_text(request) for request in self.model.requests[before:]]

    def reads(self, place: tuple[str, ...]) -> list[list[Op]]:
        """The batches that read items of a namespace."""
        return [batch for batch in self.batches if any(_reads(op, place) for op in batch)]

    def fill(self, user: str, word: str) -> None:
        self.put(memories(user), "/preferences.md", f"preference {word}")
        self.put(memories(user), "/agents/writer/MEMORY.md", f"style {word}")
        own_skill = f"---\nname: mine\ndescription: skill {word}\n---\nDo it well.\n"
        self.put(memories(user), "/skills/mine/SKILL.md", own_skill)


def _reads(op: Op, place: Sequence[str]) -> bool:
    if isinstance(op, SearchOp):
        return op.namespace_prefix == place
    return isinstance(op, GetOp) and op.namespace == place


@pytest.fixture
def runs(agent: Scripted) -> Runs:
    return Runs(agent)


async def test_all_parts_of_a_run_share_one_batch(runs: Runs) -> None:
    runs.fill("alice", "one")
    runs.put(POLICIES, "/rules.md", "a rule")
    runs.put(SKILLS, "/letters/SKILL.md", "---\nname: letters\ndescription: Write.\n---\nWell.\n")
    runs.model.script("go on", HELP, [Text("done")])
    runs.batches.clear()
    prompts = await runs.run()
    assert len(prompts) > 3, "the agent's, the writer's and the helper's"
    assert all("a rule" in prompt and "preference one" in prompt for prompt in prompts)
    with_style = ["style one" in prompt for prompt in prompts]
    with_skills = ["skill one" in prompt and "**letters**" in prompt for prompt in prompts]
    assert sum(with_style) == 1
    assert [not style for style in with_style] == with_skills
    for place in (POLICIES, SKILLS, memories("alice"), ("controls", "acme:alice")):
        assert runs.reads(place) == [runs.batches[0]], place


async def test_a_run_keeps_what_it_read_and_the_next_one_reads_anew(runs: Runs) -> None:
    runs.fill("alice", "old")
    runs.model.script("go on", [note("fact new")], HELP, [Text("done")])
    prompts = await runs.run()
    assert len(prompts) > 4
    assert not any("fact new" in prompt for prompt in prompts)
    assert all("fact new" in prompt for prompt in await runs.run("and now?"))


async def test_runs_at_once_show_each_person_their_own(runs: Runs) -> None:
    people = [f"person{number}" for number in range(4)]
    for user in people:
        runs.fill(user, f"of {user}.")
    await asyncio.gather(*(runs.run(f"I am {user}.", user) for user in people))
    assert len(runs.model.requests) == len(people)
    for request in runs.model.requests:
        prompt = system_text(request)
        (shown,) = [user for user in people if f"preference of {user}." in prompt]
        assert f"skill of {shown}." in prompt
        assert f"I am {shown}." in str(request["messages"])


@pytest.mark.parametrize("limit", ["_RUNS_KEPT", "_CHARS_KEPT"])
async def test_a_run_whose_snapshot_is_gone_reads_again(
    runs: Runs, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, limit, 0)
    runs.fill("alice", "one")
    runs.model.script("go on", HELP, [Text("done")])
    prompts = await runs.run()
    assert all("preference one" in prompt for prompt in prompts)
    assert sum("style one" in prompt for prompt in prompts) == 1
    assert sum("skill one" in prompt for prompt in prompts) == len(prompts) - 1


async def test_snapshots_are_kept_only_as_far_as_there_is_room(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_CHARS_KEPT", 3_000)
    kept = snapshot.run_snapshots(deployed())
    for size in (1_000, 1_000, 1_000, 1_000, 4_000, 100):
        runs.put(memories("alice"), "/preferences.md", "x" * size)
        await runs.run()
        assert kept.chars <= 3_000
    assert kept.chars > 0


async def test_files_beyond_those_of_one_search_are_read_too(runs: Runs) -> None:
    runs.fill("alice", "one")
    for number in range(510):
        runs.put(memories("alice"), f"/topics/{number}.md", "- something")
    (prompt,) = await runs.run()
    assert "skill one" in prompt
    assert "preference one" in prompt
