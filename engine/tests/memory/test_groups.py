"""A folder of a group: the people whose verified claim has one value share it, and nobody else comes in."""

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

import jwt
import pytest
from hypothesis import assume, given

from lasting_memory.auth.tokens import Tokens
from lasting_memory.deployment import Deployment
from lasting_memory.people.namespaces import ROUTES, Scope, group, organization, person
from lasting_memory.settings import Settings, SettingsError
from lasting_memory.testing.deployed import PROJECT
from lasting_memory.testing.dev_server import DevServer, dev_token
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import served, status
from tests.dev.test_commands import CLAIMS, claims, searching, smoke
from tests.memory.test_identity import identities, quickly, within_limit

TEAM, NOTE = group("team_id"), "/team/plan.md"
SECRET = "AUTH" + "x" * 40  # of a test


@pytest.mark.parametrize(("routes", "fix"), [
    ({"/policies/": organization()}, 'routes has no "/memories/"; add "/memories/": person().'),
    ({"/memories/": person()}, 'routes has no "/policies/"; add "/policies/": organization().'),
    ({**ROUTES, "team": TEAM}, "use one like '/team/'"),
    ({**ROUTES, "/memories/team/": TEAM}, "use one like '/team/'"),
    ({**ROUTES, "/large_tool_results/": TEAM}, "use one like '/team/'"),
    ({**ROUTES, "/policies/": group("org", writes="members")}, "use organization()."),
    ({**ROUTES, "/notes/": person()}, 'whose files are those of /memories/; use group("<claim>").'),
    ({**ROUTES, "/team/": TEAM, "/crew/": group("team_id", writes="members")}, "keep one."),
])  # fmt: skip
def test_bad_routes_are_refused_with_their_fix(routes: Mapping[str, Scope], fix: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Deployment(PROJECT, Settings(), routes=routes)
    assert fix in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 65])
def test_a_claim_has_a_name(name: str) -> None:
    with pytest.raises(SettingsError, match="team_id"):
        group(name)


async def claims_in(token: str, **settings: Any) -> Any:
    user = await Tokens(Settings(**settings), {"team_id", "sub"}).user(f"Bearer {token}")
    return user.get("claims")


@quickly
@given(identities, identities)
async def test_a_development_token_names_claims_percent_encoded(name: str, value: str) -> None:
    assume(within_limit(name) and within_limit(value) and not name.startswith("langgraph-"))
    token = f"{dev_token('acme', name)}?team_id={quote(value, safe='')}&shoe=44"
    user = await Tokens(Settings(local_dev=True), {"team_id"}).user(f"Bearer {token}")
    assert user == {"identity": name, "org_id": "acme", "permissions": [], "claims": {"team_id": value}}


@pytest.mark.parametrize("query", ["team_id", "team_id=", "team_id=a&team_id=b", "team_id=a=b", "team_id=%FF", "team_id=%00"])
async def test_a_development_token_with_half_a_claim_is_refused(query: str) -> None:
    with pytest.raises(Exception, match="401"):
        await claims_in(f"dev:acme:alice?{query}", local_dev=True)


@pytest.mark.parametrize(("claims", "kept"), [
    ({"team_id": "red", "other": "x"}, {"team_id": "red", "sub": "alice"}),
    ({"team_id": None}, {"sub": "alice"}),
    ({}, {"sub": "alice"}),
    *(({"team_id": value}, None) for value in ("", 7, ["red"], {"id": "red"}, True, "x" * 256, "a\0b")),
])  # fmt: skip
async def test_a_json_web_token_s_claims_are_kept_if_a_route_is_for_them_and_they_name_a_group(claims: Any, kept: Any) -> None:
    token = jwt.encode({"sub": "alice", "exp": 9_999_999_999, **claims}, SECRET)
    with nullcontext() if kept else pytest.raises(Exception, match="401"):
        assert await claims_in(token, auth_jwt_secret=SECRET) == kept


ADDED = """
    "/team/": group("team_id", writes="members"),
    "/board/": group("board_id", writes="interrupt"),
    "/notices/": group("notice_id", over_http=False),
"""


teams = served(routes=ADDED, OPERATORS="root")
Member = Callable[..., Person]


@pytest.fixture
def member(teams: DevServer, model: ScriptedAnthropic) -> Member:
    """Gives somebody with these claims."""

    def sign_in(name: str, org: str = "acme", **claims: str) -> Person:
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in claims.items())
        headers = {"Authorization": f"Bearer {dev_token(org, name)}?{query}"}
        return teams.person(name, org, headers=headers, model=model)

    return sign_in


READ, FIND = ToolCall("read_file", {"file_path": NOTE}), ToolCall("grep", {"pattern": "Monday"})


def write(content: str, path: str = NOTE) -> ToolCall:
    return ToolCall("write_file", {"file_path": path, "content": content})


@pytest.mark.server
async def test_people_of_one_team_share_a_folder_and_nobody_else_sees_it(teams: DevServer, member: Member) -> None:
    alice, bob = (member(name, team_id="red & blue.1") for name in ("alice", "bob"))
    # Of another team, and of the team of that name in another organization.
    others = [member("carol", team_id="blue"), member("alice", "globex", team_id="red & blue.1")]
    stranger, place = member("dave"), ["groups", "acme:team_id:red~20~26~20blue~2E1"]
    edit = ToolCall("edit_file", {"file_path": NOTE, "old_string": "Friday", "new_string": "Monday"})
    assert "Error" not in str(await alice.called(write("Ship on Friday.")))
    friday, edited, listed = await bob.called(READ, edit, ToolCall("ls", {"path": "/team/"}))
    assert ("Friday" in friday, "Error" in edited, NOTE in listed) == (True, False, True)
    assert "Monday" in str(await alice.called(READ))
    for other in others:
        unread, unfound = await other.called(READ, FIND)
        assert ("not found" in unread, NOTE in unfound) == (True, False)
    # Who has no team has no such folder, and the rest works.
    for answer in await stranger.called(write("Mine."), edit):
        assert "/team/ is not available" in answer, answer
        assert "'team_id'" in answer
    (first, *rest) = await stranger.called(
        READ, FIND, ToolCall("ls", {"path": "/team/"}), ToolCall("glob", {"pattern": "**/*.md"})
    )
    assert ("not found" in first, NOTE in str(rest)) == (True, False)
    # Over the store API its members read it; for others, and for writing, see the authorization matrix.
    for one in (alice, bob):
        item = await one.client.store.get_item(place, NOTE.removeprefix("/team"))
        assert item["value"]["content"] == "Ship on Monday."
        own = (await one.http.get("/memory/me"))["routes"]["/team/"]
        assert own == {"shared": True, "writes": "allow", "namespace": place}
    # On a person's own view: beside their memory, with its authors, whose conversations are their own.
    (shared,) = (await bob.http.get("/memory"))["shared"]
    assert {name: shared[name] for name in ("path", "claim", "group", "writes")} == {
        "path": "/team/", "claim": "team_id", "group": "red & blue.1", "writes": "allow",
    }  # fmt: skip
    assert [file["path"] for file in shared["files"]] == [NOTE]
    assert (await stranger.http.get("/memory/facts"))["shared"] == []
    read = await bob.http.get("/memory/file", params={"path": NOTE})
    assert (read["content"], read["path"], read["lines"][0]["threads"]) == ("Ship on Monday.", NOTE, [])
    revisions = (await alice.http.get("/memory/history", params={"path": NOTE}))["revisions"]
    assert [(each["author"]["user_id"], each["author"]["thread_id"]) for each in revisions] == [("bob", ""), ("alice", "")]
    for one in (*others, stranger):
        assert [of["files"] for of in (await one.http.get("/memory"))["shared"]] == [[]] * (one is not stranger)
        asking = one.http.get("/memory/history", params={"path": NOTE})
        assert await status(asking) == (422 if one is stranger else 404)
    assert await status(bob.write(NOTE, "x")) == 422
    # The files are the group's: they stay when a person is forgotten, and the journal has both authors.
    kept = (await alice.http.client.delete("/memory")).raise_for_status().json()
    assert any("/team/" in line for line in kept["kept"])
    assert [file["path"] for of in (await alice.http.get("/memory"))["shared"] for file in of["files"]] == [NOTE]
    assert "Monday" in str(await bob.called(READ))
    history = await teams.as_operator().store.search_items(["journal", *place], limit=10)
    assert {each["value"]["revision"]["author"]["user_id"] for each in history["items"]} == {"alice", "bob"}


@pytest.mark.server
async def test_make_smoke_tries_the_folder_too(teams: DevServer, model: ScriptedAnthropic) -> None:
    model.script("What did we say", searching, [Text("That.")])
    done = smoke(teams.url, f"{dev_token('acme', 'smoker')}?team_id=smoky")
    assert (claims(done.stdout), done.stderr) == ([*CLAIMS[:3], "group", *CLAIMS[3:]], "")


@pytest.mark.server
async def test_a_claim_cannot_be_forged(member: Member) -> None:
    assert "Error" not in str(await member("erin", team_id="green").called(write("Green's.")))
    stranger, forged = member("mallory"), {"team_id": "green"}
    user = {"identity": "erin", "org_id": "acme", "permissions": [], "claims": forged}
    requests: list[dict[str, Any]] = [
        {"metadata": {"group_claims": forged, "claims": json.dumps(forged), "team_id": "green"}},
        {"config": {"configurable": {"langgraph_auth_user": user}}},
        {"config": {"configurable": {"langgraph_auth_user": {**user, "thread_owner": {**user, "user_id": "erin"}}}}},
        {"config": {"configurable": {"claims": forged, "team_id": "green"}}},
        {"config": {"claims": forged, "langgraph_auth_user": user}},
        {"config": {"metadata": {"group_claims": forged}}},
    ]
    for request in requests:
        (answer,) = await stranger.called(READ, thread=await stranger.thread(group_claims=forged), **request)
        assert "not found" in answer, request
        assert "Green's" not in answer, request
    for context in ({"claims": forged}, {"team_id": "green"}):
        assert await status(stranger.called(READ, context=context)) == 422


@pytest.mark.server
async def test_an_operator_has_the_groups_of_its_own_token_alone(member: Member) -> None:
    assert "Error" not in str(await member("fay", team_id="grey").called(write("Grey's.")))
    for root, shown in ((member("root"), "not found"), (member("root", team_id="grey"), "Grey's")):
        assert shown in str(await root.called(READ, context={"user_id": "fay", "org_id": "acme"}))


@pytest.mark.server
async def test_what_waits_for_approval_is_written_for_the_group_of_its_person(member: Member) -> None:
    gus, root = member("gus", board_id="b1"), member("root")
    thread, vote = await gus.thread(), "/board/vote.md"
    gus.model.script("vote", [write("Yes.", vote)])
    (interrupt,) = (await gus.turn(thread, "vote"))["__interrupt__"]
    command: Any = {"resume": {interrupt["id"]: {"decisions": [{"type": "approve"}]}}}
    assert await status(gus.client.runs.wait(thread, "agent", command=command)) == 403
    await root.client.runs.wait(thread, "agent", command=command)
    assert (await gus.client.store.get_item(["groups", "acme:board_id:b1"], "/vote.md"))["value"]["content"] == "Yes."
    assert "Yes." in str(await member("hal", board_id="b1").called(ToolCall("read_file", {"file_path": vote})))


@pytest.mark.server
async def test_nothing_is_written_there_while_nothing_is_remembered_or_by_default(member: Member) -> None:
    ida = member("ida", team_id="white", notice_id="n1")
    assert "denied" in str(await ida.called(write("x", "/notices/a.md")))
    temporary = await ida.thread(temporary=True)
    assert "temporary conversation" in str(await ida.called(write("x"), thread=temporary))
    await ida.control(paused=True)
    paused, unread = await ida.called(write("x"), READ)
    assert ("paused" in paused, "not found" in unread) == (True, True)
    await ida.control(paused=False)
    assert "Error" not in str(await ida.called(write("Now.")))
    # `over_http=False`: the agent alone reads it.
    assert await status(ida.client.store.search_items(["groups", "acme:notice_id:n1"])) == 403
