"""Who acts in a run: worked out once, never another's, and an error where it cannot be read."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import Runtime, ServerInfo
from langgraph_api.auth.studio_user import StudioUser  # type: ignore[import-untyped]

from benchmarks import walk
from lasting_memory.deployment import Deployment
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor, Context, IdentityError
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic

FIRST_RUN, SECOND_RUN = (
    "0199d4a0-0000-7000-8000-000000000001",
    "0199d4a0-0000-7000-8000-000000000002",
)
FAR = 253_402_300_799


def caller(
    deployment: Deployment, user: Any, run_id: str = FIRST_RUN, context: Context | None = None
) -> Caller:
    """The caller of a run of the graph `agent` as a server begins it."""
    var_child_runnable_config.set({"configurable": {"run_id": run_id, "thread_id": "t"}})
    server = ServerInfo("an-assistant", "agent", user)
    runtime: Runtime[Any] = Runtime(context=context, server_info=server)
    return Caller.of_run(deployment, runtime)


def person(name: str, **more: Any) -> Any:
    return SignedIn(identity=name, **{"org_id": "acme", **more})


async def test_the_caller_is_worked_out_once_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    d, alice, asked = deployed(), person("alice"), list[object]()
    acting = identity.acting

    def counted(*args: Any, **more: Any) -> Actor:
        asked.append(args)
        return acting(*args, **more)

    monkeypatch.setattr(identity, "acting", counted)
    callers = [caller(d, alice) for _ in range(5)]
    assert len(asked) == 1
    assert callers[0].actor == Actor("alice", "acme")
    assert (callers[0].run_id, callers[0].thread_id, callers[0].assistant) == (
        FIRST_RUN,
        "t",
        "an-assistant",
    )
    assert callers[0].began == identity.time_of_run(FIRST_RUN)
    assert callers[0].author("agent") == identity.Author("agent", "alice", FIRST_RUN, "t")
    caller(d, alice, SECOND_RUN)
    assert len(asked) == 2


async def test_runs_that_go_on_at_once_have_callers_of_their_own() -> None:
    d, people = deployed(), [person(f"person{number}") for number in range(20)]

    async def run(number: int) -> set[Actor]:
        found = set[Actor]()
        for _ in range(10):
            found.add(
                caller(d, people[number], f"0199d4a0-0000-7000-8000-0000000000{number:02}").actor
            )
            await asyncio.sleep(0)
        return found

    for number, found in enumerate(await asyncio.gather(*(run(number) for number in range(20)))):
        assert found == {Actor(f"person{number}", "acme")}


async def test_another_user_or_context_with_the_same_run_id_is_another_caller() -> None:
    d, root = deployed(operators=frozenset({"root"})), person("root")
    assert caller(d, person("alice")).actor.user_id == "alice"
    assert caller(d, person("bob")).actor.user_id == "bob"
    assert caller(d, root, context=Context("carol", "acme")).actor.user_id == "carol"
    assert caller(d, root, context=Context("dora", "acme")).actor.user_id == "dora"
    assert not caller(deployed(), root).is_operator
    assert caller(d, root).is_operator


async def test_claims_and_permissions_of_a_token_end_with_it_in_the_middle_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d, operator = (
        deployed(),
        person("alice", claims={"team_id": "red"}, permissions=[identity.OPERATE], expires_at=FAR),
    )
    named = Context("bob", "acme")
    assert caller(d, operator, context=named).is_operator
    assert caller(d, operator, context=named).claims == {"team_id": "red"}
    monkeypatch.setattr("time.time", lambda: FAR + 1)
    with pytest.raises(IdentityError, match="token has expired"):
        caller(d, operator, context=named)
    assert caller(d, operator).claims == {}
    assert not caller(d, operator).is_operator


@pytest.mark.parametrize("value", [7, "memory:operate", {"memory:operate": True}, True])
@pytest.mark.parametrize(
    "ask",
    [identity.permissions_of, lambda user: identity.may_write_policies(user, deployed().settings)],
)
async def test_permissions_that_cannot_be_read_are_an_error(
    value: Any, ask: Callable[[Any], object]
) -> None:
    for user in (
        person("alice", permissions=value),
        person("alice", permissions=value, expires_at=1),
    ):
        with pytest.raises(IdentityError, match="make them a list of names"):
            ask(user)
        with pytest.raises(IdentityError, match="make them a list of names"):
            caller(deployed(), user)


@pytest.mark.parametrize(
    "more",
    [{"claims": ["red"]}, {"claims": "red"}, {"thread_owner": ["bob"]}, {"thread_owner": "bob"}],
)
async def test_claims_and_owners_that_cannot_be_read_are_an_error(more: dict[str, Any]) -> None:
    with pytest.raises(IdentityError):
        caller(deployed(), person("alice", **more))


async def test_studio_and_a_request_are_callers_too() -> None:
    d = deployed(studio_auth=True, default_org="home")
    studio = Caller.of_request(StudioUser("dev"), Context("bob", "acme"), d.settings)
    assert (studio.actor, studio.is_operator) == (Actor("bob", "acme"), d.settings.accepts_studio)
    alice = Caller.of_request(person("alice"), Context("bob", "acme"), d.settings)
    assert (alice.actor, alice.is_operator) == (Actor("alice", "acme"), False)
    with pytest.raises(IdentityError, match="cannot be used"):
        Caller.of_request(person("a\0b"), Context(), d.settings)


@pytest.mark.proof
@pytest.mark.server
async def test_a_turn_and_a_consolidation_ask_seldom_who_acts_and_what_the_person_wants(
    tmp_path: Any, shared_model: ScriptedAnthropic
) -> None:
    with DevServer(tmp_path, shared_model.env, serve=walk.serve_counted) as server:
        walks = await walk.walks(server, shared_model)
    turn = walk.totals(walks["turn"])
    assert 10 < turn["identity"] <= 60
    assert turn["controls"] <= 2
    assert turn["batches"] <= 7
    assert turn["requests"] <= 5
    consolidation = walk.totals(walks["consolidation"])
    assert 10 < consolidation["identity"] <= 133
    assert consolidation["controls"] <= 2
    assert 10 < consolidation["batches"] <= 25
    assert consolidation["requests"] <= 9
