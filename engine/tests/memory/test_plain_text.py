"""Text as files have it: line ends, byte order marks and normal forms, by every way into a file and
out of one.
"""

import unicodedata
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore

from lasting_memory.agent.additions import lacking
from lasting_memory.plain_text import compared, plain, spelled_as_in
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.conftest import Scripted

MEMORIES = ("memories", "acme:alice")
FILE = "/memories/topics/tea.md"
SAID = "# Tee\n\n- mag Grüntee\n- no sugar\n"
# The same file as editors on other systems save it.
SPELLED = {
    "CRLF": SAID.replace("\n", "\r\n"),
    "CR": SAID.replace("\n", "\r"),
    "mixed": "# Tee\r\n\r- mag Grüntee\n- no sugar\r",
    "byte order mark": "\ufeff" + SAID,
    "both": "\ufeff" + SAID.replace("\n", "\r\n"),
    "joined files": SAID.replace("- no", "\ufeff\ufeff- no"),
    "within a line and a word": SAID.replace("mag Grün", "mag\ufeff Grün\ufeff"),
}


def edit(path: str, old: str, new: str) -> ToolCall:
    return ToolCall("edit_file", {"file_path": path, "old_string": old, "new_string": new})


def read(path: str) -> ToolCall:
    return ToolCall("read_file", {"file_path": path})


def append(text: str, path: str = FILE) -> ToolCall:
    return ToolCall("append_memory", {"path": path, "text": text})


def content(store: BaseStore, key: str = "/topics/tea.md") -> str:
    item = store.get(MEMORIES, key)
    assert item is not None
    return str(item.value["content"])


@pytest.mark.parametrize("text", SPELLED.values(), ids=SPELLED)
@pytest.mark.parametrize("path", [FILE, "/scratch/tea.md"])
async def test_a_text_that_was_read_can_be_edited_whatever_ends_its_lines(
    agent: Scripted, text: str, path: str
) -> None:
    state = {}
    if path == FILE:
        agent.put(MEMORIES, "/topics/tea.md", text)
    else:
        state = {"files": {path: {**create_file_data(text)}}}
    shown, done, after = await agent.called(
        read(path), edit(path, "- mag Grüntee\n- no", "- mag Oolong\n- some"), read(path), **state
    )
    assert "Grüntee" in shown
    assert "Error" not in done
    assert "- some sugar" in after
    assert "\r" not in shown + after
    if path == FILE:
        assert content(agent.store) == SAID.replace("Grüntee", "Oolong").replace(
            "no sugar", "some sugar"
        )


@pytest.mark.parametrize("end", ["\r\n", "\r"])
async def test_lines_that_a_model_writes_end_as_all_others_do(agent: Scripted, end: str) -> None:
    text = SAID.replace("\n", end)
    await agent.called(ToolCall("write_file", {"file_path": FILE, "content": text}))
    assert content(agent.store) == SAID
    await agent.called(
        edit(FILE, f"- no sugar{end}", f"- no sugar{end}- no milk{end}"),
        append(f"- hot{end}- strong{end}"),
    )
    assert content(agent.store) == f"{SAID}- no milk\n- hot\n- strong\n"


async def test_a_text_in_another_normal_form_is_found_and_kept_as_it_is(agent: Scripted) -> None:
    decomposed = unicodedata.normalize("NFD", SAID)
    agent.put(MEMORIES, "/topics/tea.md", decomposed)
    (done,) = await agent.called(edit(FILE, "- mag Grüntee", "- mag Grüntee, kalt"))
    assert "Error" not in done
    assert content(agent.store) == decomposed.replace("\n- no", ", kalt\n- no").replace(
        "Gru\u0308ntee", "Grüntee"
    )
    (again,) = await agent.called(append("- mag Grüntee, kalt"))
    assert "Nothing was added" in again


async def test_a_line_that_stands_there_word_for_word_is_not_added_again(agent: Scripted) -> None:
    """As a model does that was told that a write, which was done, did not happen."""
    first, again, partly = await agent.called(
        append("- mag Grüntee\n- no sugar"),
        append("- no sugar"),
        append("- no sugar\n- in the morning"),
    )
    assert "Added to" in first
    assert "Nothing was added" in again
    assert "Added to" in partly
    assert content(agent.store) == "- mag Grüntee\n- no sugar\n- in the morning\n"
    before = content(agent.store)
    await agent.called(
        *[
            append(text)
            for text in ("- mag Grüntee\n- no sugar\n- in the morning", "- no sugar  \r\n")
        ]
    )
    assert content(agent.store) == before


@pytest.mark.parametrize(("before", "text", "added"), [
    ("", "- a", "- a\n"),
    ("- a\n", "- a\n- b\n", "- b\n"),
    ("# T\n- a\n", "# T\n- b", "# T\n- b\n"),
    ("# T\n- a\n", "# T\n- a", ""),
    ("- a b\n", "- a", "- a\n"),
    ("```\nx\n```\n", "```\ny\n```", "```\ny\n```\n"),
    ("| a |\n|---|\n| 1 |\n", "| a |\n|---|\n| 2 |", "| a |\n|---|\n| 2 |\n"),
    ("one\n\ntwo\n", "one\n\nthree", "three\n"),
    ("- a\n", "\n\n", ""),
    ("## Lunch\n- pizza\n", "## Dinner\n- pizza", "## Dinner\n- pizza\n"),
    ("- Anna\n  - likes tea\n", "- Ben\n  - likes tea", "- Ben\n  - likes tea\n"),
    ("- Anna\n  - likes tea\n- Ben\n", "- Anna\n  - likes tea", ""),
])  # fmt: skip
def test_an_addition_leaves_out_lines_that_are_there_already(
    before: str, text: str, added: str
) -> None:
    assert lacking(before, text) == added


MIXED = {
    "two forms in a line": ("- café nai\u0308ve\n", "- café naïve", "- café nai\u0308ve"),
    "a sign of its own": ("- 5 \u212b\n", "5 Å", "5 \u212b"),
    "Devanagari": ("- \u0958\u0932\u092e\n", "\u0915\u093c\u0932\u092e", "\u0958\u0932\u092e"),
    "Hangul": ("- \u1112\u1161\u11ab\n", "한", "\u1112\u1161\u11ab"),
    "Arabic": ("- \u0627\u0653\u0628\n", "آب", "\u0627\u0653\u0628"),
    "a zero-width space": ("- green\u200btea\n", "- greentea", "- green\u200btea"),
    "a soft hyphen": ("- Grün\u00adtee\n", "Grüntee", "Grün\u00adtee"),
    "marks of direction": ("- \u200fשמש\u200e!\n", "שמש!", "\u200fשמש\u200e!"),
    "a form of a sign": ("- \u2764\ufe0f tea\n", "\u2764 tea", "\u2764\ufe0f tea"),
    "nothing that is seen": ("- tea\u200b\n", "\u2060", "\u2060"),
    "another word in Persian": ("- می\u200cشد\n", "میشد", "میشد"),
    "within a letter": ("- e\u0301\n", "e", "e"),
    "not there": ("- café\n", "- thé", "- thé"),
    "nothing": ("- é\n", "", ""),
}


@pytest.mark.parametrize(("text", "part", "spelled"), MIXED.values(), ids=MIXED)
def test_a_part_is_spelled_as_the_text_spells_it(text: str, part: str, spelled: str) -> None:
    assert spelled_as_in(text, part) == spelled


# What a text may have that nobody sees, and what Persian, Hindi and emoji are spelled with.
UNSEEN = ["\u200b", "\u2060", "\u00ad", "\u200e", "\u200f", "\ufeff"]
JOINED = {
    "Persian": "- می\u200cشد",
    "Hindi": "- क्\u200dष",
    "Malayalam": "- ന്\u200d",
    "emoji": "- \U0001f468\u200d\U0001f469",
}


@pytest.mark.parametrize("mark", UNSEEN)
async def test_a_line_with_what_nobody_sees_is_the_same_line(agent: Scripted, mark: str) -> None:
    agent.put(MEMORIES, "/topics/tea.md", f"- likes{mark} tea\n")
    again, nothing, done = await agent.called(
        append("- likes tea"), append(f"{mark}\n"), edit(FILE, "- likes tea", "- likes coffee")
    )
    assert "Nothing was added" in again
    assert "Added" not in nothing
    assert "Error" not in done
    assert content(agent.store) == "- likes coffee\n"


@pytest.mark.parametrize("line", JOINED.values(), ids=JOINED)
async def test_joiners_are_letters_and_stay(agent: Scripted, line: str) -> None:
    bare = line.replace("\u200c", "").replace("\u200d", "")
    _, other = await agent.called(append(line), append(bare))
    assert "Added" in other
    assert content(agent.store) == f"{line}\n{bare}\n"


KEY = "AKIA" + "IOSFODNN7" + "QQQQQQQ"


@pytest.mark.parametrize("tool", ["write_file", "append_memory", "edit_file"])
async def test_the_gate_sees_what_is_kept(agent: Scripted, tool: str) -> None:
    """A byte order mark within a credential goes, and the credential would be left."""
    hidden = f"{KEY[:6]}\ufeff{KEY[6:]}"
    agent.put(MEMORIES, "/topics/tea.md", "- tea\n")
    args = {
        "write_file": {"file_path": "/memories/topics/new.md", "content": hidden},
        "append_memory": {"path": FILE, "text": hidden},
        "edit_file": {"file_path": FILE, "old_string": "tea", "new_string": hidden},
    }
    (refused,) = await agent.called(ToolCall(tool, args[tool]))
    assert "Error" in refused
    assert content(agent.store) == "- tea\n"
    assert agent.store.get(MEMORIES, "/topics/new.md") is None


async def test_a_skill_with_marks_within_it_is_one(agent: Scripted) -> None:
    text = "\ufeff---\n\ufeffname: letters\ndescription: Write\ufeff letters.\n\ufeff---\nWell.\n"
    path = "/memories/skills/letters/SKILL.md"
    (done,) = await agent.called(ToolCall("write_file", {"file_path": path, "content": text}))
    assert "Error" not in done
    assert content(agent.store, "/skills/letters/SKILL.md") == text.replace("\ufeff", "")
    assert "**letters**: Write letters." in await agent.shown()


@given(st.text(st.sampled_from("a\r\n\ufeff é\u0301")))
def test_plain_text_is_plain_and_stays_so(text: str) -> None:
    assert plain(plain(text)) == plain(text)
    assert "\r" not in plain(text)
    assert "\ufeff" not in plain(text)
    assert plain(text).replace("\n", "") == "".join(
        char for char in text if char not in "\ufeff\r\n"
    )


@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(["NFC", "NFD"]))
def test_a_part_is_found_in_either_normal_form(before: str, part: str, form: Any) -> None:
    text = unicodedata.normalize(form, before) + " " + unicodedata.normalize(form, part)
    assert spelled_as_in(text, part) in text or unicodedata.normalize(form, part) not in text
    assert compared(unicodedata.normalize("NFD", part)) == compared(
        unicodedata.normalize("NFC", part)
    )
