"""A model of which nothing is known, and which does not stream, is held to the same."""

from typing import Any

import pytest
from agent import build_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.store.memory import InMemoryStore

from lasting_memory.agent.answer_endings import CUT
from lasting_memory.testing.deployed import deployed
from tests.conftest import Graph
from tests.providers.conftest import messages_of


class Unstreamed(BaseChatModel):
    """Gives one message, as an integration of which nothing is known."""

    message: AIMessage

    @property
    def _llm_type(self) -> str:
        return "unstreamed"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.message)])


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            AIMessage("", response_metadata={"finish_reason": "content_filter"}),
            r"filtered this answer \(content_filter",
        ),
        (
            AIMessage("", response_metadata={"stop_reason": "guardrail_intervened"}),
            r"filtered this answer \(guardrail",
        ),
        (
            AIMessage("", response_metadata={"finish_reason": "length"}),
            r"limit of tokens before it said anything \(length",
        ),
        (AIMessage([{"type": "reasoning", "reasoning": "hm"}]), "without a word"),
    ],
)
async def test_a_model_of_which_nothing_is_known_is_held_to_the_same(
    message: AIMessage, why: str
) -> None:
    graph = Graph(build_agent(deployed(), Unstreamed(message=message)), InMemoryStore())
    with pytest.raises(RuntimeError, match=why):
        await graph.turn("wombats?")


async def test_an_answer_that_its_provider_calls_whole_is_taken_as_one() -> None:
    message = AIMessage("fine", response_metadata={"finish_reason": "COMPLETE"})
    graph = Graph(build_agent(deployed(), Unstreamed(message=message)), InMemoryStore())
    assert (await graph.turn("wombats?"))[-1] == "fine"
    assert CUT not in (await messages_of(graph))[-1].response_metadata
