"""Fixtures: the scripted model server, and the real `langgraph dev` in front of it, shared by a
test session.
"""

import gc
import json
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import httpx
import hypothesis
import pytest
from deepagents.backends.utils import create_file_data
from langchain_anthropic import ChatAnthropic
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.errors import APIStatusError
from pydantic import SecretStr

# The graph modules build themselves when imported; tests build their own.
os.environ.update(AGENT_MODEL="anthropic:claude-sonnet-4-6", ANTHROPIC_API_KEY="test")

from agent import build_agent

from lasting_memory import build_consolidation_agent, days
from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import Context
from lasting_memory.testing import dev_server
from lasting_memory.testing.deployed import PROJECT, deployed, with_routes
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Text,
    ToolCall,
    last_user_text,
    system_text,
    tool_results,
)
from lasting_memory.testing.stores import embedded, emptied, hurry
from tests.http import answers
from tests.recall.talks import say

# What builds each graph of the tests' project, by its id, and the subagents of its agent.
BUILDERS: dict[str, Callable[..., Any]] = {
    "agent": build_agent,
    "consolidation_agent": build_consolidation_agent,
}
SUBAGENTS = ("general-purpose", "writer")


def stores(*marks: pytest.MarkDecorator) -> list[object]:
    """Parameters for the fixture `store`: its kinds. `marks` are for the tests on Postgres."""
    return ["memory", pytest.param("postgres", marks=[pytest.mark.postgres, *marks])]


dev_server.queue_seconds = 0.05  # a tenth of what a turn waits on the platform's own
dev_server.remember_types_of_blocks()

# How long one example takes says nothing on a busy machine. `make test` draws the same examples
# each time, so that it is green ten times of ten; `make proof` draws others each time, and what it
# finds becomes an example.
hypothesis.settings.register_profile(
    "project", deadline=None, derandomize=not os.environ.get("DRAW_ANEW")
)
hypothesis.settings.load_profile("project")


@pytest.fixture(autouse=True)
def answers_as_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """What any test is answered under /memory is what `/openapi.json` describes."""
    send = httpx.AsyncClient.send

    async def send_and_check(
        client: httpx.AsyncClient, request: httpx.Request, **options: Any
    ) -> httpx.Response:
        response = await send(client, request, **options)
        if request.url.path.startswith("/memory") and not options.get("stream"):
            answers.check(response)
        return response

    monkeypatch.setattr(httpx.AsyncClient, "send", send_and_check)


collect_ignore = ["project"]  # the evals of that are for `make eval`
# What is tried on both kinds of store by `make test`; other tests that could be are so by `make
# proof`.
_ON_BOTH = (
    "tests/journal/",
    "tests/postgres/",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Other modules whose tests wait for a server take turns with those that compute, so that no
    core is idle.
    """
    file = {item: item.nodeid.partition("::")[0] for item in items}
    waiting = {file[item]: True for item in items if item.get_closest_marker("server")}
    computing = {path: True for path in file.values() if path not in waiting}
    places = {
        path: (n + 1) / len(group) for group in (waiting, computing) for n, path in enumerate(group)
    }
    # Files that take longest begin first.
    places |= {file[item]: 0 for item in items if item.get_closest_marker("begins_first")}
    items.sort(
        key=lambda item: (places[file[item]], file[item], item.get_closest_marker("server") is None)
    )
    for item in items:
        is_on_postgres = item.get_closest_marker("postgres") and not item.get_closest_marker(
            "server"
        )
        if is_on_postgres and not item.nodeid.startswith(_ON_BOTH):
            item.add_marker("proof")


def pytest_collection_finish() -> None:
    """What is loaded now stays: the garbage collector need not walk it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()  # `tests/__init__.py` has turned it off


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """Every client reads all authorities' certificates, which takes longer than most tests'
    requests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "httpx._transports.default.create_ssl_context", cache(httpx.create_ssl_context)
        )
        yield


@pytest.fixture(scope="session")
def shared_model() -> Iterator[ScriptedAnthropic]:
    with ScriptedAnthropic() as model:
        yield model


@pytest.fixture(scope="session")
def own_model() -> Iterator[ScriptedAnthropic]:
    """One that no server asks, as a server may whose consolidation comes after its test."""
    with ScriptedAnthropic() as model:
        yield model


@pytest.fixture
def model(
    request: pytest.FixtureRequest, shared_model: ScriptedAnthropic, own_model: ScriptedAnthropic
) -> ScriptedAnthropic:
    """The scripted model, without rules or records of earlier tests: that of the servers, or
    without one another.
    """
    model = shared_model if request.node.get_closest_marker("server") else own_model
    model.clear()
    return model


class ServerWith(Protocol):
    def __call__(
        self, config: dict[str, Any] | None = None, routes: str = "", **settings: str
    ) -> DevServer: ...


@pytest.fixture(scope="session")
def server_with(
    shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerWith]:
    """Gives the session's server with these settings, which is started when it is first asked for."""
    with ExitStack() as stack:

        @cache
        def started(key: str) -> DevServer:
            config, routes, settings = json.loads(key)
            env, folder = {**shared_model.env, **settings}, tmp_path_factory.mktemp("server")
            project = with_routes(routes, folder) if routes else PROJECT
            return stack.enter_context(DevServer(folder, env=env, config=config, project=project))

        yield lambda config=None, routes="", **settings: started(
            json.dumps([config, routes, settings], sort_keys=True)
        )


@pytest.fixture(scope="session")
def shared_server(server_with: ServerWith) -> DevServer:
    return server_with(OPERATORS="root")


@pytest.fixture
async def own_server(
    model: ScriptedAnthropic, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[DevServer]:
    """One whose sweep finds nobody from other tests. The fixture's parameter is
    CONSOLIDATE_AFTER_SECONDS.
    """
    after = str(getattr(request, "param", 0))
    with DevServer(tmp_path, env={**model.env, "CONSOLIDATE_AFTER_SECONDS": after}) as server:
        yield server
        await server.close_clients()


def served(config: dict[str, Any] | None = None, routes: str = "", **settings: str) -> Any:
    """A fixture: the session's server with these settings, this in its langgraph.json, and these
    routes beside the usual.
    """

    @pytest.fixture
    async def for_a_test(
        server_with: ServerWith, model: ScriptedAnthropic
    ) -> AsyncIterator[DevServer]:
        server = server_with(config, routes, **settings)
        yield server
        await server.close_clients()

    return for_a_test


# `langgraph dev` with the project's own configuration and the scripted model.
server = served(OPERATORS="root")


def people(server: DevServer, model: ScriptedAnthropic, *names: str) -> list[Person]:
    return [server.person(name, model=model) for name in names]


def batch_with(words: str) -> Callable[[dict[str, Any]], bool]:
    """A rule for what a consolidation asks about a batch in which somebody said these words.

    The servers of a worker share a model, and a consolidation that an earlier test left behind may
    still ask it. The batch is the result of a tool, behind the task.
    """

    def is_asked(body: dict[str, Any]) -> bool:
        is_task = "Conversations with something new" in last_user_text(body)
        return is_task and words in str(body["messages"])

    return is_asked


def note(fact: str) -> ToolCall:
    """Remembers it where every prompt shows it."""
    return ToolCall("append_memory", {"path": "/memories/preferences.md", "text": f"- {fact}"})


async def status(call: Any) -> int:
    """The status by which a call is refused."""
    with pytest.raises((APIStatusError, httpx.HTTPStatusError)) as refused:
        await call
    return refused.value.response.status_code


@pytest.fixture
def alice() -> str:
    """An identity like real ones, new in every test."""
    return f"alice+{uuid.uuid4().hex[:8]}@example.com"


@pytest.fixture
def ada(server: DevServer, model: ScriptedAnthropic, alice: str) -> Person:
    return server.person(alice, model=model)


@pytest.fixture
def bob(server: DevServer, model: ScriptedAnthropic, alice: str) -> Person:
    return server.person(f"bob-{alice}", model=model)


@pytest.fixture
def threads() -> Platform:
    threads = Platform()
    say(threads, "dog", "Our dog Rex had puppies", "How many?", "Seven, all brown", days=3)
    say(threads, "car", "The engine makes a noise", "Change the belt", days=2)
    say(threads, "trip", "We fly to Lisbon in May", "Take an umbrella", days=1)
    return threads


class Clock:
    """A clock that a test sets: what is written, and the present day in every time zone, follow it."""

    def __init__(self) -> None:
        self.time = datetime(2026, 6, 1, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def set(self, day: str, hour: int = 12) -> None:
        self.time = datetime.fromisoformat(day).replace(hour=hour, tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(days, "now", clock.now)
    return clock


def free_port() -> int:
    """A port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def postgres_uri() -> Iterator[str]:
    """An embedded Postgres of this test session."""
    with embedded() as uri:
        hurry(uri)
        yield uri


@pytest.fixture(params=stores())
async def store(request: pytest.FixtureRequest) -> AsyncIterator[BaseStore]:
    """An empty store; every test that asks for it runs on both."""
    if request.param == "memory":
        yield InMemoryStore()
        return
    async with emptied(request.getfixturevalue("postgres_uri")) as store:
        yield store


def chat_on(url: str) -> ChatAnthropic:
    """The scripted model at this address."""
    return ChatAnthropic(model="claude-sonnet-4-6", base_url=url, api_key=SecretStr("test"))


@cache
def built_agent(settings: Deployment, url: str) -> Any:
    """The agent on the scripted model at this address. To build it takes longer than most tests of
    it.
    """
    return build_agent(settings, chat_on(url))


class Graph:
    """A graph called without a server, as a script would: identity from the context, store and
    checkpoints in memory.
    """

    def __init__(self, graph: Any, store: BaseStore) -> None:
        self.graph = graph.copy()
        self.graph.store = store
        self.graph.checkpointer = InMemorySaver()

    async def turn(
        self, text: str, *, thread: str = "1", user: str = "alice", org: str = "acme", **state: Any
    ) -> list[str]:
        """One user message; the texts of all messages of the thread. `state` are further keys of
        the input.
        """
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        message = {"messages": [{"role": "user", "content": text}], **state}
        result = await self.graph.ainvoke(
            message, config, context=Context(user_id=user, org_id=org)
        )
        return [str(message.text) for message in result["messages"]]


class Scripted(Graph):
    def __init__(self, graph: Any, store: BaseStore, model: ScriptedAnthropic) -> None:
        super().__init__(graph, store)
        self.store, self.model = store, model

    def put(self, namespace: tuple[str, ...], key: str, text: str, **fields: Any) -> None:
        self.store.put(namespace, key, {**create_file_data(text), **fields})

    async def called(self, *calls: ToolCall, **turn: Any) -> list[str]:
        """What the model's calls are answered, made one after the other in one turn."""
        self.model.requests.clear()
        self.model.script(
            said := f"call {uuid.uuid4()}", *([call] for call in calls), [Text("done")]
        )
        await self.turn(said, **turn)
        return [results[-1] for body in self.model.requests if (results := tool_results(body))]

    async def shown(self, **turn: Any) -> str:
        """The system prompt of a new turn."""
        await self.turn("go on", **turn)
        return system_text(self.model.requests[-1])


class BuildGraph(Protocol):
    def __call__(
        self, settings: Deployment = ..., *, build: Callable[..., Any] = ...
    ) -> Scripted: ...


@pytest.fixture
def graph(model: ScriptedAnthropic, store: BaseStore) -> BuildGraph:
    def build_graph(
        settings: Deployment = deployed(),  # noqa: B008  # frozen
        *,
        build: Callable[..., Any] = build_agent,
    ) -> Scripted:
        is_agent = build is build_agent
        return Scripted(
            built_agent(settings, model.url) if is_agent else build(settings, chat_on(model.url)),
            store,
            model,
        )

    return build_graph


@pytest.fixture
def agent(graph: BuildGraph) -> Scripted:
    return graph()
