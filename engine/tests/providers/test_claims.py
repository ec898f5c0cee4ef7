"""One table of claims by provider: what a turn, the person, DAILY_TOKENS, a consolidation's record,
titles, search and export make of what a provider does. The real clients over HTTP.

How answers end, and what is no answer, is in `test_answers.py` and `test_no_answers.py`; calls that
cannot be used in `test_unusable_calls.py`; threads of another provider in `test_switched_models.py`;
refused pictures in `test_refused_media.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from agent import build_agent
from langchain_core.messages import AnyMessage
from langgraph.store.memory import InMemoryStore

from lasting_memory import build_consolidation_agent
from lasting_memory.agent import bounds, prompt
from lasting_memory.agent.answer_errors import BadAnswerError, FilteredAnswerError
from lasting_memory.agent.provider_errors import ProviderError
from lasting_memory.consolidation import records
from lasting_memory.conversations.titles import title_of
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Context
from lasting_memory.recall import conversation
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.scripted_provider import Refused, Said, ScriptedProvider
from tests.conftest import Graph
from tests.consolidation.conftest import ALICE, MY_FOOD, Runs, append
from tests.providers.conftest import Provided, messages_of
from tests.providers.protocols import PROVIDERS

WORDS = ("Plain ", "answer ", "about", " wombats", ".")
TEXT = "".join(WORDS)
THOUGHT = "they ask about marsupials again"
STATUSES = {
    400: "does not take this request (400)",
    401: "refuses this server's key (401)",
    402: "has no credit (402)",
    403: "may not use this model (403)",
    404: "does not have this model (404)",
    413: "too large for the model (413)",
    422: "does not take this request (422)",
    429: "has too many requests (429)",
    500: "failed (500)",
    502: "failed (502)",
    503: "is overloaded (503)",
    529: "is overloaded (529)",
}
# What each says of an answer that reached its limit of tokens; the others say "length".
LIMITS = {"anthropic": "max_tokens", "responses": "max_output_tokens", "google": "MAX_TOKENS"}
# What a client is told so that it makes one attempt: others have a test of their own.
ONE_ATTEMPT = {"anthropic": 0, "google": 1, "ollama": None}
# Attempts where nothing is said to the client, as `build_model` builds it; Ollama's makes one.
ATTEMPTS = {"anthropic": 3, "openai": 3, "openai unstreamed": 3, "responses": 3, "ollama": 1}


def refused(name: str, status: int, retry_after: str = "") -> Refused:
    """A status in the form of a provider's protocol."""
    said = "the provider's own words"
    if name == "anthropic":
        body: dict[str, Any] = {"type": "error", "error": {"type": "x", "message": said}}
    elif name == "ollama":
        body = {"error": said}
    elif name == "google":
        body = {"error": {"code": status, "message": said, "status": "X"}}
    else:
        body = {"error": {"message": said, "type": "x", "param": None, "code": "x"}}
    return Refused(status, body, retry_after)


@pytest.fixture(scope="module")
def impatient() -> Iterator[Callable[[str], Provided]]:
    """Gives a provider whose client makes one attempt, with a budget of tokens."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "RETRY_DELAY_SECONDS", 0.01)

        @cache
        def provide(name: str) -> Provided:
            provider = PROVIDERS[name]
            attempts = ONE_ATTEMPT.get(name, 0)
            options = {} if attempts is None else {"max_retries": attempts}
            provider = replace(provider, options={**provider.options, **options})
            server = stack.enter_context(ScriptedProvider(provider.speak))
            client = provider.client(server.url)
            d = deployed(daily_tokens=1_000)
            return Provided(server, build_agent(d, client), build_consolidation_agent(d, client))

        yield provide


async def tokens_used(graph: Graph) -> int:
    """What DAILY_TOKENS counts of the person's day."""
    store = graph.graph.store
    items = await store.asearch(namespaces.usage(Actor("alice", "acme")))
    return sum(item.value["tokens"] for item in items)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_an_answer_comes_as_it_is_spoken(
    provided: Callable[[str], Provided], name: str
) -> None:
    provider, graph = provided(name), provided(name).graph()
    provider.server.script(Said(WORDS))
    pieces = list[str]()
    async for message, _ in graph.graph.astream(
        {"messages": [{"role": "user", "content": "wombats?"}]},
        {"configurable": {"thread_id": "1"}},
        context=Context(user_id="alice", org_id="acme"),
        stream_mode="messages",
    ):
        if message.type in {"ai", "AIMessageChunk"} and message.text:
            pieces.append(str(message.text))
    assert "".join(pieces) == TEXT
    assert len(pieces) == (1 if name == "openai unstreamed" else len(WORDS))


@pytest.mark.parametrize("name", PROVIDERS)
async def test_calls_side_by_side_are_all_made(
    provided: Callable[[str], Provided], name: str
) -> None:
    provider, graph = provided(name), provided(name).graph()
    other = append("- leek", "/memories/preferences.md")
    provider.server.script(Said(call=append("- dill"), more_calls=(other,)), Said(WORDS))
    assert (await graph.turn("I like dill and leek"))[-1] == TEXT
    store = graph.graph.store
    texts = [item.value["content"] for item in await store.asearch(("memories",), limit=9)]
    assert [any(fact in text for text in texts) for fact in ("- dill", "- leek")] == [True, True]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_model_s_thought_is_neither_answer_nor_found_nor_exported(
    provided: Callable[[str], Provided], name: str
) -> None:
    provider, graph = provided(name), provided(name).graph()
    provider.server.script(Said(WORDS, thought=THOUGHT))
    assert (await graph.turn("wombats?"))[-1] == TEXT
    values = {"messages": [message.model_dump() for message in await messages_of(graph)]}
    turns = conversation({"thread_id": "t", "values": values}).turns
    assert [turn.text.replace("\n", "") for turn in turns] == ["wombats?", TEXT]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_conversation_is_named_by_the_person_s_words_once_it_has_an_answer(
    impatient: Callable[[str], Provided], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = list[str]()

    async def give_title(messages: Sequence[AnyMessage]) -> None:
        titles.append(title_of([message.model_dump() for message in messages]))

    monkeypatch.setattr(prompt, "give_title", give_title)
    provider, graph = impatient(name), impatient(name).graph()
    provider.server.refuse = lambda _: refused(name, 401)
    with pytest.raises(ProviderError):
        await graph.turn("wombats?", thread="refused")
    assert titles == []
    provider.server.refuse = lambda _: None
    provider.server.script(Said(WORDS, thought=THOUGHT))
    await graph.turn("wombats?", thread="answered")
    assert titles == ["wombats?"]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_provider_s_tokens_are_counted(
    impatient: Callable[[str], Provided], name: str
) -> None:
    provider, graph = impatient(name), impatient(name).graph()
    provider.server.script(usual=Said(WORDS))
    await graph.turn("wombats?")
    assert await tokens_used(graph) == 5


@pytest.mark.parametrize("name", PROVIDERS)
async def test_the_tokens_of_answers_that_are_thrown_away_are_counted(
    impatient: Callable[[str], Provided], name: str
) -> None:
    provider, graph = impatient(name), impatient(name).graph()
    limit = LIMITS.get(name, "length")
    provider.server.script(usual=Said(call=append("- dill"), ending=limit))
    with pytest.raises(BadAnswerError):
        await graph.turn("I like dill")
    assert len(provider.server.requests) == 2
    assert await tokens_used(graph) == 10


async def test_the_tokens_of_an_answer_that_was_filtered_are_counted(
    impatient: Callable[[str], Provided],
) -> None:
    provider, graph = impatient("openai"), impatient("openai").graph()
    provider.server.script(usual=Said(ending="content_filter"))
    with pytest.raises(FilteredAnswerError):
        await graph.turn("wombats?")
    assert await tokens_used(graph) == 5


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_status_is_one_sentence_for_the_person_and_costs_no_more_than_the_answer(
    impatient: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    name: str,
    status: int,
) -> None:
    provider, graph, run = impatient(name), impatient(name).graph(), consolidation(impatient(name))
    provider.server.script()
    provider.server.refuse = lambda _: refused(name, status)
    try:
        with pytest.raises(ProviderError) as raised:
            await graph.turn("wombats?")
        requests = len(provider.server.requests)
        with pytest.raises(type(raised.value)):
            await run("r1", t=["I like dill"])
    finally:
        provider.server.refuse = lambda _: None
    sentence = str(raised.value)
    assert STATUSES[status] in sentence
    assert isinstance(raised.value, RuntimeError), "of these the platform shows the message"
    assert requests == 1
    assert [message.type for message in await messages_of(graph)] == ["human"]
    assert await tokens_used(graph) == 0
    (record,) = await records(run.store, ALICE)
    assert (record["status"], record["reason"]) == ("failed", sentence)
    assert await run.consolidated() == set(), "it stays due"
    assert (await graph.turn("again?"))[-1] == "ok"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("name", ATTEMPTS)
async def test_a_provider_s_client_tries_again_when_it_is_told_to(
    provided: Callable[[str], Provided], name: str, status: int
) -> None:
    provider, graph = provided(name), provided(name).graph()
    provider.server.script()
    provider.server.refuse = lambda _: refused(name, status, "0.01")
    try:
        with pytest.raises(ProviderError):
            await graph.turn("wombats?")
        requests = len(provider.server.requests)
    finally:
        provider.server.refuse = lambda _: None
    assert requests == ATTEMPTS[name]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_provider_that_cannot_be_reached_is_an_error_that_says_so(name: str) -> None:
    provider = PROVIDERS[name]
    attempts = ONE_ATTEMPT.get(name, 0)
    options = {} if attempts is None else {"max_retries": attempts}
    client = replace(provider, options={**provider.options, **options})
    graph = Graph(build_agent(deployed(), client.client("http://127.0.0.1:9")), InMemoryStore())
    with pytest.raises(ProviderError, match="cannot be reached"):
        await graph.turn("wombats?")


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_line_that_a_provider_s_model_consolidates_is_remembered(
    provided: Callable[[str], Provided], consolidation: Callable[[Provided], Runs], name: str
) -> None:
    provider, run = provided(name), consolidation(provided(name))
    provider.server.script(Said(call=append("- dill"), thought=THOUGHT), Said(("done",)))
    await run("r1", t=["I like dill"])
    (record,) = await records(run.store, ALICE)
    assert (record["status"], list(record["files"])) == ("done", [MY_FOOD])
    assert await run.text() == "- dill\n"
