"""A tool's question is the person's to answer, and what `interrupt_on` raised is an operator's,
whatever it looks like.
"""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware

from lasting_memory.agent import graph_parts
from lasting_memory.agent.checks import check_graph
from lasting_memory.agent.graph_parts import has_approvals
from lasting_memory.settings import SettingsError
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.auth.questions import GRAPH, HITL
from tests.auth.test_approvals import APPROVE, SKILL
from tests.conftest import chat_on, served

asking = served({"graphs": {"agent": GRAPH}}, OPERATORS="root", SHARED_WRITES="interrupt")


@pytest.fixture
def ada(asking: DevServer, model: ScriptedAnthropic, alice: str) -> Person:
    return asking.person(alice, model=model)


class Waiting:
    """A conversation of a person whose agent made these calls at once, in a subagent if `who` names
    one.
    """

    def __init__(self, person: Person, thread: str) -> None:
        self.person, self.thread = person, thread

    @classmethod
    async def after(cls, person: Person, *calls: ToolCall, who: str = "", **turn: Any) -> "Waiting":
        said = f"do {uuid.uuid4()}"
        if who:
            person.model.script(
                said,
                [ToolCall("task", {"description": f"delegated {said}", "subagent_type": who})],
                [Text("done")],
            )
        person.model.script(
            f"delegated {said}" if who else said, [*calls], [Text("helped" if who else "done")]
        )
        thread = await person.thread()
        await person.turn(thread, said, **turn)
        return cls(person, thread)

    async def pending(self) -> dict[str, dict[str, Any]]:
        """What waits, by who answers it."""
        found = await self.person.made("GET", "/memory/interrupts", thread_id=self.thread)
        return {one["answered_by"]: one for one in found["interrupts"]}

    async def ids(self) -> list[str]:
        found = await self.person.made("GET", "/memory/interrupts", thread_id=self.thread)
        return [one["id"] for one in found["interrupts"]]

    async def run(self, caller: Person | None = None, **body: Any) -> httpx.Response:
        path = f"/threads/{self.thread}/runs/wait"
        return await (caller or self.person).ask("POST", path, {"assistant_id": "agent", **body})

    async def answer(
        self, resume: Any, caller: Person | None = None, **more: Any
    ) -> httpx.Response:
        return await self.run(caller, command={"resume": resume}, **more)

    async def results(self) -> list[str]:
        """What the tools answered, of the outermost agent."""
        values: Any = (await self.person.client.threads.get_state(self.thread))["values"]
        return [
            str(message["content"]) for message in values["messages"] if message["type"] == "tool"
        ]


def ask(question: Any) -> ToolCall:
    return ToolCall("ask", {"question": question})


def write_skill() -> ToolCall:
    name = f"skill-{uuid.uuid4().hex[:8]}"
    return ToolCall(
        "write_file", {"file_path": f"/skills/{name}/SKILL.md", "content": SKILL.format(name=name)}
    )


@pytest.mark.server
@pytest.mark.parametrize("who", ["", "general-purpose", "writer"])
@pytest.mark.parametrize("question", ["Which color?", HITL], ids=["text", "look-alike"])
async def test_a_tool_s_question_is_the_person_s_to_answer(
    asking: DevServer, ada: Person, question: Any, who: str
) -> None:
    it = await Waiting.after(ada, ask(question), who=who)
    pending = (await it.pending())["person"]
    answer = "blue" if question == "Which color?" else APPROVE
    stranger = asking.person("mallory")
    assert (await it.answer({pending["id"]: answer}, stranger)).status_code in (403, 404)
    assert (await stranger.ask("GET", "/memory/interrupts", thread_id=it.thread)).status_code == 404
    answered = await it.answer({pending["id"]: answer})
    assert answered.status_code == 200, answered.text
    assert await it.pending() == {}
    assert answered.json()["messages"][-1]["content"] in (
        "done",
        [{"type": "text", "text": "done"}],
    )
    if not who:
        assert json.loads((await it.results())[-1]) == answer
    again = await it.answer({pending["id"]: answer})
    assert (again.status_code, "does not wait" in again.text) == (409, True)


@pytest.mark.server
@pytest.mark.parametrize("who", ["", "general-purpose", "writer"])
@pytest.mark.parametrize(
    "call", [write_skill(), ToolCall("cleared", {"what": "all"})], ids=lambda call: call.name
)
async def test_an_interrupt_of_interrupt_on_is_an_operator_s_to_answer(
    asking: DevServer, ada: Person, call: ToolCall, who: str
) -> None:
    it = await Waiting.after(ada, call, who=who)
    pending = (await it.pending())["operator"]
    for resume in ({pending["id"]: APPROVE}, APPROVE, "yes"):
        refused = await it.answer(resume)
        assert (refused.status_code, "only they may answer" in refused.text) == (403, True)
    commands: list[dict[str, Any]] = [
        {"goto": "tools"},
        {"update": {"messages": []}},
        {"resume": "yes", "goto": "tools"},
    ]
    for command in commands:
        assert (await it.run(command=command)).status_code == 403
    root = asking.person("root")
    assert (await it.answer({pending["id"]: APPROVE}, root)).status_code == 200
    assert await it.pending() == {}


@pytest.mark.server
async def test_an_approved_call_is_made_once_whatever_checkpoint_its_person_goes_back_to(
    asking: DevServer, ada: Person
) -> None:
    what, root = uuid.uuid4().hex, asking.person("root")
    it = await Waiting.after(ada, ToolCall("cleared", {"what": what}), ask("and?"))
    assert (
        await it.answer({(await it.pending())["operator"]["id"]: APPROVE}, root)
    ).status_code == 200
    made = (await ada.client.threads.get_state(it.thread))["checkpoint"]["checkpoint_id"]
    # It has been made, and its agent waits for the person's answer to the other call.
    assert (await it.run(input=None, checkpoint_id=made)).status_code == 200
    inside = {"checkpoint_id": made, "checkpoint_ns": "tools:x"}
    for checkpoint in (inside, {"checkpoint_id": made, "checkpoint_map": {"tools:x": made}}):
        assert (await it.run(input=None, checkpoint=checkpoint)).status_code == 403
    assert (await it.answer("no more")).status_code == 200
    refused = await it.run(input=None, checkpoint_id=made)
    assert (refused.status_code, "only they may have calls made" in refused.text) == (403, True)
    for state in await ada.client.threads.get_history(it.thread, limit=20):
        again = await it.run(input=None, checkpoint_id=state["checkpoint"]["checkpoint_id"])
        assert again.status_code == (403 if "tools" in state["next"] else 200), again.text
    assert (await it.run(root, input=None, checkpoint_id=made)).status_code == 200
    ask_again = await Waiting.after(ada, ToolCall("cleared", {"what": what}))
    await ask_again.answer({(await ask_again.pending())["operator"]["id"]: APPROVE}, root)
    assert await ask_again.results() == [f"cleared {what}, 3 times"], (
        "by two approvals, and the operator once more"
    )


@pytest.mark.server
@pytest.mark.parametrize("who", ["", "writer"])
async def test_an_approved_call_that_goes_on_is_begun_again_by_no_copy_and_by_no_stop(
    asking: DevServer, ada: Person, tmp_path: Path, who: str
) -> None:
    it = await Waiting.after(ada, ToolCall("moved", {"place": str(tmp_path)}), who=who)
    approval = {(await it.pending())["operator"]["id"]: APPROVE}
    approved = asyncio.create_task(it.answer(approval, asking.person("root")))
    try:
        async with asyncio.timeout(120):
            while not (tmp_path / "begun").exists():  # noqa: ASYNC110  # the server is another process
                await asyncio.sleep(0.05)
        copy = Waiting(ada, (await ada.made("POST", f"/threads/{it.thread}/copy", {}))["thread_id"])
        assert (await copy.run(input=None)).status_code == 403
        (run, *_) = await ada.client.runs.list(it.thread)
        await ada.client.runs.cancel(it.thread, run["run_id"], wait=True)
        stopped = await it.run(input=None)
        assert (stopped.status_code, "only they may have calls made" in stopped.text) == (403, True)
    finally:
        (tmp_path / "end").touch()
    await approved
    assert (tmp_path / "begun").read_text() == "x"
    assert (
        await it.run(input={"messages": [{"role": "user", "content": "never mind"}]})
    ).status_code == 200


@pytest.mark.server
async def test_a_command_of_nulls_is_none(ada: Person) -> None:
    it = await Waiting.after(ada, ask("what?"))
    answered = await it.run(command={"resume": None, "update": None, "goto": None})
    assert (answered.status_code, "__interrupt__" in answered.text) == (200, True), answered.text
    assert len(await it.ids()) == 1


@pytest.mark.server
async def test_questions_for_person_and_operator_at_once_are_answered_by_their_ids(
    asking: DevServer, ada: Person
) -> None:
    delegated = f"clear {uuid.uuid4()}"
    ada.model.script(delegated, [ToolCall("cleared", {"what": "all"})], [Text("cleared it")])
    task = ToolCall("task", {"description": delegated, "subagent_type": "general-purpose"})
    it = await Waiting.after(ada, task, ask("one"), ask("two"))
    found = (await ada.made("GET", "/memory/interrupts", thread_id=it.thread))["interrupts"]
    ids = {one["text"] or "operator": one["id"] for one in found}
    assert {one["answered_by"] for one in found if one["text"]} == {"person"}
    unnamed = await it.answer("both")
    assert (unnamed.status_code, "name each" in unnamed.text) == (422, True)
    mixed = await it.answer({ids["one"]: "1", ids["operator"]: APPROVE})
    assert (mixed.status_code, "only they may answer" in mixed.text) == (403, True)
    assert (await it.answer({ids["one"]: "1", "decisions": []})).status_code == 422
    assert (await it.answer({ids["one"]: "1", "0" * 32: "2"})).status_code == 409
    assert sorted(await it.ids()) == sorted(ids.values()), "nothing was answered"
    assert (await it.answer({ids["one"]: "1"})).status_code == 200
    assert (await it.answer({ids["one"]: "again"})).status_code == 409
    assert (await it.answer({ids["operator"]: APPROVE}, asking.person("root"))).status_code == 200
    assert await it.ids() == [ids["two"]]
    assert (await it.answer("2")).status_code == 200, "the only one needs no name"
    assert {'"1"', '"2"'} < {*await it.results()}


@pytest.mark.server
async def test_questions_of_many_subagents_at_once_are_all_the_person_s(
    ada: Person,
) -> None:
    calls = []
    for number in range(40):
        delegated = f"ask {uuid.uuid4()}"
        ada.model.script(delegated, [ask(f"number {number}")], [Text("asked")])
        calls.append(
            ToolCall("task", {"description": delegated, "subagent_type": "general-purpose"})
        )
    it = await Waiting.after(ada, *calls)
    found = (await ada.made("GET", "/memory/interrupts", thread_id=it.thread))["interrupts"]
    assert [one["answered_by"] for one in found] == ["person"] * 40


@pytest.mark.server
async def test_an_answer_is_to_what_waits_in_the_latest_state(ada: Person) -> None:
    it = await Waiting.after(ada, ask("first"))
    (pending,) = await it.ids()
    state = (await ada.client.threads.get_state(it.thread))["checkpoint"]
    history = await ada.client.threads.get_history(it.thread, limit=5)
    before = history[1]["checkpoint"]["checkpoint_id"]
    assert (await it.answer({pending: "old"}, checkpoint_id=before)).status_code == 409
    assert (
        await it.answer({pending: "new"}, checkpoint_id=state["checkpoint_id"])
    ).status_code == 200
    assert (await it.results())[-1] == '"new"'
    assert (await it.answer("late")).status_code == 409
    withdrawn = await Waiting.after(ada, ask("second"))
    (second,) = await withdrawn.ids()
    await ada.turn(withdrawn.thread, "never mind")
    assert (await withdrawn.answer({second: "late"})).status_code == 409


@pytest.mark.server
@pytest.mark.parametrize("durability", ["exit", "async"])
async def test_a_question_with_two_answers_at_once_takes_one(ada: Person, durability: str) -> None:
    it = await Waiting.after(ada, ask("which?"), who="writer", durability=durability)
    (pending,) = await it.ids()
    answers = await asyncio.gather(*(it.answer({pending: color}) for color in ("red", "blue")))
    refused = [
        answer
        for answer in answers
        if answer.status_code == 409 or "UnknownInterruptError" in answer.text
    ]
    assert len(refused) == 1
    assert len(await it.results()) == 1
    assert await it.ids() == []


@pytest.mark.server
async def test_the_example_of_the_documents_asks_the_person(ada: Person) -> None:
    mail = ToolCall("send_mail", {"to": "eve@example.com", "text": "hello"})
    it = await Waiting.after(
        ada,
        mail,
        ToolCall("ask_person", {"question": "<b>Why?</b>"}),
        ToolCall("choose", {"question": "color"}),
    )
    found = (await ada.made("GET", "/memory/interrupts", thread_id=it.thread))["interrupts"]
    by_kind = {one["kind"] + str(one["choices"]): one for one in found}
    asked, why = by_kind["decisions[]"], by_kind["value[]"]
    color = by_kind["value['red', 'blue']"]
    assert asked["requests"][0]["may"] == ["approve", "edit", "reject"]
    assert why["text"] == "<b>Why?</b>"
    edited = {"name": "send_mail", "args": {"to": "bob@example.com", "text": "hello"}}
    decision = {"decisions": [{"type": "edit", "edited_action": edited}]}
    answered = await it.answer({asked["id"]: decision, why["id"]: "because", color["id"]: "blue"})
    assert answered.status_code == 200, answered.text
    assert {"Sent to bob@example.com: hello", "because", "blue"} <= {*await it.results()}


def test_a_server_knows_of_each_graph_whether_it_has_approvals_and_refuses_those_that_look_like_questions() -> (
    None
):
    from agent import build_agent  # noqa: PLC0415  # the tests' own

    from tests.auth import asking as asking_graph  # noqa: PLC0415

    model = chat_on("http://127.0.0.1:1")
    assert not has_approvals(build_agent(deployed(), model))
    assert has_approvals(build_agent(deployed(shared_writes="interrupt"), model))
    graph = asking_graph.build_agent(deployed(), model)
    assert has_approvals(graph)
    check_graph(graph)
    (asks,) = [
        hook for hook in graph_parts.hooks_of(graph) if isinstance(hook, HumanInTheLoopMiddleware)
    ]
    asks.interrupt_mode = "per_call"
    with pytest.raises(SettingsError, match="interrupt_mode='batched'"):
        check_graph(graph)
