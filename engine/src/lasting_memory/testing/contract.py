"""What must stay true of a deployment whatever its fork changes, as tests of one line.

    TestContract = contract(DEPLOYMENT, build_agent)

They need no key, no network and no server. They say nothing about prompts, names, numbers or seeds
that a fork chose.
"""

import importlib
import re
import runpy
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from starlette.types import Receive, Scope, Send

from lasting_memory import seeding
from lasting_memory.agent.checks import check_graph
from lasting_memory.deployment import Change, Check, Deployment
from lasting_memory.http.app import build_http
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author, Context
from lasting_memory.settings import SettingsError, project_config
from lasting_memory.settings.project import object_of
from lasting_memory.testing.people import SignedIn

# What the platform loads beside the graphs, by part and field of langgraph.json.
_LOADED = (("auth", "path"), ("http", "app"), ("store", "path"), ("checkpointer", "path"))
# A call of a tool: its name and arguments.
Call = tuple[str, dict[str, Any]]
# Contents of the store, by namespace and key.
Contents = dict[tuple[tuple[str, ...], str], Any]
BuildAgent = Callable[[Deployment, BaseChatModel], Any]

ALICE = Actor("alice", "contract")
BOB = Actor("bob", "contract")
EVE = Actor("eve", "contract-2")
RULE = "contract-rule-7391"  # in a policy of Alice's organization
SECRET = "contract-secret-5128"  # in Alice's memory
FORGED = "contract-forgery-6640"  # what nothing may store or show
# Spellings under which somebody might reach a policy.
# fmt: off
POLICIES = [
    "/policies/rule.md", "/policies/new.md", "/policies", "/policies/", "policies/rule.md", "//policies/rule.md",
    "/./policies/rule.md", "/policies/./rule.md", "/policies//rule.md", "/memories/../policies/rule.md", "~/policies/rule.md",
    "\\policies\\rule.md", "/policies/sub/../rule.md", "/policies/sub/new.md", "/policies/rule.md/",
]
# And another person's memory.
OTHERS = [
    "/memories/../memories/contract:bob/x.md", "/memories/../../contract:bob/x.md", "/memories/contract:bob/../x.md",
    "//memories/x.md", "/memories//x.md", "/memories/./x.md", "/memories\\x.md", "/memories/x.md/", "/memories", "/memories/",
]
# fmt: on


class Scripted(BaseChatModel):
    """A model that makes the calls it is told to, one list a turn, and keeps what it was shown."""

    script: list[list[Call]] = []  # noqa: RUF012  # pydantic copies it
    shown: list[list[BaseMessage]] = []  # noqa: RUF012
    tools: dict[str, Any] = {}  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Keep the tools by name."""
        for tool in tools:
            if hasattr(tool, "name"):
                self.tools[tool.name] = tool
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        """The next scripted calls as the model's answer; "done" where none are left."""
        self.shown.append(messages)
        message = AIMessage("done")
        scripted_calls: list[Call] = []
        if self.script:
            scripted_calls = self.script.pop(0)
        if scripted_calls:
            tool_calls = list[Any]()
            for name, args in scripted_calls:
                call_id = uuid.uuid4().hex
                tool_calls.append({"name": name, "args": args, "id": call_id, "type": "tool_call"})
            message = AIMessage("", tool_calls=tool_calls)
        generation = ChatGeneration(message=message)
        return ChatResult(generations=[generation])

    def prompts(self) -> list[str]:
        """The system prompts of all calls."""
        prompts = list[str]()
        for messages in self.shown:
            texts = [message.text for message in messages if isinstance(message, SystemMessage)]
            prompts.append("\n".join(texts))
        return prompts

    def answers(self) -> str:
        """All that tools answered."""
        answers = list[str]()
        for messages in self.shown:
            for message in messages:
                if isinstance(message, ToolMessage):
                    answers.append(str(message.content))
        return "\n".join(answers)


class World:
    """The deployment's agent on the scripted model, in memory."""

    def __init__(self, deployment: Deployment, build_agent: BuildAgent) -> None:
        self.deployment = deployment
        self.model = Scripted(script=[], shown=[], tools={})
        self.store = InMemoryStore()
        agent = build_agent(deployment, self.model)
        graph = agent.copy()
        graph.store = self.store
        graph.checkpointer = InMemorySaver()
        self.graph = graph
        policies = namespaces.policies(ALICE.org_id)
        self.put(policies, "/rule.md", f"# Rule\n\n- {RULE}\n")
        if deployment.has_memory:
            memory = self.memory(ALICE)
            secret_file = f"- {SECRET}\n"
            self.put(memory, "/preferences.md", secret_file)
            self.put(memory, self.shown_key(), secret_file)

    def memory(self, actor: Actor) -> tuple[str, ...]:
        """The namespace of a person's memory."""
        deployment = self.deployment
        return deployment.memory.namespace(actor, deployment.default_assistant)

    def shown_key(self) -> str:
        """A file of memory that prompts show, as the store names it."""
        for path in self.deployment.limits.memory_files:
            if path.endswith(".md"):
                return path.removeprefix("/memories")
        return "/preferences.md"

    def put(self, namespace: tuple[str, ...], key: str, text: str) -> None:
        self.store.put(namespace, key, {**create_file_data(text)})

    async def turn(self, actor: Actor, *script: Sequence[Call], **state: Any) -> Scripted:
        """One message of a person in a new conversation, after which the model makes these calls."""
        model = self.model
        model.shown.clear()
        model.script.clear()
        for calls in script:
            model.script.append(list(calls))
        thread_id = uuid.uuid4().hex
        config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
        context = Context(actor.user_id, actor.org_id)
        message = {"role": "user", "content": "go on"}
        run_input = {"messages": [message], **state}
        try:
            await self.graph.ainvoke(run_input, config, context=context)
        except SettingsError as error:  # a part is missing, of which the run itself says so
            raise AssertionError(str(error)) from None
        return model

    async def subagents(self) -> list[str]:
        """The names under which the agent delegates; none if it does not."""
        model = await self.turn(ALICE)
        task = model.tools.get("task")
        if task is None:
            return []
        return re.findall(r"^- ([\w-]+):", task.description, re.MULTILINE)

    def writes(self, paths: Sequence[str]) -> list[Call]:
        """Calls by which the agent's own tools would write these paths."""
        calls = list[Call]()
        for path in paths:
            possible_calls: list[Call] = [
                ("write_file", {"file_path": path, "content": FORGED}),
                ("edit_file", {"file_path": path, "old_string": RULE, "new_string": FORGED}),
                ("append_memory", {"path": path, "text": FORGED}),
                ("delete", {"file_path": path}),
            ]
            for call in possible_calls:
                tool_name, _ = call
                if tool_name in self.model.tools:
                    calls.append(call)
        return calls

    def items(self, root: str) -> Contents:
        """The contents of all files below a root of namespaces, by namespace and key."""
        contents = Contents()
        for item in self.store.search((root,), limit=1_000):
            place = (item.namespace, item.key)
            contents[place] = item.value["content"]
        return contents


def refuse_forged_content(path: str, content: str | None, author: Author) -> None:
    """A check of three arguments."""
    if content and FORGED in content:
        raise RefusedWrite(f"{path}: probe")


def refuse_forged_change(change: Change) -> None:
    """A check of one."""
    refuse_forged_content(change.path, change.after, change.author)


class Contract:
    """The tests. `contract` makes them those of a deployment."""

    deployment: Deployment
    build_agent: BuildAgent

    @pytest.fixture
    def world(self) -> World:
        return World(self.deployment, self.build_agent)

    def needs_memory(self) -> None:
        if not self.deployment.has_memory:
            pytest.skip('routes has no "/memories/"')

    def test_the_agent_has_all_parts_that_keep_it_safe(self, world: World) -> None:
        check_graph(world.graph)  # as a server does at its start

    async def test_what_one_person_has_another_never_sees(self, world: World) -> None:
        self.needs_memory()
        path = f"/memories{world.shown_key()}"
        reads: list[Call] = [
            ("read_file", {"file_path": path}),
            ("read_file", {"file_path": "/memories/preferences.md"}),
            ("grep", {"pattern": SECRET, "path": "/"}),
            ("ls", {"path": "/memories/"}),
            ("search_memories", {"query": SECRET}),
        ]
        model = await world.turn(ALICE, reads)
        assert SECRET in model.prompts()[0], (
            f"{path} is not in its own person's prompt; build the agent with middleware(d)."
        )
        assert SECRET in model.answers(), (
            "a person's own files cannot be read; build the agent with file_system(d)."
        )
        strangers = [EVE]
        if not self.deployment.memory.is_shared:
            strangers.append(BOB)
        for stranger in strangers:
            model = await world.turn(stranger, reads)
            answers = model.answers()
            # An answer may repeat what was looked for.
            answers = answers.replace(f"'{SECRET}'", "")
            shown_texts = [*model.prompts(), answers]
            assert SECRET not in "\n".join(shown_texts), stranger

    async def test_no_tool_and_no_spelling_of_a_path_writes_a_policy(self, world: World) -> None:
        names = await world.subagents()
        before = world.items("policies")
        writes = world.writes(POLICIES)
        await world.turn(ALICE, writes)
        assert world.items("policies") == before, (
            "the agent wrote a policy; give it **file_system(d) as it is."
        )
        for name in names:
            task = ("task", {"description": "go on", "subagent_type": name})
            writes = world.writes(POLICIES)
            await world.turn(ALICE, [task], writes)
            assert world.items("policies") == before, (
                f"the subagent {name!r} wrote a policy; give it by subagents(d, ...)."
            )

    async def test_a_forged_path_reaches_nobody_else_s_memory(self, world: World) -> None:
        self.needs_memory()
        await world.turn(ALICE)
        writes = world.writes(OTHERS)
        await world.turn(ALICE, writes)
        places = world.items("memories").keys()
        own_namespace = world.memory(ALICE)
        for namespace, key in places:
            assert namespace == own_namespace, places
            first, *names = key.split("/")
            assert first == "", places
            assert names, places
            for name in names:
                assert name not in ("", ".", ".."), places
        assert places

    async def test_every_prompt_shows_the_policies_the_subagents_too(self, world: World) -> None:
        names = await world.subagents()
        assert RULE in world.model.prompts()[0], (
            "the agent sees no policies; build it with middleware(d, ...)."
        )
        for name in names:
            task = ("task", {"description": "go on", "subagent_type": name})
            model = await world.turn(ALICE, [task])
            _, *inner = model.prompts()
            assert len(inner) > 1, f"the subagent {name!r} was not run on the agent's model"
            for prompt in inner:
                assert RULE in prompt, f"{name!r} sees no policies; give it by subagents(d, ...)."
        model = await world.turn(EVE)
        assert RULE not in model.prompts()[0]

    async def test_a_client_s_state_puts_nothing_into_the_prompt(self, world: World) -> None:
        skill = {
            "name": "x",
            "description": FORGED,
            "path": "/skills/x/SKILL.md",
            "allowed_tools": [],
            "metadata": {},
        }
        memory_contents = {"/policies/rule.md": FORGED}
        model = await world.turn(ALICE, memory_contents=memory_contents, skills_metadata=[skill])
        for prompt in model.prompts():
            assert FORGED not in prompt, (
                "state reaches the prompt; build it with middleware(d, ...)."
            )

    @pytest.mark.parametrize("probe", [refuse_forged_content, refuse_forged_change])
    async def test_checks_run_on_tools_http_and_seeds_alike(
        self, tmp_path: Path, probe: Check
    ) -> None:
        self.needs_memory()
        path = "/memories/probe.md"
        checks = [*self.deployment.checks, probe]
        settings = replace(self.deployment.settings, memory_scope="user", memory_writes="both")
        probed = replace(self.deployment, checks=checks, settings=settings)
        world = World(probed, self.build_agent)
        write = ("write_file", {"file_path": path, "content": FORGED})
        model = await world.turn(ALICE, [write])
        assert "probe" in model.answers()
        answer = await _put_over_http(world, path, FORGED)
        assert answer.is_client_error, (answer.status_code, answer.text)
        folder = tmp_path / "seeds" / "memories" / "contract" / "alice"
        folder.mkdir(parents=True)
        seed = folder / "probe.md"
        seed.write_text(FORGED, "utf-8")
        seeded = replace(probed, folder=tmp_path)
        with pytest.raises(seeding.SeedError, match="probe"):
            seeding.folder_files(seeded, ["memories"], [])
        for _, key in world.items("memories"):
            assert "probe" not in key

    def test_what_this_folder_seeds_is_valid(self) -> None:
        seeding.folder_files(self.deployment, seeding.PARTS, [])

    def test_what_langgraph_json_names_is_there(self) -> None:
        folder = self.deployment.folder
        for entry in _entries(folder):
            path, _, name = entry.rpartition(":")
            assert name in _names_in(path, folder), (
                f"langgraph.json names {entry}, and {path} has no {name}."
            )


def contract(deployment: Deployment, build_agent: BuildAgent) -> type[Contract]:
    """The tests of a deployment, as a class for pytest (with `asyncio_mode = "auto"`).

    `build_agent` is called as `build_agent(deployment, model)` and returns the compiled graph. Each
    further agent of a fork has a contract of its own.
    """
    return type(
        "Contract",
        (Contract,),
        {"deployment": deployment, "build_agent": staticmethod(build_agent)},
    )


async def _put_over_http(world: World, path: str, content: str) -> httpx.Response:
    """The answer to Alice, who writes a file over HTTP."""
    user = SignedIn(identity=ALICE.user_id, org_id=ALICE.org_id, permissions=[])
    query = {"path": path}
    body = {"content": content}
    async with http_client(world.deployment, world.store, user) as http:
        return await http.put("/memory/file", params=query, json=body)


def _names_in(path: str, folder: Path) -> Collection[str]:
    """What a module defines, which langgraph.json names as a file or as a module."""
    if path.endswith(".py"):  # which the platform loads under a private name
        file = folder / path
        return runpy.run_path(str(file))
    module = importlib.import_module(path)
    return vars(module)


def _entries(folder: Path) -> list[str]:
    """Every `path:name` of langgraph.json that the platform loads."""
    config = project_config(folder)
    entries = list[str]()
    graphs = object_of(config["graphs"], "langgraph.json: graphs", "{}")
    for name, graph in graphs.items():
        path = graph
        if not isinstance(graph, str):
            described = object_of(graph, f"langgraph.json: graphs: {name}", "{}")
            path = described["path"]
        entries.append(str(path))
    for block_name, field in _LOADED:
        block = object_of(config.get(block_name), f"langgraph.json: {block_name}", "{}")
        entry = block.get(field)
        if entry:
            entries.append(str(entry))
    return entries


def http_client(
    deployment: Deployment, store: BaseStore, user: SignedIn | None
) -> httpx.AsyncClient:
    """A client of the deployment's routes, signed in as somebody, without a server."""

    async def the_store() -> BaseStore:
        return store

    app = build_http(deployment, store=the_store)

    async def signed_in(scope: Scope, receive: Receive, send: Send) -> None:
        signed_in_scope = {**scope, "user": user}
        await app(signed_in_scope, receive, send)

    transport = httpx.ASGITransport(signed_in)
    return httpx.AsyncClient(transport=transport, base_url="http://test")
