"""Lines that are over, between conversations: consolidation does not see them and leaves them where
they are, and a tidy proposes to take them out.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from deepagents.backends.protocol import FileData

from lasting_memory.consolidation.guard import invented, objection
from lasting_memory.consolidation.taken_back import taken_back
from lasting_memory.deployment import DEFAULT_CONSOLIDATION
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed
from lasting_memory.memory.proposals.proposal import ShownLine
from lasting_memory.people.identity import Author, Context
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.scripted_anthropic import ToolCall, system_text, tool_results
from tests.conftest import Clock
from tests.consolidation.conftest import (
    FILES,
    FOOD,
    MY_FOOD,
    READY,
    TASK,
    Runs,
    append,
    forget,
    write,
)

OFFER = "- The offer of soup holds (until 2026-06-30)"
ACME = "- Worked at the soup factory (until 2024-06-30)"
LEEK = "- Likes leek soup"
BEFORE = f"{LEEK}\n{OFFER}\n{ACME}\n"
SOURCE = "(2026-03-02, thread 0199c2f0-1111-4111-8111-111111111111)"


def contradicted(line: str) -> ToolCall:
    return ToolCall("forget_lines", {"path": MY_FOOD, "lines": [line], "reason": "contradicted"})


def edit(old: str, new: str) -> ToolCall:
    return ToolCall("edit_file", {"file_path": MY_FOOD, "old_string": old, "new_string": new})


@pytest.fixture
async def over(run: Runs, clock: Clock) -> Runs:
    """Her memory of food, a line of which is over by now."""
    await run.saved(BEFORE)
    clock.set("2026-07-10")
    return run


async def test_consolidation_is_shown_no_line_that_is_over_and_reads_which_are(over: Runs) -> None:
    await over.saved(f"{OFFER}\n- Answers briefly\n", "/preferences.md")
    over.model.script(TASK, [ToolCall("read_file", {"file_path": MY_FOOD})], READY)
    await over("r", t=["I like leek soup"])
    first, second = over.model.requests
    (shown,) = tool_results(first)
    assert LEEK in shown
    assert ACME in shown
    assert "Answers briefly" in system_text(first)
    assert "offer of soup" not in shown + system_text(first)
    read = tool_results(second)[-1]
    assert read.startswith(f"[Over, because their day has passed: '{OFFER}'.")


@pytest.mark.parametrize(
    ("calls", "after"),
    [
        ([write(MY_FOOD, f"{LEEK}\n{ACME}\n- Likes dill\n")], f"{BEFORE}- Likes dill\n"),
        ([edit(f"{OFFER}\n", ""), append("- Likes dill")], f"{BEFORE}- Likes dill\n"),
        (
            [forget(MY_FOOD, OFFER, "it is over"), edit(f"{OFFER}\n", "")],
            BEFORE,
        ),
        (
            [contradicted(OFFER), edit(f"{OFFER}\n", "")],
            f"{LEEK}\n{ACME}\n",
        ),
        (
            [edit(OFFER, f"- Soup offer holds {SOURCE} (until 2026-06-30)")],
            f"{LEEK}\n- Soup offer holds {SOURCE} (until 2026-06-30)\n{ACME}\n",
        ),
    ],
    ids=["written without", "taken out", "outdated", "contradicted", "in other words"],
)
async def test_a_line_that_is_over_goes_only_if_something_newer_contradicts_it(
    over: Runs, calls: Sequence[Any], after: str
) -> None:
    over.model.script(TASK, *[[call] for call in calls], READY)
    await over("r", t=["I like leek soup"])
    assert await over.text() == after
    shown = await over.store.aget(FILES, FOOD)
    assert shown is not None


async def tidied(runs: Runs, *calls: ToolCall) -> list[ShownLine]:
    """The lines of the proposals after a tidy in which the model makes these calls."""
    runs.model.script("Tidy this", *[[call] for call in calls], READY)
    ids = {"thread_id": "r", "run_id": "r", "graph_id": CONSOLIDATION_GRAPH}
    user = SignedIn(identity="alice", org_id="acme")
    runs.built.store = runs.store
    await runs.built.ainvoke(
        {"messages": [{"role": "user", "content": "go"}]},
        {
            "configurable": {**ids, "langgraph_auth_user": user},
            "recursion_limit": 9_999,
            "metadata": {"trigger": "tidy"},
        },
        context=Context(),
    )
    shown, _ = await runs.memory.shown_proposals()
    return [line for proposal in shown for lines in proposal["lines"].values() for line in lines]


async def test_a_tidy_proposes_to_take_out_what_is_over_whatever_its_model_does(over: Runs) -> None:
    (line,) = await tidied(over)
    assert (line["sign"], line["text"], line["reason"]) == ("-", OFFER, "over")
    assert await over.text() == BEFORE, "the person decides"
    (shown,) = tool_results(over.model.requests[0])
    assert LEEK in shown
    assert OFFER not in shown
    (proposal,) = await over.memory.proposals()
    await over.decided(proposal.id, accept=True)
    assert await over.text() == f"{LEEK}\n{ACME}\n"


async def test_a_tidy_that_moves_or_drops_a_line_that_is_over_proposes_to_take_it_out(
    over: Runs,
) -> None:
    calls = [write(MY_FOOD, f"{ACME}\n{LEEK}\n"), append(OFFER, "/memories/topics/offers.md")]
    lines = await tidied(over, *calls)
    assert {(line["sign"], line["text"]) for line in lines if line["text"] == OFFER} == {
        ("-", OFFER)
    }


async def test_a_proposed_line_keeps_the_time_at_which_it_was_proposed(
    run: Runs, clock: Clock
) -> None:
    change = Changed("/topics/trips.md", "", "- On holiday (until 2026-06-30)\n")
    await run.proposed(1, change)  # in January
    clock.set("2026-07-10")
    await run.decided(1, accept=True)
    run.model.script(TASK, READY)
    await run("r", t=["Where do I go on holiday?"])
    assert "On holiday" not in str(tool_results(run.model.requests[0])).partition("# Files")[2]


def judged(before: str, after: str) -> str:
    changed = Changed(FOOD, before, after)
    found = objection([changed], {})
    return found.reason if found else ""


@pytest.mark.parametrize(
    "after",
    [
        f"{LEEK} (until 2026-12-31)",
        f"{LEEK} {SOURCE} (until 2026-12-31)",
        f"- likes leek soup {SOURCE}",
    ],
)
def test_the_guard_compares_lines_without_source_and_end(after: str) -> None:
    end = " (until 2026-07-31)"
    for before in (LEEK, f"{LEEK} {SOURCE}", f"{LEEK} {SOURCE}{end}", LEEK + end):
        assert judged(before, after) == ""
        said = [("", "I like leek soup until Friday")]
        assert invented([Changed(FOOD, "", after)], said, DEFAULT_CONSOLIDATION) == {}


async def test_a_line_that_still_holds_is_not_taken_back(over: Runs) -> None:
    text = BEFORE.replace(" (until 2026-06-30)", "")
    file = FileData(content=text, encoding="utf-8")
    await journal.change(over.store, FILES, FOOD, lambda _: file, Author("person", "alice"))
    histories = await journal.histories(over.store, FILES)
    assert taken_back(histories, []) == {}
