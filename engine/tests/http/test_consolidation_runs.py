"""What is made of what a run says, for which a request waits."""

from contextlib import nullcontext

import httpx
import pytest

from lasting_memory.http import consolidation_runs as runs


@pytest.mark.parametrize("answer", ["Nothing is new.", "3", "[]", "null", '"done"'])
async def test_an_answer_that_is_no_report_is_told_as_the_reason(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    async def said(*_: object) -> str:
        return answer

    monkeypatch.setattr(runs, "_last_message", said)
    monkeypatch.setattr(runs, "get_client", nullcontext)
    # It is the platform's own way to act as somebody, which needs a server.
    monkeypatch.setattr("lasting_memory.platform.acting_as_caller", lambda _: nullcontext())
    response = await api.post("/memory/consolidate", params={"dry_run": "true"})
    assert (response.status_code, response.json()["reason"]) == (200, answer)


@pytest.mark.parametrize(
    "values",
    [None, [], {}, {"messages": None}, {"messages": []}, {"messages": "ai"}, {"messages": ["ai"]}],
)
def test_a_state_without_messages_has_no_last_one(values: object) -> None:
    assert runs._final_message(values) == {}
