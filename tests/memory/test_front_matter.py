"""The front matter of a skill: what counts is read as deepagents reads it, and nothing that somebody writes there is dear."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
import yaml
from deepagents.middleware import skills as builtin

from memory import front_matter as module
from memory.front_matter import SkillError, front_matter, read_skill
from memory.identity import Author
from memory.validation import RefusedWriteError, before_write
from settings import MAX_FILE_BYTES, MAX_FRONT_MATTER_BYTES, PROJECT
from testing.hostile import HOSTILE_SKILLS, skill

PATH = "/skills/letters/SKILL.md"

VALID = {
    "the shortest": "---\nname: letters\ndescription: Write letters.\n---\n",
    "quoted": "---\nname: 'letters'\ndescription: \"Write: \\u00e9 letters & *notes*\"\n---\nBody\n---\nmore\n",
    "folded": "---\nname: letters\ndescription: >\n  Write letters\n  of all kinds.\n---\n",
    "other fields": "---\nname: letters\ndescription: d\nversion: 1\nhooks: [{on: start, run: {a: [b]}}]\n---\n",
    "Windows": "---\r\nname: letters\r\ndescription: Write letters.\r\nlicense: MIT\r\n---\r\nBody\r\n",
    "all fields": (
        "---\nname: letters\ndescription: d\nlicense: MIT\ncompatibility: any\nallowed-tools: read_file, ls\n"
        "metadata:\n  author: us\n  include_tools: a b\n---\n"
    ),
    "a list of tools": "---\nname: letters\ndescription: d\nallowed-tools: [read_file, ' ls ']\n---\n",
    "tools of another kind": "---\nname: letters\ndescription: d\nallowed-tools: {a: b}\nmetadata: none\n---\n",
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID)
def test_a_valid_skill_is_read_as_deepagents_reads_it(text: str) -> None:
    assert read_skill(PATH, front_matter(text.encode())) == builtin._parse_skill_metadata(text, PATH, "letters")


def test_numbers_and_days_are_the_text_that_was_written() -> None:
    text = skill("metadata: {version: 1.10, released: 2024-01-31, public: yes, nested: {a: b}}")
    metadata = read_skill(PATH, front_matter(text.encode()))["metadata"]
    assert metadata == {"version": "1.10", "released": "2024-01-31", "public": "yes"}


@pytest.fixture(params=["CBaseLoader", "BaseLoader"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers that there may be."""
    monkeypatch.setattr(module, "_LOADER", getattr(yaml, request.param))


@pytest.mark.parametrize(("text", "reason"), HOSTILE_SKILLS.values(), ids=HOSTILE_SKILLS)
@pytest.mark.usefixtures("loader")
def test_an_invalid_skill_is_refused_in_a_moment_with_what_is_wrong(text: str, reason: str) -> None:
    began = time.thread_time()
    with pytest.raises(RefusedWriteError, match=reason) as refusal:
        before_write(PATH, text, Author("person"))
    assert time.thread_time() - began < 1  # they took up to hours
    message = str(refusal.value)
    assert message.startswith(f"{PATH} was not written. ")
    assert "\n" not in message
    assert len(message) < 300


def test_a_day_that_is_none_is_no_reason() -> None:
    before_write(PATH, skill("released: 2024-13-45"), Author("person"))


@pytest.mark.parametrize("path", ["/skills/a/SKILL.md", "/memories/skills/a/SKILL.md"])
def test_a_skill_is_named_as_its_folder_is(path: str) -> None:
    with pytest.raises(RefusedWriteError, match="must be its folder's, 'a'"):
        before_write(path, skill(), Author("agent"))


@pytest.mark.parametrize("path", ["/skills/SKILL.md", "/skills/a/b/SKILL.md", "/skills/a/notes.md", "/memories/SKILL.md"])
def test_other_files_need_no_front_matter(path: str) -> None:
    before_write(path, "Just text.", Author("agent"))


def test_only_the_beginning_of_a_file_is_looked_at() -> None:
    body = "x" * (MAX_FILE_BYTES - 1_000)
    assert read_skill(PATH, front_matter(skill().encode() + body.encode()))["name"] == "letters"
    assert front_matter(skill().encode() + b"\xff" * 100_000)


def fits(size: int) -> str:
    start, end = "---\nname: letters\ndescription: d\nx: ", "\n---"
    return f"{start}{'y' * (size - len(start) - len(end))}{end}"


@pytest.mark.parametrize("after", ["", "\n", "\nbody", "\n" + "body\n" * 1_000])
def test_front_matter_of_exactly_the_limit_is_read(after: str) -> None:
    text = fits(MAX_FRONT_MATTER_BYTES) + after
    assert read_skill(PATH, front_matter(text.encode()))["name"] == "letters"
    with pytest.raises(SkillError, match="no end within"):
        front_matter((fits(MAX_FRONT_MATTER_BYTES + 1) + after + "\n").encode())


SHAPES: list[Callable[[int], str]] = [
    lambda n: "[" * n,
    lambda n: "{" * n,
    lambda n: "- " * (n // 2),
    lambda n: "? " * (n // 2),
    lambda n: "a: [" + "x," * (n // 2),
    lambda n: "a: [" + "{}," * (n // 3),
    lambda n: "\n".join(f"k{i}: v" for i in range(n // 8)),
    lambda n: "a: |\n" + " x\n" * (n // 3),
    lambda n: "a: '" + "''" * (n // 2),
    lambda n: 'a: "' + "\\x41" * (n // 4),
    lambda n: "# x\n" * (n // 4),
    lambda n: "a: &x " * (n // 6),
    lambda n: "!" * n,
    lambda n: "\n" * n,
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("loader")
def test_no_front_matter_of_the_greatest_size_takes_long(shape: Callable[[int], str]) -> None:
    text = shape(MAX_FRONT_MATTER_BYTES - 100)
    began = time.thread_time()
    with pytest.raises(SkillError):
        read_skill(PATH, text)
    assert time.thread_time() - began < 1


def test_the_project_s_own_skills_are_valid() -> None:
    for path in (PROJECT / "seeds/skills").glob("*/SKILL.md"):
        assert json.dumps(read_skill(f"/{path.parent.name}/SKILL.md", front_matter(path.read_bytes())))
