"""`make upgrade`: one set of versions, in every file that pins some."""

import json
import sys
from pathlib import Path

import pytest

from lasting_memory.dev import pins

PROJECT = """[project]
dependencies = ["lasting-memory==0.2.0", "deepagents==0.7.32", "pyjwt[crypto]==2.15.1", "mine>=1", "gone==3"]
[project.optional-dependencies]
google_genai = ["Langchain_Google.GenAI==4.4.2"]
"""
SERVER = '{"api_version": "0.16.7", "python_version": "3.12"}'
RESOLVED = "deepagents==0.8.0\nlanggraph-api==0.17.1\nlangchain-google-genai==4.5.0\nmine==2.1\npyjwt==2.16.0\n"


def test_the_engine_s_wheel_alone_stays_pinned_while_newer_ones_are_looked_for() -> None:
    text = pins.loosened(PROJECT)
    for asked in ('"lasting-memory==0.2.0"', '"deepagents"', '"pyjwt[crypto]"', '"mine>=1"', '"Langchain_Google.GenAI"'):
        assert asked in text


def test_what_was_found_is_pinned_in_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "langgraph.json").write_text(SERVER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pins, "resolve", lambda *_: RESOLVED)
    monkeypatch.setattr("shutil.which", lambda _: "uv")
    pins.main()
    text = (tmp_path / "pyproject.toml").read_text()
    expected = PROJECT.replace("0.7.32", "0.8.0").replace("2.15.1", "2.16.0").replace("4.4.2", "4.5.0")
    assert text == expected
    assert json.loads((tmp_path / "langgraph.json").read_text())["api_version"] == "0.17.1"
    assert (tmp_path / "constraints.txt").read_text() == RESOLVED


def test_what_does_not_fit_together_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: sys.executable)  # which fails, as uv would
    with pytest.raises(SystemExit) as ended:
        pins.main()
    assert ended.value.code not in (0, None)
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]
