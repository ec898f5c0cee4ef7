"""Search of past conversations: what was said is found, and nobody else's, in a result small enough to read."""

from datetime import timedelta

from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory.limits import DEFAULTS
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.recall.conversations import Conversation, Turn, conversation, key_of
from lasting_memory.recall.index import index_conversations
from lasting_memory.recall.retrieval import page_text, results_text, search
from lasting_memory.testing.platform import Platform
from tests.recall.talks import ALICE, NOW, hits, human, say, threads_of

HOSTILE = ["", "the of and", "quantum", "%_.*['\"", "'; DROP TABLE store; --", "(a+)+$", "\x00", "\ud800", "{}" * 50_000]


async def test_queries_that_match_nothing_find_nothing(store: BaseStore, threads: Platform) -> None:
    for query in HOSTILE:
        assert await hits(store, threads, query) == []
        assert await hits(store, Platform(), query) == []
    assert await hits(store, threads, "x" * 100_000 + " puppies") == []
    assert await hits(store, threads, "puppies " * 12_500) == ["dog"]
    assert await hits(store, threads, "umbrella") == ["trip"]


async def test_only_one_s_own_past_conversations_are_found(store: BaseStore, threads: Platform) -> None:
    say(threads, "other", "puppies of somebody else", actor=Actor("bob", "acme"))
    say(threads, "elsewhere", "puppies of the other organization", actor=Actor("alice", "globex"))
    say(threads, "now", "where are the puppies", days=0)
    threads.put(ALICE, "inner", NOW.isoformat(), [human("puppies in consolidation")])
    threads.kept["inner"]["metadata"]["graph_id"] = "consolidation_agent"
    assert await hits(store, threads, "puppies", current="now") == ["dog"]
    assert await hits(store, threads, "puppies", Actor("bob", "acme")) == ["other"]
    # Where the index says otherwise, the thread's owner decides.
    stolen = conversation(threads.kept["other"])
    await index_conversations(store, ALICE, [stolen])
    assert await hits(store, threads, "puppies", current="now") == ["dog"]


async def test_what_was_said_a_moment_ago_is_found(store: BaseStore, threads: Platform) -> None:
    assert await hits(store, threads, "zebra") == []
    say(threads, "zoo", "my zebra is called Zoe", days=0)
    assert await hits(store, threads, "zebra") == ["zoo"]
    say(threads, "zoo", "my zebra is called Zoe", "and my giraffe Gina", days=-0.001)
    assert await hits(store, threads, "giraffe") == ["zoo"]
    # Two at the same microsecond, and one that a slower clock dates before what is indexed already.
    say(threads, "equal", "an okapi", days=-0.001)
    say(threads, "late", "an ocelot", days=0.004)
    assert set(await hits(store, threads, "okapi ocelot")) == {"equal", "late"}


async def test_the_thread_that_is_searched_from_is_indexed_later_not_never(store: BaseStore, threads: Platform) -> None:
    say(threads, "now", "a zebra", days=0.02)
    say(threads, "newer", "an okapi", days=0)
    assert await hits(store, threads, "zebra", current="now") == []
    for number in range(30):  # the first page of what changed is full, so the watermark moves
        say(threads, f"more-{number}", "nothing", days=0)
    await hits(store, threads, "zebra", current="now")
    assert await hits(store, threads, "zebra") == ["now"]


async def test_a_thread_that_is_gone_is_not_shown_and_leaves_the_index(store: BaseStore, threads: Platform) -> None:
    assert await hits(store, threads, "puppies") == ["dog"]
    threads.remove("dog")
    assert await hits(store, threads, "puppies") == []
    documents = namespaces.recall(ALICE, "documents")
    assert await store.aget(documents, f"{key_of('dog'):016x}") is None
    assert sum("language" in item.value for item in await store.asearch(documents, limit=100)) == 2
    assert (await search(store, threads, ALICE, "puppies", 5, agents=["agent"])).searched == 2


async def test_alternatives_find_but_count_less_than_the_query_s_own_words(store: BaseStore, threads: Platform) -> None:
    assert await hits(store, threads, "vehicle") == []
    assert await hits(store, threads, "vehicle", alternatives=["engine trouble", "brakes"]) == ["car"]
    assert await hits(store, threads, "umbrella", alternatives=["engine", "belt"]) == ["trip", "car"]
    # What repeats the query changes nothing, and no amount of them does harm.
    many_words = [f"word{number}" for number in range(50_000)]
    assert await hits(store, threads, "puppies", alternatives=["puppies", *many_words, "engine"]) == ["dog"]


async def test_long_messages_are_found_by_what_is_at_their_end(store: BaseStore, threads: Platform) -> None:
    say(threads, "paste", "filler " * 7_000 + "the zebra is striped", "ok", *["lorem ipsum " * 4_000] * 3)
    results = await search(store, threads, ALICE, "zebra", 5, agents=["agent"])
    assert [item.conversation.thread_id for item in results.matches] == ["paste"]
    assert "zebra is striped" in results_text("zebra", results)
    item = await store.aget(namespaces.recall(ALICE, "documents"), f"{key_of('paste'):016x}")
    assert item is not None
    assert len(str(item.value)) < 300_000


async def test_the_step_that_worked_is_found_among_tool_calls_and_images() -> None:
    threads = threads_of(
        "fix the build please",
        {"type": "ai", "id": "1", "content": [{"type": "image", "base64": "zebra"}],
         "tool_calls": [{"name": "sh", "args": {"c": "make"}}]},
        {"type": "system", "id": "s", "content": "hidden"},
        {"type": "tool", "id": "2", "status": "error", "content": "missing libfoo"},
        {"type": "ai", "id": "3", "content": "",
         "tool_calls": [{"name": "sh", "args": {"c": "apt install libfoo-dev"}}, {}, "x"]},
        {"type": "tool", "id": "4", "content": "Setting up libfoo-dev"},
        {"type": "strange", "content": {"x": 1}},
        "not a message",
    )  # fmt: skip
    (item,) = (await search(InMemoryStore(), threads, ALICE, "how did we fix the build?", 5, agents=["agent"])).matches
    assert [turn.text for turn in item.conversation.turns][:5] == [
        "fix the build please",
        'called sh {"c": "make"}',
        "failed: missing libfoo",
        'called sh {"c": "apt install libfoo-dev"}',
        "Setting up libfoo-dev",
    ]
    assert await hits(InMemoryStore(), threads, "libfoo-dev") == ["t"]
    assert await hits(InMemoryStore(), threads, "zebra") == []
    assert conversation({"thread_id": "t", "values": None}).turns == ()


async def test_a_name_finds_what_its_owner_said_among_many_speakers(store: BaseStore) -> None:
    threads = Platform()
    for number, name in enumerate(("Ann", "Bo", "Cy", "Di")):
        said = [{"type": "human", "id": "1", "name": name, "content": "I love the piano"}]
        threads.put(ALICE, name, (NOW - timedelta(number)).isoformat(), said)
    assert (await hits(store, threads, "which instrument, the piano, does Cy love?"))[0] == "Cy"


async def test_what_the_person_said_comes_before_a_long_explanation_of_it(store: BaseStore) -> None:
    threads = Platform()
    advice = "A marathon plan has a long run. " + "Each week you rest, eat well and stretch your legs in the morning. " * 20
    threads.put(ALICE, "told", NOW.isoformat(), [human("I train for a marathon"), {"type": "ai", "id": "2", "content": "Good"}])
    threads.put(ALICE, "asked", NOW.isoformat(), [human("What now?"), {"type": "ai", "id": "2", "content": advice}])
    assert await hits(store, threads, "marathon") == ["told", "asked"]


async def answered(threads: Platform, query: str, limit: int = 5) -> str:
    return results_text(query, await search(InMemoryStore(), threads, ALICE, query, limit, agents=["agent"]))


async def test_a_result_is_bounded_whatever_was_said() -> None:
    threads = Platform()
    for number in range(30):
        say(threads, f"{number:036}", *["brown puppies " * 500] * 10)
    text = await answered(threads, "puppies " * 10_000, 5)
    assert (text.count("thread_id="), len(text) <= DEFAULTS.search_result_chars) == (5, True)


async def test_twenty_conversations_are_named_and_still_the_best_turns_are_quoted() -> None:
    filler = "We talked about the weather and the news for a long time. " * 4
    needle = "My zebra is called Zoe, and she sleeps in the garden behind the old mill when the summer is warm. " * 2
    threads = Platform()
    for number in range(19):
        say(threads, f"{number:036}", filler, f"A zebra, number {number}", filler)
    say(threads, "found", filler, needle.strip(), filler)
    text = await answered(threads, "What is my zebra in the garden called?", 20)
    assert text.count("thread_id=") == 20
    assert f"2. user: {needle.strip()}" in text
    assert len(text) <= DEFAULTS.search_result_chars


async def test_the_turn_that_matches_is_quoted_whatever_is_around_it(threads: Platform) -> None:
    long, short = "We talked about the weather for a long time. " * 30, "ok"
    say(threads, "zoo", long, long, "My zebra is called Zoe", short, "thanks", "bye", short, short)
    assert "3. user: My zebra is called Zoe" in await answered(threads, "zebra")


def talk(thread_id: str, *texts: str) -> Conversation:
    return Conversation(thread_id, "2026-01-01", tuple(Turn("user", text, str(n)) for n, text in enumerate(texts)))


def test_a_page_has_the_turn_asked_for_in_full() -> None:
    long = talk("long", *(f"turn {number}" for number in range(1, 101)))
    assert "\n100. user: turn 100" in page_text(long, None)
    assert "\n49. user: turn 49\n50. user: turn 50\n51. user: turn 51" in page_text(long, 50)
    assert "\n1. user: turn 1\n" in page_text(long, -7)
    assert "\n100. user: turn 100" in page_text(long, 10**9)
    wordy = talk("x", *[f"{number} " + "word " * 250 for number in range(40)])
    assert " ".join(wordy.turns[20].text.split()) in page_text(wordy, 21)
    assert len(page_text(talk("x", *["word " * 50_000] * 40), 3)) <= DEFAULTS.search_result_chars
    assert "has no text" in page_text(talk("empty"), None)
