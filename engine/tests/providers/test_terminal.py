"""What `make chat` prints of an answer that is none, or not whole."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from lasting_memory.agent.answer_endings import SILENT
from lasting_memory.dev import chat
from lasting_memory.people.identity import Context
from lasting_memory.testing.scripted_provider import Said
from tests.conftest import Graph
from tests.providers.conftest import Provided
from tests.providers.no_answers import NOTHING, REFUSAL, TEXT, WORDS
from tests.providers.protocols import PROVIDERS


class Streams:
    """The part of the platform's client that `make chat` uses, on a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.threads = self.runs = self

    async def create(self) -> dict[str, str]:
        return {"thread_id": "1"}

    async def stream(self, thread_id: str, _: str, *, input: Any, **__: Any) -> AsyncIterator[Any]:  # noqa: A002  # the client's
        config: Any = {"configurable": {"thread_id": thread_id}}
        context = Context(user_id="alice", org_id="acme")
        modes: Any = ["messages", "updates"]
        try:
            async for mode, part in self._graph.graph.astream(
                input, config, context=context, stream_mode=modes
            ):
                data = [part[0].model_dump(), part[1]] if mode == "messages" else part
                yield SimpleNamespace(event=mode, data=data)
        except RuntimeError as error:  # as the platform gives it
            yield SimpleNamespace(
                event="error", data={"error": type(error).__name__, "message": str(error)}
            )


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_terminal_prints_what_was_said_with_its_spaces_and_why_it_is_not_all(
    provided: Callable[[str], Provided], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    provider, client = provided(name), Streams(provided(name).graph())
    talk: Any = chat.Chat(client, "agent")  # type: ignore[arg-type]  # all that it needs
    limit = {
        "anthropic": "max_tokens",
        "responses": "max_output_tokens",
        "google": "MAX_TOKENS",
    }.get(name, "length")
    printed = []
    for said in (Said(WORDS), Said(WORDS, ending=limit), Said()):
        provider.server.script(said)
        with suppress(KeyboardInterrupt):
            asyncio.run(talk.say("wombats?"))
        printed.append(capsys.readouterr().out)
    assert printed[0].strip() == TEXT
    assert printed[1].startswith(TEXT)
    assert printed[1].count(f"{limit}).") == 1
    assert printed[2].split("\n") == ["", SILENT, "", ""]


@pytest.mark.parametrize(
    ("name", "said", "why"), [(name, said, why) for name, said, _, why in NOTHING]
)
def test_the_terminal_says_once_and_without_a_class_why_there_is_no_answer(
    provided: Callable[[str], Provided],
    name: str,
    said: Said,
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider, client = provided(name), Streams(provided(name).graph())
    provider.server.script(usual=said)
    asyncio.run(chat.Chat(client, "agent").say("wombats?"))  # type: ignore[arg-type]
    (line,) = [text for text in capsys.readouterr().out.split("\n") if text.strip()]
    assert re.search(why, line)
    assert "Error" not in line


@pytest.mark.parametrize("name", ["openai", "openai unstreamed", "responses"])
def test_the_terminal_prints_a_refusal(
    provided: Callable[[str], Provided], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    provider, client = provided(name), Streams(provided(name).graph())
    provider.server.script(Said(refusal=REFUSAL))
    asyncio.run(chat.Chat(client, "agent").say("wombats?"))  # type: ignore[arg-type]
    assert capsys.readouterr().out.startswith(REFUSAL)
