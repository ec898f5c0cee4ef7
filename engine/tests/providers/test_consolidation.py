"""What a provider says that is no answer, in a consolidation: it has failed, its record says why, and
a later one remembers.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lasting_memory import build_consolidation_agent
from lasting_memory.agent.answer_errors import SilentModelError
from lasting_memory.consolidation import records
from lasting_memory.consolidation import run as run_module
from lasting_memory.testing import scripted_openai
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_provider import Said
from tests.consolidation.conftest import ALICE, Runs, append
from tests.providers.conftest import Provided
from tests.providers.no_answers import NOTHING, SOMETHING, WORDS, named
from tests.providers.protocols import PROVIDERS

UNFINISHED = [case[:2] for case in (*NOTHING, *SOMETHING)]


@pytest.mark.parametrize(("name", "said"), named(UNFINISHED))
async def test_a_consolidation_without_an_answer_has_failed_and_a_later_one_remembers(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    name: str,
    said: Said,
) -> None:
    provider, run = provided(name), consolidation(provided(name))
    provider.server.script(usual=said)
    assert "Nothing was consolidated: " in await run("r1", t=["I like dill"])
    (record,) = await records(run.store, ALICE)
    assert (record["status"], record["files"]) == ("failed", {})
    assert record["conversations"] == record["messages"] == 1
    assert record["ended_at"]
    assert record["reason"].endswith(".")
    assert (said.ending or said.blocked or record["reason"]) in record["reason"]
    assert await run.consolidated() == set()
    provider.server.script(Said(call=append("- dill")), Said(("done",)))
    await run("r2")
    assert await run.text() == "- dill\n"
    assert await run.consolidated() == {"t"}
    assert [kept["status"] for kept in await records(run.store, ALICE)] == ["done", "failed"]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_consolidation_that_changed_a_file_may_end_in_silence_but_not_be_cut(
    provided: Callable[[str], Provided], consolidation: Callable[[Provided], Runs], name: str
) -> None:
    provider, run = provided(name), consolidation(provided(name))
    ending = {
        "anthropic": "max_tokens",
        "responses": "max_output_tokens",
        "google": "MAX_TOKENS",
    }.get(name, "length")
    for number, cut in enumerate((Said(ending=ending), Said(WORDS, ending=ending))):
        provider.server.script(Said(call=append("- dill")), cut)
        await run(f"cut {number}", **({"t": ["I like dill"]} if number == 0 else {}))
        assert (await records(run.store, ALICE))[0]["status"] == "failed"
        assert await run.text() == ""
    provider.server.script(Said(call=append("- dill")), Said())
    await run("whole")
    assert (await records(run.store, ALICE))[0]["status"] == "done"
    assert await run.text() == "- dill\n"


async def test_a_conversation_that_is_filtered_keeps_no_other_from_memory(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    platform: Platform,
) -> None:
    """Whatever stands in one, the others are consolidated, each time that the platform runs what is
    planned.
    """
    provider, run = provided("openai"), consolidation(provided("openai"))

    def speak(_: Said, body: Any) -> list[bytes]:
        shown = str(body["messages"])
        if "something bad" in shown:
            return scripted_openai.completions(Said(ending="content_filter"), body)
        is_noted = any(
            message.get("tool_call_id", "").startswith("call_") for message in body["messages"]
        )
        said = Said(("done",)) if is_noted else Said(call=append("- good"))
        return scripted_openai.completions(said, body)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider.server, "speak", speak)
        await run("r0", a=["something bad"], b=["good"], c=["good too"])
        assert await run.consolidated() == set()
        for number in range(1, 5):
            await run(f"r{number}")
    assert await run.consolidated() == {"b", "c"}
    assert (await records(run.store, ALICE))[0]["status"] == "failed", "it stays due"


async def test_conversations_that_were_put_off_are_caught_up_without_another_turn(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    platform: Platform,
) -> None:
    """Once the provider answers again, a run that works plans the next, until nothing is left."""
    provider, run = provided("openai"), consolidation(provided("openai"))
    provider.server.script(usual=Said())
    await run("r0", a=["one"], b=["two"])
    assert platform.runs.all("pending") == [], (
        "a provider that says nothing is not asked again at once"
    )
    provider.server.script()
    await run("r1")
    assert len(platform.runs.all("pending")) == 1
    platform.runs.all("pending")[0]["status"] = "success"
    await run("r2")
    assert platform.runs.all("pending") == []
    assert await run.consolidated() == {"a", "b"}


async def test_a_model_for_consolidation_alone_is_held_to_the_same(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = provided("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.server.url)
    run = consolidation(
        replace(
            provider,
            consolidation_agent=build_consolidation_agent(deployed(consolidation_model="openai:m")),
        )
    )
    provider.server.script(usual=Said(ending="content_filter"))
    await run("r1", t=["I like dill"])
    (record,) = await records(run.store, ALICE)
    assert (record["status"], "content_filter" in record["reason"]) == ("failed", True)
    assert await run.consolidated() == set()


class BrokenError(RuntimeError):
    """An error of somebody else's code."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BrokenError("secret"), "The run failed: BrokenError; see the server's log."),
        (
            SilentModelError("The model said nothing for 1 seconds."),
            "The model said nothing for 1 seconds.",
        ),
    ],
)
async def test_the_record_of_a_run_that_failed_has_a_sentence(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: str,
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise error

    run = consolidation(provided("openai"))
    monkeypatch.setattr(run_module, "judge", fail)
    with pytest.raises(type(error)):
        await run("r1", t=["I like dill"])
    (record,) = await records(run.store, ALICE)
    assert (record["status"], record["reason"]) == ("failed", reason)
