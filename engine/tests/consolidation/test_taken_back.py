"""What people took back stays taken back: undone, corrected, deleted or declined lines return only
if they are said again.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasting_memory.consolidation.guard import without
from lasting_memory.consolidation.returning_lines import returning
from lasting_memory.consolidation.said_since import last_words
from lasting_memory.consolidation.taken_back import DatedText, taken_back
from lasting_memory.memory.journal import Revision
from lasting_memory.memory.proposals import Changed, Declined
from lasting_memory.people.identity import Author
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import Text, ToolCall, last_user_text, tool_results
from tests.consolidation.conftest import AGAIN, READY, TASK, append, consolidate

FACT = "My train leaves at nine"
FOOD = "/memories/topics/food.md"
TRIPS = "/memories/topics/trips.md"


Takes = Callable[[Person], Awaitable[None]]


async def undo(who: Person) -> None:
    await who.http.post("/memory/undo", json={"path": TRIPS, "revision": 1})


async def delete(who: Person) -> None:
    await who.http.delete("/memory/file", params={"path": TRIPS})


async def forget_in_conversation(who: Person) -> None:
    await who.called(
        ToolCall("edit_file", {"file_path": TRIPS, "old_string": f"- {FACT}\n", "new_string": ""})
    )


async def decline(who: Person) -> None:
    await who.control(review=True)
    await consolidate(who, append(f"- {FACT}", TRIPS))
    (proposal,) = await who.listed("proposals")
    await who.http.post(f"/memory/proposals/{proposal['id']}", json={"accept": False})
    await who.control(review=False)


async def everything(who: Person) -> str:
    """All that is remembered, and all that is proposed."""
    return str([await who.read(file["path"]) for file in await who.listed("files")]) + str(
        await who.listed("proposals")
    )


@pytest.mark.server
@pytest.mark.parametrize("take_back", [undo, delete, forget_in_conversation, decline])
async def test_a_line_taken_back_returns_only_if_it_is_said_again(
    ada: Person, take_back: Takes
) -> None:
    await ada.write(TRIPS, "- Likes maps\n")
    said_in = await ada.thread()
    saved_at_once = [append(f"- {FACT}", TRIPS)] if take_back is not decline else READY
    ada.model.script(FACT, saved_at_once, READY)
    await ada.turn(said_in, FACT)
    await take_back(ada)
    ada.model.clear()
    assert FACT not in await everything(ada)
    await ada.turn(said_in, "And it rains in Lyon")

    kept = append("- It rains in Lyon", TRIPS)
    reworded = append("- The train leaves at nine (2026-11-23)", "/memories/topics/travel.md")
    assert str(await consolidate(ada, reworded, kept)).endswith("conversations were consolidated.")
    first, again = (
        next(body for body in ada.model.requests if words in last_user_text(body))
        for words in (TASK, AGAIN)
    )
    assert "# Taken back" in tool_results(first)[0]
    assert FACT in tool_results(first)[0].partition("# Taken back")[2]
    assert "The person took this back" in last_user_text(again)
    now = await everything(ada)
    assert "leaves at nine" not in now
    assert "It rains in Lyon" in now, "the rest of the batch stays"
    record = (await ada.listed("consolidations"))[0]
    assert "took this back" in record["reason"]
    assert [note["kind"] for note in record["notes"]] == ["taken_back"]
    assert "leaves at nine" in record["notes"][0]["texts"][0]

    ada.model.clear()
    await ada.say("By the way, my train leaves at nine now.")
    await consolidate(ada, reworded)
    assert "The train leaves at nine" in await everything(ada), "it was said again later"
    assert all(AGAIN not in last_user_text(body) for body in ada.model.requests)


@pytest.mark.server
@pytest.mark.parametrize(("back", "told"), [
    ("बेटा का नाम रवि है", "बेटी का नाम रिया है"),
    ("दूध पसंद है", "दही पसंद है"),
    ("बहन मीना है", "बहन मोना है"),
    ("বোন মীনা", "বোন মোনা"),
    ("தங்கை மீனா", "தங்கை மோனா"),
    ("Learns C++", "Learns C#"),
])  # fmt: skip
async def test_a_fact_is_not_another_one_that_was_taken_back(
    ada: Person, back: str, told: str
) -> None:
    """In scripts whose vowels are marks, too."""
    await ada.write(TRIPS, f"- {back}\n")
    await ada.chat(told)
    await delete(ada)
    await consolidate(ada, append(f"- {told}", TRIPS))
    assert await ada.read(TRIPS) == f"- {told}\n"
    assert (await ada.listed("consolidations"))[0]["notes"] == []


@pytest.mark.server
async def test_a_client_that_sends_old_messages_again_says_nothing_again(ada: Person) -> None:
    """Some front ends send the whole conversation with each turn; a copy of a thread is younger
    than what was said in it.
    """
    old: Any = {"role": "user", "content": FACT, "id": "old"}
    thread = await ada.thread()
    ada.model.script(FACT, [append(f"- {FACT}", TRIPS)], [Text("noted")])
    await ada.client.runs.wait(thread, "agent", input={"messages": [old]})
    await delete(ada)
    ada.model.clear()
    await ada.client.runs.wait(
        thread,
        "agent",
        input={"messages": [old, {"role": "user", "content": "What else?", "id": "new"}]},
    )
    await ada.client.threads.copy(thread)
    await consolidate(ada, append(f"- {FACT}", TRIPS))
    assert await ada.read(TRIPS) is None


def history(
    *contents: str | None, kind: str = "person", key: str = "/topics/food.md"
) -> tuple[str, list[Revision]]:
    """A file's history; its first revision is the agent's."""
    revisions = list[Revision]()
    for number, content in enumerate(contents, 1):
        author = Author(kind if number > 1 else "agent")
        revisions.insert(
            0,
            Revision(number, f"{number}", (), content, "utf-8", "", f"2026-01-{number:02}", author),
        )
    return key, revisions


def brought(
    before: str,
    after: str,
    *histories: tuple[str, list[Revision]],
    said: str = "",
    declined: str = "",
    key: str = "/topics/x.md",
) -> list[str]:
    """The new lines that bring something back."""
    taken = taken_back(
        histories, [Declined(Changed(key, "", declined), "2026-01-02")] if declined else []
    )
    found = returning(
        [Changed(key, before, after)],
        {key: before},
        taken,
        [DatedText(said, "2026-02")] if said else [],
    )
    return [" ".join(line) for _, line in found]


TEA = history("- Likes tea\n", "- Likes green tea\n")
TRAIN = history("- Train at 9:15 from platform 3\n", "")


@pytest.mark.parametrize(("after", "found"), [
    ("- Likes tea\n", ["likes tea"]),
    ("- Likes green tea\n- Tea is what they like (2026-01-01, thread x)\n", ["tea is what they like"]),
    ("- Likes green tea\n<!-- Likes tea -->\n```\nLikes tea\n```\n", ["likes tea"]),
    ("- Likes green tea with milk\n", []),
    ("- Green tea is liked\n- Likes opera\n", []),
    ("- Train at 10:15 from platform 3\n", []),
    ("- From platform 3 the train leaves at 9:15\n", ["from platform 3 the train leaves at 9 15"]),
])  # fmt: skip
def test_a_corrected_line_does_not_come_back_beside_its_correction(
    after: str, found: list[str]
) -> None:
    assert brought("- Likes green tea\n", after, TEA, TRAIN) == found


def test_a_declined_line_and_a_field_of_the_profile_are_taken_back() -> None:
    assert brought("", "- Likes tea\n- Hates dill\n", declined="- Likes tea") == ["likes tea"]
    profile = history('{"name": "Al"}', '{"name": "Ada"}', key="/profile.json")
    assert brought('{"name": "Ada"}', '{"name": "Al"}', profile, key="/profile.json") == ["name al"]


def test_a_line_that_came_back_gives_back_the_line_it_replaced() -> None:
    change = Changed("/x.md", "- Likes green tea\n", "- Likes tea\n- Likes rain\n")
    found = returning([change], {"/x.md": change.before}, taken_back([TEA], []), [])
    assert [each.after for each in without([change], found)] == [
        "- Likes green tea\n- Likes rain\n"
    ]


def test_a_line_that_consolidation_removed_is_not_taken_back() -> None:
    assert brought("", "- Likes tea\n", history("- Likes tea\n", "", kind="consolidation")) == []


def test_a_line_written_again_is_taken_back_no_longer() -> None:
    assert brought("", "- Likes tea\n", history("- Likes tea\n", "", "- Likes tea\n")) == []
    moved = history("- x\n", "- x\n", "- x\n- Likes tea\n", key="/topics/b.md")
    assert (
        brought("", "- Likes tea\n", history("- Likes tea\n", "", key="/topics/a.md"), moved) == []
    )


def test_words_said_after_the_removal_bring_a_line_back_and_earlier_ones_do_not() -> None:
    gone = history("- Likes tea\n", "")
    assert (
        brought("", "- Likes tea\n", gone, said="You know what? I am liking teas again. Really.")
        == []
    )
    user = history("- User prefers tea\n", "")
    assert (
        brought("", "- User prefers short answers\n", user, said="Please keep your answers short.")
        == []
    )
    taken = taken_back([gone], [])
    early = [DatedText("I like tea", "2026-01-01")]
    assert returning([Changed("/x.md", "", "- Likes tea\n")], {}, taken, early)


_WORDS = ["tea", "fennel", "lyon", "opera", "rex", "tuesday", "violin", "9", "ten", "mint"]
_LINE = st.lists(st.sampled_from(_WORDS), min_size=2, max_size=4, unique=True).map(
    lambda words: f"- {' '.join(words)}"
)
_LINES = st.lists(_LINE, max_size=6, unique_by=lambda line: frozenset(line.split()))


@given(removed=_LINES, present=_LINES, written=_LINES)
def test_a_batch_brings_back_no_removed_line_and_loses_no_other(
    removed: list[str], present: list[str], written: list[str]
) -> None:
    """Whatever a batch writes: without what it brings back, it has no line that was removed, and
    what stood there stays.
    """
    before = "".join(f"{line}\n" for line in present)
    after = "".join(f"{line}\n" for line in [*present, *written])
    taken = taken_back([history("".join(f"{line}\n" for line in removed), "")], [])
    change = Changed("/x.md", before, after)
    if before == after:
        return
    files = {"/x.md": before}
    left = without([change], returning([change], files, taken, []))
    now = left[0].after.splitlines() if left else before.splitlines()
    assert set(removed) & set(now) <= set(present)
    assert set(present) <= set(now)
    assert set(now) <= {*present, *written}
    assert returning(left, files, taken, []) == {}, "and then there is nothing to drop any more"


def input_of(*messages: object) -> dict[str, object]:
    """A run with this input, as the platform lists it."""
    return {"kwargs": {"input": {"messages": [*messages]}}}


@pytest.mark.parametrize(
    "run",
    [
        {},
        {"kwargs": None},
        {"kwargs": ["input"]},
        {"kwargs": {"input": ["messages"]}},
        {"kwargs": {"input": {"messages": {"role": "user"}}}},
        input_of(None),
        input_of(7),
        input_of({"role": ["user"], "content": FACT}),
        input_of({"role": "tool", "content": FACT}),
        input_of({"role": "remove", "content": FACT}),
        input_of({"role": "assistant", "content": FACT, "tool_calls": "read_file"}),
        input_of({"role": "assistant", "content": FACT, "tool_calls": [1]}),
    ],
)
def test_an_input_that_no_graph_takes_says_nothing(run: dict[str, object]) -> None:
    assert last_words(run) == ""


def test_the_last_words_of_a_run_are_its_person_s_last_message() -> None:
    first = {"role": "user", "content": "Hello"}
    last = {"role": "user", "content": FACT}
    answer = {"role": "assistant", "content": "Noted"}
    assert last_words(input_of(first, last, answer)) == FACT
