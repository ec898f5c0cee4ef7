"""What must stay true of a deployment whatever its fork changes, as tests of one line.

    TestContract = contract(DEPLOYMENT, build_agent)

They need no key, no network and no server. They say nothing about prompts, names, numbers or seeds
that a fork chose.
"""

import importlib
import re
import runpy
import uuid
from collections.abc import Callable, Sequence
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
from lasting_memory.testing.people import SignedIn

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

    script: list[list[tuple[str, dict[str, Any]]]] = []  # noqa: RUF012  # pydantic copies it
    shown: list[list[BaseMessage]] = []  # noqa: RUF012
    tools: dict[str, Any] = {}  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        self.tools.update({tool.name: tool for tool in tools if hasattr(tool, "name")})
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.shown.append(messages)
        calls = self.script.pop(0) if self.script else []
        made = [
            {"name": name, "args": args, "id": uuid.uuid4().hex, "type": "tool_call"}
            for name, args in calls
        ]
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage("" if made else "done", tool_calls=made))]
        )

    def prompts(self) -> list[str]:
        """The system prompts of all calls."""
        return [
            "\n".join(said.text for said in messages if isinstance(said, SystemMessage))
            for messages in self.shown
        ]

    def answers(self) -> str:
        """All that tools answered."""
        return "\n".join(
            str(said.content)
            for messages in self.shown
            for said in messages
            if isinstance(said, ToolMessage)
        )


class World:
    """The deployment's agent on the scripted model, in memory."""

    def __init__(self, deployment: Deployment, build_agent: BuildAgent) -> None:
        self.deployment = deployment
        self.model = Scripted(script=[], shown=[], tools={})
        self.store = InMemoryStore()
        self.graph = build_agent(deployment, self.model).copy()
        self.graph.store = self.store
        self.graph.checkpointer = InMemorySaver()
        self.put(namespaces.policies(ALICE.org_id), "/rule.md", f"# Rule\n\n- {RULE}\n")
        if deployment.has_memory:
            self.put(self.memory(ALICE), "/preferences.md", f"- {SECRET}\n")
            self.put(self.memory(ALICE), self.shown_key(), f"- {SECRET}\n")

    def memory(self, actor: Actor) -> tuple[str, ...]:
        return self.deployment.memory.namespace(actor, self.deployment.default_assistant)

    def shown_key(self) -> str:
        """A file of memory that prompts show, as the store names it."""
        texts = [path for path in self.deployment.limits.memory_files if path.endswith(".md")]
        return (texts or ["/memories/preferences.md"])[0].removeprefix("/memories")

    def put(self, namespace: tuple[str, ...], key: str, text: str) -> None:
        self.store.put(namespace, key, {**create_file_data(text)})

    async def turn(
        self, actor: Actor, *script: Sequence[tuple[str, dict[str, Any]]], **state: Any
    ) -> Scripted:
        """One message of a person in a new conversation, after which the model makes these calls."""
        self.model.shown.clear()
        self.model.script[:] = [list(calls) for calls in script]
        config: RunnableConfig = {"configurable": {"thread_id": uuid.uuid4().hex}}
        given = {"messages": [{"role": "user", "content": "go on"}], **state}
        try:
            await self.graph.ainvoke(given, config, context=Context(actor.user_id, actor.org_id))
        except SettingsError as error:  # a part is missing, of which the run itself says so
            raise AssertionError(str(error)) from None
        return self.model

    async def subagents(self) -> list[str]:
        """The names under which the agent delegates; none if it does not."""
        model = await self.turn(ALICE)
        task = model.tools.get("task")
        return re.findall(r"^- ([\w-]+):", task.description, re.MULTILINE) if task else []

    def writes(self, paths: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        """Calls by which the agent's own tools would write these paths."""
        calls: list[tuple[str, dict[str, Any]]] = []
        for path in paths:
            calls += [
                ("write_file", {"file_path": path, "content": FORGED}),
                ("edit_file", {"file_path": path, "old_string": RULE, "new_string": FORGED}),
                ("append_memory", {"path": path, "text": FORGED}),
                ("delete", {"file_path": path}),
            ]
        return [(name, args) for name, args in calls if name in self.model.tools]

    def items(self, root: str) -> dict[tuple[tuple[str, ...], str], Any]:
        found = self.store.search((root,), limit=1_000)
        return {(item.namespace, item.key): item.value["content"] for item in found}


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
        reads: list[tuple[str, dict[str, Any]]] = [
            ("read_file", {"file_path": path}),
            ("read_file", {"file_path": "/memories/preferences.md"}),
            ("grep", {"pattern": SECRET, "path": "/"}),
            ("ls", {"path": "/memories/"}),
            ("search_memories", {"query": SECRET}),
        ]
        own = await world.turn(ALICE, reads)
        assert SECRET in own.prompts()[0], (
            f"{path} is not in its own person's prompt; build the agent with middleware(d)."
        )
        assert SECRET in own.answers(), (
            "a person's own files cannot be read; build the agent with file_system(d)."
        )
        others = [EVE] if self.deployment.memory.is_shared else [BOB, EVE]
        for other in others:
            model = await world.turn(other, reads)
            assert SECRET not in "\n".join(
                [*model.prompts(), model.answers().replace(f"'{SECRET}'", "")]
            ), other

    async def test_no_tool_and_no_spelling_of_a_path_writes_a_policy(self, world: World) -> None:
        names = await world.subagents()
        before = world.items("policies")
        await world.turn(ALICE, world.writes(POLICIES))
        assert world.items("policies") == before, (
            "the agent wrote a policy; give it **file_system(d) as it is."
        )
        for name in names:
            task = ("task", {"description": "go on", "subagent_type": name})
            await world.turn(ALICE, [task], world.writes(POLICIES))
            assert world.items("policies") == before, (
                f"the subagent {name!r} wrote a policy; give it by subagents(d, ...)."
            )

    async def test_a_forged_path_reaches_nobody_else_s_memory(self, world: World) -> None:
        self.needs_memory()
        await world.turn(ALICE)
        await world.turn(ALICE, world.writes(OTHERS))
        kept = world.items("memories")
        assert {namespace for namespace, _ in kept} == {world.memory(ALICE)}
        assert all(
            key.startswith("/") and not {"", ".", ".."} & {*key.split("/")[1:]} for _, key in kept
        ), kept.keys()

    async def test_every_prompt_shows_the_policies_the_subagents_too(self, world: World) -> None:
        names = await world.subagents()
        assert RULE in world.model.prompts()[0], (
            "the agent sees no policies; build it with middleware(d, ...)."
        )
        for name in names:
            model = await world.turn(
                ALICE, [("task", {"description": "go on", "subagent_type": name})]
            )
            _, *inner = model.prompts()
            assert len(inner) > 1, f"the subagent {name!r} was not run on the agent's model"
            assert all(RULE in prompt for prompt in inner), (
                f"{name!r} sees no policies; give it by subagents(d, ...)."
            )
        assert RULE not in (await world.turn(EVE)).prompts()[0]

    async def test_a_client_s_state_puts_nothing_into_the_prompt(self, world: World) -> None:
        skill = {
            "name": "x",
            "description": FORGED,
            "path": "/skills/x/SKILL.md",
            "allowed_tools": [],
            "metadata": {},
        }
        forged = {"memory_contents": {"/policies/rule.md": FORGED}, "skills_metadata": [skill]}
        model = await world.turn(ALICE, **forged)
        assert FORGED not in "\n".join(model.prompts()), (
            "state reaches the prompt; build it with middleware(d, ...)."
        )

    @pytest.mark.parametrize("probe", [refuse_forged_content, refuse_forged_change])
    async def test_checks_run_on_tools_http_and_seeds_alike(
        self, tmp_path: Path, probe: Check
    ) -> None:
        self.needs_memory()
        writable = replace(self.deployment.settings, memory_scope="user", memory_writes="both")
        probed = replace(
            self.deployment, checks=[*self.deployment.checks, probe], settings=writable
        )
        world = World(probed, self.build_agent)
        model = await world.turn(
            ALICE, [("write_file", {"file_path": "/memories/probe.md", "content": FORGED})]
        )
        assert "probe" in model.answers()
        user = SignedIn(identity=ALICE.user_id, org_id=ALICE.org_id, permissions=[])
        async with http_client(probed, world.store, user) as http:
            asked = {"params": {"path": "/memories/probe.md"}, "json": {"content": FORGED}}
            answer = await http.put("/memory/file", **asked)  # type: ignore[arg-type]
        assert answer.is_client_error, (answer.status_code, answer.text)
        folder = tmp_path / "seeds" / "memories" / "contract" / "alice"
        folder.mkdir(parents=True)
        (folder / "probe.md").write_text(FORGED, "utf-8")
        with pytest.raises(seeding.SeedError, match="probe"):
            seeding.folder_files(replace(probed, folder=tmp_path), ["memories"], [])
        assert not [key for _, key in world.items("memories") if "probe" in key]

    def test_what_this_folder_seeds_is_valid(self) -> None:
        seeding.folder_files(self.deployment, seeding.PARTS, [])

    def test_what_langgraph_json_names_is_there(self) -> None:
        for entry in _entries(self.deployment.folder):
            path, _, name = entry.rpartition(":")
            is_file = path.endswith(".py")  # which the platform loads under a private name
            loaded = (
                runpy.run_path(str(self.deployment.folder / path))
                if is_file
                else vars(importlib.import_module(path))
            )
            assert name in loaded, f"langgraph.json names {entry}, and {path} has no {name}."


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


def _entries(folder: Path) -> list[str]:
    """Every `path:name` of langgraph.json that the platform loads."""
    config = project_config(folder)
    graphs = [
        graph if isinstance(graph, str) else graph["path"] for graph in config["graphs"].values()
    ]
    named = [config.get("auth", {}).get("path"), config.get("http", {}).get("app")]
    kept = [config.get(part, {}).get("path") for part in ("store", "checkpointer")]
    return [entry for entry in [*graphs, *named, *kept] if entry]


def http_client(
    deployment: Deployment, store: BaseStore, user: SignedIn | None
) -> httpx.AsyncClient:
    """A client of the deployment's routes, signed in as somebody, without a server."""

    async def the_store() -> BaseStore:
        return store

    app = build_http(deployment, store=the_store)

    async def signed_in(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "user": user}, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(signed_in), base_url="http://test")
