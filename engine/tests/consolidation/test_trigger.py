"""A turn plans its person's consolidation when it ends, and neither waits for that nor fails with it."""

import asyncio
from typing import Any, cast
from unittest.mock import AsyncMock

import httpx
import pytest
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.runtime import Runtime, ServerInfo
from langgraph.store.memory import InMemoryStore

from lasting_memory.consolidation import planning
from lasting_memory.consolidation.due import Owner
from lasting_memory.consolidation.planning import IdleTrigger
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from tests.conftest import BuildGraph
from tests.consolidation.runs import ALICE

ON_SERVER: Runtime[Any] = Runtime(
    store=InMemoryStore(),
    server_info=ServerInfo(assistant_id="a", graph_id="agent", user=cast("Any", SignedIn(identity="alice", org_id="acme"))),
)


async def answer(*calls: str) -> None:
    """The model's answer, with calls of these tools, and what is planned after it."""
    made = [{"name": name, "args": {}, "id": name} for name in calls]

    async def model(_: Any) -> ModelResponse[Any]:
        return ModelResponse([AIMessage("ok", tool_calls=made)])

    trigger = IdleTrigger(deployed(), delay=0)
    tools = [tool(name, return_direct=name == "last")(answer) for name in ("more", "last")]
    request = ModelRequest(model=cast("Any", None), messages=[], tools=[*tools, {"type": "web_search"}], runtime=ON_SERVER)
    await trigger.awrap_model_call(request, model)
    await asyncio.gather(*trigger._planning)


@pytest.mark.parametrize(("calls", "ends"), [((), True), (("more",), False), (("more", "last"), False), (("last",), True)])
async def test_a_turn_ends_with_an_answer_that_no_other_follows(
    monkeypatch: pytest.MonkeyPatch, calls: tuple[str, ...], ends: bool
) -> None:
    planned = AsyncMock()
    monkeypatch.setattr(planning, "start", planned)
    await answer(*calls)
    assert [each.args[0::2] for each in planned.call_args_list] == [(Owner(ALICE), "idle")] * ends


async def test_a_failure_to_plan_is_logged_once_and_is_not_the_turn_s(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(planning, "start", AsyncMock(side_effect=httpx.ConnectError("the queue is full")))
    await answer()
    (record,) = [record for record in caplog.records if record.name == "lasting_memory.consolidation.planning"]
    assert record.levelname == "WARNING"
    assert "ConnectError('the queue is full')" in record.message


@pytest.mark.parametrize(
    ("changes", "planning"),
    [
        ({}, True),
        ({"memory_scope": "user+assistant"}, True),
        ({"consolidate_after_seconds": 0}, False),
        ({"memory_scope": "assistant"}, False),
    ],
)
async def test_turns_plan_a_consolidation_where_there_is_one(
    graph: BuildGraph, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], planning: bool
) -> None:
    """Turns plan a consolidation, unless it is turned off or memory is shared."""
    ended: list[Runtime[Any]] = []

    async def note(_: IdleTrigger, runtime: Runtime[Any]) -> None:
        ended.append(runtime)

    monkeypatch.setattr(IdleTrigger, "_plan", note)
    await graph(deployed(**changes)).turn("hello")
    assert len(ended) == planning
