"""Facts with an end: a line that says until when it holds is over after that day, and nothing else
is: in prompts, in searches, in what is read, and wherever its text goes.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory import days
from lasting_memory.agent.memory_search import search_files
from lasting_memory.deployment import Limits
from lasting_memory.memory import journal
from lasting_memory.memory.dated_lines import dated_lines, end_of, without_end
from lasting_memory.memory.ends import Day, ends_of_file
from lasting_memory.memory.facts import bare_line
from lasting_memory.memory.journal import trimming
from lasting_memory.memory.line_times import Text, times_after_change
from lasting_memory.memory.one_fact import fact_of
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.scripted_anthropic import Text as Said
from lasting_memory.testing.scripted_anthropic import ToolCall, system_text
from tests.conftest import BuildGraph, Clock, Scripted

MEMORIES = ("memories", "acme:alice")
PREFERENCES = "/preferences.md"
SOURCE = "(2026-03-02, thread 0199c2f0-1111-4111-8111-111111111111)"
AUTHOR = Author("person", "alice")


# --- What an end is


@pytest.mark.parametrize(
    ("line", "day"),
    [
        ("- Answers in French (until 2026-12-31)", date(2026, 12, 31)),
        ("Answers in French (until 2026-12-31)  \r", date(2026, 12, 31)),
        (f"- The offer holds {SOURCE} (until 2026-12-31)", date(2026, 12, 31)),
        ("- 休暇中です (until 2028-02-29)", date(2028, 2, 29)),
        ("- في إجازة (until 2026-06-30)", date(2026, 6, 30)),
        ("- Moved (until 2026-06-30) (until 2026-12-31)", date(2026, 12, 31)),
        (f"- The offer holds (until 2026-12-31) {SOURCE}", None),  # the source comes first
        ("- The offer holds (until 2026-12-31).", None),
        ("- The offer holds (until 2026-02-30)", None),
        ("- The offer holds (until 0000-01-01)", None),
        ("- The offer holds (until 2026-1-31)", None),
        ("- The offer holds (until 31.12.2026)", None),
        ("- The offer holds (until Friday)", None),
        ("- The offer holds (bis 2026-12-31)", None),
        ("- The offer holds (until ٢٠٢٦-١٢-٣١)", None),
        ("- The offer holds (until \uff12\uff10\uff12\uff16-12-31)", None),
        ("- The offer holds \uff08until 2026-12-31\uff09", None),
        ("- The offer holds(until 2026-12-31)", None),
        ("- The offer holds until 2026-12-31", None),
        ("- The offer (until 2026-12-31) holds", None),
    ],
)
def test_an_end_is_one_iso_day_in_brackets_at_the_line_s_end(line: str, day: date | None) -> None:
    assert end_of(line) == day
    shown = without_end(line)
    assert shown == (line if day is None else line.rstrip()[: -len(" (until 2026-12-31)")].rstrip())


def test_titles_rows_code_comments_and_a_day_alone_have_no_end() -> None:
    end = "(until 2026-12-31)"
    text = (
        f"---\nname: a {end}\n---\n# Offers {end}\n\n| a | b |\n|---|---|\n| c | d {end} |\n\n"
        f"```\ncode {end}\n```\n<!-- hidden {end}\nhidden {end}\n-->\n- {end}\n- Holds {end}\n"
    )
    (line,) = dated_lines(text)
    assert (line.number, line.fact) == (text.count("\n") - 1, "Holds")


def test_a_line_says_its_fact_and_its_end_without_the_source_between() -> None:
    assert bare_line(f"- Holds {SOURCE} (until 2026-12-31)") == "Holds (until 2026-12-31)"
    assert bare_line(f"- Holds {SOURCE}") == "Holds"


def test_the_text_of_a_hostile_file_is_read_in_time_that_grows_with_it() -> None:
    text = "- a (until 2026-12-31)\n" * 5_000 + "(until " * 20_000 + " " * 50_000
    assert len(dated_lines(text)) == 1_000
    before = Text(text, "2026-01-01T00:00:00+00:00")
    other = text.replace("- a", "- b")
    assert len(times_after_change(before, other, "2026-05-01T00:00:00+00:00", {})) == 1


# --- When a line was written


async def put(
    store: BaseStore, text: str | None, path: str = PREFERENCES, author: Author = AUTHOR
) -> journal.Revision:
    file = None if text is None else create_file_data(text)
    return await journal.change(store, MEMORIES, path, lambda _: file, author)


async def counted(store: BaseStore, path: str = PREFERENCES) -> dict[str, bool]:
    """The lines whose end counts, and whether each is over."""
    item = await store.aget(MEMORIES, path)
    assert item is not None
    lines = item.value["content"].split("\n")
    ends = ends_of_file(item, Day.now(days.WORLDS))
    return {lines[end.number]: end.is_over for end in ends}


OFFER = "- The offer holds (until 2026-06-30)"
ACME = "- Worked at Acme (until 2024-06-30)"


async def test_an_end_counts_if_its_day_had_not_passed_when_the_line_was_written(
    store: BaseStore, clock: Clock
) -> None:
    clock.set("2026-06-30")
    await put(store, f"{OFFER}\n{ACME}\n- On holiday (until 2026-06-29)\n")
    assert await counted(store) == {OFFER: False}
    clock.set("2026-07-01")
    assert await counted(store) == {OFFER: True}


@pytest.mark.parametrize(
    "texts",
    [
        [f"- Likes tea\n{OFFER}\n", f"{OFFER}\n- Likes tea\n- Likes coffee\n"],
        ["", f"{OFFER}\n"],
        [None, f"* {OFFER[2:]}\n"],
        ["- The offer is open (until 2026-06-30)\n"],
        [f"- The offer holds {SOURCE} (until 2026-06-30)\n"],
        ["- The offer holds\n", f"{OFFER}\n"],
        [f"{OFFER}\r\n"],
    ],
    ids=["others", "taken out", "deleted", "worded", "sourced", "still true, undone", "line ends"],
)
async def test_a_line_keeps_the_time_at_which_it_was_written(
    store: BaseStore, clock: Clock, texts: Sequence[str | None]
) -> None:
    await put(store, f"{OFFER}\n{ACME}\n")
    for number, text in enumerate(texts):
        clock.set(f"2026-07-{10 + number}")
        await put(store, None if text is None else f"{text}{ACME}\n")
    assert [*(await counted(store)).values()] == [True], "and history stays history"


async def test_a_line_keeps_its_time_in_another_file_and_beyond_its_file_s_history(
    store: BaseStore, clock: Clock
) -> None:
    await put(store, f"{OFFER}\n")
    clock.set("2026-07-10")
    await put(store, "", author=Author("consolidation", "alice"))
    await put(store, f"{OFFER}\n{ACME}\n", "/topics/offers.md")
    limits = Limits(revisions_kept=2)
    for number in range(5):
        text = f"{OFFER}\n{ACME}\n- {number}\n"
        await put(store, text, "/topics/offers.md")
    await trimming.trim(store, MEMORIES, limits)
    assert await counted(store, "/topics/offers.md") == {OFFER: True}


async def test_two_writers_at_once_keep_the_times_of_both(store: BaseStore, clock: Clock) -> None:
    await put(store, f"{OFFER}\n")
    clock.set("2026-07-10")
    other = "- On call (until 2026-07-31)"
    await asyncio.gather(
        *(
            journal.change(store, MEMORIES, PREFERENCES, appended(line), AUTHOR)
            for line in (other, ACME, "- Likes tea")
        )
    )
    assert await counted(store) == {OFFER: True, other: False}


def appended(line: str) -> journal.Change:
    return lambda before: create_file_data(f"{before['content'] if before else ''}{line}\n")


async def test_a_file_put_around_the_journal_has_the_time_of_its_last_change(
    store: BaseStore, clock: Clock
) -> None:
    file = create_file_data(f"{OFFER}\n{ACME}\n")
    await store.aput(MEMORIES, PREFERENCES, {**file, "modified_at": "2026-06-01T08:00:00+00:00"})
    clock.set("2026-07-10")
    assert await counted(store) == {OFFER: True}
    await journal.change(store, MEMORIES, PREFERENCES, appended("- Likes tea"), AUTHOR)
    assert await counted(store) == {OFFER: True}, "and the journal takes it over"


async def test_a_fact_that_is_deleted_for_good_leaves_nothing_of_itself(
    store: BaseStore, clock: Clock
) -> None:
    await put(store, f"{OFFER}\n- On call (until 2026-07-31)\n")
    fact = fact_of(OFFER, [], set())
    counts = await journal.erase(
        store, MEMORIES, fact.cleaned, journal.Writer(Actor("alice", "acme"))
    )
    assert counts["revisions"] == 1
    (file,) = await journal.all_items(store, MEMORIES)
    (revision,) = await journal.all_items(store, namespaces.journals(MEMORIES))
    assert len(file.value["written"]) == len(revision.value["revision"]["written"]) == 1


# --- Prompts, searches, reading


async def test_a_line_that_is_over_is_in_no_prompt_and_takes_no_room(
    agent: Scripted, clock: Clock
) -> None:
    others = ["- Likes tea", ACME, "- On call (until 2026-07-31)", "- Reads (until Friday)"]
    await put(agent.store, "\n".join([OFFER, *others, ""]))
    shown = await agent.shown()
    assert all(line in shown for line in [OFFER, *others])
    clock.set("2026-07-01")
    shown = await agent.shown()
    assert "offer" not in shown.partition("<memory>")[2]
    assert all(line in shown for line in others)
    await put(
        agent.store, f"{'- The offer holds, ' + 'x' * 60_000} (until 2026-07-05)\n- Likes tea\n"
    )
    clock.set("2026-07-06")
    shown = await agent.shown()
    assert "bytes left out" not in shown
    assert "- Likes tea" in shown


@pytest.mark.parametrize(
    ("zone", "hour", "is_over"),
    [
        ("Pacific/Kiritimati", 9, False),
        ("Pacific/Kiritimati", 10, True),
        ("Pacific/Pago_Pago", 23, False),
        ("UTC", 23, False),
    ],
)
async def test_a_day_ends_where_the_person_is(
    agent: Scripted, clock: Clock, zone: str, hour: int, *, is_over: bool
) -> None:
    await put(agent.store, f"{OFFER}\n")
    await put(agent.store, json.dumps({"timezone": zone}), "/profile.json")
    clock.set("2026-06-30", hour)
    assert ("The offer" in await agent.shown()) is not is_over


async def test_a_line_that_is_over_is_not_found_and_others_keep_their_numbers(
    agent: Scripted, clock: Clock
) -> None:
    await put(agent.store, f"# Offers\n\n{OFFER}\n- An offer from Acme\n", "/topics/offers.md")
    clock.set("2026-07-01")
    (answer,) = await agent.called(ToolCall("search_memories", {"query": "offer of Acme"}))
    assert "An offer from Acme" in answer
    assert "The offer holds" not in answer
    found = await search_files(agent.store, MEMORIES, "offer", deployed())
    assert [file.lines for file in found] == [((3, "- An offer from Acme"),)]


async def test_a_file_with_a_line_that_is_over_is_read_with_a_mark_and_edited_as_shown(
    agent: Scripted, clock: Clock
) -> None:
    await put(agent.store, f"{OFFER}\n{ACME}\n")
    path = {"file_path": "/memories/preferences.md"}
    (before,) = await agent.called(ToolCall("read_file", path))
    clock.set("2026-07-01")
    (answer,) = await agent.called(ToolCall("read_file", path))
    note, _, text = answer.partition("\n")
    assert note.startswith(
        "[Over, because their day has passed: '- The offer holds (until 2026-06-30)'."
    )
    assert "Acme" not in note
    assert text == before
    edit = {**path, "old_string": OFFER, "new_string": "- The offer holds"}
    await agent.called(ToolCall("edit_file", edit))
    assert "- The offer holds" in await agent.shown()


async def test_a_line_that_grep_finds_says_that_it_is_over(agent: Scripted, clock: Clock) -> None:
    await put(agent.store, f"# Offers\n\n{OFFER}\n{ACME}\n", "/topics/offers.md")
    everywhere = {"pattern": "- ", "output_mode": "content"}
    here = {**everywhere, "path": "/memories/topics/"}
    (before,) = await agent.called(ToolCall("grep", here))
    assert "over:" not in before
    clock.set("2026-07-01")
    for args in (here, everywhere):
        (answer,) = await agent.called(ToolCall("grep", args))
        assert f"{OFFER}  [over: its day has passed]" in answer
        assert answer.count("over:") == 1


async def test_a_file_that_an_agent_writes_anew_keeps_the_lines_that_it_was_not_shown(
    agent: Scripted, clock: Clock
) -> None:
    path = "/memories/preferences.md"
    await put(agent.store, f"# Tastes\n{OFFER}\n- Likes tea\n")
    clock.set("2026-07-01")
    text = "# Tastes\n- Likes coffee\n"
    (told,) = await agent.called(ToolCall("write_file", {"file_path": path, "content": text}))
    assert "Over, because their day has passed: '- The offer holds" in told
    item = await agent.store.aget(MEMORIES, PREFERENCES)
    assert item is not None
    assert item.value["content"] == f"# Tastes\n{OFFER}\n- Likes coffee\n"
    edit = {"file_path": path, "old_string": f"{OFFER}\n", "new_string": ""}
    await agent.called(ToolCall("edit_file", edit))
    item = await agent.store.aget(MEMORIES, PREFERENCES)
    assert item is not None
    assert item.value["content"] == text


@pytest.mark.parametrize("path", ["/policies/rules.md", "/memories/skills/soup/SKILL.md"])
async def test_rules_and_skills_have_no_end(agent: Scripted, clock: Clock, path: str) -> None:
    text = f"---\nname: soup\ndescription: cooks soup\n---\n{OFFER}\n"
    namespace, key = MEMORIES, path.removeprefix("/memories")
    if path.startswith("/policies"):
        namespace, key = ("policies", "acme"), path.removeprefix("/policies")
    agent.put(namespace, key, text, modified_at="2026-06-01T00:00:00+00:00")
    clock.set("2026-07-01")
    (read,) = await agent.called(ToolCall("read_file", {"file_path": path}))
    assert OFFER in read
    assert "Over" not in read


async def test_no_subagent_is_shown_a_line_that_is_over(agent: Scripted, clock: Clock) -> None:
    await put(agent.store, f"{OFFER}\n- Likes tea\n")
    clock.set("2026-07-01")
    task = {"description": "delegated", "subagent_type": "general-purpose"}
    agent.model.script("delegated", [Said("done")])
    await agent.called(ToolCall("task", task))
    prompts = [system_text(body) for body in agent.model.requests]
    assert len(prompts) == 3
    assert all("Likes tea" in prompt and "The offer" not in prompt for prompt in prompts)


async def test_a_deployment_without_ends_shows_every_line_as_text(
    graph: BuildGraph, clock: Clock
) -> None:
    agent = graph(replace(deployed(), ends=False))
    await put(agent.store, f"{OFFER}\n")
    clock.set("2026-07-01")
    shown = await agent.shown()
    assert OFFER in shown
    assert "YYYY-MM-DD" not in shown
    read, found = await agent.called(
        ToolCall("read_file", {"file_path": "/memories/preferences.md"}),
        ToolCall("search_memories", {"query": "offer"}),
    )
    assert "Over" not in read
    assert OFFER in found
