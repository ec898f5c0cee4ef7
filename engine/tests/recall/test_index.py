"""The recall index by words and by meaning: nothing is missed or lost, and it can be made again at
any time.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import BaseStore, IndexConfig, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.recall import documents, results_text, retrieval, search
from lasting_memory.recall import index as segments
from lasting_memory.recall.catching_up import catch_up
from lasting_memory.recall.embedding import _tasks as embedding_tasks
from lasting_memory.recall.format import DamagedError, key_of
from lasting_memory.recall.index import forget
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.stores import INDEX, SUBJECTS, WrappedStore, embed
from tests.recall.talks import ALICE, conversations, hits, human, left, many, say


async def test_many_conversations_are_in_few_items_and_each_is_found(
    store: BaseStore, threads: Platform
) -> None:
    many(threads, 700)
    assert conversations(await catch_up(store, threads, ALICE, agents=["agent"])) == 703
    new = await store.asearch(namespaces.recall(ALICE, "new"), limit=1_000)
    headers = await store.asearch(namespaces.recall(ALICE, "segments"), limit=1_000)
    assert len(new) < segments.MERGE_AT
    assert len(headers) <= 4
    for number in (0, 63, 64, 350, 699):
        assert await hits(store, threads, f"Word{number}") == [f"t{number}"]
    assert len(await hits(store, threads, "thing3", limit=20)) == 20
    # What is said in one of them later is found, what is no longer said in it is not, and each is
    # there once.
    say(threads, "t64", "a zebra", days=0)
    assert await hits(store, threads, "zebra") == ["t64"]
    assert await hits(store, threads, "word64") == []
    many(threads, 100)
    assert (await search(store, threads, ALICE, "word64", 5, agents=["agent"])).searched == 703


async def test_a_search_asks_for_few_threads_and_a_long_backlog_is_worked_off(
    store: BaseStore,
) -> None:
    threads = Platform()
    many(threads, 230)
    first = await search(store, threads, ALICE, "word229", 5, agents=["agent"])
    assert [item.conversation.thread_id for item in first.matches] == ["t229"]
    assert first.outstanding == 130
    await search(store, threads, ALICE, "x", 5, agents=["agent"])
    assert await hits(store, threads, "word0") == ["t0"]
    threads.messages = threads.calls["threads.search"] = 0
    await hits(store, threads, "word7")
    assert (threads.calls["threads.search"], threads.messages) == (2, 2)


@pytest.mark.parametrize(
    "damage", [{}, {"format": 0}, {"table": 7, "postings": "AAAA", "words": "!"}], ids=str
)
@pytest.mark.parametrize("part", ["documents", "new", "segments"])
async def test_an_item_that_is_damaged_or_of_another_format_is_made_again(
    part: Any, damage: dict[str, Any]
) -> None:
    store, threads = InMemoryStore(), Platform()
    for start, count in ((0, segments.MERGE_AT), (segments.MERGE_AT, 10)):
        many(threads, count, start=start)
        await catch_up(store, threads, ALICE, agents=["agent"])
    items = await store.asearch(namespaces.recall(ALICE, part), limit=1_000)
    assert items
    for item in items:
        await store.aput(
            item.namespace, item.key, {**item.value, **damage} if damage else {}, index=False
        )
    for number in (0, segments.MERGE_AT + 9):
        await hits(store, threads, f"word{number}")  # notices
        assert await hits(store, threads, f"word{number}") == [f"t{number}"]
    assert (
        await search(store, threads, ALICE, "usual", 5, agents=["agent"])
    ).searched == segments.MERGE_AT + 10


async def test_a_clock_that_was_once_ahead_hides_nothing_that_is_said_later(
    store: BaseStore,
) -> None:
    threads, now = Platform(), datetime.now(UTC)
    threads.put(
        ALICE,
        "ahead",
        (now + timedelta(days=400)).isoformat(),
        [human("said when the clock was ahead")],
    )
    for number in range(30):
        threads.put(
            ALICE,
            f"t{number}",
            (now - timedelta(days=number + 1)).isoformat(),
            [human(f"word{number}")],
        )
    assert await hits(store, threads, "ahead") == ["ahead"]
    for number in range(30):
        threads.put(
            ALICE,
            f"new{number}",
            (now - timedelta(seconds=number)).isoformat(),
            [human(f"later{number}")],
        )
    assert await hits(store, threads, "later0") == ["new0"]
    assert await hits(store, threads, "later29") == ["new29"]


async def merge(store: BaseStore) -> None:
    """Another process merges all parts of the index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MERGE_AT", 1)
        await segments._merge(store, ALICE, None)


async def forget_person(store: BaseStore) -> None:
    """Another process forgets the person; her conversations go last."""
    await journal.forget(store, ALICE)
    await forget(store, ALICE)


async def drop_all(store: BaseStore) -> None:
    """Another process finds the index damaged."""
    await forget(store, ALICE)


async def drop_one(store: BaseStore) -> None:
    """Another process finds a conversation deleted."""
    await segments.drop(store, ALICE, ["t1"])


class OverError(Exception):
    """A search has fewer batches."""


async def answered_while(
    meanwhile: Callable[[BaseStore], Awaitable[None]], nth: int, told: int
) -> tuple[int, list[Any]]:
    """What a search finds where something happens before its batch of that number, and what is left
    in the index.
    """
    inner, threads, batches, writer = InMemoryStore(), Platform(), 0, journal.Writer(ALICE)
    many(threads, told)
    await catch_up(inner, threads, ALICE, agents=["agent"])
    many(threads, 6, start=told)

    async def interleave(_: object) -> None:
        nonlocal batches
        batches += 1
        if batches == nth:
            await meanwhile(inner)

    store = WrappedStore(inner, before=interleave)
    results = await search(store, threads, ALICE, "usual", 20, agents=["agent"], writer=writer)
    if batches < nth:
        raise OverError
    return len(results.matches), await left(inner)


@pytest.mark.parametrize("meanwhile", [merge, drop_all, drop_one, forget_person])
@pytest.mark.parametrize("told", [2, 9], ids=["few before", "as many as are merged"])
async def test_a_search_is_answered_whatever_others_do_to_the_index_meanwhile(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[BaseStore], Awaitable[None]], told: int
) -> None:
    monkeypatch.setattr(segments, "MERGE_AT", 4)
    found, nth = list[int](), 0
    with suppress(OverError):
        while True:
            nth += 1
            count, in_index = await answered_while(meanwhile, nth, told)
            found.append(count)
            if meanwhile is forget_person:
                assert in_index == [], nth
    assert nth > 15, "it was tried between all batches"
    if meanwhile is not forget_person:
        # What `drop` was told to be deleted is there still: it may be found, or be indexed with the
        # next search.
        least = told + 6 - (meanwhile is drop_one)
        assert [nth for nth, count in enumerate(found, 1) if not least <= count <= told + 6] == []


async def test_a_segment_that_another_process_makes_while_the_index_is_read_is_not_missed(
    threads: Platform,
) -> None:
    inner = InMemoryStore()
    await catch_up(inner, threads, ALICE, agents=["agent"])
    places = list[str]()

    async def merge_after_first(ops: list[Any]) -> None:
        """The index moves to a segment once one of its parts was read."""
        places.extend(op.namespace_prefix[0] for op in ops if isinstance(op, SearchOp))
        if len(places) == 1:
            await merge(inner)

    index = await segments.load(WrappedStore(inner, after=merge_after_first), ALICE)
    assert conversations(index) == 3
    assert places == ["recall_new", "recall_segments"]


async def test_a_process_that_notes_the_index_as_whole_while_another_drops_it_hides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner, threads = InMemoryStore(), Platform()
    many(threads, 25)

    async def drop_before_note(ops: list[Any]) -> None:
        if any(isinstance(op, PutOp) and op.key == segments.WATERMARK and op.value for op in ops):
            await forget(inner, ALICE)

    store = WrappedStore(inner, before=drop_before_note)
    with suppress(DamagedError):  # which asks to be called again
        await catch_up(store, threads, ALICE, agents=["agent"])
    assert (await search(inner, threads, ALICE, "usual", 20, agents=["agent"])).searched == 25


@pytest.mark.parametrize("unknown", [0, 1, 60])
async def test_the_index_notes_nothing_of_a_forgotten_person_not_even_for_a_moment(
    threads: Platform, unknown: int
) -> None:
    """A process that is killed after a put takes nothing back."""
    inner = InMemoryStore()
    for number in range(30):
        say(threads, f"known{number}", f"word{number}", days=1)
    await catch_up(inner, threads, ALICE, agents=["agent"])
    writer = journal.Writer(ALICE)
    await journal.forget(inner, ALICE)
    for number in range(unknown):
        say(threads, f"new{number}", f"later{number}", days=0.9)
    puts = list[PutOp]()

    def note_puts(ops: Sequence[Any]) -> None:
        puts.extend(op for op in ops if isinstance(op, PutOp) and op.value is not None)

    store = WrappedStore(inner, before=note_puts)
    await catch_up(store, threads, ALICE, agents=["agent"], writer=writer)
    assert puts == []


async def test_meaning_is_asked_where_the_store_knows_it(threads: Platform) -> None:
    store = InMemoryStore(index=INDEX)
    assert (await hits(store, threads, "vehicle"))[0] == "car"
    assert (await hits(store, threads, "pet"))[0] == "dog"
    assert (await hits(store, threads, "lisbon"))[0] == "trip"
    threads.remove("car")
    assert "car" not in await hits(store, threads, "vehicle")
    say(threads, "dog", "nothing", days=0)
    await hits(store, threads, "pet")
    texts = await store.asearch(namespaces.recall(ALICE, "texts"), limit=100)
    assert "puppies" not in str([item.value for item in texts])
    await forget(store, ALICE)
    assert await left(store) == []


_DIMS = len(SUBJECTS) + 300
# Seconds after which something that is waited for will not come, on any machine.
LONG = 300


class Embedding:
    """The tests' embedding, in which texts of no subject are unlike each other, too, as slow or as
    broken as a test wants it.

    `texts` are the passages that it was given.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.error: Exception | None = None
        self.store = InMemoryStore(
            index=IndexConfig(embed=self.embed, dims=_DIMS, fields=["content"])
        )

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        passages = [text for text in texts if text.startswith("user:")]
        if passages:
            await self.may_go_on.wait()
            if self.error:
                raise self.error
        self.texts += passages
        own = [
            np.random.default_rng(zlib.crc32(text.encode())).normal(size=_DIMS - len(SUBJECTS))
            for text in texts
        ]
        return [
            subject + (0.01 * noise).tolist()
            for subject, noise in zip(embed(texts), own, strict=True)
        ]


async def test_a_query_about_nothing_that_was_said_finds_nothing(threads: Platform) -> None:
    store = Embedding().store
    assert await hits(store, threads, "pet") == ["dog"]
    assert await hits(store, threads, "giraffe") == []
    results = await search(store, threads, ALICE, "giraffe", 5, agents=["agent"])
    assert results_text("giraffe", results) == "Nothing found in 3 earlier conversations."


async def test_a_conversation_that_only_its_meaning_found_is_named_as_one(
    threads: Platform,
) -> None:
    results = await search(Embedding().store, threads, ALICE, "pet, belt", 5, agents=["agent"])
    heads = [
        line for line in results_text("pet, belt", results).splitlines() if "thread_id=" in line
    ]
    heads = [line.partition("thread_id=")[2] for line in heads]
    assert heads == ["car", "dog (none of the words; alike in meaning)"]


async def test_a_conversation_that_grows_has_its_new_turns_alone_embedded(
    threads: Platform,
) -> None:
    embedding, said = (
        Embedding(),
        [f"turn {number} " + "about the car " * 50 for number in range(10)],
    )
    say(threads, "long", *said, days=1)
    await hits(embedding.store, threads, "car")
    assert len([text for text in embedding.texts if "turn" in text]) == 10
    embedding.texts.clear()
    say(threads, "long", *said, "and a puppy " * 70, days=0.5)
    assert "long" in await hits(embedding.store, threads, "pet")
    assert [text[:17] for text in embedding.texts] == ["user: and a puppy"]


async def test_a_search_waits_for_embeddings_only_a_moment(
    threads: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "EMBED_SECONDS", 0.05)
    embedding = Embedding()
    embedding.may_go_on.clear()
    async with asyncio.timeout(LONG):
        results = await search(embedding.store, threads, ALICE, "belt", 5, agents=["agent"])
    assert [item.conversation.thread_id for item in results.matches] == ["car"]
    assert results.outstanding == 3
    assert "[3 older conversations are not indexed yet; search again]" in results_text(
        "belt", results
    )
    embedding.may_go_on.set()
    async with asyncio.timeout(LONG):
        await asyncio.gather(*embedding_tasks.values())
    assert await embedding.store.asearch(namespaces.recall(ALICE, "waiting")) == []
    assert await hits(embedding.store, threads, "pet") == ["dog"]
    assert len(embedding.texts) == 3


async def test_a_search_finds_by_words_while_embedding_fails_and_loses_nothing(
    threads: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    embedding = Embedding()
    embedding.error = TimeoutError("the provider is away")
    assert await hits(embedding.store, threads, "belt") == ["car"]
    assert (
        "Past conversations were not embedded: TimeoutError('the provider is away')" in caplog.text
    )
    embedding.error = None
    assert await hits(embedding.store, threads, "pet") == ["dog"]


async def test_a_semantic_index_that_is_switched_on_later_has_every_conversation(
    threads: Platform,
) -> None:
    embedding = Embedding()
    embedding.store.index_config, index = None, embedding.store.index_config
    assert await hits(embedding.store, threads, "pet") == []
    embedding.store.index_config = index
    assert await hits(embedding.store, threads, "pet") == ["dog"]


async def test_a_text_that_was_said_twice_is_embedded(threads: Platform) -> None:
    store = InMemoryStore(index=INDEX)
    for name in ("again", "once more"):
        say(threads, name, *["the oven is hot"] * 60, days=0)
    assert set(await hits(store, threads, "baking", limit=2)) == {"again", "once more"}


def long_talk(threads: Platform, turns: int, days: float = 1, *, start: int = 0) -> None:
    """A conversation with a word of its own in each turn, and much that is said in all."""
    texts = [
        f"Turn about the garden and the rain, zq{number}, and what else"
        for number in range(start, start + turns)
    ]
    say(threads, "long", *texts, days=days)


@pytest.mark.parametrize("place", [0, 1, 700, 2_500, 4_969, 4_999])
async def test_every_word_of_a_conversation_of_five_thousand_turns_is_found(
    endless: BaseStore, place: int
) -> None:
    threads = endless_threads()
    say(threads, "other", "Turn about the garden")
    results = await search(endless, threads, ALICE, f"zq{place}", 5, agents=["agent"])
    (match,) = results.matches
    assert match.conversation.thread_id == "long"
    assert match.turns[0][0] == place
    assert f"zq{place}," in results_text(f"zq{place}", results)
    assert results.searched == 2, "a conversation is one, however many documents it has"
    assert await hits(endless, threads, "garden rain", current="long") == ["other"]


@cache
def endless_threads() -> Platform:
    threads = Platform()
    long_talk(threads, 5_000)
    return threads


@pytest.fixture(scope="module")
def endless() -> BaseStore:
    """The index of the conversation of 5,000 turns, which is made once."""
    return InMemoryStore()


async def test_a_conversation_that_gets_shorter_leaves_nothing_in_the_index(
    store: BaseStore, monkeypatch: Any
) -> None:
    monkeypatch.setattr(documents, "MAX_PASSAGES", 10)
    threads = Platform()
    long_talk(threads, 35)
    assert await hits(store, threads, "zq3") == ["long"]
    assert len([item for item in await left(store) if "language" in item.value]) == 4
    long_talk(threads, 5, days=0.5, start=30)
    assert await hits(store, threads, "zq3") == []
    assert await hits(store, threads, "zq32") == ["long"]
    long_talk(threads, 15, days=0.4, start=20)
    for number in range(70):  # a merge keeps what is new alone
        say(threads, f"t{number}", f"word{number}", days=0.3)
    assert await hits(store, threads, "zq32") == ["long"]
    assert await hits(store, threads, "zq3") == []
    threads.remove("long")
    assert await hits(store, threads, "zq32") == []
    where = namespaces.recall(ALICE, "documents")
    assert [await store.aget(where, f"{key_of('long') + number:016x}") for number in range(4)] == [
        None
    ] * 4
    assert await store.aget(where, f"{key_of('long'):016x}/count") is None


async def test_a_change_of_a_long_conversation_is_no_loss_of_the_index(
    store: BaseStore, monkeypatch: Any
) -> None:
    """Fewer documents than before are what is new of it; without that a search would make the whole
    index anew.
    """
    monkeypatch.setattr(documents, "MAX_PASSAGES", 10)
    monkeypatch.setattr(segments, "MERGE_AT", 2)
    threads = Platform()
    say(threads, "other", "an okapi")
    for turns in (35, 5, 25):
        long_talk(threads, turns, days=1 / turns)
        await catch_up(store, threads, ALICE, agents=["agent"])
        assert await hits(store, threads, "okapi") == ["other"]
        assert await hits(store, threads, f"zq{turns - 1}") == ["long"]


async def test_turns_that_are_not_indexed_are_named_in_the_result(
    store: BaseStore, monkeypatch: Any
) -> None:
    monkeypatch.setattr(documents, "MAX_PASSAGES", 10)
    monkeypatch.setattr(documents, "MAX_DOCUMENTS", 2)
    threads = Platform()
    long_talk(threads, 35)
    assert await hits(store, threads, "zq3") == []
    results = await search(store, threads, ALICE, "zq30", 5, agents=["agent"])
    assert "its first 20 turns are not indexed" in results_text("zq30", results)


async def test_a_long_conversation_that_repeats_itself_is_still_found(
    store: BaseStore, monkeypatch: Any
) -> None:
    monkeypatch.setattr(documents, "MAX_PASSAGES", 10)
    threads = Platform()
    say(
        threads,
        "long",
        "The spare key is with Ottilie",
        *["It rains"] * 30,
        "The spare key is with Ottilie, I said",
    )
    say(threads, "other", "A key is a small thing, and a spare one is dear to me", days=0.5)
    assert (await hits(store, threads, "spare key Ottilie"))[0] == "long"
