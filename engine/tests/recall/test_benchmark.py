"""What `benchmarks.recall` reads and prints, by a small made-up file in the public format of LoCoMo."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.recall_sets import SETS


def turn(number: str, speaker: str, words: str) -> dict[str, Any]:
    return {"dia_id": number, "speaker": speaker, "text": words}


SAID = {
    "speaker_a": "Ann",
    "speaker_b": "Bo",
    "session_1": [turn("D1:1", "Ann", "My zebra is called Zoe"), turn("D1:2", "Bo", "Nice")],
    "session_1_date_time": "1:56 pm on 8 May, 2023",
    "session_2": [turn("D2:1", "Bo", "I bought a piano") | {"blip_caption": "a black piano"}],
    "session_2_date_time": "9:00 am on 9 May, 2023",
}
QA = [
    {"question": "What is the zebra called?", "evidence": ["D1:1", "D9:9"], "category": 1},
    {"question": "nothing", "evidence": [""], "category": 1},
    {"question": "Which colour has the piano?", "evidence": ["D:2:1; D1;2"], "category": 2},
]


def test_conversations_are_read_with_their_questions_and_the_figures_are_json(tmp_path: Path) -> None:
    data = tmp_path / "locomo10.json"
    data.write_text(json.dumps([{"sample_id": "x", "conversation": SAID, "qa": QA}] * 2))
    (person,) = SETS["locomo"](data, range(2, 3))
    assert [(question.id, len(question.evidence)) for question in person.questions] == [("2-0", 1), ("2-2", 2)]
    assert person.turns[person.questions[0].evidence[0]][1] == "My zebra is called Zoe"
    command = [sys.executable, "-m", "benchmarks.recall", "--set", "locomo", "--data", str(data), "--only", "1"]
    output = subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True).stdout
    figures = json.loads(output.splitlines()[-1])
    assert (figures["set"], figures["questions"]) == ("locomo", 2)
    assert figures["turn@answer"] > 0
    assert (figures["with"], len(figures["gain"]), figures["bm25"] > 0) == (["words"], 3, True)
