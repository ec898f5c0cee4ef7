"""Words: stems and stop words of a language, and words that begin alike."""

from __future__ import annotations

import pytest
from langgraph.store.base import BaseStore

from memory.recall.lexical import language, rank, stem_groups, stems
from testing.platform import Platform
from tests.memory.recall.talks import hits, say


async def test_words_that_begin_alike_rank_what_is_found_and_find_nothing_alone(store: BaseStore, threads: Platform) -> None:
    say(threads, "chess", "Nate enjoyed the chess tourney in Berlin with Anna", days=3)
    say(threads, "club", "Nate enjoyed the chess clubhouse", days=0)
    assert await hits(store, threads, "chess tournament") == ["chess", "club"]
    assert await hits(store, threads, "tournament") == []


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
    assert ("haus",) in stem_groups("Haus", ["german", "english"])
    assert len(stem_groups("flying flying", ["german", "english"])) == 1
    assert rank("Häuser", ["der Hund ist nicht da", "das Haus ist nicht hier"])[0][0] == 1
