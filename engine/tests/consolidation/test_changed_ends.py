"""The day that a person gave a fact, or took from it, stays so until they say the fact again."""

import time
from datetime import timedelta

import pytest
from langchain_core.utils.uuid import uuid7

from tests.consolidation.conftest import READY, TASK, Runs, append

LATER = "(until 2027-11-27)"
SOONER = "(until 2027-06-30)"
PAST = "(until 2024-06-30)"
FACTS = [
    "- The lease of the flat runs",
    "- हमारा किराये का अनुबंध चलता है",
    "- 公寓的租约有效",
    "- عقد إيجار الشقة ساري",
]


async def changed_by_her(run: Runs, before: str, after: str) -> None:
    """What was remembered, and what she made of it on the page."""
    await run.saved(f"{before}\n")
    await run.saved(f"{after}\n")


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(
    ("old", "new"),
    [(LATER, SOONER), (SOONER, LATER), (LATER, ""), ("", LATER), (LATER, PAST), (PAST, "")],
)
async def test_a_changed_end_does_not_come_back_from_an_older_conversation(
    run: Runs, fact: str, old: str, new: str
) -> None:
    before = f"{fact} {old}".rstrip()
    after = f"{fact} {new}".rstrip()
    run.platform.now -= timedelta(days=1)
    await changed_by_her(run, before, after)
    run.model.script(TASK, [append(before)], READY, READY)
    await run("r", t=[before.removeprefix("- ")])
    assert await run.text() == f"{after}\n"


async def test_an_end_that_is_said_again_later_is_written(run: Runs) -> None:
    fact = FACTS[0]
    said = "No, the lease of the flat runs until 27 November 2027 after all."
    await changed_by_her(run, f"{fact} {LATER}", f"{fact} {SOONER}")
    in_a_second = time.time_ns() + 10**9
    turn = {"messages": [{"role": "user", "content": said}]}
    run.platform.runs.kept["t"].append(
        {"run_id": str(uuid7(in_a_second)), "status": "success", "kwargs": {"input": turn}}
    )
    run.model.script(TASK, [append(f"{fact} {LATER}")], READY)
    await run("r", t=[said])
    assert f"{fact} {LATER}" in await run.text()


async def test_an_end_that_nobody_took_is_written(run: Runs) -> None:
    fact = FACTS[0]
    await changed_by_her(run, f"{fact} {LATER}", f"{fact} {SOONER}")
    run.platform.now -= timedelta(days=1)
    run.model.script(TASK, [append("- The offer of soup holds (until 2027-11-27)")], READY)
    await run("r", t=["The offer of soup holds until 27 November 2027."])
    assert "The offer of soup holds (until 2027-11-27)" in await run.text()
