"""Meaning beside words, where the store has a semantic index: it finds more, and never less."""

import asyncio
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from langgraph.store.base import BaseStore, IndexConfig
from langgraph.store.memory import InMemoryStore

from lasting_memory.people import namespaces
from lasting_memory.recall import results_text, retrieval, search
from lasting_memory.recall.index import forget
from lasting_memory.testing.embedding import SUBJECTS, embed
from lasting_memory.testing.platform import Platform
from tests.recall.talks import ALICE, hits, left, say


async def test_meaning_is_asked_where_the_store_knows_it(threads: Platform) -> None:
    store = InMemoryStore(index=IndexConfig(embed=embed, dims=len(SUBJECTS), fields=["content"]))
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


async def test_without_a_semantic_index_nothing_is_stored_for_it(store: BaseStore, threads: Platform) -> None:
    assert await hits(store, threads, "vehicle") == []
    assert await store.asearch(namespaces.recall(ALICE, "texts"), limit=10) == []


_DIMS = len(SUBJECTS) + 300


class Embedding:
    """The tests' embedding, in which texts of no subject are unlike each other, too, as slow or as broken as a test wants it.

    `texts` are the passages that it was given.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.error: Exception | None = None
        self.store = InMemoryStore(index=IndexConfig(embed=self.embed, dims=_DIMS, fields=["content"]))

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        passages = [text for text in texts if text.startswith("user:")]
        if passages:
            await self.may_go_on.wait()
            if self.error:
                raise self.error
        self.texts += passages
        own = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=_DIMS - len(SUBJECTS)) for text in texts]
        return [subject + (0.01 * noise).tolist() for subject, noise in zip(embed(texts), own, strict=True)]


async def test_what_is_about_nothing_that_was_said_finds_nothing(threads: Platform) -> None:
    store = Embedding().store
    assert await hits(store, threads, "pet") == ["dog"]
    assert await hits(store, threads, "giraffe") == []
    results = await search(store, threads, ALICE, "giraffe", 5, agents=["agent"])
    assert results_text("giraffe", results) == "Nothing found in 3 earlier conversations."


async def test_a_conversation_that_only_its_meaning_found_is_named_as_one(threads: Platform) -> None:
    results = await search(Embedding().store, threads, ALICE, "pet, belt", 5, agents=["agent"])
    heads = [line for line in results_text("pet, belt", results).splitlines() if "thread_id=" in line]
    assert [line.split(" ", 1)[1] for line in heads] == ["thread_id=car", "thread_id=dog (none of the words; alike in meaning)"]


async def test_of_a_longer_conversation_only_what_is_new_is_embedded(threads: Platform) -> None:
    embedding, said = Embedding(), [f"turn {number} " + "about the car " * 50 for number in range(10)]
    say(threads, "long", *said, days=1)
    await hits(embedding.store, threads, "car")
    assert len([text for text in embedding.texts if "turn" in text]) == 10
    embedding.texts.clear()
    say(threads, "long", *said, "and a puppy " * 70, days=0.5)
    assert "long" in await hits(embedding.store, threads, "pet")
    assert [text[:17] for text in embedding.texts] == ["user: and a puppy"]


async def test_a_search_waits_for_embeddings_for_a_moment_only_and_they_go_on_behind_it(
    threads: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "EMBED_SECONDS", 0.05)
    embedding = Embedding()
    embedding.may_go_on.clear()
    async with asyncio.timeout(5):
        results = await search(embedding.store, threads, ALICE, "belt", 5, agents=["agent"])
    assert [item.conversation.thread_id for item in results.matches] == ["car"]
    assert results.outstanding == 3
    assert "[3 older conversations are not indexed yet; search again]" in results_text("belt", results)
    embedding.may_go_on.set()
    waiting = namespaces.recall(ALICE, "waiting")
    async with asyncio.timeout(5):
        while await embedding.store.asearch(waiting):  # noqa: ASYNC110  # the store has no event
            await asyncio.sleep(0.01)
    assert await hits(embedding.store, threads, "pet") == ["dog"]
    assert len(embedding.texts) == 3


async def test_while_embedding_fails_words_find_and_afterwards_nothing_is_lost(
    threads: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    embedding = Embedding()
    embedding.error = TimeoutError("the provider is away")
    assert await hits(embedding.store, threads, "belt") == ["car"]
    assert "Past conversations were not embedded: TimeoutError('the provider is away')" in caplog.text
    embedding.error = None
    assert await hits(embedding.store, threads, "pet") == ["dog"]


async def test_a_semantic_index_that_is_switched_on_later_has_every_conversation(threads: Platform) -> None:
    embedding = Embedding()
    embedding.store.index_config, index = None, embedding.store.index_config
    assert await hits(embedding.store, threads, "pet") == []
    embedding.store.index_config = index
    assert await hits(embedding.store, threads, "pet") == ["dog"]


async def test_what_was_said_twice_is_embedded(threads: Platform) -> None:
    store = InMemoryStore(index=IndexConfig(embed=embed, dims=len(SUBJECTS), fields=["content"]))
    for name in ("again", "once more"):
        say(threads, name, *["the oven is hot"] * 60, days=0)
    assert set(await hits(store, threads, "baking", limit=2)) == {"again", "once more"}
