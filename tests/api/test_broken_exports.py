"""An export that fails half way is seen to be cut off; one unreadable part of it is named, and ends nothing."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from testing.dev_server import DevServer, dev_token
from testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env

# The app, with conversations that cannot be read to their end for people whose name begins with the kind of error.
BROKEN = """
import api.export
from api.export import conversations

ERRORS = {"value": ValueError, "os": OSError, "lookup": KeyError}

async def broken(client, actor, page):
    async for part in conversations(client, actor, page):
        yield part
    for kind, error in ERRORS.items():
        if actor.user_id.startswith(kind):
            yield b'{"thread_id": "half'
            raise error("of no conversation's")

api.export.conversations = broken
from api.app import app
"""


@pytest.fixture(scope="module")
def shared_broken(shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    folder = tmp_path_factory.mktemp("broken")
    (folder / "broken.py").write_text(BROKEN, "utf-8")
    env = {**model_env(shared_model), "OPERATORS": "root"}
    with DevServer(folder, env=env, config={"http": {"app": f"{folder}/broken.py:app"}}) as server:
        yield server


@pytest.fixture
async def broken(shared_broken: DevServer) -> AsyncIterator[DevServer]:
    yield shared_broken
    await shared_broken.close_clients()


def headers(user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {dev_token('acme', user)}"}


@pytest.mark.server
@pytest.mark.parametrize("kind", ["value", "os", "lookup"])
async def test_who_exports_sees_that_the_document_was_cut_off(broken: DevServer, kind: str, alice: str) -> None:
    user = f"{kind}-{alice}"
    async with httpx.AsyncClient(base_url=broken.url, headers=headers(user), trust_env=False, timeout=60) as http:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await http.get("/memory/export")
        assert (await http.get("/memory")).status_code == 200, "the person's other requests go on"
    with socket.create_connection(("127.0.0.1", broken.port), timeout=60) as connection:
        line = f"GET /memory/export HTTP/1.1\r\nHost: 127.0.0.1:{broken.port}\r\n"
        connection.sendall(f"{line}Authorization: {headers(user)['Authorization']}\r\n\r\n".encode())
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'{"thread_id": "half' in answer
    assert not answer.endswith(b"0\r\n\r\n"), "the end of a chunked body"
