"""`make backup` and `make restore`: everybody's data as files, and the memory in them put back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx
import pytest
from langgraph_sdk import get_client

from dev.backup import back_up
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


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"[]",
        b'{"a": 1}',
        b"\xff\xfe",
        b'{"version": 1, "user_id": "a", "org_id": "b", "files": [3]}',
        b'{"user_id": "\\ud800"}',
    ],
)
def test_nothing_is_restored_beside_a_damaged_document(server: DevServer, tmp_path: Path, damaged: bytes) -> None:
    whole = {"version": 1, "user_id": "aaa", "org_id": "acme", "files": [{"path": "/memories/a.md", "content": "x"}]}
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "aaa.json").write_text(json.dumps(whole), "utf-8")
    (tmp_path / "acme" / "bbb.json").write_bytes(damaged)
    done = backup(server, tmp_path, "--restore")
    assert done.returncode == 1
    assert "bbb.json is no person's document" in done.stderr
    assert len(done.stderr.splitlines()) == 1


async def test_one_person_who_cannot_be_exported_stops_nobody_else_s_backup(tmp_path: Path) -> None:
    """The server ends that person's document in the middle."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/store/namespaces":
            known = [["memories", f"acme:{name}"] for name in ("aaa", "bbb")]
            return httpx.Response(200, json={"namespaces": known[json.loads(request.content)["offset"] :]})
        if request.url.path == "/threads/search":
            return httpx.Response(200, json=[])
        if request.url.path == "/memory/me":
            return httpx.Response(200, json={"memory_scope": "user"})
        if request.url.params["user_id"] == "aaa":
            raise httpx.RemoteProtocolError("peer closed the connection", request=request)
        return httpx.Response(200, json={"user_id": "bbb"})

    async with get_client(url="http://127.0.0.1:1") as client:
        client.http.client._transport = httpx.MockTransport(answer)
        saved, failed = await back_up(client, tmp_path)
    assert saved == 1
    assert [line.partition(" ")[0] for line in failed] == ["aaa"]
    assert [path.name for path in (tmp_path / "acme").iterdir()] == ["bbb.json"]


@pytest.mark.parametrize("token", ["t\u00f6ken", "a\nb"])
def test_a_token_that_no_header_can_carry_is_not_shown(server: DevServer, tmp_path: Path, token: str) -> None:
    for command in (["dev.backup", "--folder", str(tmp_path)], ["dev.smoke"]):
        done = run_command(*command, "--url", server.url, stdin=token)
        assert done.returncode == 1
        assert "TOKEN holds a character" in done.stderr
        assert token not in done.stderr
