"""Which lines of a file are facts, and which only give it its form."""

import pytest

from lasting_memory.memory.facts import content_lines, is_form

FILES = {
    "rules": ("- a\n\n---\n\n- b\n***\n_ _ _\n- - -\n- c\n", ["a", "b", "c"]),
    "a title with a line below": ("Tea\n===\n\n- green\n", ["Tea", "green"]),
    "front matter": ("---\ntitle: Tea\ntags:\n  - drinks\n---\n- green\n", ["green"]),
    "front matter that ends with points": ("---\ntitle: Tea\n...\n- green\n", ["green"]),
    "front matter in another script": ("---\nимя: Чай\n---\n- зелёный\n", ["зелёный"]),
    "front matter with quoted names": ('---\n"title": Tea\nशीर्षक: चाय\n---\n- green\n', ["green"]),
    "front matter that is never closed": ("---\ntitle: Tea\n- green\n", ["title: Tea", "green"]),
    "TOML front matter": ('+++\ntitle = "Tea"\n[taxonomies]\n+++\n- green\n', ["green"]),
    "TOML front matter that begins with a table": ("+++\n[tea]\n+++\n- green\n", ["green"]),
    "plus signs that are no front matter": ("+++\n- green\n+++\n", ["+++", "green", "+++"]),
    "a rule at the beginning": ("---\n- green\n---\n- black\n", ["green", "black"]),
    "a rule at the beginning, and a line with a colon": (
        "---\n\nnote: this stays\n---\n",
        ["note: this stays"],
    ),
    "code": ("```yaml\nkey: value\n```\n~~~\nx\n~~~\n", ["key: value", "x"]),
    "a table": ("| plant | when |\n|:--|--:|\n| leek | March |\n", ["plant: leek, when: March"]),
    "a grid table": (
        "+------+-------+\n| plant | when |\n+======+=======+\n| leek | March |\n+------+-------+\n- a\n",
        ["plant: leek, when: March", "a"],
    ),
    "a grid table without a head": ("+---+---+\n| leek | March |\n+---+---+\n", ["leek, March"]),
    "marks that nothing follows": (
        "-\n*\n+\n1.\n2)\n>\n> -\n- [ ]\n- [x]\n#\n###\n\u200b\n- green\n",
        ["green"],
    ),
    "tasks, numbers and quotes": (
        "- [ ] buy tea\n1. green\n> - black\n",
        ["[ ] buy tea", "green", "> - black"],
    ),
    "tags without words": (
        "<details>\n<br>\n- green\n</details>\n<b>x</b>\n",
        ["green", "<b>x</b>"],
    ),
    "addresses in brackets": (
        "<https://a.example>\n<a@b.example>\n",
        ["<https://a.example>", "<a@b.example>"],
    ),
    "signs that say something": (
        "- **\n- a --- b\n- = x\n- --x\n",
        ["**", "a --- b", "= x", "--x"],
    ),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("text", "facts"), FILES.values(), ids=FILES)
def test_facts_are_the_lines_that_say_something(text: str, facts: list[str]) -> None:
    assert [line.text for line in content_lines(text.split("\n"))] == facts


TITLES = {
    "a line of equals signs": ("Tea\n===\n- green\n", ["Tea"]),
    "a line of hyphens above a list": (
        "Tea\n---\n\n- green\n\nCake\n----\n1. apple\n",
        ["Tea", "Cake"],
    ),
    "a rule between parts": ("likes tea\n---\nlikes cake\n", []),
    "a rule at the end": ("likes tea\n---\n", []),
    "a rule below a list": ("- likes tea\n---\n- likes cake\n===\n", []),
    "a rule below two lines": ("likes tea\nand milk\n---\n- likes cake\n", []),
    "a table": ("plant | when\n---|---\nleek | March\n", []),
}


@pytest.mark.parametrize(("text", "titles"), TITLES.values(), ids=TITLES)
def test_a_title_is_no_fact_however_it_is_marked(text: str, titles: list[str]) -> None:
    lines = list(content_lines(text.split("\n")))
    assert [line.text for line in lines if line.is_heading] == titles


@pytest.mark.parametrize(
    "line",
    [
        "---",
        "***",
        "___",
        " - - - ",
        "=====",
        "```",
        "```python",
        "~~~~",
        "|---|---|",
        "+---+---+",
        "+===+",
    ],
)
def test_a_line_that_only_gives_a_file_its_form_is_no_deleted_fact(line: str) -> None:
    assert is_form(line)
    assert not is_form(f"said {line} said")
