"""Which tokens name whom, and who operators act for, on the real server. Who may do what is in test_matrix.py."""

import uuid
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.people import OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import Failure, ScriptedAnthropic, Text, ToolCall, system_text

pytestmark = pytest.mark.server

ORG, OTHER_ORG = "acme", "globex"
SECRET = "alice-says-4711"
NOW: dict[str, Any] = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hello"}]}}


def memories(identity: str, org: str = ORG) -> list[str]:
    return list(deployed().memory.namespace(Actor(identity, org), ""))


def text_file(text: str) -> dict[str, str]:
    return {"content": text, "encoding": "utf-8"}


async def with_a_conversation(owner: Person) -> str:
    """The id of their conversation, in which they said the secret."""
    thread = await owner.thread()
    await owner.turn(thread, SECRET)
    return thread


@pytest.mark.parametrize("caller", ["studio", "root"])
async def test_an_operator_s_context_chooses_whose_memory_is_shown(
    server: DevServer, model: ScriptedAnthropic, alice: str, caller: str
) -> None:
    client = server.as_operator() if caller == "studio" else server.as_user("root")
    org, other = f"org of {alice}", f"other org of {alice}"
    store = server.as_operator().store
    await store.put_item(memories(alice, org), "/preferences.md", text_file(SECRET))
    for of in (org, other):
        await store.put_item(list(namespaces.policies(of)), "/rule.md", text_file(f"policy of {of}"))
    await run_turn(client, await new_thread(client), f"for {alice}", context={"user_id": alice, "org_id": org})
    shown = system_text(model.requests_for(f"for {alice}")[-1])
    assert SECRET in shown
    assert f"policy of {org}" in shown
    assert f"policy of {other}" not in shown


async def test_what_an_operator_makes_for_somebody_is_theirs(server: DevServer, alice: str) -> None:
    """A thread that an operator's run creates, and a copy, are the person's, and not those of their name elsewhere."""
    owner, elsewhere, thread = server.person(alice), server.person(alice, OTHER_ORG), str(uuid.uuid4())
    operator, context = server.as_operator(), {"user_id": alice, "org_id": ORG}
    later: dict[str, Any] = {"if_not_exists": "create", "after_seconds": 3600}
    run = await operator.runs.create(thread, "agent", input=NOW["input"], context=context, **later)
    assert (await owner.ask("GET", f"/threads/{thread}/runs/{run['run_id']}")).status_code == 200
    copied = await server.person("", headers=OPERATOR).made("POST", f"/threads/{await with_a_conversation(owner)}/copy")
    assert SECRET in (await owner.ask("GET", f"/threads/{copied['thread_id']}/state")).text
    for other in (thread, copied["thread_id"]):
        assert (await elsewhere.ask("GET", f"/threads/{other}")).status_code == 404


async def new_thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


async def test_an_operator_who_goes_on_with_a_stopped_run_acts_as_the_thread_s_owner(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, operator = server.as_user(alice), server.as_user("root")
    thread = str((await client.threads.create())["thread_id"])
    text = f"remember {alice}"
    append = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- hers"})
    model.script(text, Failure(401, "authentication_error", "no"), [append], [Text("done")])
    with pytest.raises(Exception, match="Authentication"):
        await run_turn(client, thread, text)
    await operator.runs.wait(thread, "agent", input=None)
    hers, roots = (deployed().memory.namespace(Actor(*who), "") for who in ((alice, "acme"), ("root", "default")))
    assert "- hers" in (await operator.store.get_item(list(hers), "/preferences.md"))["value"]["content"]
    assert "- hers" not in str(await operator.store.search_items(list(roots)))
