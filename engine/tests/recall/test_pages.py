"""What benchmarks.recall reads and prints, and the blocks of docs/semantic-search.md, which the
platform loads.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.recall_sets import SETS
from lasting_memory import platform


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


@pytest.mark.proof
def test_conversations_are_read_with_their_questions_and_the_figures_are_json(
    tmp_path: Path,
) -> None:
    data = tmp_path / "locomo10.json"
    data.write_text(json.dumps([{"sample_id": "x", "conversation": SAID, "qa": QA}] * 2))
    (person,) = SETS["locomo"](data, range(2, 3))
    assert [(question.id, len(question.evidence)) for question in person.questions] == [
        ("2-0", 1),
        ("2-2", 2),
    ]
    assert person.turns[person.questions[0].evidence[0]][1] == "My zebra is called Zoe"
    command = [
        sys.executable,
        "-m",
        "benchmarks.recall",
        "--set",
        "locomo",
        "--data",
        str(data),
        "--only",
        "1",
    ]
    output = subprocess.run(
        command, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True
    ).stdout
    figures = json.loads(output.splitlines()[-1])
    assert (figures["set"], figures["questions"]) == ("locomo", 2)
    assert figures["turn@answer"] > 0
    assert (figures["with"], len(figures["gain"]), figures["bm25"] > 0) == (["words"], 3, True)


PAGE = (Path(__file__).parents[2] / "docs" / "semantic-search.md").read_text("utf-8")
INDEXES = [
    json.loads(block)["store"]["index"]
    for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
]
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CLASSES = [
    "OpenAIEmbeddings",
    "OllamaEmbeddings",
    "GoogleGenerativeAIEmbeddings",
    "EmbeddingsLambda",
]
# In place of a package that the project does not have.
SENTENCE_TRANSFORMERS = """
import numpy as np

class SentenceTransformer:
    def __init__(self, name):
        assert name == "all-MiniLM-L6-v2"

    def encode(self, texts, *, normalize_embeddings):
        assert normalize_embeddings
        return np.ones((len(texts), 384), "f4")
"""
LOAD = """
import json, sys
from types import SimpleNamespace
from langgraph_api.graph import resolve_embeddings
from lasting_memory import platform

for index in json.load(sys.stdin):
    loaded = resolve_embeddings(index)
    name = platform.embedding_model(SimpleNamespace(index_config={**index, "embed": loaded}))
    dims = len(loaded.embed_query("x")) if "local" in index["embed"] else getattr(loaded, "output_dimensionality", None)
    print(json.dumps([type(loaded).__name__, name, dims]))
"""


@pytest.mark.proof
def test_each_block_loads_the_model_it_names_in_the_dimensions_it_names(tmp_path: Path) -> None:
    written = {
        "google_embedding": CODE[0],
        "local_embedding": CODE[1],
        "sentence_transformers": SENTENCE_TRANSFORMERS,
    }
    for name, text in written.items():
        (tmp_path / f"{name}.py").write_text(text)
    keys = {"OPENAI_API_KEY": "test", "GOOGLE_API_KEY": "test", "PYTHONPATH": str(tmp_path)}
    server = {"DATABASE_URI": ":memory:", "REDIS_URI": "fake", "LANGGRAPH_RUNTIME_EDITION": "inmem"}
    env = {**os.environ, **keys, **server}
    given: dict[str, Any] = {
        "input": json.dumps(INDEXES),
        "cwd": tmp_path,
        "env": env,
        "text": True,
    }
    done = subprocess.run([sys.executable, "-c", LOAD], **given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [kind for kind, _, _ in loaded] == CLASSES
    for index, (_, name, dims) in zip(INDEXES, loaded, strict=True):
        assert dims in {None, index["dims"]}
        assert index["fields"] == ["content"], "memory files, too"
        configured = platform.embedding_model(SimpleNamespace(index_config=index))  # type: ignore[arg-type]
        own = (
            "google" in index["embed"]
        )  # an object has the name of its model, a configuration that of the object
        assert name == ("gemini-embedding-001, 1536 dimensions" if own else configured)
