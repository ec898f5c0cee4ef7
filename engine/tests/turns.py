"""What tests on a server share: people who talk with a scripted model, and by which status something is refused."""

from typing import Any

import httpx
import pytest
from langgraph_sdk.errors import APIStatusError

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, ToolCall


def people(server: DevServer, model: ScriptedAnthropic, *names: str) -> list[Person]:
    return [server.person(name, model=model) for name in names]


def note(fact: str) -> ToolCall:
    """Remembers it where every prompt shows it."""
    return ToolCall("append_memory", {"path": "/memories/preferences.md", "text": f"- {fact}"})


async def status(call: Any) -> int:
    """The status by which a call is refused."""
    with pytest.raises((APIStatusError, httpx.HTTPStatusError)) as refused:
        await call
    return refused.value.response.status_code
