"""The public formats that `benchmarks.recall` reads, by small made-up files of each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall import interval
from benchmarks.recall_sets import SETS
from testing.dev_server import PROJECT

DATES = {
    "locomo": ("1:56 pm on 8 May, 2023", "9:00 am on 9 May, 2023"),
    "realtalk": ("29.12.2023, 22:42:04", "01.01.2024, 10:00:00"),
}


def _sessions(kind: str, text: str) -> dict[str, Any]:
    def turn(number: str, speaker: str, words: str) -> dict[str, Any]:
        return {"dia_id": number, "speaker": speaker, text: words}

    return {
        "session_1": [turn("D1:1", "Ann", "My zebra is called Zoe"), turn("D1:2", "Bo", "Nice")],
        "session_1_date_time": DATES[kind][0],
        "session_2": [turn("D2:1", "Bo", "I bought a piano") | {"blip_caption": "a black piano"}],
        "session_2_date_time": DATES[kind][1],
        "events_session_2": {},
    }


QA = [
    {"question": "What is the zebra called?", "evidence": ["D1:1", "D9:9"], "category": 1},
    {"question": "nothing", "evidence": [""], "category": 1},
    {"question": "Which colour has the piano?", "evidence": ["D:2:1; D1;2"], "category": 2},
]


def made(kind: str, folder: Path) -> Path:
    """A small file, or folder, in this format, with things in it that are not to be read."""
    if kind == "locomo":
        said = {"speaker_a": "Ann", "speaker_b": "Bo", **_sessions(kind, "text")}
        (folder / "locomo10.json").write_text(json.dumps([{"sample_id": "x", "conversation": said, "qa": QA}] * 2))
        return folder / "locomo10.json"
    if kind == "realtalk":
        chat = {"name": {"speaker_1": "Ann", "speaker_2": "Bo"}, **_sessions(kind, "clean_text"), "qa": QA}
        for number in (1, 2, 10):
            (folder / f"Chat_{number}_Ann_Bo.json").write_text(json.dumps(chat))
        (folder / "locomo").mkdir()
        (folder / "locomo" / "Chat_3_No_No.json").write_text("no JSON")
        return folder
    turns = [
        [{"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "My zebra is called Zoe ->-> 1,1"},
         {"role": "assistant", "id": 1, "content": "Nice"}],
        [{"role": "user", "id": 2, "content": "I bought a black piano ->-> 1,2"}],
    ]  # fmt: skip
    asked = {
        "abstention": [{"question": "left out"}],
        "information_extraction": [{"question": "What is the zebra called?", "source_chat_ids": [0]}],
        "knowledge_update": [{"question": "Which colour?", "source_chat_ids": {"first": [2], "last": "chat_id: 1"}}],
    }
    for number in (1, 2):
        chat_folder = folder / str(number)
        (chat_folder / "probing_questions").mkdir(parents=True)
        (chat_folder / "chat.json").write_text(json.dumps([{"batch_number": 1, "turns": turns}]))
        (chat_folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(asked))
    (folder / "topics.json").write_text("[]")
    return folder


@pytest.mark.parametrize(("kind", "ids"), [("locomo", ["2-0", "2-2"]), ("realtalk", ["2-0", "2-2"]), ("beam", ["2-1", "2-2"])])
def test_each_public_format_is_read_with_its_questions_and_evidence(kind: str, ids: list[str], tmp_path: Path) -> None:
    path = made(kind, tmp_path)
    assert len(list(SETS[kind](path, None))) == (3 if kind == "realtalk" else 2)
    (person,) = SETS[kind](path, range(2, 3))
    assert [question.id for question in person.questions] == ids
    assert [len(question.evidence) for question in person.questions] == [1, 2]
    assert len(person.threads.kept) == 2
    thread, text = person.turns[person.questions[0].evidence[0]]
    assert text == "My zebra is called Zoe"
    assert person.threads.kept[thread]["values"]["messages"][0]["type"] == "human"
    assert len({str(thread["updated_at"]) for thread in person.threads.kept.values()}) == 2


def test_the_benchmark_ends_with_its_figures_as_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.recall", "--set", "beam", "--data", str(made("beam", tmp_path)), "--only", "1"]
    output = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    names = ["set", "session_all@5", "session_all@answer", "turn@answer", "turn@5", "mrr", "chars_p95", "questions"]
    figures = json.loads(output.splitlines()[-1])
    assert list(figures) == names
    assert (figures["session_all@5"], figures["turn@answer"], figures["questions"]) == (50.0, 50.0, 2)


def test_an_interval_holds_the_mean_of_the_differences() -> None:
    mean, low, high = interval([1.0, 0.0, 0.0, 0.0] * 50)
    assert low < mean == 25 < high
