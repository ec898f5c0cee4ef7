"""Which lines of a file are facts, and which only give it its form."""

import pytest

from lasting_memory.memory.facts import is_form, lines_said

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
    "signs that say something": (
        "- **\n- a --- b\n- = x\n- --x\n",
        ["**", "a --- b", "= x", "--x"],
    ),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("text", "facts"), FILES.values(), ids=FILES)
def test_facts_are_the_lines_that_say_something(text: str, facts: list[str]) -> None:
    assert [line.text for line in lines_said(text.split("\n"))] == facts


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
def test_what_only_gives_a_file_its_form_is_none_that_was_deleted(line: str) -> None:
    assert is_form(line)
    assert not is_form(f"said {line} said")
