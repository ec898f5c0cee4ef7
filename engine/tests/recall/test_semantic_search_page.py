"""The blocks of docs/semantic-search.md are what the platform loads, whichever model embeds."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lasting_memory import platform

PAGE = (Path(__file__).parents[2] / "docs" / "semantic-search.md").read_text("utf-8")
INDEXES = [json.loads(block)["store"]["index"] for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CLASSES = ["OpenAIEmbeddings", "OllamaEmbeddings", "GoogleGenerativeAIEmbeddings", "EmbeddingsLambda"]
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
    written = {"google_embedding": CODE[0], "local_embedding": CODE[1], "sentence_transformers": SENTENCE_TRANSFORMERS}
    for name, text in written.items():
        (tmp_path / f"{name}.py").write_text(text)
    keys = {"OPENAI_API_KEY": "test", "GOOGLE_API_KEY": "test", "PYTHONPATH": str(tmp_path)}
    server = {"DATABASE_URI": ":memory:", "REDIS_URI": "fake", "LANGGRAPH_RUNTIME_EDITION": "inmem"}
    env = {**os.environ, **keys, **server}
    given: dict[str, Any] = {"input": json.dumps(INDEXES), "cwd": tmp_path, "env": env, "text": True}
    done = subprocess.run([sys.executable, "-c", LOAD], **given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [kind for kind, _, _ in loaded] == CLASSES
    for index, (_, name, dims) in zip(INDEXES, loaded, strict=True):
        assert dims in {None, index["dims"]}
        configured = platform.embedding_model(SimpleNamespace(index_config=index))  # type: ignore[arg-type]
        own = "google" in index["embed"]  # an object has the name of its model, a configuration that of the object
        assert name == ("gemini-embedding-001, 1536 dimensions" if own else configured)


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: index["embed"])
def test_each_block_embeds_memory_files_too(index: dict[str, Any]) -> None:
    assert index["fields"] == ["content"]
