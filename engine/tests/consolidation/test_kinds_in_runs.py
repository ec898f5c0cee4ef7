"""Which kinds of change consolidation may make, in runs: what is beyond them is tried again, then left
out alone.
"""

import json
from dataclasses import replace

import pytest
from langgraph.store.base import BaseStore

from lasting_memory.consolidation import Entry, Part, records
from lasting_memory.consolidation import run as run_module
from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.deployment import Consolidation, Kind
from lasting_memory.memory.controls import set_controls
from lasting_memory.memory.proposals import Changed
from lasting_memory.people.identity import Context
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    ToolCall,
    last_user_text,
    system_text,
)
from tests.conftest import BuildGraph
from tests.consolidation.conftest import (
    AGAIN,
    ALICE,
    BEFORE,
    FOOD,
    MY_FOOD,
    READY,
    TASK,
    Runs,
    append,
    write,
)


def only(*may: Kind) -> Consolidation:
    return Consolidation(at_once=1_000, may=frozenset(may))


@pytest.fixture
def adding(
    graph: BuildGraph,
    store: BaseStore,
    model: ScriptedAnthropic,
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
) -> Runs:
    """Consolidation for Alice that may only add."""
    monkeypatch.setattr(run_module, "get_client", lambda: platform)
    fork = replace(deployed(), consolidation=only("add"))
    return Runs(store, graph(fork, build=build_consolidation_agent).graph, model, platform)


def edit(old: str, new: str) -> ToolCall:
    return ToolCall("edit_file", {"file_path": MY_FOOD, "old_string": old, "new_string": new})


async def test_a_change_beyond_the_kinds_is_tried_again_then_left_out_alone(
    adding: Runs,
) -> None:
    await adding.saved(BEFORE)
    given_up = ToolCall(
        "forget_lines", {"path": MY_FOOD, "lines": ["- hates dill"], "reason": "contradicted"}
    )
    calls = [given_up, edit("- hates dill\n", "- likes dill\n"), append("- likes leek")]
    adding.model.script(AGAIN, *[[call] for call in calls], READY)
    adding.model.script(TASK, *[[call] for call in calls], READY)
    await adding("r1", t=["I like dill and leek"])
    assert await adding.text() == BEFORE + "- likes leek\n"
    assert await adding.consolidated() == {"t"}
    shown = next(text for body in adding.model.requests if AGAIN in (text := last_user_text(body)))
    assert (
        f"may only add lines and fields here. Leave this out: {MY_FOOD}, update: - likes dill."
        in shown
    )
    (record,) = await records(adding.store, ALICE)
    assert (record["status"], "update: - likes dill" in record["reason"]) == ("done", True)
    assert "likes dill" not in record["files"][MY_FOOD]


async def test_the_prompt_says_what_the_model_may_do_and_nothing_where_it_may_do_all(
    adding: Runs, run: Runs, model: ScriptedAnthropic
) -> None:
    told = []
    for number, runs in enumerate((adding, run)):
        model.requests.clear()
        model.script(TASK, READY)
        await runs(f"r{number}", **{f"t{number}": ["I like dill"]})
        told.append(system_text(model.requests[0]))
    assert "you may add lines, and not update or remove any" in told[0]
    assert "Which changes you may make" not in told[1]


async def test_a_deleted_file_stays_where_nothing_may_be_removed(adding: Runs) -> None:
    await adding.saved(BEFORE)
    adding.model.script(
        AGAIN,
        [ToolCall("delete", {"file_path": MY_FOOD})],
        [write("/memories/topics/new.md", "- leek\n")],
        READY,
    )
    adding.model.script(TASK, [ToolCall("delete", {"file_path": MY_FOOD})], READY)
    await adding("r1", t=["I like leek"])
    assert await adding.text() == BEFORE
    assert await adding.text("/topics/new.md") == "- leek\n"


async def test_a_proposal_is_held_to_the_kinds_too(adding: Runs) -> None:
    await adding.saved(BEFORE)
    await set_review(adding)
    calls = [edit("- hates dill\n", ""), append("- likes leek")]
    adding.model.script(AGAIN, *[[call] for call in calls], READY)
    adding.model.script(TASK, *[[call] for call in calls], READY)
    await adding("r1", t=["I like leek"])
    (proposal,) = await adding.memory.proposals()
    assert proposal.changes == [Changed(FOOD, BEFORE, BEFORE + "- likes leek\n")]
    assert await adding.text() == BEFORE


BROUGHT = Part("1", "", [Entry("She likes leek")]).dumped()


@pytest.mark.parametrize(
    ("trigger", "given"),
    [("", ""), ("tidy", ""), ("bring", BROUGHT), ("unknown", ""), (["tidy"], "")],
)
async def test_rehearsals_tidying_and_what_is_brought_are_held_to_it_too(
    adding: Runs, trigger: object, given: str
) -> None:
    await adding.saved(BEFORE)
    given_up = ToolCall(
        "forget_lines", {"path": MY_FOOD, "lines": ["- hates dill"], "reason": "outdated"}
    )
    calls = [given_up, edit("- hates dill\n", ""), append("- likes leek, likes fennel")]
    adding.model.script(AGAIN, *[[call] for call in calls], READY)
    adding.model.script(
        {"tidy": "Tidy this", "bring": "brought a text"}.get(str(trigger), TASK),
        *[[call] for call in calls],
        READY,
    )
    message = {"type": "human", "id": "t-0", "content": "I like leek, I like fennel"}
    adding.platform.put(ALICE, "t", adding.platform.now.isoformat(), [message])
    user = SignedIn(identity="alice", org_id="acme")
    ids = {
        "thread_id": "r",
        "run_id": "r",
        "graph_id": CONSOLIDATION_GRAPH,
        "langgraph_auth_user": user,
    }
    adding.built.store = adding.store
    config = {
        "configurable": ids,
        "recursion_limit": 999,
        "metadata": {"trigger": trigger} if trigger else {},
    }
    asked = {"messages": [{"role": "user", "content": given or "go"}]}
    result = await adding.built.ainvoke(asked, config, context=Context(dry_run=True))
    report = json.loads(result["messages"][-1].text)
    assert "remove: - hates dill" in report["reason"], report
    assert "-- hates dill" not in str(report["files"])
    assert await adding.text() == BEFORE


async def set_review(runs: Runs) -> None:
    await set_controls(runs.store, ALICE, {"review": True})
