"""What is sent to LangSmith where tracing is on: memory in inputs, none of it in metadata, and nothing where that is hidden."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from lasting_memory.testing.scripted_langsmith import ScriptedLangSmith
from tests.conftest import model_env
from tests.memory.test_temporary import new_thread, remember

pytestmark = [pytest.mark.server, pytest.mark.proof]

# As the client names the parts of what it sends: a run's own fields, and those that are sent beside them.
_PART = re.compile(rb'name="(?:post|patch)\.[^".]+(?:\.(\w+))?"')


def parts(traces: list[bytes], kind: bytes) -> str:
    """What was sent as `inputs`, `outputs` or `extra` of runs, or as a run itself (an empty kind)."""
    field = b""
    for body in traces:
        pieces = _PART.split(body)
        field += b"".join(text for name, text in zip(pieces[1::2], pieces[2::2], strict=True) if (name or b"") == kind)
    return field.decode(errors="replace")


async def sent(langsmith: ScriptedLangSmith, wanted: Callable[[], bool]) -> None:
    for _ in range(600):
        if wanted():
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"not sent within 30 seconds: {len(langsmith.traces)} requests")


async def test_hidden_inputs_and_outputs_send_no_memory(model: ScriptedAnthropic, tmp_path: Path) -> None:
    """Memory is in no metadata, and hidden inputs and outputs send none of it."""
    with ScriptedLangSmith() as langsmith:
        env = {"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": "test", "LANGSMITH_ENDPOINT": langsmith.url}
        env |= {"LANGSMITH_DISABLE_RUN_COMPRESSION": "true", **model_env(model)}
        with DevServer(tmp_path, env=env) as server:
            client, bob = server.as_user("alice"), server.as_user("bob")
            await remember(client, model, "likes fennel")
            await run_turn(bob, await new_thread(bob, {}), "hello")
            await run_turn(client, await new_thread(client, {}), "hello")
            await sent(langsmith, lambda: '"user_id":"bob"' in parts(langsmith.traces, b"extra"))
            await sent(langsmith, lambda: "fennel" in parts(langsmith.traces, b"inputs"))
            metadata = parts(langsmith.traces, b"extra")
            assert '"user_id":"alice"' in metadata
            assert "fennel" not in metadata + parts(langsmith.traces, b"")
            kept = await client.http.client.delete("/memory", timeout=60)
            assert 'eq(metadata_key, "user_id"), eq(metadata_value, "alice")' in " ".join(kept.json()["kept"])

            server._env |= {"LANGSMITH_HIDE_INPUTS": "true", "LANGSMITH_HIDE_OUTPUTS": "true"}
            server.restart()
            langsmith.traces.clear()
            await remember(client, model, "likes dill")
            await run_turn(client, await new_thread(client, {}), "hello")
            await sent(langsmith, lambda: '"user_id":"alice"' in parts(langsmith.traces, b"extra"))
            server.stop()  # which sends the rest
            assert '"user_id":"alice"' in parts(langsmith.traces, b"extra")
            assert b"dill" not in b"".join(langsmith.traces)
            await server.close_clients()
