"""A dry run says what a run would change, and changes nothing."""

from __future__ import annotations

import json

import pytest
from langgraph.store.base import BaseStore

from memory import identity
from testing.scripted_anthropic import ScriptedAnthropic
from tests.memory.consolidation.runs import A_BATCH, READY, TASK, Runs, append, everything, remembered, saved, talk


async def test_a_dry_run_says_what_it_would_change_and_changes_nothing(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await remembered(store, "fennel\n")
    before = await everything(store)
    model.script(TASK, [append("- dill")], READY)
    said = json.loads(await run("r1", [talk("t", "dill")], dry=True))
    assert "+- dill" in said["files"]["/memories/topics/food.md"]
    assert said["dry_run"] is True
    assert await everything(store) == before


async def test_a_dry_run_of_a_backlog_comes_to_an_end_and_says_all(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await saved(store, "fennel\n")
    await saved(store, "fennel\nmint\n")
    before = await everything(store)
    model.script(TASK, *[reply for number in range(3) for reply in ([append(f"- fact {number}")], READY)])
    said = json.loads(await run("r1", [talk(f"t{number}", A_BATCH) for number in range(3)], dry=True))
    assert (said["conversations"], said["model_calls"]) == (3, 6)
    assert " mint\n+- fact 0" in said["files"]["/memories/topics/food.md"], "what is in the journal is in the copy, too"
    assert " - fact 1\n+- fact 2" in said["files"]["/memories/topics/food.md"]
    assert await everything(store) == before


async def test_a_dry_run_writes_no_first_memory(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    model.script(TASK, READY)
    await run("r1", [talk("t", "dill")], dry=True)
    assert await everything(store) == set()


async def test_a_dry_run_for_nobody_starts_nothing(run: Runs, model: ScriptedAnthropic) -> None:
    assert "for one person" in await run("r1", [talk("t", "dill")], dry=True, permissions=[identity.OPERATE])
    assert model.requests == []


async def test_a_dry_run_that_lost_its_copy_writes_nothing(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    before = await everything(store)
    run.drafts_kept = 0
    run.restart()
    with pytest.raises(ValueError, match="interrupted"):
        await run("r1", [talk("t", "dill")], dry=True)
    assert await everything(store) == before
