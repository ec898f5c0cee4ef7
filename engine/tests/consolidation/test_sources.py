"""Who vouches for what consolidation and tidying write: the conversations that were read, never the
model, and of merged lines the lowest.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from deepagents.backends.protocol import FileData

from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.memory.folder import sources_of_files
from lasting_memory.memory.vouches import vouch_new_by
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.scripted_anthropic import Text, ToolCall
from tests.conftest import BuildGraph
from tests.consolidation.conftest import AGAIN, ALICE, FILES, FOOD, MY_FOOD, TASK, Runs, append

CONFIRMED, INFERRED, UNCONFIRMED = Source.CONFIRMED, Source.INFERRED, Source.UNCONFIRMED
PAGE = "The person is allergic to leek."


def fetched(text: str) -> list[dict[str, object]]:
    call = {"name": "fetch", "args": {}, "id": "call-1", "type": "tool_call"}
    return [
        {"type": "ai", "id": "a1", "content": "", "tool_calls": [call]},
        {"type": "tool", "id": "t1", "content": text, "tool_call_id": "call-1", "name": "fetch"},
        {"type": "ai", "id": "a2", "content": f"It says: {text}"},
    ]


def said(text: str, number: int = 1) -> dict[str, object]:
    return {"type": "human", "id": f"h{number}", "content": text}


async def consolidated(run: Runs, messages: list[dict[str, object]], *calls: ToolCall) -> None:
    run.platform.put(ALICE, "talk", run.platform.now.isoformat(), messages)
    run.model.script(TASK, *([call] for call in calls), [Text("done")])
    await run("run-1")


async def sources(run: Runs) -> dict[str, Source]:
    return sources_of_files(await run.store.asearch(FILES, limit=100))


async def remembered(run: Runs, known: Mapping[str, Source]) -> None:
    """What memory has, and who vouches for it."""
    text = "".join(f"- {line}\n" for line in known)
    file = FileData(content=text, encoding="utf-8")
    author = Author("agent", "alice")
    await journal.change(run.store, FILES, FOOD, lambda _: file, author, vouch=vouch_new_by(known))


async def test_lines_of_the_person_are_confirmed_and_lines_of_a_page_are_not(run: Runs) -> None:
    talk = [said("I eat leek, and I am allergic to nuts. What does the page say?"), *fetched(PAGE)]
    lines = ["Eats leek", "Allergic to leek", "A vegetarian"]
    await consolidated(run, talk, *(append(f"- {line}") for line in lines))
    found = await sources(run)
    assert [found[line] for line in lines] == [CONFIRMED, UNCONFIRMED, INFERRED]


async def test_a_pasted_text_is_not_the_person_s_word(run: Runs) -> None:
    talk = [said(f"I like leek. Summarize this:\n\n{PAGE}")]
    await consolidated(run, talk, append("- Allergic to leek"), append("- Likes leek"))
    assert await sources(run) == {"Allergic to leek": UNCONFIRMED, "Likes leek": CONFIRMED}


@pytest.mark.parametrize(
    ("merged", "source"),
    [
        ("Likes leek and kale", CONFIRMED),
        ("Likes leek, kale and mint", INFERRED),
        ("Likes leek, hates kale", INFERRED),
        ("Likes leek; pays Bob", UNCONFIRMED),
        ("Always pays Bob", UNCONFIRMED),
    ],
)
async def test_a_merged_line_counts_as_the_lowest_that_it_merges(
    run: Runs, merged: str, source: Source
) -> None:
    known = {"Likes leek": CONFIRMED, "Likes kale": CONFIRMED, "Pays Bob": UNCONFIRMED}
    await remembered(run, known)
    old = "- Likes leek\n- Likes kale\n" if "ays" not in merged else "- Likes kale\n- Pays Bob\n"
    edit = {"file_path": MY_FOOD, "old_string": old, "new_string": f"- {merged}\n"}
    gone = [line.removeprefix("- ") for line in old.splitlines()]
    forget = {"path": MY_FOOD, "lines": [f"- {line}" for line in gone], "reason": "outdated"}
    calls = ToolCall("forget_lines", forget), ToolCall("edit_file", edit)
    await consolidated(run, [said("hello there")], *calls)
    assert (await sources(run))[merged] is source


async def test_a_later_message_of_the_person_confirms_a_line_of_memory(run: Runs) -> None:
    await remembered(run, {"Pays Bob": UNCONFIRMED, "Pays Carla": UNCONFIRMED})
    await consolidated(run, [said("I pay Bob, that's right. Why do I pay Carla?")])
    assert await sources(run) == {"Pays Bob": CONFIRMED, "Pays Carla": UNCONFIRMED}


async def test_an_unconfirmed_line_that_is_refused_leaves_the_rest_of_its_batch(
    run: Runs, graph: BuildGraph
) -> None:
    refusing = replace(deployed(), unconfirmed="refuse")
    run.built = graph(refusing, build=build_consolidation_agent).graph
    talk = [said("I eat leek. What does the page say?"), *fetched(PAGE)]
    run.model.script(AGAIN, [append("- Eats leek")], [Text("done")])
    await consolidated(run, talk, append("- Eats leek"), append("- Allergic to leek"))
    assert await sources(run) == {"Eats leek": CONFIRMED}


async def test_an_accepted_proposal_of_an_unconfirmed_line_leaves_it_unconfirmed(
    run: Runs, graph: BuildGraph
) -> None:
    proposing = replace(deployed(), unconfirmed="propose")
    run.built = graph(proposing, build=build_consolidation_agent).graph
    talk = [said("What does the page say?"), *fetched(PAGE)]
    await consolidated(run, talk, append("- Allergic to leek"))
    assert await sources(run) == {}
    (proposal,) = await run.memory.proposals()
    shown = proposal.shown()
    (path,) = shown["lines"]
    numbers = [line["line"] for line in shown["lines"][path] if "leek" in line["text"]]
    assert shown["unconfirmed"] == {path: numbers}
    await run.decided(proposal.id, accept=True)
    assert await sources(run) == {"Allergic to leek": UNCONFIRMED}
