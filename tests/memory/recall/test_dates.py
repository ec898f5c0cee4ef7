"""Times in a question, and the conversations of then."""

from __future__ import annotations

from datetime import date

import pytest
from langgraph.store.base import BaseStore

from memory.recall import lexical
from testing.platform import Platform
from tests.memory.recall.talks import hits, say

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
    (time,), _ = lexical.times(text, TODAY)
    assert (str(time.first), str(time.last), time.yearless) == (first, last, False)


def test_a_month_alone_is_of_any_year_and_may_march_is_none() -> None:
    (time,), rest = lexical.times("the hike in May", TODAY)
    assert time.yearless
    assert "may" not in rest
    assert time.fit(date(2021, 5, 30), date(2021, 5, 30)) == lexical.EXACT
    assert time.fit(date(2021, 2, 1), date(2021, 2, 1)) == 0
    assert lexical.times("may I march", TODAY) == ([], "may i march")


@pytest.mark.parametrize("day", [date(2024, 2, 29), date(2023, 12, 31), date(2000, 1, 1)])
def test_a_day_that_fits_is_among_those_looked_up(day: date) -> None:
    for text in (f"on {day:%d %B %Y}", f"on {day:%d %B}", f"in {day:%B}", f"in {day:%B %Y}", f"{day:%Y}"):
        (time,), _ = lexical.times(text, TODAY)
        assert time.fit(day, day) == lexical.EXACT, text
        assert set(time.tokens()) & set(lexical.day_tokens(day, day)), text


async def test_a_time_finds_the_conversations_of_then(store: BaseStore, threads: Platform) -> None:
    say(threads, "old", "the meeting was about money", days=400)
    say(threads, "week", "the meeting was about people", days=7)
    say(threads, "new", "the meeting was about offices", days=0)
    assert (await hits(store, threads, "meeting last week"))[0] == "week"
    assert (await hits(store, threads, "what was the meeting in April 2025 about?"))[0] == "old"
    assert (await hits(store, threads, "what did we talk about yesterday?"))[0] == "trip"
