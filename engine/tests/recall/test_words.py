"""Words, languages and times: what a question has in common with what was said."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory.recall import lexical, results_text, search
from lasting_memory.recall.retrieval import topics_text
from lasting_memory.testing.platform import Platform
from tests.recall.talks import ALICE, NOW, hits, say

TODAY = date(2026, 5, 13)


async def test_conversations_in_other_languages_are_found(store: BaseStore, threads: Platform) -> None:
    say(threads, "zh", "我想养一只猫 你觉得哪种猫适合公寓", "英国短毛猫很安静。")
    say(threads, "ja", "来週、京都で紅葉を見に行きます")
    say(threads, "th", "ฉันอยากไปเที่ยวทะเลที่ภูเก็ต")
    say(threads, "de", "Wir haben die Häuser in der Altstadt besichtigt und dann ist der Zug ausgefallen", "Das ist nicht gut")
    for query, thread_id in [
        ("猫", "zh"), ("短毛猫", "zh"), ("京都の紅葉", "ja"), ("ภูเก็ต", "th"),
        ("Haus", "de"), ("Welches Haus war in der Altstadt?", "de"),
        ("züge", "de"), ("puppy", "dog"),
    ]:  # fmt: skip
        assert (await hits(store, threads, query))[:1] == [thread_id], query


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("on 8 May, 2023", "2023-05-08", "2023-05-08"),
        ("on May 8th, 2023", "2023-05-08", "2023-05-08"),
        ("2023-05-08", "2023-05-08", "2023-05-08"),
        ("am 8.5.2023", "2023-05-08", "2023-05-08"),
        ("in Feb 2024", "2024-02-01", "2024-02-29"),
        ("in May", "2026-05-01", "2026-05-31"),
        ("on 20 May", "2025-05-20", "2025-05-20"),
        ("back in 2019", "2019-01-01", "2019-12-31"),
    ],
)
def test_times_in_a_question_are_understood(text: str, first: str, last: str) -> None:
    (time,), _ = lexical.times(text, TODAY)
    assert (str(time.first), str(time.last)) == (first, last)


def test_the_words_of_a_time_are_no_words_of_the_question_and_may_march_is_none() -> None:
    (time,), rest = lexical.times("the hike in May", TODAY)
    assert "may" not in rest
    days = ["2026-02-01", "2026-05-31", "2026-06-02", "2026-07-01"]
    assert [float(time.fit(*[np.array([day], "M8[D]")] * 2)[0]) for day in days] == [0, 1, 0.7, 0]
    assert lexical.times("may I march", TODAY) == ([], "may i march")


async def test_a_time_finds_the_conversations_of_then(store: BaseStore, threads: Platform) -> None:
    say(threads, "old", "the meeting was about money", days=400)
    say(threads, "week", "the meeting was about people", days=7)
    say(threads, "new", "the meeting was about offices", days=0)
    assert (await hits(store, threads, "meeting on 6 May 2026"))[0] == "week"
    assert (await hits(store, threads, "what was the meeting in April 2025 about?"))[0] == "old"
    assert (await hits(store, threads, "what did we talk about on 2026-05-12?"))[0] == "trip"


@pytest.mark.parametrize(
    ("since", "until", "first"),
    [
        ("2025-04-01", "2025-04-30", "old"),
        ("2026-05-12", None, "new"),
        (None, "2025-12-31", "old"),
        ("2026-05-01", "2026-05-08", "week"),
    ],
)
async def test_days_say_when_whatever_the_language_of_the_question(
    store: BaseStore, since: str | None, until: str | None, first: str
) -> None:
    threads = Platform()
    for name, days in (("old", 400), ("week", 7), ("new", 0)):
        say(threads, name, "La reunión fue sobre el presupuesto y las oficinas de la empresa", days=days)
    found = await hits(store, threads, "¿de qué trató la reunión?", period=lexical.period(since, until))
    assert (found[0], len(found)) == (first, 3)


def test_topic_files_are_named_that_know_more_than_the_conversations() -> None:
    answer = "2026-01-01 thread_id=a\n  1. user: I like bread\n\n2026-01-02 thread_id=b\n  1. user: My oven broke"
    topics = {
        "/memories/topics/bread.md": "- Bakes bread with rye in the oven",
        "/memories/topics/car.md": "- An oven-ready car",
    }
    assert topics_text("Which bread from the oven?", answer, topics) == "\n\n[/memories/topics/bread.md may say more; read it]"
    assert topics_text("Which bread?", answer, topics) == ""


LANGUAGES = Path(__file__).parents[1] / "languages"
SETS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in sorted(LANGUAGES.glob("*.yaml"))}
# Of 30 questions: those whose conversation comes first, and those whose turn an answer of three conversations quotes.
FLOORS = {"de": (24, 24), "es": (28, 29), "ja": (27, 29), "zh": (28, 29)}


def spoken(said: list[str]) -> list[dict[str, Any]]:
    return [{"type": "ai" if n % 2 else "human", "id": str(n), "content": text} for n, text in enumerate(said)]


@pytest.mark.parametrize("language", FLOORS)
async def test_the_right_conversation_and_turn_are_found_in_this_language(language: str) -> None:
    threads, store, first, quoted = Platform(), InMemoryStore(), 0, 0
    conversations, questions = SETS[language]["conversations"], SETS[language]["questions"]
    for number, said in enumerate(conversations, 1):
        threads.put(ALICE, str(number), (NOW - timedelta(number)).isoformat(), spoken(said))
    missed = []
    for question, expected, turn in questions:
        results = await search(store, threads, ALICE, question, 3, agents=["agent"], today=NOW.date())
        is_first = bool(results.matches) and results.matches[0].conversation.thread_id == str(expected)
        is_quoted = conversations[expected - 1][turn - 1] in results_text(question, results)
        first, quoted = first + is_first, quoted + is_quoted
        missed += [] if is_first and is_quoted else [question]
    assert len(questions) == 30
    assert first >= FLOORS[language][0], missed
    assert quoted >= FLOORS[language][1], missed


async def test_neighbouring_words_of_a_question_count_more_where_they_stand_together(store: BaseStore) -> None:
    threads = Platform()
    say(threads, "together", "The water, while it is warm, turns blue and the whale swims", days=2)
    say(threads, "apart", "The whale swims while it is warm, and the water turns blue, while a blue sail", days=1)
    assert (await hits(store, threads, "blue whale"))[0] == "together"
