"""`SHARED_WRITES=interrupt`: what is shared waits for an operator, and nothing the owner of a run does is an approval."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.people import identity
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text
from tests.auth.paused import APPROVE, ATTEMPTS, NAMED, REFUSED_INSIDE, UNNAMED, Attempt, Pause, Paused, resumed, write_skill
from tests.conftest import SUBAGENTS, BuildGraph, served

approvals = served(OPERATORS="root", SHARED_WRITES="interrupt")


@pytest.fixture
async def pause(approvals: DevServer, model: ScriptedAnthropic, alice: str) -> AsyncIterator[Pause]:
    at_once = asyncio.Semaphore(2)  # one person may have few conversations going
    async with httpx.AsyncClient(base_url=approvals.url, timeout=30, trust_env=False) as http:

        async def paused(*then: list[Text | ToolCall], assistant: str = "agent") -> Paused:
            name = f"skill-{uuid.uuid4().hex[:8]}"
            model.script(f"learn {name}", [write_skill(name)], *then)
            client = approvals.as_user(alice)
            async with at_once:
                thread = str((await client.threads.create(metadata={"graph_id": "agent"}))["thread_id"])
                result = await run_turn(client, thread, f"learn {name}", assistant)
            return Paused(approvals, http, alice, name, thread, result["__interrupt__"][0]["id"])

        yield paused


@pytest.mark.server
async def test_what_is_shared_waits_and_nothing_its_owner_does_is_an_approval(pause: Pause) -> None:
    paused = await asyncio.gather(*(pause() for _ in ATTEMPTS))
    assert not any(await asyncio.gather(*(it.written() for it in paused))), "nothing is written before an approval"

    at_once = asyncio.Semaphore(2)  # some make runs, and one person may have few going

    async def answer(it: Paused, attempt: Attempt) -> httpx.Response:
        async with at_once:
            return await attempt(it)

    answers = await asyncio.gather(*(answer(it, attempt) for it, (_, attempt) in zip(paused, ATTEMPTS.values(), strict=True)))
    got = {name: answer.status_code for name, answer in zip(ATTEMPTS, answers, strict=True)}
    assert got == {name: status for name, (status, _) in ATTEMPTS.items()}
    assert REFUSED_INSIDE in answers[list(ATTEMPTS).index("event-stream command")].text
    written = [name for name, it in zip(ATTEMPTS, paused, strict=True) if await it.written()]
    assert written == []


@pytest.mark.server
async def test_a_stranger_can_neither_approve_nor_tell_that_there_is_something(pause: Pause) -> None:
    it = await pause()
    body = {"assistant_id": "agent", "command": {"resume": APPROVE}}
    answer = await it.post("/threads/<thread>/runs/wait", body, caller="mallory")
    nothing = await it.post(f"/threads/{uuid.uuid4()}/runs/wait", body, caller="mallory")
    assert (answer.status_code, answer.text) == (nothing.status_code, nothing.text)
    assert answer.status_code == 403
    assert not await it.written()


@pytest.mark.server
@pytest.mark.parametrize("operator", ["studio", "root"])
async def test_an_operator_approves_and_the_run_goes_on_as_the_thread_s_owner(
    pause: Pause, model: ScriptedAnthropic, operator: str
) -> None:
    append = ToolCall("append_memory", {"path": "/memories/learned.md", "text": "learned it"})
    it = await pause([append], [Text("done")])
    client = it.server.as_operator() if operator == "studio" else it.server.as_user("root")
    own, bob, root = (
        list(deployed().memory.namespace(identity.Actor(user, org), AGENT))
        for user, org in ((it.owner, "acme"), ("bob", "acme"), ("root", "default"))
    )
    for namespace, text in ((own, "alice's memory"), (bob, "bob's memory"), (root, "root's memory")):
        await client.store.put_item(namespace, "/preferences.md", {"content": text, "encoding": "utf-8"})

    context = {"user_id": "bob", "org_id": "acme"}
    await client.runs.wait(it.thread, "agent", command={"resume": it.approval}, context=context)
    assert await it.written()
    _, resumed, last = model.requests_for(f"learn {it.name}")
    for shown in map(system_text, (resumed, last)):
        assert "alice's memory" in shown
        assert "bob's memory" not in shown
        assert "root's memory" not in shown
    assert (await client.store.get_item(own, "/learned.md"))["value"]["content"] == "learned it\n"
    for other in (bob, root):
        assert await client.store.get_item(other, "/learned.md") is None


@pytest.mark.server
async def test_a_rejected_write_writes_nothing_and_the_conversation_goes_on(pause: Pause) -> None:
    it = await pause()
    decision = {"decisions": [{"type": "reject", "message": "no"}]}
    await it.server.as_operator().runs.wait(it.thread, "agent", command={"resume": {it.interrupt: decision}})
    assert not await it.written()
    answer = await it.run(input={"messages": [{"role": "user", "content": "fine, hello"}]})
    assert answer.json()["messages"][-1]["content"] in ("ok", [{"type": "text", "text": "ok"}])


@pytest.mark.server
@pytest.mark.parametrize("who", ["agent", "general-purpose"])
async def test_one_approval_is_for_one_write_and_the_next_in_that_run_waits_again(
    pause: Pause, model: ScriptedAnthropic, who: str
) -> None:
    second = f"second-{uuid.uuid4().hex[:8]}"
    delegate = ToolCall("task", {"description": f"delegated {second}", "subagent_type": who})
    model.script(f"delegated {second}", [write_skill(second)])
    it = await pause([write_skill(second)] if who == "agent" else [delegate])
    await it.server.as_operator().runs.wait(it.thread, "agent", command={"resume": it.approval})
    assert await it.written()
    it.name = second
    assert not await it.written()
    state = await it.server.as_operator().threads.get(it.thread)
    assert state["status"] == "interrupted"
    assert (await it.run(command={"resume": APPROVE})).status_code == 403
    assert not await it.written()


@pytest.mark.server
async def test_who_goes_on_talking_withdraws_the_write_that_waits(pause: Pause, model: ScriptedAnthropic) -> None:
    """An approval of it approves nothing that came later."""
    it = await pause()
    later = f"later-{uuid.uuid4().hex[:8]}"
    model.script(f"rather {later}", [write_skill(later)])
    await it.run(input={"messages": [{"role": "user", "content": f"rather {later}"}]})
    await resumed(it, it.approval)
    assert not await it.written()
    it.name = later
    assert not await it.written()


@pytest.mark.parametrize("subagent", [None, *SUBAGENTS])
@pytest.mark.parametrize(
    "call",
    [
        ToolCall("append_memory", {"path": "/memories/x.md", "text": "x"}),
        ToolCall("save_profile", {"profile": {"name": "x"}}),
        ToolCall("write_file", {"file_path": "/memories/x.md", "content": "x"}),
        ToolCall("edit_file", {"file_path": "/memories/kept.md", "old_string": "kept", "new_string": "x"}),
    ],
    ids=lambda call: call.name,
)
async def test_memory_that_an_assistant_s_users_share_waits_for_an_operator(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore, call: ToolCall, subagent: str | None
) -> None:
    settings = deployed(memory_scope="assistant", shared_writes="interrupt")
    namespace = settings.memory.namespace(identity.Actor("alice", "acme"), AGENT)
    store.put(namespace, "/kept.md", {"content": "kept", "encoding": "utf-8"})
    before = [item.dict() for item in store.search(("memories",))]
    agent = graph(settings)
    if subagent:
        model.script("remember", [ToolCall("task", {"description": "delegated", "subagent_type": subagent})])
    model.script("delegated" if subagent else "remember", [call])
    await agent.turn("remember")
    state = await agent.graph.aget_state({"configurable": {"thread_id": "1"}})
    assert [request["name"] for pending in state.interrupts for request in pending.value["action_requests"]] == [call.name]
    assert [item.dict() for item in store.search(("memories",))] == before


@pytest.mark.server
async def test_a_resume_that_names_no_pending_interrupt_is_refused(pause: Pause) -> None:
    paused = await asyncio.gather(*(pause() for _ in UNNAMED))
    answers = await asyncio.gather(*(send(it) for it, (_, send) in zip(paused, UNNAMED.values(), strict=True)))
    got = {name: answer.status_code for name, answer in zip(UNNAMED, answers, strict=True)}
    assert got == {name: status for name, (status, _) in UNNAMED.items()}
    assert "UnknownInterruptError" in answers[[*UNNAMED].index("another interrupt")].text
    assert [name for name, it in zip(UNNAMED, paused, strict=True) if await it.written()] == []


@pytest.mark.server
async def test_every_way_to_resume_approves_what_it_names(pause: Pause) -> None:
    paused = await asyncio.gather(*(pause() for _ in NAMED))
    answers = await asyncio.gather(*(send(it) for it, send in zip(paused, NAMED.values(), strict=True)))
    assert {name: answer.status_code for name, answer in zip(NAMED, answers, strict=True)} == dict.fromkeys(NAMED, 200)
    missing = list(NAMED)
    for _ in range(300):
        missing = [name for name, it in zip(NAMED, paused, strict=True) if not await it.written()]
        if not missing:
            break
        await asyncio.sleep(0.1)
    assert missing == [], [answer.text for answer in answers]


@pytest.mark.server
async def test_of_two_writes_that_wait_the_named_one_is_approved(pause: Pause, model: ScriptedAnthropic) -> None:
    names = [f"half-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    tasks = [ToolCall("task", {"description": f"do {name}", "subagent_type": "general-purpose"}) for name in names]
    for name in names:
        model.script(f"do {name}", [write_skill(name)])
    it = await pause(tasks)
    await resumed(it, it.approval)
    pending = (await it.server.as_operator().threads.get_state(it.thread))["interrupts"]
    ids = {name: item["id"] for item in pending for name in names if name in str(item["value"])}
    assert set(ids) == set(names)
    assert (await resumed(it, {ids[names[0]]: APPROVE})).status_code == 200
    written = []
    for it.name in names:
        written.append(await it.written())
    assert written == [True, False]
