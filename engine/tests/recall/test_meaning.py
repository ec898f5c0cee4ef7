"""Meaning beside words, where the store has a semantic index: it finds more, and never less."""

from __future__ import annotations

from langgraph.store.base import BaseStore, IndexConfig
from langgraph.store.memory import InMemoryStore

from lasting_memory.people import namespaces
from lasting_memory.recall import retrieval
from lasting_memory.recall.index import forget
from lasting_memory.testing.embedding import SUBJECTS, LatentSemanticAnalysis, embed
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


async def test_what_was_said_twice_is_embedded(threads: Platform) -> None:
    store = InMemoryStore(index=IndexConfig(embed=embed, dims=len(SUBJECTS), fields=["content"]))
    for name in ("again", "once more"):
        say(threads, name, *["the oven is hot"] * 60, days=0)
    assert set(await hits(store, threads, "baking", limit=2)) == {"again", "once more"}


SAID = {
    "sail": ("We sailed to the island", "The boat leaked near the harbour", "The harbour master lent us a pump"),
    "garden": ("The tomatoes have blight", "Spray copper on the leaves", "The leaves and the tomatoes recovered"),
    "tax": ("My tax return is late", "The office fined me forty euros", "I appealed the fine at the office"),
    "piano": ("I practise a sonata", "The piano needs tuning", "The tuner praised my sonata"),
}


async def test_vectors_of_realistic_shape_add_what_words_miss_and_lose_nothing() -> None:
    threads = Platform()
    for number, (name, said) in enumerate(SAID.items()):
        say(threads, name, *said, days=number)
    lsa = LatentSemanticAnalysis([text for said in SAID.values() for text in said], dims=8)
    store = InMemoryStore(index=IndexConfig(embed=lsa.embed, dims=lsa.dims, fields=["text"]))
    for question, name in (("Who lent a pump?", "sail"), ("blight", "garden"), ("what did I appeal?", "tax")):
        assert (await hits(InMemoryStore(), threads, question))[0] == (await hits(store, threads, question))[0] == name


def test_in_the_fusion_a_clear_hit_of_words_stays_first() -> None:
    words, meaning = {1: 10.0, 2: 7.0, 3: 1.0}, {2: 0.9, 4: 0.9, 3: 0.1}
    ranked = retrieval.fused(words, meaning, retrieval.DENSE_WEIGHT)
    assert sorted(ranked, key=lambda key: -ranked[key]) == [1, 2, 4, 3]
