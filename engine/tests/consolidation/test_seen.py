"""What others see of a run: its traces in LangSmith, and the events that a client streams."""

from typing import Any

import pytest
from langsmith import Client, tracing_context

from lasting_memory.people.identity import Context
from lasting_memory.testing.loopback import ScriptedLangSmith
from tests.consolidation.conftest import READY, TASK, Runs, append
from tests.consolidation.test_endings import ASKED, SAID, config, say
from tests.test_traces import lineage, spans

LINE = "- likes dill"


@pytest.fixture
def asked(run: Runs) -> Runs:
    """She has said something, of which the model remembers a line."""
    run.model.script(TASK, [append(LINE)], READY)
    say(run)
    run.built.store = run.store
    return run


async def test_the_model_at_work_is_part_of_the_run_s_trace_and_hooks_copy_nothing_into_it(
    asked: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_DISABLE_RUN_COMPRESSION", "true")
    await asked.saved("- likes leek\n", "/preferences.md")
    with ScriptedLangSmith() as langsmith:
        client = Client(api_url=langsmith.url, api_key="test")
        with tracing_context(enabled=True, client=client):
            await asked.built.ainvoke(ASKED, config("r1"), context=Context())
        client.flush()
    assert lineage(langsmith.traces, "ChatAnthropic") == {
        "consolidation_agent > consolidate > draft_editor > model > ChatAnthropic"
    }
    sent = spans(langsmith.traces)
    assert {name for name, payload in sent if "likes leek" in payload} == {"ChatAnthropic"}
    assert {name for name, payload in sent if SAID in payload} == {
        "ChatAnthropic",
        "draft_editor",
        "model",
    }
    hooks = ("ModelCalls", "Bounds", "MemoryMiddleware")
    assert {payload for name, payload in sent if name.startswith(hooks)} == {"{}{}"}


async def streamed(run: Runs, *modes: Any, **options: Any) -> list[Any]:
    context = Context(dry_run=True)
    return [
        part
        async for part in run.built.astream(
            ASKED, config("r1"), context=context, stream_mode=[*modes], **options
        )
    ]


async def test_a_rehearsal_streams_its_answer_and_nothing_of_what_the_model_reads(
    asked: Runs,
) -> None:
    parts = await streamed(asked, "updates", "values", "messages")
    assert SAID not in str(parts)
    (update,) = [part for mode, part in parts if mode == "updates"]
    answer = update["consolidate"]["messages"][-1]
    assert f"+{LINE}" in answer.text
    last = [part for mode, part in parts if mode == "values"][-1]
    assert [message.text for message in last["messages"]] == [answer.text]


async def test_a_rehearsal_streams_the_model_at_work_to_who_asks_for_subgraphs(asked: Runs) -> None:
    parts = await streamed(asked, "updates", "messages", subgraphs=True)
    inner = [part for place, mode, part in parts if place and mode == "updates"]
    outer = [part for place, mode, part in parts if not place and mode == "updates"]
    assert {place[0].partition(":")[0] for place, _, _ in parts if place} == {"consolidate"}
    nodes = [name for part in inner for name in part if "." not in name]  # the others are hooks
    assert nodes == ["model", "tools", "model"]
    assert [next(iter(part)) for part in outer] == ["consolidate"]
    assert "append_memory" in str(inner)
    words = [part[0].text for place, mode, part in parts if place and mode == "messages"]
    assert "done" in words
