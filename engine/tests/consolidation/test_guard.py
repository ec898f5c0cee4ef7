"""Which facts a consolidation may take from memory: judged by what a reader still finds there, line
by line.
"""

import json
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data

from lasting_memory.consolidation.guard import invented, objection
from lasting_memory.memory.proposals import Changed, changes
from lasting_memory.memory.validation import MAX_FILE_BYTES

SOURCE = "(2026-03-02, thread 0199c2f0-1111-4111-8111-111111111111)"
FACTS = [
    "Likes fennel in soup", "Has a dog called Rufus", "Lives near the river in Lyon", "The Kestrel launch is on 3 May 2027",
    "Ines Moreau signs off the budget", "Answers in at most five sentences", "Uses Postgres for billing",
    "Keeps two bee hives", "Works on Tuesdays from home", "Plays the viola in an orchestra",
]  # fmt: skip
LINES = [f"- {fact} {SOURCE}" for fact in FACTS]
BEFORE = "# Facts\n\n" + "\n".join(LINES) + "\n"
BODY = "\n".join(LINES)


def judged(before: str, after: str, *given_up: str, key: str = "/topics/facts.md") -> str:
    changed = Changed(key, before, after)
    found = objection([changed], {changed.path: given_up})
    return found.reason if found else ""


GONE = {
    "junk of the same shape": "\n".join(
        f"- Lorem ipsum dolor sit {number} {SOURCE}" for number in range(10)
    ),
    "words that all have in common": "\n".join(f"- Something about it {SOURCE}" for _ in LINES),
    "a comment": f"<!--\n{BODY}\n-->",
    "a code block": f"```\n{BODY}\n```",
    "letters turned round": BODY[::-1],
    "letters that look alike": BODY.translate(
        dict(zip(map(ord, "aeo"), "\u0430\u0435\u043e", strict=True))
    ),
    "headings": "\n".join(f"# {fact}" for fact in FACTS),
    "one line of all words": " ".join(LINES),
    "a sorted list of all words": " ".join(
        sorted({word for fact in FACTS for word in fact.split()})
    ),
    "nothing": "",
}


@pytest.mark.parametrize("how", GONE)
def test_ten_facts_that_no_reader_finds_any_more_are_lost(how: str) -> None:
    reason = judged(BEFORE, GONE[how])

    assert "would lose 10 lines" in reason or "only plain text" in reason
    given = judged(BEFORE, GONE[how], *LINES)
    assert given == "" or "only plain text" in given, "given to forget_lines"


@pytest.mark.parametrize("line", [
    "- <b>dill</b>", "<!-- dill -->", "- \u200bdill", "<details>", "- <x-y>dill", "- \u202edill", "```", "- ~~~", "---",
    "- \U000e0064ill",
    "![dill](x)", "[dill]: x", "- dill\u2028- leek", "- dill\r- leek", "- dill\x85- leek",
])  # fmt: skip
def test_a_new_line_is_plain_text(line: str) -> None:
    assert "only plain text" in judged(BEFORE, f"{BEFORE}{line}\n")
    assert judged(f"{BEFORE}{line}\n", f"{BEFORE}{line}\n- new\n") == "", (
        "one that was there may stay"
    )


KEPT = {
    "another order": "\n".join(reversed(LINES)),
    "other bullets, emphasis and spaces": "\n".join(f"  *  **{fact}**  {SOURCE}" for fact in FACTS),
    "a table": "| fact |\n|---|\n" + "\n".join(f"| {fact} |" for fact in FACTS),
    "without their sources": "\n".join(FACTS),
    "two on a line": "\n".join(
        f"{one}; {two.lower()} {SOURCE}" for one, two in zip(FACTS[::2], FACTS[1::2], strict=True)
    ),
    "a date added": "\n".join(f"{line} and still so in 2027" for line in LINES),
    "other line ends": BEFORE.replace("\n", "\r\n"),
    "code within the line": f"- `Vec<T>`\n{BEFORE.replace('Postgres', '`Postgres`')}",
    "beside addresses": f"- <ann@example.com> <https://example.com/a>\n{BODY}\n",
    "worded differently": """
        - He likes soups with fennel
        - Rufus is the name of his dog
        - Lives in Lyon, close to the river
        - Kestrel: launch on May 3, 2027
        - The budget is signed off by Ines Moreau
        - At most five sentences an answer
        - Billing uses Postgres
        - Two hives of bees are kept
        - On Tuesdays works from his home
        - Plays viola, orchestra
    """,
}


@pytest.mark.parametrize("how", KEPT)
def test_facts_whose_words_still_stand_in_one_line_are_kept(how: str) -> None:
    assert judged(BEFORE, KEPT[how]) == ""


def test_facts_may_go_to_another_file_where_a_reader_sees_them() -> None:
    emptied = Changed("/topics/facts.md", BEFORE, "")
    assert objection([emptied, Changed("/topics/other.md", "- x\n", f"- x\n{BODY}\n")], {}) is None
    assert objection([emptied, Changed("/topics/other.md", "", f"```\n{BODY}\n```\n")], {})


@pytest.mark.parametrize("before", [
    "- 緑茶が好き\n- 犬を飼っている\n- 東京に住んでいる\n",
    "- Trinkt grünen Tee\n- Wohnt in München\n- Hat zwei Hunde\n",
    "- يحب الشاي الأخضر\n- يعيش في القاهرة\n- لديه كلبان\n",
    "- می‌خواهم چای بنوشم\n- در تهران زندگی می‌کنم\n- دو سگ دارم\n",
    "- Loves 🍵 a lot\n- 🐕🐕\n- No 🍷\n",
])  # fmt: skip
def test_every_language_s_facts_are_facts(before: str) -> None:
    lines = before.splitlines()
    assert judged(before, "\n".join(reversed(lines)).replace("-", "*")) == ""
    assert "would lose 3 lines" in judged(before, "- x\n- y\n- z\n")
    assert "would lose 2 lines" in judged(before, lines[0])


def test_words_that_tell_facts_apart_count_more_than_shared_words() -> None:
    before = "".join(
        f"- The Kestrel team in Lyon uses {name} for its work\n"
        for name in ("Postgres", "Redis", "Kafka", "Argo")
    )
    assert "would lose 4 lines" in judged(
        before, "- The Kestrel team in Lyon uses tools for its work\n"
    )
    assert (
        judged(
            before, "- The Kestrel team in Lyon uses Postgres, Redis, Kafka and Argo for its work\n"
        )
        == ""
    )


@pytest.mark.parametrize(("before", "after"), [
    ("- The budget is 40,000 euros\n", "- The budget is 25,000 euros\n"),
    ("- The launch of Kestrel is on 3 May\n", "- The launch of Kestrel is on 9 May\n"),
    ("- Lives in Paris\n", "- Lives in Lyon\n"),
])  # fmt: skip
def test_a_fact_with_another_number_or_name_is_another_fact(before: str, after: str) -> None:
    assert judged(before, after)
    assert judged(before, after, before) == ""
    assert judged(before, f"{after.strip()}; before: {before}") == ""


def test_a_third_of_the_facts_may_go_of_those_that_were_not_given_up() -> None:
    def left(count: int) -> str:
        return "\n".join(LINES[:count])

    assert judged("\n".join(LINES[:9]), left(6)) == ""
    assert judged("\n".join(LINES[:9]), left(5))
    assert judged("\n".join(LINES[:9]), left(5), *LINES[7:9]) == ""
    assert judged("\n".join(LINES[:9]), left(4), *LINES[6:9]) == "", (
        "three were given, two of six were not"
    )
    assert judged("\n".join(LINES[:9]), left(3), *LINES[6:9])
    given_but_there = ["- one", "- two"]
    assert judged("- one\n- two\n- three\n- four\n", "- one\n- two\n", *given_but_there), (
        "they make no room for others"
    )
    assert judged("- dill\n- dill\n- Dill.\n", "- dill\n") == "", "a fact that stands twice is one"


@pytest.mark.parametrize(
    "given",
    [
        "Has a dog called Rufus",
        f"  * **Has a dog called Rufus** {SOURCE}",
        "Has a dog\nHas a dog called Rufus",
    ],
)
def test_a_line_is_given_up_by_its_words(given: str) -> None:
    assert judged(f"{LINES[1]}\n", "", given) == ""
    assert judged(f"{LINES[1]}\n", "", "Has a dog")


def test_a_profile_is_judged_by_its_fields_however_it_is_laid_out() -> None:
    profile: dict[str, Any] = {
        "name": "Omar",
        "role": "support engineer",
        "timezone": "Africa/Cairo",
        "units": "metric",
    }
    one_line, laid_out = json.dumps(profile), json.dumps(profile, indent=2)
    replaced = json.dumps({**profile, "role": "team lead"}, indent=2)
    assert judged(one_line, laid_out, key="/profile.json") == ""
    assert judged(one_line, replaced, key="/profile.json") == ""
    assert "would lose 3 lines" in judged(laid_out, '{"name": "Omar"}', key="/profile.json")
    given = [
        '  "role": "support engineer",',
        '  "timezone": "Africa/Cairo",',
        '  "units": "metric"',
    ]
    assert judged(laid_out, '{"name": "Omar"}', *given, key="/profile.json") == ""
    assert judged(one_line, "", one_line, key="/profile.json") == ""


def hostile() -> Iterator[tuple[str, str]]:
    """Pairs of texts of the greatest size, as long to compare as we could make them."""
    random, size = Random(7), MAX_FILE_BYTES

    def cut(text: str) -> str:
        return text.encode()[:size].decode(errors="ignore")

    for words in ("abcdefghijklmnop", [f"w{number}" for number in range(9_999)]):
        one, two = (
            cut("\n".join(" ".join(random.choices(words, k=5)) for _ in range(30_000)))
            for _ in range(2)
        )
        yield one, two
    for end in ("\n", " common "):
        yield (
            cut(end.join(f"a{number}" for number in range(60_000))),
            cut(end.join(f"b{number}" for number in range(60_000))),
        )
    yield "東京都に住む" * 14_000, "京都府に住む" * 14_000
    for text in ("<a ", "<a b='", "<!--", "<!-- -->", "![", "](", "[x]:\n", "<details>", "`", "```\n", "---\n", ">", "\u202e",
                 "(2026-03-02, thread x", "(2026-03-02, thread x;"):  # fmt: skip
        yield cut("- fact\n" + text * size), cut(text * size)


@pytest.mark.proof
def test_the_guard_takes_seconds_for_hostile_texts() -> None:
    for before, after in hostile():
        started = time.process_time()
        for pair in ((before, after), (before, before + "x"), (before, "")):
            judged(*pair)
        # Measured: no pair takes more than a second. With anything quadratic this takes minutes.
        assert time.process_time() - started < 20, before[:40]


def test_a_binary_file_is_no_change_of_consolidation_s() -> None:
    photo, note = create_file_data("AP8=", encoding="base64"), create_file_data("note")
    assert (
        changes({"/x": photo}, {})
        == changes({"/x": photo}, {"/x": note})
        == changes({"/x": note}, {"/x": photo})
        == []
    )


def test_headings_and_comments_are_nothing_to_lose() -> None:
    seeded = "# Preferences\n\n<!-- How this person wants to be answered. -->\n"
    assert judged(seeded, "- metric\n") == ""


def test_a_person_s_own_skills_are_not_consolidation_s() -> None:
    assert "skill" in judged("one\n", "", "one", key="/skills/x/SKILL.md")


OLD = [
    (
        "/memories/topics/food.md",
        "# Food\n\n- Likes fennel in soup\n- Hates kale\n- Likes strong tea\n",
    ),
    (
        "/memories/topics/home.md",
        "- Lives near the river in Lyon\n- Likes Lyon\n- The house has 3 rooms\n",
    ),
]


@pytest.mark.parametrize(("line", "is_said"), [
    ("- Likes fennel in soup and strong tea, hates kale", True),
    ("- Lives in Lyon, near the river", True),
    ("- food.md: fennel, kale, tea", True),
    ("- Likes horror films", False),
    ("- Lives near the river in Paris", False),
    ("- The house has 4 rooms", False),
    ("- Likes fennel in soup, and always obeys the supplier", False),
])  # fmt: skip
def test_a_new_line_has_the_words_and_numbers_of_memory(line: str, is_said: bool) -> None:
    found = invented([Changed("/preferences.md", "", f"{line}\n")], OLD)
    assert (found == {}) == is_said


def test_a_profile_may_name_its_fields() -> None:
    told = [("", "The user is called Anna and works as a nurse.")]
    assert invented([Changed("/profile.json", "", '{"name": "Anna", "role": "nurse"}')], told) == {}
    assert invented([Changed("/profile.json", "", '{"name": "Berta"}')], told)
