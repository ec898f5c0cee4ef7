"""`make backup` and `make restore`: everybody's data as files, and the memory in them put back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from memory.identity import label
from testing.commands import run_command
from testing.dev_server import DevServer, dev_token, run_turn

pytestmark = pytest.mark.server


def backup(server: DevServer, folder: Path, *options: str, who: str = "root") -> subprocess.CompletedProcess[str]:
    return run_command("dev.backup", "--url", server.url, "--folder", str(folder), *options, stdin=dev_token("acme", who))


async def test_what_a_backup_holds_comes_back_to_whom_it_was_of(server: DevServer, alice: str, tmp_path: Path) -> None:
    client, bob = server.as_user(alice), server.as_user(f"bob-{alice}", org="globex")
    for number in range(3):
        path = {"path": f"/memories/{number}.md"}
        await client.http.put("/memory/file", params=path, json={"content": f"- {number} of {alice}\n"})
    thread = str((await bob.threads.create())["thread_id"])
    await run_turn(bob, thread, "I have said something, and nothing is remembered")

    assert backup(server, tmp_path).stderr == ""
    mine = json.loads((tmp_path / label("acme") / f"{label(alice)}.json").read_text("utf-8"))
    theirs = json.loads((tmp_path / label("globex") / f"{label(f'bob-{alice}')}.json").read_text("utf-8"))
    assert len(mine["files"]) == 3
    assert [conversation["thread_id"] for conversation in theirs["conversations"]] == [thread]

    await client.http.delete("/memory")
    only_mine = tmp_path / "only" / "acme"
    only_mine.mkdir(parents=True)
    (only_mine / "alice.json").write_text(json.dumps(mine), "utf-8")
    assert backup(server, only_mine.parent, "--restore").stdout == "The memory of 1 people is restored.\n"
    restored = await client.http.get("/memory/file", params={"path": "/memories/2.md"})
    assert restored["content"] == f"- 2 of {alice}\n"


def test_only_an_operator_gets_a_backup(server: DevServer, alice: str, tmp_path: Path) -> None:
    done = backup(server, tmp_path, who=alice)
    assert done.returncode == 1
    assert "answered 403; is the token an operator's?" in done.stderr
    assert list(tmp_path.iterdir()) == []
