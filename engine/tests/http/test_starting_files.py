"""What a memory starts with is read when the server starts, which an unusable file stops."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent import build_agent

from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.deployment import Check, Deployment, Limits
from lasting_memory.http.app import build_http
from lasting_memory.memory.validation import MAX_FILE_BYTES
from lasting_memory.settings import SettingsError
from lasting_memory.testing.deployed import PROJECT
from tests.conftest import BuildGraph, chat_on
from tests.http.conftest import Open
from tests.http.fork import SECRET, forked, no_secret

NO_MODEL = chat_on("http://127.0.0.1:9")
BAD_FIRST_FILES: list[tuple[str, str | bytes]] = [
    ("notes.md", "Zoë".encode("latin-1")),
    ("notes.txt", b"\xff\xfe"),
    ("a.md", "x" * (MAX_FILE_BYTES + 1)),
    ("keys.md", "AKIA" + "ABCDEFGHIJKLMNOP"),
    ("nul.md", "a\x00b"),
    ("profile.json", '{"nickname": "Al"}'),
    ("profile.json", "no JSON"),
    ("back\\slash.md", "x"),
    ("ours.md", f"- {SECRET}"),
]


def forked_folder(folder: Path, *checks: Check) -> Deployment:
    """A deployment of a folder that may be changed."""
    own = Path(
        shutil.copytree(PROJECT, folder / "fork", ignore=shutil.ignore_patterns("__pycache__"))
    )
    return replace(forked(*checks), folder=own)


@pytest.mark.parametrize("build", [build_agent, build_consolidation_agent])
@pytest.mark.parametrize(
    ("name", "content"),
    BAD_FIRST_FILES,
    ids=[str(number) for number in range(len(BAD_FIRST_FILES))],
)
def test_an_unusable_starting_file_stops_the_building_of_a_graph(
    tmp_path: Path, build: Any, name: str, content: str | bytes
) -> None:
    fork = forked_folder(tmp_path, no_secret)
    file = fork.folder / "seeds" / "memories" / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        SettingsError, match=rf"^{re.escape(str(file))} (cannot be seeded\. |is not UTF-8).*$"
    ):
        build(fork, NO_MODEL)


@pytest.mark.parametrize("build", [build_agent, build_consolidation_agent, build_http])
@pytest.mark.parametrize(
    "broken", ["seeds/memories/notes.md", "seeds/memories/linked.md", "prompts/memory_block.md"]
)
def test_an_unreadable_file_of_a_fork_stops_the_start_of_graphs_and_routes(
    tmp_path: Path, build: Any, broken: str
) -> None:
    fork = forked_folder(tmp_path)
    file = fork.folder / broken
    if file.name == "linked.md":
        file.symlink_to(fork.folder / "langgraph.json")
    else:
        file.write_bytes("Zoë".encode("latin-1"))
    with pytest.raises(SettingsError, match=rf"^{re.escape(str(file))} is (not UTF-8|a link).*$"):
        build(fork) if build is build_http else build(fork, NO_MODEL)


def test_more_first_files_than_a_memory_may_hold_stop_the_start(tmp_path: Path) -> None:
    fork = replace(forked_folder(tmp_path), limits=Limits(max_files=2))
    for name in ("a.md", "b.md"):
        (fork.folder / "seeds/memories" / name).write_text("x")
    with pytest.raises(
        SettingsError, match=r"seeds/memories has 3 files with .* for one person, and 2 files"
    ):
        build_agent(fork, NO_MODEL)


async def test_no_run_and_no_request_reads_the_first_files_again(
    calling: Open, graph: BuildGraph, tmp_path: Path
) -> None:
    fork = forked_folder(tmp_path)
    (fork.folder / "seeds/memories/.DS_Store").write_bytes(b"\xff")
    (fork.folder / "seeds/memories/preferences.md").write_text("- likes leek")
    agent = graph(fork)
    for name in (
        "seeds/memories/preferences.md",
        "seeds/memories/late.md",
        "prompts/memory_block.md",
    ):
        (fork.folder / name).write_bytes(b"\xff")
    async with calling("bob", fork) as api:
        answer = await api.get("/memory/prompt")
    assert answer.status_code == 200
    assert "- likes leek" in answer.text
    assert "- likes leek" in await agent.shown()
