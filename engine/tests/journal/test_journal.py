"""What two writers make of one file and what changed between them, who is forgotten meanwhile; and
a world of writers.
"""

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, Op, PutOp
from langgraph.store.memory import InMemoryStore

from lasting_memory.agent.scoped_files import ScopedFiles
from lasting_memory.deployment import DEFAULTS
from lasting_memory.memory import journal
from lasting_memory.memory.journal import (
    NOTHING,
    Change,
    MovedError,
    Revision,
    diff,
    edits,
    line_origins,
    lines_of,
    merge,
    trimming,
    without_change,
    writing,
)
from lasting_memory.memory.journal.texts import MAX_COMPARED_LINES
from lasting_memory.memory.validation import MAX_FILE_BYTES, MAX_PATH_BYTES, RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.scripted_anthropic import Text, ToolCall
from lasting_memory.testing.stores import WrappedStore
from tests.conftest import Scripted
from tests.journal.world import AUTHOR, FILES, PATH, append, replace, throw

ALICE = Actor("alice", "acme")


def to(text: str | None) -> Change:
    return lambda _: None if text is None else create_file_data(text)


async def content(store: BaseStore, path: str = PATH) -> str | None:
    item = await store.aget(FILES, path)
    return str(item.value["content"]) if item else None


def meet(store: WrappedStore, act: Callable[[], Awaitable[object]], when: str = "before") -> None:
    """Lets somebody else do something just before the next put, or after it."""

    async def once(ops: list[Op]) -> None:
        if any(isinstance(op, PutOp) for op in ops):
            setattr(store, when, None)
            await act()

    setattr(store, when, once)


MEETINGS: dict[str, tuple[str, Change, Change, set[str | None]]] = {
    "two lines": ("a\n", append("b"), append("c"), {"a\nb\nc\n", "a\nc\nb\n"}),
    "the same line": ("a\n", append("b"), append("b"), {"a\nb\n"}),
    "a line changed twice": (
        "a\nz\n",
        replace("a", "b"),
        replace("a", "c"),
        {"b\nc\nz\n", "c\nb\nz\n"},
    ),
    "a line changed and gone": ("a\nb\n", replace("a"), replace("b", "c"), {"c\n"}),
    "a change and a deletion": ("a\n", append("b"), to(None), {"a\nb\n"}),
    "a deletion and a change": ("a\n", to(None), append("b"), {"a\nb\n"}),
    "two deletions": ("a\n", to(None), to(None), {None}),
}


@pytest.mark.parametrize("name", MEETINGS)
async def test_a_file_has_the_changes_of_two_writers_who_meet(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, mine, theirs, wanted = MEETINGS[name]
    monkeypatch.setattr(writing, "lock_of", lambda *_: asyncio.Lock())
    store = WrappedStore()
    await journal.change(store, FILES, PATH, to(before), AUTHOR)
    meet(store, lambda: journal.change(store, FILES, PATH, theirs, Author("person", "bob")))
    await journal.change(store, FILES, PATH, mine, AUTHOR)
    assert await content(store) in wanted
    history = await journal.history(store, FILES, PATH)
    assert (history[0].content, history[-1].content) == (await content(store), before)
    assert [new.previous for new in history] == [*(old.id for old in history[1:]), ""]
    assert [each.number for each in history] == [*range(len(history), 0, -1)]


async def test_a_profile_merges_field_by_field_and_lines_know_who_added_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "lock_of", lambda *_: asyncio.Lock())
    store, path = WrappedStore(), "/profile.json"
    await journal.change(
        store, FILES, path, to('{"name": "A", "role": "x", "units": "metric"}'), AUTHOR
    )
    meet(
        store, lambda: journal.change(store, FILES, path, to('{"name": "B", "role": "x"}'), AUTHOR)
    )
    await journal.change(
        store, FILES, path, to('{"name": "A", "role": "y", "units": "metric"}'), AUTHOR
    )
    assert json.loads(str(await content(store, path))) == {"name": "B", "role": "y"}
    await journal.change(store, FILES, PATH, to("a\n"), AUTHOR)
    meet(store, lambda: journal.change(store, FILES, PATH, append("b"), Author("person", "bob")))
    await journal.change(store, FILES, PATH, append("c"), Author("agent", "carol"))
    origins = journal.line_origins(await journal.history(store, FILES, PATH))
    lines = dict(zip(str(await content(store)).split(), origins, strict=True))
    assert {line: came.author.user_id for line, came in lines.items() if came} == {
        "a": "",
        "b": "bob",
        "c": "carol",
    }


async def test_a_write_around_the_journal_is_a_revision_with_the_next_write(
    store: BaseStore,
) -> None:
    await journal.change(store, FILES, PATH, to("a\n"), AUTHOR)
    await store.aput(FILES, PATH, {**create_file_data("x\n")})
    await journal.change(store, FILES, PATH, append("y"), AUTHOR)
    await store.adelete(FILES, PATH)
    last = await journal.change(store, FILES, PATH, append("z"), AUTHOR)
    history = await journal.history(store, FILES, PATH)
    assert [each.content for each in history] == ["z\n", None, "x\ny\n", "x\n", "a\n"]
    assert [each.author.kind for each in history] == [
        "agent",
        "outside",
        "agent",
        "outside",
        "agent",
    ]
    with pytest.raises(MovedError):
        await journal.change(store, FILES, PATH, append("no"), AUTHOR, expect=history[1].id)
    assert (
        await journal.change(store, FILES, PATH, append("1"), AUTHOR, expect=last.id)
    ).content == "z\n1\n"
    copied = await store.aget(FILES, PATH)
    assert copied
    await store.aput(FILES, "/other.md", copied.value)  # a value copied from another file
    await journal.change(store, FILES, "/other.md", append("2"), AUTHOR)
    assert [each.content for each in await journal.history(store, FILES, "/other.md")] == [
        "z\n1\n2\n",
        "z\n1\n",
    ]


@pytest.mark.parametrize("when", ["before", "after", "merging"])
@pytest.mark.parametrize("there", [None, "from after\n"])
async def test_a_person_forgotten_during_a_write_leaves_nothing(
    when: str, there: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "lock_of", lambda *_: asyncio.Lock())
    store = WrappedStore()
    await journal.change(store, FILES, PATH, to("before\n"), AUTHOR)

    async def forgotten() -> None:
        await journal.forget(store, ALICE)
        for prefix in (FILES, namespaces.journals(FILES)):
            for item in await store.asearch(prefix, limit=100):
                await store.adelete(item.namespace, item.key)
        if there:
            await journal.change(
                store, FILES, "/new.md", to(there), AUTHOR, writer=journal.Writer(ALICE)
            )

    async def other() -> None:
        await journal.change(store, FILES, PATH, append("late, too"), AUTHOR, writer=writer)
        meet(store, forgotten)

    writer = journal.Writer(ALICE)
    meet(store, *((other,) if when == "merging" else (forgotten, when)))
    with pytest.raises(RefusedWrite):
        await journal.change(store, FILES, PATH, append("late"), AUTHOR, writer=writer)
    assert "late" not in str(await store.asearch((), limit=100))
    assert (await content(store), await content(store, "/new.md")) == (None, there)
    assert await journal.history(store, FILES, PATH) == []
    assert await journal.is_forgotten(store, writer)
    assert not await journal.is_forgotten(store, journal.Writer(ALICE))


def size(store: InMemoryStore) -> int:
    items = [
        *store.search(FILES, limit=10_000),
        *store.search(namespaces.journals(FILES), limit=10_000),
    ]
    return sum(len(json.dumps(item.value, ensure_ascii=False)) for item in items)


async def test_files_and_histories_take_twice_the_quota_and_deleted_files_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trimming, "_MERGING_SECONDS", 0)
    store, text = InMemoryStore(), "x" * 250_000
    await journal.change(store, FILES, "/kept.md", to("kept\n"), AUTHOR)
    for number in range(120):
        await journal.change(
            store,
            FILES,
            f"/{number % 40}.md",
            to(f"{number}{text}" if number % 40 > 2 else None),
            AUTHOR,
        )
        if number % 40 > 8:
            await journal.change(store, FILES, f"/{number % 40}.md", to(None), AUTHOR)
        assert number % 20 or size(store) < 1.5 * DEFAULTS.stored_bytes + 2 * len(text)
    await trimming.trim(store, FILES, DEFAULTS)
    assert size(store) <= DEFAULTS.stored_bytes
    assert [len(await journal.history(store, FILES, path)) for path in ("/10.md", "/kept.md")] == [
        0,
        1,
    ]
    assert len(await journal.history(store, FILES, "/5.md")) == 3
    for number in range(3, 9):
        assert (
            await content(store, f"/{number}.md")
            == (await journal.history(store, FILES, f"/{number}.md"))[0].content
        )


async def test_a_file_keeps_its_last_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "_MERGING_SECONDS", 0)
    store = InMemoryStore()
    for number in range(DEFAULTS.revisions_kept + 20):
        await journal.change(store, FILES, PATH, to(f"{number}"), AUTHOR)
    await trimming.trim(store, FILES, DEFAULTS)
    assert (
        len(store.search(namespaces.journal(FILES, PATH), limit=1_000)) == DEFAULTS.revisions_kept
    )
    assert (
        await content(store)
        == (await journal.history(store, FILES, PATH))[0].content
        == f"{DEFAULTS.revisions_kept + 19}"
    )


async def test_a_change_is_made_though_no_room_can_be_made_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(writing, "_TRIMS", 10**6)
    monkeypatch.setattr(trimming, "all_items", fail)
    store = InMemoryStore()
    await journal.change(store, FILES, PATH, to("made" * 100), AUTHOR)
    assert await content(store) == "made" * 100


@pytest.mark.parametrize(
    "path", ["/größe 📏 a%b_c*[d]?'; DROP TABLE store;--.md", "/" + "x" * (MAX_PATH_BYTES - 1)]
)
async def test_any_name_and_the_largest_file_have_a_history(store: BaseStore, path: str) -> None:
    large = "é" * (MAX_FILE_BYTES // 2)
    files = ScopedFiles(deployed(), lambda _: FILES, author=AUTHOR, store=store)
    await store.abatch(
        [
            PutOp(FILES, f"/{number}.md", {**create_file_data("x")})
            for number in range(DEFAULTS.max_files - 1)
        ]
    )
    for text in (large, "small"):
        assert not (await files.awrite(path, text)).error
    assert [each.content for each in await journal.history(store, FILES, path)] == ["small", large]


async def test_history_says_who_wrote_and_in_which_thread(agent: Scripted) -> None:
    path = {"file_path": "/memories/a.md"}
    await agent.called(
        ToolCall("write_file", {**path, "content": "one"}),
        ToolCall("edit_file", {**path, "old_string": "one", "new_string": "two"}),
        ToolCall("append_memory", {"path": "/memories/a.md", "text": "three"}),
        ToolCall("delete", path),
        thread="t1",
    )
    agent.model.script(
        "helper, note it", [ToolCall("write_file", {**path, "content": "2"})], [Text("noted")]
    )
    await agent.called(
        ToolCall("task", {"description": "helper, note it", "subagent_type": "general-purpose"}),
        thread="t2",
    )
    revisions: list[Revision] = await journal.history(agent.store, FILES, "/a.md")
    assert [each.content for each in revisions] == ["2", None, "two\nthree\n", "two", "one"]
    assert [(each.author.kind, each.author.thread_id) for each in revisions] == [
        ("subagent", "t2"),
        *[("agent", "t1")] * 4,
    ]
    assert {each.author.user_id for each in revisions} == {"alice"}


@pytest.mark.parametrize(("current", "before", "after", "wanted"), [
    ("one\nthree\n", "one\ntwo\n", "one\nthree\n", "one\ntwo\n"),
    ("zero\none\nthree\n", "one\ntwo\n", "one\nthree\n", "zero\none\ntwo\n"),
    ("a\r\nb\r\nc", "a\r\n", "a\r\nb\r\n", "a\r\nc"),
    ("1\n3\nmine\n", "1\n2\n3\n", "1\n3\n", "1\n2\n3\nmine\n"),
])  # fmt: skip
def test_undoing_leaves_what_others_wrote(
    current: str, before: str, after: str, wanted: str
) -> None:
    assert without_change(PATH, current, before, after) == wanted
    long = "".join(f"{number}\n" for number in range(10, MAX_COMPARED_LINES + 10))
    restored = str(without_change(PATH, long + current, long + before, long + after))
    assert sorted(restored.split("\n")) == sorted((long + wanted).split("\n")), (
        "in a long text, in any order"
    )


@pytest.mark.parametrize("base", ["null", '["a"]'])
def test_json_that_is_no_object_merges_line_by_line(base: str) -> None:
    assert merge("/profile.json", base, '{"a": 1}', '{"b": 2}') == '{"b": 2}\n{"a": 1}'


@pytest.mark.parametrize("seed", range(200))
def test_edits_make_one_text_of_the_other_and_are_undone(seed: int) -> None:
    random = Random(seed)
    before, after = (random.choices("abcd", k=random.randrange(9)) for _ in range(2))
    made, at = list[str](), 0
    for i, i_end, j, j_end in edits(before, after):
        made += [*before[at:i], *after[j:j_end]]
        at = i_end
    assert made + before[at:] == after
    old, new = "\n".join(before), "\n".join(after)
    assert sorted(str(without_change(PATH, f"Z\n{new}", old, new)).split("\n")) == sorted(
        f"Z\n{old}".split("\n")
    )


def test_a_diff_is_unified_and_only_a_line_feed_ends_a_line() -> None:
    assert diff("1\n2\n3\n4\n", "1\n2\nthree\n4\n5\n").split("\n") == [
        "@@ -2,3 +2,3 @@", " 2", "-3", "+three", " 4", "@@ -4,1 +4,2 @@", " 4", "+5",
    ]  # fmt: skip
    assert diff("a\nb", "a\u2028b"), "a change is seen"
    assert lines_of(text := "a\rb\x0bc\x85d\u2028e\r\n\nmine") == text.split("\n")
    assert [lines_of(text) for text in ("", "\n", "a\n\n")] == [[], [""], ["a", ""]]


LONG = "x\n" * MAX_COMPARED_LINES


@pytest.mark.parametrize(("first", "contents", "numbers"), [
    (1, ["a\n"], [1]),
    (1, ["a\nb\n", "a\nx\nb\n", "a\nx\nB\n", "x\nB\nc\n"], [2, 3, 4]),
    (1, ["a\na\n", "a\nb\na\n"], [1, 2, 1]),
    (1, ["a\n", None, "a\n"], [3]),
    (1, ["a\n", None], []),
    (7, ["a\n", "a\nb\n"], [None, 8]),
    (1, [], []),
    (1, ["a\n", f"{LONG}x\n", "a\n"], []),
    (1, [LONG], [1] * MAX_COMPARED_LINES),
])  # fmt: skip
def test_a_line_has_the_revision_that_brought_it(
    first: int, contents: list[str | None], numbers: list[int | None]
) -> None:
    """None for what is older than the history; nothing at all for a file that is too long."""
    history = [
        dataclasses.replace(NOTHING, number=first + n, content=text)
        for n, text in enumerate(contents)
    ]
    assert [
        revision.number if revision else None for revision in line_origins(history[::-1])
    ] == numbers


@pytest.mark.parametrize("tight", [False, True], ids=["room", "no room"])
@pytest.mark.parametrize(
    ("first", "worlds"),
    [(0, 100), pytest.param(1_000, 4_000, marks=pytest.mark.proof)],
    ids=["some", "many"],
)
async def test_acknowledged_writes_are_there_once_and_lines_taken_back_stay_away(
    first: int, worlds: int, tight: bool
) -> None:
    acknowledged = deaths = 0
    for seed in range(first, first + worlds):
        try:
            world = await throw(seed, tight=tight)
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {error}") from None
        acknowledged, deaths = acknowledged + world.acknowledged, deaths + world.deaths
    assert acknowledged > 5 * worlds
    assert deaths > worlds / 5
