"""The recall index: nothing is missed, nothing is lost, nobody else's is found, and it can be made again at any time."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
from langgraph.store.base import BaseStore, IndexConfig
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.auth.types import StudioUser

from memory import dates, recall, scopes, segments
from memory.conversations import conversation
from memory.documents import document, key_of, postings, read_document
from memory.lexical import alternatives, language, rank, stems
from memory.postgres import open_store
from memory.postings import DamagedError, merged, read_bucket, stored
from memory.search import CANDIDATES, search, search_organization
from settings import Settings
from tests.dev_server import PROJECT
from tests.embedding import SUBJECTS, embed
from tests.threads import Threads

ALICE = scopes.Actor("alice", "acme")
NOW = datetime(2026, 5, 13, 12, tzinfo=UTC)


def human(text: str) -> dict[str, Any]:
    return {"type": "human", "id": text[:20], "content": text}


def say(threads: Threads, thread_id: str, *texts: str, actor: scopes.Actor = ALICE, days: float = 1) -> None:
    """A conversation that ended so many days ago."""
    threads.put(actor, thread_id, (NOW - timedelta(days)).isoformat(), [human(text) for text in texts])


async def found(store: BaseStore, threads: Threads, query: str, actor: scopes.Actor = ALICE, **kwargs: Any) -> list[str]:
    results = await search(store, threads, actor, query, kwargs.pop("limit", 5), today=NOW.date(), **kwargs)
    return [item.conversation.thread_id for item in results.found]


@pytest.fixture
def threads() -> Threads:
    threads = Threads()
    say(threads, "dog", "Our dog Rex had puppies", "How many?", "Seven, all brown", days=3)
    say(threads, "car", "The engine makes a noise", "Change the belt", days=2)
    say(threads, "trip", "We fly to Lisbon in May", "Take an umbrella", days=1)
    return threads


@pytest.mark.parametrize(
    ("query", "thread_id"),
    [("How many puppies were there?", "dog"), ("noisy engines", "car"), ("flying to lisbon", "trip")],
)
async def test_the_conversation_in_which_it_was_said_comes_first(
    store: BaseStore, threads: Threads, query: str, thread_id: str
) -> None:
    assert (await found(store, threads, query))[0] == thread_id


HOSTILE = [
    "",
    "the of and",
    "quantum",
    "%_.*['\"",
    "'; DROP TABLE store; --",
    "(a+)+$",
    "\x00",
    "\ud800",
    "{}" * 50_000,
    "@acme:bob",
]


async def test_queries_that_match_nothing_find_nothing(store: BaseStore, threads: Threads) -> None:
    for query in HOSTILE:
        assert await found(store, threads, query) == []
        assert await found(store, Threads(), query) == []
    assert await found(store, threads, "x" * 100_000 + " puppies") == []
    assert await found(store, threads, "puppies " * 12_500) == ["dog"]
    assert await found(store, threads, "umbrella") == ["trip"]


async def test_only_one_s_own_past_conversations_are_found(store: BaseStore, threads: Threads) -> None:
    say(threads, "other", "puppies of somebody else", actor=scopes.Actor("bob", "acme"))
    say(threads, "elsewhere", "puppies of the other organization", actor=scopes.Actor("alice", "globex"))
    say(threads, "now", "where are the puppies", days=0)
    threads.put(ALICE, "inner", NOW.isoformat(), [human("puppies in consolidation")])
    threads.kept["inner"]["metadata"]["graph_id"] = "consolidation_agent"
    assert await found(store, threads, "puppies", current="now") == ["dog"]
    assert await found(store, threads, "puppies", scopes.Actor("bob", "acme")) == ["other"]
    # Where the index says otherwise, the thread's owner decides.
    stolen = conversation(threads.kept["other"])
    await recall.index_conversation(store, ALICE, stolen)
    assert await found(store, threads, "puppies", current="now") == ["dog"]


async def test_what_was_said_a_moment_ago_is_found(store: BaseStore, threads: Threads) -> None:
    assert await found(store, threads, "zebra") == []
    say(threads, "zoo", "my zebra is called Zoe", days=0)
    assert await found(store, threads, "zebra") == ["zoo"]
    say(threads, "zoo", "my zebra is called Zoe", "and my giraffe Gina", days=-0.001)
    assert await found(store, threads, "giraffe") == ["zoo"]
    # Two at the same microsecond, and one that a slower clock dates before what is indexed already.
    say(threads, "equal", "an okapi", days=-0.001)
    say(threads, "late", "an ocelot", days=0.004)
    assert set(await found(store, threads, "okapi ocelot")) == {"equal", "late"}


async def test_the_thread_that_is_searched_from_is_indexed_later_not_never(store: BaseStore, threads: Threads) -> None:
    say(threads, "now", "a zebra", days=0.02)
    say(threads, "newer", "an okapi", days=0)
    assert await found(store, threads, "zebra", current="now") == []
    for number in range(30):  # the first page of what changed is full, so the watermark moves
        say(threads, f"more-{number}", "nothing", days=0)
    await found(store, threads, "zebra", current="now")
    assert await found(store, threads, "zebra") == ["now"]


async def test_a_thread_that_is_gone_is_not_shown_and_leaves_the_index(store: BaseStore, threads: Threads) -> None:
    assert await found(store, threads, "puppies") == ["dog"]
    threads.delete("dog")
    assert await found(store, threads, "puppies") == []
    documents = scopes.recall(ALICE, "documents")
    assert await store.aget(documents, segments.document_key(key_of("dog"))) is None
    assert len(await store.asearch(documents, limit=100)) == 3  # two conversations, and the watermark
    assert (await search(store, threads, ALICE, "puppies", 5)).searched == 2


async def test_a_conversation_that_changes_between_ranking_and_showing_is_shown_as_it_is(
    store: BaseStore, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    await found(store, threads, "puppies")
    unchanged, asked = threads.search, 0

    async def changing(**kwargs: Any) -> Any:
        nonlocal asked
        if "ids" in kwargs and not asked:
            asked += 1
            say(threads, "dog", "x", "y", "z", "Our puppies are sold", days=-1)
        return await unchanged(**kwargs)

    monkeypatch.setattr(threads, "search", changing)
    (item,) = (await search(store, threads, ALICE, "puppies", 5)).found
    assert item.turns[0][0] == 3
    assert item.conversation.turns[3].text == "Our puppies are sold"


def many(threads: Threads, count: int, *, start: int = 0) -> None:
    for number in range(start, start + count):
        say(threads, f"t{number}", f"word{number} thing{number % 10}", "something usual", days=100 - number / 1_000)


async def test_many_conversations_are_in_few_items_and_each_is_found(store: BaseStore, threads: Threads) -> None:
    many(threads, 700)
    assert await recall.rebuild(store, threads, ALICE) == 703
    new = await store.asearch(scopes.recall(ALICE, "new"), limit=1_000)
    headers = await store.asearch(scopes.recall(ALICE, "segments"), limit=1_000)
    assert len(new) < segments.MERGE_AT
    assert len(headers) < 3 * segments.FANOUT
    for number in (0, 63, 64, 350, 699):
        assert await found(store, threads, f"Word{number}") == [f"t{number}"]
    assert len(await found(store, threads, "thing3", limit=20)) == 20
    # What is said in one of them later is found, what is no longer said in it is not, and each is there once.
    say(threads, "t64", "a zebra", days=0)
    assert await found(store, threads, "zebra") == ["t64"]
    assert await found(store, threads, "word64") == []
    many(threads, 100)
    assert (await search(store, threads, ALICE, "word64", 5)).searched == 703


async def test_a_search_asks_for_few_threads_and_a_long_backlog_is_worked_off(store: BaseStore) -> None:
    threads = Threads()
    many(threads, 230)
    first = await search(store, threads, ALICE, "word229", 5)
    assert [item.conversation.thread_id for item in first.found] == ["t229"]
    assert first.outstanding == 130
    await search(store, threads, ALICE, "x", 5)
    assert await found(store, threads, "word0") == ["t0"]
    threads.messages = threads.asked = 0
    await found(store, threads, "word7")
    assert (threads.asked, threads.messages) == (2, 2)


async def test_two_who_index_and_merge_at_once_lose_nothing() -> None:
    store, threads = InMemoryStore(), Threads()
    many(threads, 200)
    talks = [conversation(threads.kept[f"t{number}"]) for number in range(200)]
    await asyncio.gather(*(recall.index_conversation(store, ALICE, talk) for talk in talks))
    assert int((await segments.load(store, ALICE)).live().sum()) == 200
    assert await found(store, threads, "word100") == ["t100"]


INDEXER = """
import asyncio, sys
from memory import recall, scopes
from memory.conversations import conversation
from memory.postgres import open_store
from settings import Settings
from tests.test_recall import ALICE, many
from tests.threads import Threads

async def main(uri, start):
    threads = Threads()
    many(threads, 100, start=int(start))
    async with open_store(Settings(memory_postgres_uri=uri)) as store:
        for thread in threads.kept.values():
            await recall.index_conversation(store, ALICE, conversation(thread))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("store", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
async def test_two_processes_that_index_at_once_lose_nothing(store: BaseStore, postgres_uri: str) -> None:
    starts = ("0", "60")  # 40 of them are indexed by both
    running = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", INDEXER, postgres_uri, start, cwd=PROJECT)
        for start in starts
    ]
    assert [await process.wait() for process in running] == [0, 0]
    threads = Threads()
    many(threads, 160)
    index = await segments.load(store, ALICE)
    assert int(index.live().sum()) == 160
    assert any(not part.bucket for part in index.parts)
    threads.messages = 0
    for number in (0, 59, 75, 99, 159):
        assert await found(store, threads, f"word{number}") == [f"t{number}"]
    assert threads.messages == 10  # of the threads shown: none was read to be indexed again


DAMAGE: list[dict[str, Any]] = [{}, {"format": 0}, {"bucket": "AAAA"}, {"bucket": 7}, {"keys": "!"}, {"data": "AAAA"}]


@pytest.mark.parametrize("damage", DAMAGE, ids=str)
@pytest.mark.parametrize("part", ["documents", "new", "segments"])
async def test_an_item_that_is_damaged_or_of_another_format_is_made_again(part: Any, damage: dict[str, Any]) -> None:
    store, threads = InMemoryStore(), Threads()
    many(threads, segments.MERGE_AT + 10)
    await recall.rebuild(store, threads, ALICE)
    items = await store.asearch(scopes.recall(ALICE, part), limit=1_000)
    assert items
    for item in items:
        await store.aput(item.namespace, item.key, {**item.value, **damage} if damage else {}, index=False)
    for number in (0, segments.MERGE_AT + 9):
        await found(store, threads, f"word{number}")  # notices
        assert await found(store, threads, f"word{number}") == [f"t{number}"]
    assert (await search(store, threads, ALICE, "usual", 5)).searched == segments.MERGE_AT + 10


async def test_what_no_item_may_look_like_is_refused() -> None:
    good = document(conversation(threads_of("a b c").kept["t"])).stored()
    for name in good:
        with pytest.raises(DamagedError):
            read_document({key: value for key, value in good.items() if key != name})
    with pytest.raises(DamagedError):
        read_bucket("AAAA")


def threads_of(*messages: Any) -> Threads:
    threads = Threads()
    made = [human(message) if isinstance(message, str) else message for message in messages]
    threads.put(ALICE, "t", NOW.isoformat(), made)
    return threads


async def left(store: BaseStore) -> list[Any]:
    parts: tuple[Any, ...] = ("documents", "new", "segments", "texts")
    return [item for part in parts for item in await store.asearch(scopes.recall(ALICE, part), limit=10)]


async def test_forget_leaves_nothing_and_rebuild_makes_it_again(store: BaseStore, threads: Threads) -> None:
    many(threads, 100)
    say(threads, "bob", "puppies", actor=scopes.Actor("bob", "acme"))
    await found(store, threads, "puppies", scopes.Actor("bob", "acme"))
    await recall.catch_up(store, threads, ALICE)
    assert await recall.forget(store, ALICE) == 103
    assert await left(store) == []
    assert await recall.forget(store, ALICE) == 0
    assert await recall.rebuild(store, threads, ALICE) == 103
    assert await found(store, threads, "puppies") == ["dog"]


async def test_a_whole_organization_is_searched_by_operators_only(store: BaseStore, threads: Threads) -> None:
    bob, eve = scopes.Actor("bob", "acme"), scopes.Actor("eve", "acme2")
    say(threads, "b", "two puppies", actor=bob)
    say(threads, "e", "three puppies", actor=eve)
    for actor in (ALICE, bob, eve):
        await recall.catch_up(store, threads, actor)
    settings = Settings()
    results = await search_organization(store, threads, StudioUser("root"), settings, org_id="acme", query="puppies", limit=5)
    assert {(actor.user_id, item.conversation.thread_id) for actor, item in results} == {("alice", "dog"), ("bob", "b")}

    class Person(dict[str, Any]):
        identity = "alice"

    with pytest.raises(PermissionError, match="operator"):
        await search_organization(store, threads, Person(), settings, org_id="acme", query="puppies", limit=5)


async def test_long_messages_are_found_by_what_is_at_their_end(store: BaseStore, threads: Threads) -> None:
    say(threads, "paste", "filler " * 7_000 + "the zebra is striped", "ok", *["lorem ipsum " * 4_000] * 3)
    results = await search(store, threads, ALICE, "zebra", 5)
    assert [item.conversation.thread_id for item in results.found] == ["paste"]
    assert results.found[0].turns[0][0] == 0
    item = await store.aget(scopes.recall(ALICE, "documents"), segments.document_key(key_of("paste")))
    assert item is not None
    assert len(str(item.value)) < 300_000


async def test_the_step_that_worked_is_found_among_tool_calls_and_images() -> None:
    threads = threads_of(
        "fix the build please",
        {"type": "ai", "id": "1", "content": [{"type": "image", "base64": "zebra"}],
         "tool_calls": [{"name": "sh", "args": {"c": "make"}}]},
        {"type": "tool", "id": "2", "status": "error", "content": "missing libfoo"},
        {"type": "ai", "id": "3", "content": "",
         "tool_calls": [{"name": "sh", "args": {"c": "apt install libfoo-dev"}}, {}, "x"]},
        {"type": "tool", "id": "4", "content": "Setting up libfoo-dev"},
        {"type": "strange", "content": {"x": 1}},
        "not a message",
    )  # fmt: skip
    (item,) = (await search(InMemoryStore(), threads, ALICE, "how did we fix the build?", 5)).found
    assert [turn.text for turn in item.conversation.turns][:5] == [
        "fix the build please",
        'called sh {"c": "make"}',
        "failed: missing libfoo",
        'called sh {"c": "apt install libfoo-dev"}',
        "Setting up libfoo-dev",
    ]
    assert await found(InMemoryStore(), threads, "libfoo-dev") == ["t"]
    assert await found(InMemoryStore(), threads, "zebra") == []


async def test_words_that_begin_alike_rank_what_is_found_and_find_nothing_alone(store: BaseStore, threads: Threads) -> None:
    say(threads, "chess", "Nate enjoyed the chess tourney in Berlin with Anna", days=3)
    say(threads, "club", "Nate enjoyed the chess clubhouse", days=0)
    assert await found(store, threads, "chess tournament") == ["chess", "club"]
    assert await found(store, threads, "tournament") == []


async def test_conversations_in_other_languages_are_found(store: BaseStore, threads: Threads) -> None:
    say(threads, "zh", "我想养一只猫 你觉得哪种猫适合公寓", "英国短毛猫很安静。")
    say(threads, "ja", "来週、京都で紅葉を見に行きます")
    say(threads, "th", "ฉันอยากไปเที่ยวทะเลที่ภูเก็ต")
    say(threads, "de", "Wir haben die Häuser in der Altstadt besichtigt und dann ist der Zug ausgefallen", "Das ist nicht gut")
    for query, thread_id in [
        ("猫", "zh"), ("短毛猫", "zh"), ("京都の紅葉", "ja"), ("ภูเก็ต", "th"),
        ("Haus", "de"), ("Welches Haus war in der Altstadt?", "de"),
        ("züge", "de"), ("puppy", "dog"),
    ]:  # fmt: skip
        assert (await found(store, threads, query))[:1] == [thread_id], query


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Where did we put the keys of the car?", "english"), ("Ich habe die Schlüssel nicht gefunden", "german"),
        ("", "english"),
        ("où est-ce que nous avons mis les clés", "french"),
        ("猫", "english"), ("dónde están las llaves de la casa", "spanish"),
    ],
)  # fmt: skip
def test_the_language_is_that_of_the_stop_words(text: str, spoken: str) -> None:
    assert language(text) == spoken


def test_words_are_stemmed_in_their_language_and_a_query_in_each() -> None:
    assert stems("Die Häuser", "german") == stems("das Haus", "german")
    assert stems("the flying foxes_and", "english") == ["fli", "fox"]
    assert ("haus",) in alternatives("Haus", ["german", "english"])
    assert len(alternatives("flying flying", ["german", "english"])) == 1
    assert rank("Häuser", ["der Hund ist nicht da", "das Haus ist nicht hier"])[0][0] == 1


TODAY = date(2026, 5, 13)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what did we say yesterday?", "2026-05-12", "2026-05-12"),
        ("last week", "2026-05-04", "2026-05-10"),
        ("this month", "2026-05-01", "2026-05-31"),
        ("last Friday", "2026-05-08", "2026-05-08"),
        ("last May", "2025-05-01", "2025-05-31"),
        ("three weeks ago", "2026-04-19", "2026-04-25"),
        ("on 8 May, 2023", "2023-05-08", "2023-05-08"),
        ("on May 8th, 2023", "2023-05-08", "2023-05-08"),
        ("2023-05-08", "2023-05-08", "2023-05-08"),
        ("am 8.5.2023", "2023-05-08", "2023-05-08"),
        ("in Feb 2024", "2024-02-01", "2024-02-29"),
        ("back in 2019", "2019-01-01", "2019-12-31"),
    ],
)
def test_times_in_a_question_are_understood(text: str, first: str, last: str) -> None:
    (time,), _ = dates.times(text, TODAY)
    assert (str(time.first), str(time.last), time.yearless) == (first, last, False)


def test_a_month_alone_is_of_any_year_and_may_march_is_none() -> None:
    (time,), rest = dates.times("the hike in May", TODAY)
    assert time.yearless
    assert "may" not in rest
    assert time.fit(date(2021, 5, 30), date(2021, 5, 30)) == dates.EXACT
    assert time.fit(date(2021, 2, 1), date(2021, 2, 1)) == 0
    assert dates.times("may I march", TODAY) == ([], "may i march")


@pytest.mark.parametrize("day", [date(2024, 2, 29), date(2023, 12, 31), date(2000, 1, 1)])
def test_a_day_that_fits_is_among_those_looked_up(day: date) -> None:
    for text in (f"on {day:%d %B %Y}", f"on {day:%d %B}", f"in {day:%B}", f"in {day:%B %Y}", f"{day:%Y}"):
        (time,), _ = dates.times(text, TODAY)
        assert time.fit(day, day) == dates.EXACT, text
        assert set(time.tokens()) & set(dates.day_tokens(day, day)), text


async def test_a_time_finds_the_conversations_of_then(store: BaseStore, threads: Threads) -> None:
    say(threads, "old", "the meeting was about money", days=400)
    say(threads, "week", "the meeting was about people", days=7)
    say(threads, "new", "the meeting was about offices", days=0)
    assert (await found(store, threads, "meeting last week"))[0] == "week"
    assert (await found(store, threads, "what was the meeting in April 2025 about?"))[0] == "old"
    assert (await found(store, threads, "what did we talk about yesterday?"))[0] == "trip"


async def test_meaning_is_asked_where_the_store_knows_it(threads: Threads) -> None:
    store = InMemoryStore(index=IndexConfig(embed=embed, dims=len(SUBJECTS), fields=["content"]))
    assert (await found(store, threads, "vehicle"))[0] == "car"
    assert (await found(store, threads, "pet"))[0] == "dog"
    assert (await found(store, threads, "lisbon"))[0] == "trip"
    threads.delete("car")
    assert "car" not in await found(store, threads, "vehicle")
    say(threads, "dog", "nothing", days=0)
    await found(store, threads, "pet")
    texts = await store.asearch(scopes.recall(ALICE, "texts"), limit=100)
    assert "puppies" not in str([item.value for item in texts])
    await recall.forget(store, ALICE)
    assert await left(store) == []


@pytest.mark.postgres
async def test_meaning_is_asked_on_postgres_too_whatever_is_in_the_text(threads: Threads, postgres_uri: str) -> None:
    uri = postgres_uri.replace("/postgres?", "/recall?")
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("CREATE DATABASE recall")
    say(threads, "odd", "bread \0 \ud800", days=0)
    async with open_store(Settings(memory_postgres_uri=uri), {"embed": embed, "dims": len(SUBJECTS), "fields": ["x"]}) as store:
        assert (await found(store, threads, "vehicle"))[0] == "car"
        assert (await found(store, threads, "baking"))[0] == "odd"


async def test_without_a_semantic_index_nothing_is_stored_for_it(store: BaseStore, threads: Threads) -> None:
    assert await found(store, threads, "vehicle") == []
    assert await store.asearch(scopes.recall(ALICE, "texts"), limit=10) == []


def test_of_what_is_merged_the_newest_is_kept_wherever_it_is() -> None:
    def one(text: str, at: int) -> Any:
        threads = Threads()
        threads.put(ALICE, "t", (NOW + timedelta(at)).isoformat(), [human(text)])
        return postings(document(conversation(threads.kept["t"])))

    both = merged([one("zebra", 0), one("okapi", 1)])
    assert len(both.table.keys) == 1
    header, buckets = stored(both, buckets=4)
    terms = np.concatenate([read_bucket(text)[0] for text in buckets])
    assert sorted(terms) == sorted(one("okapi", 1).terms)
    assert header["buckets"] == len(buckets) == 4
    assert CANDIDATES >= 2 * 20
