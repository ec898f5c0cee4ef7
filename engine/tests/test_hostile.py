"""Texts, threads and patterns made to be slow or to fail: what one person wrote stops neither the
server nor later runs.
"""

import json
import random
import time
from collections.abc import Callable
from datetime import date
from importlib import import_module
from typing import Any

import pytest
from pydantic import ValidationError

from lasting_memory.agent.additions import lacking
from lasting_memory.agent.file_sections import sections
from lasting_memory.agent.shown_text import prompt_text
from lasting_memory.agent.tool_calls import check_call
from lasting_memory.http.import_document import Document
from lasting_memory.memory.journal import texts
from lasting_memory.memory.validation import MAX_FILE_BYTES, MAX_INPUT_BYTES
from lasting_memory.plain_text import spelled_as_in
from lasting_memory.recall import answers, lexical
from lasting_memory.recall.documents import documents
from lasting_memory.recall.retrieval import Match, Results
from lasting_memory.recall.threads import Conversation, conversation
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.conftest import Scripted
from tests.memory.test_validation import refusal

# Seconds that nothing of one person's may take. On an idle machine these take hundredths; before
# they were bounded, several of them took from 2 seconds to hours.
ENDURED = 1.5
ACCENTS = "\u0301\u0316"  # to be put into the other order, each past all before it
PROFILE = "/memories/profile.json"


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def thread(*messages: Any) -> dict[str, Any]:
    return {
        "thread_id": "t",
        "updated_at": "2026-01-01T00:00:00+00:00",
        "values": {"messages": list(messages)},
    }


def said(text: str, times: int = 1) -> Conversation:
    return conversation(
        thread(*({"type": "human", "content": text, "id": str(n)} for n in range(times)))
    )


def quoted(query: str, talk: Conversation) -> str:
    match = Match(talk, tuple((n, 1.0) for n in range(len(talk.turns))))
    return answers.results_text(query, Results([match], searched=1, outstanding=0))


def a_run_of(word: str, size: int = 1_000_000) -> str:
    return (word * (size // len(word) + 1))[:size]


facts = import_module("lasting_memory.consolidation.facts")  # behind the door
SHUFFLED = [str(number) for number in range(MAX_FILE_BYTES // 7)]
random.Random(7).shuffle(SHUFFLED)
LINES = "\n".join(str(number) for number in range(MAX_FILE_BYTES // 7))
EMPTY_LINES = "\n" * MAX_FILE_BYTES

SLOW: dict[str, Callable[[], Any]] = {
    "accents in a memory file": lambda: lexical.rank("x", ["x" + ACCENTS * (MAX_FILE_BYTES // 4)]),
    "accents in a block": lambda: prompt_text("<x" + ACCENTS * (MAX_FILE_BYTES // 4) + "<memory>"),
    "accents in a conversation": lambda: documents(said("x" + ACCENTS * (MAX_INPUT_BYTES // 4))),
    "halfwidth accents": lambda: lexical.rank(
        "x", ["\uff76" + "\uff9e\u0334" * (MAX_FILE_BYTES // 5)]
    ),
    "a long quoted turn": lambda: quoted(
        " ".join("a" * n for n in range(3, 60)), said(a_run_of("a"))
    ),
    "all words of a query in a turn": lambda: quoted(
        " ".join(f"{n:03}" for n in range(500)),
        said(a_run_of("".join(f"{n:03}" for n in range(500)), 200_000), 5),
    ),
    "a page of a long turn": lambda: answers.page_text(said(a_run_of("x ")), None),
    "times in a question": lambda: lexical.times("on 3 may 2023 in " * 90, date(2026, 1, 1)),
    "a diff of shuffled lines": lambda: texts.diff(LINES, "\n".join(SHUFFLED)),
    "empty lines to undo": lambda: texts.without_change(
        "/a.md", EMPTY_LINES + "y", "x" + EMPTY_LINES, "x\n" + EMPTY_LINES
    ),
    "files beyond a prompt's room": lambda: sections(
        [("/a.md", a_run_of("<! ", MAX_FILE_BYTES))] * 100, 1_000
    ),
    "an addition to a file of accents": lambda: lacking(
        "x" + ACCENTS * (MAX_FILE_BYTES // 4), "- y"
    ),
    "an addition of accents": lambda: lacking("- y", "x" + ACCENTS * (MAX_FILE_BYTES // 4)),
    "an addition of many lines": lambda: lacking(
        EMPTY_LINES + "y", "\n".join(f"{n}" for n in range(60_000))
    ),
    "an edit of a file of accents": lambda: spelled_as_in(
        "x" + ACCENTS * (MAX_FILE_BYTES // 4), "é"
    ),
    "an edit of a long file of letters with marks": lambda: spelled_as_in(
        "e\u0301" * (MAX_FILE_BYTES // 3), "é" * 1_000 + "x"
    ),
    "a profile of many fields": lambda: refusal(
        PROFILE, json.dumps({f"{n}": 1 for n in range(20_000)})
    ),
    "a profile of brackets": lambda: refusal(PROFILE, "[" * MAX_FILE_BYTES),
    "a profile of a long number": lambda: refusal(PROFILE, '{"name": ' + "9" * 200_000 + "}"),
    "a fact with accents": lambda: facts.facts_of(
        [("/memories/a.md", "x" + ACCENTS * (MAX_FILE_BYTES // 4))]
    ),
}


@pytest.mark.parametrize("work", SLOW.values(), ids=SLOW)
def test_work_on_hostile_texts_ends_in_time(work: Callable[[], Any]) -> None:
    began = time.thread_time()
    work()
    assert time.thread_time() - began < ENDURED


def test_an_invalid_profile_is_refused_in_brief() -> None:
    assert len(refusal(PROFILE, json.dumps({f"{n}" * 50: 1 for n in range(90)}))) < 1_000


ODD_MESSAGES: dict[str, Any] = {
    "calls that are a number": {"type": "ai", "content": "kept", "tool_calls": 5},
    "calls of anything": {
        "type": "ai",
        "content": "kept",
        "tool_calls": [None, 1, {"name": {}, "args": nested(5_000)}],
    },
    "content of anything": {
        "type": "human",
        "content": ["kept", None, 5, {"text": 5}, {"text": nested(5_000)}, nested(5_000)],
    },
    "a nested name and id": {
        "type": "human",
        "content": "kept",
        "name": nested(5_000),
        "id": nested(5_000),
    },
    "half a character": {"type": "human", "content": "kept \ud800 \x00"},
    "no message": [
        None,
        5,
        nested(5_000),
        {"type": nested(5_000)},
        {"type": "human", "content": "kept"},
    ],
}


@pytest.mark.parametrize("messages", ODD_MESSAGES.values(), ids=ODD_MESSAGES)
def test_the_rest_of_a_thread_is_found_whatever_a_client_put_into_it(messages: Any) -> None:
    talk = conversation(thread(*(messages if isinstance(messages, list) else [messages])))
    assert any(turn.text.startswith("kept") for turn in talk.turns)
    assert sum(len(document.words) for document in documents(talk))
    assert "kept" in quoted("kept", talk)


def test_a_thread_whose_messages_are_none_is_empty() -> None:
    for messages in (5, {"a": 1}, None, nested(5_000)):
        assert conversation({"thread_id": "t", "values": {"messages": messages}}).turns == ()


def test_a_deeply_nested_value_is_refused_without_being_written_out() -> None:
    with pytest.raises(ValidationError) as refused:
        Document.model_validate(
            {
                "version": 1,
                "files": [{"path": "/memories/a.md", "content": "", "encoding": nested(5_000)}],
            }
        )
    assert "encoding" in str(refused.value.errors(include_input=False)[0]["loc"])


PATTERNS = [
    "**/a/" * 5 + "[bc]",
    "{1..1000}",
    "?" * 10_000,
    "{" + "," * 100 + "}",
    "**/{a,{b,{c,d}}}",
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
async def test_a_pattern_that_takes_for_ever_is_refused(agent: Scripted, pattern: str) -> None:
    await agent.called(
        ToolCall("write_file", {"file_path": "/" + "a/" * 120 + "a", "content": "x"})
    )
    looks = [
        ("glob", {"pattern": pattern}),
        ("glob", {"pattern": pattern, "path": "/memories"}),
        ("grep", {"pattern": "x", "glob": pattern}),
    ]
    began = time.process_time()
    results = await agent.called(*(ToolCall(name, args) for name, args in looks))
    assert time.process_time() - began < 5
    assert ["the pattern" in result for result in results] == [True] * 3


def test_ordinary_patterns_are_tried() -> None:
    for pattern in (
        "*",
        "**/*.md",
        "topics/**",
        "*.{md,txt}",
        "**/{a,b}/*.md",
        "/topics/[a-c]*.md",
        "**/skills/**",
    ):
        check_call("glob", {"pattern": pattern})
        check_call("grep", {"pattern": "**" * 9, "glob": pattern})
