"""Whom an operator's run acts for."""

import time
import uuid
from typing import Any

import pytest
from langgraph_sdk import Auth

from lasting_memory.auth.approvals import Approvals
from lasting_memory.auth.callers import Callers
from lasting_memory.auth.operator_runs import OperatorRuns
from lasting_memory.people import identity, namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import OPERATOR, SignedIn
from lasting_memory.testing.scripted_anthropic import (
    Failure,
    ScriptedAnthropic,
    Text,
    ToolCall,
    system_text,
)
from tests.auth.run_fields import request
from tests.auth.test_run_requests import SECRET, asked
from tests.conftest import batch_with

HTTPException = Auth.exceptions.HTTPException
pytestmark = pytest.mark.begins_first


def memories(name: str, org: str = "acme") -> list[str]:
    return list(deployed().memory.namespace(Actor(name, org), ""))


@pytest.mark.server
@pytest.mark.parametrize("caller", ["studio", "root"])
async def test_an_operator_names_whose_memory(
    server: DevServer, model: ScriptedAnthropic, alice: str, caller: str
) -> None:
    operator = server.person("root", "default", headers=OPERATOR if caller == "studio" else None)
    org, other = f"org of {alice}", f"other org of {alice}"
    files = [
        (memories(alice, org), SECRET),
        *((list(namespaces.policies(of)), f"policy of {of}") for of in (org, other)),
    ]
    for namespace, text in files:
        value = {"content": text, "encoding": "utf-8"}
        await operator.made(
            "PUT",
            "/store/items",
            {"namespace": namespace, "key": "/preferences.md", "value": value},
        )
    values = await operator.say(f"for {alice}", context={"user_id": alice, "org_id": org})
    assert values["messages"][0]["additional_kwargs"][identity.SPOKEN_FOR] is True
    shown = system_text(model.requests_for(f"for {alice}")[-1])
    assert [text in shown for _, text in files] == [True, True, False]


@pytest.mark.server
async def test_only_operators_name_a_person_to_consolidation(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, mallory, root = (
        server.person(alice),
        server.person(f"mallory-{alice}"),
        server.person("root", "default"),
    )
    await person.say(said := f"said by {alice}")
    model.script(
        batch_with(said),
        [ToolCall("search_recent_conversations", {})],
        [Text("done")],
    )
    asking = {
        "assistant_id": "consolidation_agent",
        "input": {"messages": []},
        "context": {"user_id": alice, "org_id": "acme"},
    }
    for caller, reads in ((mallory, False), (root, True)):
        before = len(model.requests)
        await caller.made("POST", "/runs/wait", asking)
        assert (said in str(model.requests[before:])) is reads


@pytest.mark.server
async def test_a_thread_that_an_operator_makes_for_a_person_is_the_person_s(
    server: DevServer, alice: str
) -> None:
    """A thread that an operator's run creates, and a copy, are the person's, and not those of their
    name elsewhere.
    """
    owner, elsewhere, operator = (
        server.person(alice),
        server.person(alice, "globex"),
        server.person("", headers=OPERATOR),
    )
    thread, context = str(uuid.uuid4()), {"user_id": alice, "org_id": "acme"}
    later = asked("hello", if_not_exists="create", after_seconds=3600, context=context)
    run = await operator.made("POST", f"/threads/{thread}/runs", later)
    await owner.made("GET", f"/threads/{thread}/runs/{run['run_id']}")
    await owner.turn(said := await owner.thread(), SECRET)
    copied = (await operator.made("POST", f"/threads/{said}/copy"))["thread_id"]
    assert SECRET in (await owner.ask("GET", f"/threads/{copied}/state")).text
    for other in (thread, copied):
        assert (await elsewhere.ask("GET", f"/threads/{other}")).status_code == 404


@pytest.mark.server
async def test_an_operator_goes_on_with_a_run_as_its_owner(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    owner, operator = server.person(alice), server.person("root", "default")
    append = ToolCall("append_memory", {"path": "/memories/notes.md", "text": f"- {SECRET}"})
    model.script(alice, Failure(401, "authentication_error", "no"), [append], [Text("done")])
    thread = await owner.thread()
    assert "__error__" in await owner.turn(thread, f"remember {alice}", raise_error=False)
    await operator.made(
        "POST", f"/threads/{thread}/runs/wait", {"assistant_id": "agent", "input": None}
    )
    assert SECRET in str(await owner.read())
    assert SECRET not in str(await operator.read())


def test_a_run_for_somebody_else_is_refused_to_an_operator_whose_token_has_expired() -> None:
    """As one that such an operator's run asks for within the server: it would be a run on the
    operator's own memory.
    """
    operator: Any = SignedIn(
        identity="root", org_id="acme", permissions=[identity.OPERATE], expires_at=1
    )
    callers = Callers(deployed())
    with pytest.raises(HTTPException) as refused:
        callers.owner(operator, {"user_id": "alice", "org_id": None})
    assert (refused.value.status_code, "token has expired" in str(refused.value.detail)) == (
        403,
        True,
    )
    assert callers.owner(operator) == identity.Actor("root", "acme")


async def test_a_run_that_an_operator_resumes_plans_consolidation_for_its_owner() -> None:
    """Also when the token has expired of the operator who resumed it: so is their consolidation,
    minutes later.
    """
    owner: dict[str, Any] = {"user_id": "alice", "org_id": "acme", "claims": {}, "expires_at": None}
    operator: Any = SignedIn(
        identity="root",
        permissions=[identity.OPERATE],
        expires_at=time.time() + 3600,
        thread_owner=owner,
    )
    kwargs = request(context={"user_id": "alice", "org_id": "acme"})["kwargs"]
    operator_runs = OperatorRuns(deployed(), Approvals(deployed()))
    owner_of_run = await operator_runs.act_as(operator, None, kwargs)
    assert owner_of_run == identity.Actor("alice", "acme")
    stamped: Any = SignedIn(
        {**kwargs["config"]["configurable"]["langgraph_auth_user"], "expires_at": 1}
    )
    named = identity.Context("alice", "acme")
    assert identity.acting(stamped, named, deployed().settings) == identity.Actor("alice", "acme")
