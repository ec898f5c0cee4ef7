"""A folder of a group: the people whose verified claim has one value share it, and nobody else
comes in.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import jwt
import pytest
from hypothesis import assume, given

from lasting_memory.auth.tokens import Tokens
from lasting_memory.deployment import Deployment
from lasting_memory.people.scopes import REQUIRED, ROUTES, group, organization, person
from lasting_memory.settings import Settings, SettingsError
from lasting_memory.testing.deployed import PROJECT
from lasting_memory.testing.dev_server import DevServer, dev_token
from lasting_memory.testing.people import FILE, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import served, status
from tests.dev.test_commands import CLAIMS, claims, searching, smoke
from tests.memory.test_identity import identities, quickly, within_limit

NUMBERED: Any = {**REQUIRED, 5: person()}
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
    *(
        ({**ROUTES, f"/{name}/": TEAM}, f"differs from '/{name.lower()}/' by capital letters alone; use ")
        for name in ("Memories", "MEMORIES", "Skills", "policieS", "Large_Tool_Results", "Conversation_history")
    ),
    ({**REQUIRED, "/Skills/": TEAM}, "differs from '/skills/' by capital letters alone; use "),
    ({**ROUTES, "/team/": TEAM, "/Team/": group("crew_id")}, "'/Team/', which differs from '/team/' by capital letters alone"),
    *(
        ({**ROUTES, "/team/": group(name)}, "; use one that names a group, e.g. ")
        for name in ("exp", "iat", "nbf", "iss", "aud", "sub", "jti", "scope", "identity", "permissions", "org_id")
    ),
    *(({**ROUTES, "/team/": group(name)}, "; use one that names a group, e.g. ") for name in ("EXP", "Sub", "Iss.x", "ORG_ID")),
    ({**ROUTES, "/team/": "person"}, "routes has \"/team/\": 'person'; use person(), assistant(), organization() or group("),
    ({**ROUTES, "/team/": None}, 'routes has "/team/": None; use person()'),
    ({**ROUTES, "/memories/": person}, 'routes has "/memories/": <function person'),
    (NUMBERED, "routes has 5, which names no folder of its own; use one like '/team/'"),
    (["/memories/", "/policies/"], "routes is ['/memories/', '/policies/']; use a mapping, e.g. "),
    (None, "routes is None; use a mapping, e.g. "),
])  # fmt: skip
def test_bad_routes_are_refused_with_their_fix(routes: Any, fix: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Deployment(PROJECT, Settings(), routes=routes)
    assert fix in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("given", [
    {"folder": "."}, {"settings": {}}, {"schemas": "x"}, {"schemas": {5: 5}}, {"schemas": None}, {"checks": 5},
    {"limits": None}, {"limits": {}}, {"consolidation": True},
])  # fmt: skip
def test_an_argument_of_another_kind_is_refused_with_its_fix(given: dict[str, Any]) -> None:
    arguments: Any = {"folder": PROJECT, "settings": Settings(), **given}
    with pytest.raises(SettingsError, match=f"^{next(iter(given))} .*; use ") as refused:
        Deployment(**arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["user_id", "is_authenticated", "display_name", "claims", "expires_at"]
)
def test_a_group_s_claim_may_have_the_name_of_a_field_of_the_user(name: str) -> None:
    """Claims are kept apart from the fields."""
    assert Deployment(PROJECT, Settings(), routes={**ROUTES, "/team/": group(name)}).claims == {
        name
    }


@pytest.mark.parametrize("claim", ["o.id", "o", "o.id.team"])
@pytest.mark.parametrize(
    "named",
    [
        {"auth_org_claim": "o.id"},
        {"auth_permissions_claim": "o.id"},
        {"auth_identity_claim": "o.id"},
    ],
)
def test_a_group_is_no_claim_that_the_environment_names_for_something_else(
    named: dict[str, Any], claim: str
) -> None:
    routes = {**ROUTES, "/team/": group(claim)}
    assert Deployment(PROJECT, Settings(), routes=routes).claims == {claim}
    assert Deployment(
        PROJECT, Settings(**named), routes={**ROUTES, "/team/": group("o.team")}
    ).claims == {"o.team"}
    with pytest.raises(SettingsError, match=next(iter(named)).upper()):
        Deployment(PROJECT, Settings(**named), routes=routes)


@pytest.mark.parametrize(
    "claim", ["user_metadata.team", "https://example.com/user_metadata", "unsafe_metadata.a.b"]
)
def test_a_group_is_no_claim_that_people_write_themselves(claim: str) -> None:
    with pytest.raises(SettingsError, match="people write themselves"):
        Deployment(PROJECT, Settings(), routes={**ROUTES, "/team/": group(claim)})


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a\nb",
        "x" * 65,
        ".a",
        "a.",
        "a..b",
        " exp",
        "exp ",
        "a. b",
        "a .b",
        5,
        None,
        ["a"],
        {"a": 1},
    ],
)
def test_a_claim_has_a_name(name: Any) -> None:
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
    assert user == {
        "identity": name,
        "org_id": "acme",
        "permissions": [],
        "claims": {"team_id": value},
    }


@pytest.mark.parametrize(
    "query",
    ["team_id", "team_id=", "team_id=a&team_id=b", "team_id=a=b", "team_id=%FF", "team_id=%00"],
)
async def test_a_development_token_with_half_a_claim_is_refused(query: str) -> None:
    with pytest.raises(Exception, match="401"):
        await claims_in(f"dev:acme:alice?{query}", local_dev=True)


@pytest.mark.parametrize(("claims", "kept"), [
    ({"team_id": "red", "other": "x"}, {"team_id": "red", "sub": "alice"}),
    ({"team_id": None}, {"sub": "alice"}),
    ({}, {"sub": "alice"}),
    ({"team_id": ["red"]}, {"team_id": "red", "sub": "alice"}),
    *(({"team_id": value}, None) for value in ("", 7, ["red", "blue"], {"id": "red"}, True, "x" * 256, "a\0b")),
])  # fmt: skip
async def test_a_json_web_token_s_claims_are_kept_if_a_route_is_for_them_and_they_name_a_group(
    claims: Any, kept: Any
) -> None:
    token = jwt.encode({"sub": "alice", "exp": 9_999_999_999, **claims}, SECRET)
    with nullcontext() if kept else pytest.raises(Exception, match="401"):
        assert await claims_in(token, auth_jwt_secret=SECRET) == kept


ADDED = """
    "/team/": group("team_id", writes="members"),
    "/board/": group("board_id", writes="interrupt"),
    "/notices/": group("notice_id", over_http=False),
"""


# The token says of which organization somebody is as a widespread provider's does.
teams = served(routes=ADDED, OPERATORS="root", AUTH_JWT_SECRET=SECRET, AUTH_ORG_CLAIM="o.id")
Member = Callable[..., Person]


def signed(name: str, org: str, expires_at: int, **claims: Any) -> str:
    return jwt.encode(
        {"sub": name, "o": {"id": org, "rol": "member"}, "exp": expires_at, **claims}, SECRET
    )


@pytest.fixture
def member(teams: DevServer, model: ScriptedAnthropic) -> Member:
    """Gives somebody with these claims, in a token that lasts so many seconds."""

    def sign_in(name: str, org: str = "acme", seconds: float = 3600, **claims: Any) -> Person:
        headers = {
            "Authorization": f"Bearer {signed(name, org, int(time.time() + seconds), **claims)}"
        }
        return teams.person(name, org, headers=headers, model=model)

    return sign_in


READ, FIND = ToolCall("read_file", {"file_path": NOTE}), ToolCall("grep", {"pattern": "Monday"})
EDIT = ToolCall("edit_file", {"file_path": NOTE, "old_string": "Friday", "new_string": "Monday"})
LIST = ToolCall("ls", {"path": "/team/"})


def write(content: str, path: str = NOTE) -> ToolCall:
    return ToolCall("write_file", {"file_path": path, "content": content})


@dataclass(frozen=True)
class Team:
    """A team of two members, and the namespace of its files."""

    name: str
    place: list[str]
    alice: Person
    bob: Person


@pytest.fixture
def team(member: Member) -> Team:
    """A new team, whose plan nobody has written yet."""
    number = uuid.uuid4().hex[:8]
    name = f"red & blue.{number}"
    place = ["groups", f"acme:team_id:red~20~26~20blue~2E{number}"]
    return Team(name, place, member("alice", team_id=name), member("bob", team_id=name))


@pytest.fixture
async def planning(team: Team) -> Team:
    """A new team, whose plan one member wrote and the other changed."""
    await team.alice.called(write("Ship on Friday."))
    await team.bob.called(READ, EDIT)
    return team


@pytest.mark.server
async def test_people_of_one_team_read_and_change_one_another_s_files(team: Team) -> None:
    assert "Error" not in str(await team.alice.called(write("Ship on Friday.")))
    friday, edited, listed = await team.bob.called(READ, EDIT, LIST)
    assert ("Friday" in friday, "Error" in edited, NOTE in listed) == (True, False, True)
    assert "Monday" in str(await team.alice.called(READ))


@pytest.mark.server
async def test_people_of_another_team_do_not_find_a_team_s_files(
    planning: Team, member: Member
) -> None:
    """Of another team, and of the team of that name in another organization."""
    carol = member("carol", team_id="blue")
    namesake = member("alice", "globex", team_id=planning.name)
    for other in (carol, namesake):
        unread, unfound = await other.called(READ, FIND)
        assert ("not found" in unread, NOTE in unfound) == (True, False)
        assert [of["files"] for of in (await other.http.get("/memory"))["shared"]] == [[]]
        assert await status(other.http.get("/memory/history", params={"path": NOTE})) == 404


@pytest.mark.server
@pytest.mark.usefixtures("planning")
async def test_a_person_without_a_team_has_no_such_folder_and_the_rest_works(
    member: Member,
) -> None:
    stranger = member("dave")
    for answer in await stranger.called(write("Mine."), EDIT):
        assert "/team/ is not available" in answer, answer
        assert "'team_id'" in answer
    glob = ToolCall("glob", {"pattern": "**/*.md"})
    (first, *rest) = await stranger.called(READ, FIND, LIST, glob)
    assert ("not found" in first, NOTE in str(rest)) == (True, False)
    assert (await stranger.http.get("/memory"))["shared"] == []
    assert (await stranger.http.get("/memory/facts"))["shared"] == []
    assert await status(stranger.http.get("/memory/history", params={"path": NOTE})) == 422


@pytest.mark.server
async def test_members_read_their_team_s_files_over_the_store(planning: Team) -> None:
    """For others, and for writing, see the authorization matrix."""
    for one in (planning.alice, planning.bob):
        item = await one.client.store.get_item(planning.place, NOTE.removeprefix("/team"))
        assert item["value"]["content"] == "Ship on Monday."
        own = (await one.http.get("/memory/me"))["routes"]["/team/"]
        assert own == {"shared": True, "writes": "allow", "namespace": planning.place}


@pytest.mark.server
async def test_a_person_s_own_view_shows_a_team_s_files_with_their_authors_and_writes_none(
    planning: Team,
) -> None:
    """The conversations of the authors are their own."""
    (shared,) = (await planning.bob.http.get("/memory"))["shared"]
    assert {name: shared[name] for name in ("path", "claim", "group", "writes")} == {
        "path": "/team/", "claim": "team_id", "group": planning.name, "writes": "allow",
    }  # fmt: skip
    assert [file["path"] for file in shared["files"]] == [NOTE]
    read = await planning.bob.http.get("/memory/file", params={"path": NOTE})
    assert (read["content"], read["path"], read["lines"][0]["threads"]) == (
        "Ship on Monday.",
        NOTE,
        [],
    )
    history = await planning.alice.http.get("/memory/history", params={"path": NOTE})
    authors = [revision["author"] for revision in history["revisions"]]
    assert [(author["user_id"], author["thread_id"]) for author in authors] == [
        ("bob", ""),
        ("alice", ""),
    ]
    assert await status(planning.bob.write(NOTE, "x")) == 422


@pytest.mark.server
async def test_a_team_s_files_and_their_authors_stay_when_a_member_is_forgotten(
    teams: DevServer, planning: Team
) -> None:
    forgotten = await planning.alice.made("DELETE", "/memory")
    assert any("/team/" in line for line in forgotten["kept"])
    shared = (await planning.alice.http.get("/memory"))["shared"]
    assert [file["path"] for of in shared for file in of["files"]] == [NOTE]
    assert "Monday" in str(await planning.bob.called(READ))
    history = await teams.as_operator().store.search_items(["journal", *planning.place], limit=10)
    assert {each["value"]["revision"]["author"]["user_id"] for each in history["items"]} == {
        "alice",
        "bob",
    }


@pytest.mark.server
async def test_a_line_of_one_s_own_crosses_by_its_person_s_yes_and_goes_with_its_author(
    member: Member,
) -> None:
    ola, pia = member("ola", team_id="gold"), member("pia", team_id="gold")
    path, text = "/memories/work.md", "Builds break on Fridays"
    await ola.write(path, f"- {text}\n- likes leek\n")
    call = {"path": path, "line": text, "folder": "/team/"}
    (prepared,) = await ola.called(ToolCall("prepare_offer", call))
    assert "not shared" in prepared
    assert (await pia.http.get("/memory/offers"))["to_decide"] == []
    line = {"path": path, "folder": "/team/", "group": "gold", "keep": True}
    made = [
        await ola.made("POST", "/memory/offers", {**line, "text": each})
        for each in (text, "likes leek")
    ]
    assert len((await pia.http.get("/memory/offers"))["to_decide"]) == 2
    await pia.made("POST", f"/memory/offers/{made[0]['id']}", {"accept": True})
    (read,) = await pia.called(ToolCall("read_file", {"file_path": "/team/from-members.md"}))
    assert text in read
    # A turn with a token without the claim: its author has left.
    await member("ola").called(ToolCall("ls", {"path": "/memories/"}))
    assert (await pia.http.get("/memory/offers"))["to_decide"] == []
    late = await pia.ask("POST", f"/memory/offers/{made[1]['id']}", {"accept": True})
    assert late.status_code == 404


@pytest.mark.server
async def test_make_smoke_tries_the_folder_too(teams: DevServer, model: ScriptedAnthropic) -> None:
    model.script("What did we say", searching, [Text("That.")])
    done = smoke(teams.url, signed("smoker", "acme", int(time.time()) + 3600, team_id="smoky"))
    assert (claims(done.stdout), done.stderr) == ([*CLAIMS[:3], "group", *CLAIMS[3:]], "")


@pytest.mark.server
async def test_a_claim_cannot_be_forged(member: Member) -> None:
    assert "Error" not in str(await member("erin", team_id="green").called(write("Green's.")))
    stranger, forged = member("mallory"), {"team_id": "green"}
    user = {"identity": "erin", "org_id": "acme", "permissions": [], "claims": forged}
    requests: list[dict[str, Any]] = [
        {"metadata": {"group_claims": forged, "claims": json.dumps(forged), "team_id": "green"}},
        {"config": {"configurable": {"langgraph_auth_user": user}}},
        {
            "config": {
                "configurable": {
                    "langgraph_auth_user": {**user, "thread_owner": {**user, "user_id": "erin"}}
                }
            }
        },
        {"config": {"configurable": {"claims": forged, "team_id": "green"}}},
        {"config": {"claims": forged, "langgraph_auth_user": user}},
        {"config": {"metadata": {"group_claims": forged}}},
    ]
    for request in requests:
        (answer,) = await stranger.called(
            READ, thread=await stranger.thread(group_claims=forged), **request
        )
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
async def test_an_approved_write_is_written_for_the_group_of_its_person(
    member: Member,
) -> None:
    gus, root = member("gus", board_id="b1"), member("root")
    thread, vote = await gus.thread(), "/board/vote.md"
    gus.model.script("vote", [write("Yes.", vote)])
    (interrupt,) = (await gus.turn(thread, "vote"))["__interrupt__"]
    command: Any = {"resume": {interrupt["id"]: {"decisions": [{"type": "approve"}]}}}
    assert await status(gus.client.runs.wait(thread, "agent", command=command)) == 403
    await root.client.runs.wait(thread, "agent", command=command)
    assert (await gus.client.store.get_item(["groups", "acme:board_id:b1"], "/vote.md"))["value"][
        "content"
    ] == "Yes."
    assert "Yes." in str(
        await member("hal", board_id="b1").called(ToolCall("read_file", {"file_path": vote}))
    )


@pytest.mark.server
async def test_a_group_s_folder_is_not_written_while_memory_is_off_or_by_default(
    member: Member,
) -> None:
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


# --- A claim holds as long as the token that proved it
# -----------------------------------------------------------------


@pytest.mark.server
async def test_people_of_two_organizations_are_kept_apart_by_a_claim_within_an_object(
    teams: DevServer, member: Member
) -> None:
    one, two = (member("jo", org) for org in ("org_A", "org_B"))
    await one.write(FILE, "of org_A")
    assert (await one.read(), await two.read()) == ("of org_A", None)
    assert [(await each.http.get("/memory/me"))["org_id"] for each in (one, two)] == [
        "org_A",
        "org_B",
    ]
    token = jwt.encode({"sub": "jo", "org_id": "org_A", "exp": int(time.time()) + 3600}, SECRET)
    answer = await teams.person("jo", headers={"Authorization": f"Bearer {token}"}).ask(
        "GET", "/memory"
    )
    assert (answer.status_code, "'o.id'" in answer.text, "org_A" in answer.text) == (
        401,
        True,
        False,
    )


async def planned_past_its_token(
    root: Person, sign_in: Callable[[float], Person], text: str, **kwargs: Any
) -> str:
    """The thread of a run, once it ended, that began when the token had expired with which it was
    planned.
    """
    for seconds in (
        2,
        20,
        60,
    ):  # on a busy machine the request may come too late, and is accepted for the clocks' difference
        person, planned_at = sign_in(seconds), time.time()
        thread = await person.thread()
        message: Any = {"messages": [{"role": "user", "content": text}]}
        run: Any = await person.client.runs.create(
            thread, "agent", input=message, after_seconds=seconds + 1, **kwargs
        )
        await root.client.runs.join(thread, run["run_id"])
        if (
            run["kwargs"]["config"]["configurable"]["langgraph_auth_user"].get("expires_at", 0)
            <= planned_at + seconds
        ):
            return thread
    raise AssertionError("No request was in time.")


def tool_answers(state: Any) -> list[str]:
    return [
        str(message["content"])
        for message in state["values"]["messages"]
        if message["type"] == "tool"
    ]


@pytest.mark.server
async def test_a_planned_run_has_its_groups_within_the_lifetime_of_its_token(
    member: Member, model: ScriptedAnthropic
) -> None:
    """After that it goes on as its person, whose group's folder is empty and says why it takes
    nothing.
    """
    root, kim = member("root"), member("kim", team_id="lime")
    assert "Error" not in str(await kim.called(write("Lime's.")))
    (within,) = await kim.called(READ, after_seconds=1)
    assert "Lime's." in within
    remember = ToolCall("append_memory", {"path": FILE, "text": "- hers"})
    model.script(
        "much later", [READ], [write("Mine.", "/team/late.md")], [remember], [Text("done")]
    )
    thread = await planned_past_its_token(
        root, lambda seconds: member("kim", seconds=seconds, team_id="lime"), "much later"
    )
    unread, unwritten, remembered = tool_answers(await kim.client.threads.get_state(thread))
    assert ("Lime's." in unread, "not found" in unread) == (False, True)
    assert (
        "/team/ is not available: the token that proved this person's claim 'team_id' has expired"
        in unwritten
    )
    assert ("Error" in remembered, await kim.read()) == (False, "- hers\n")


@pytest.mark.server
async def test_an_operator_s_planned_run_acts_for_others_within_the_lifetime_of_its_token(
    member: Member, model: ScriptedAnthropic
) -> None:
    root, lou = member("root"), member("lou")
    await lou.write(FILE, "Lou's own.")
    model.script("for lou", [ToolCall("read_file", {"file_path": FILE})], [Text("done")])

    def sign_in(seconds: float) -> Person:
        return member("sid", seconds=seconds, permissions=["memory:operate"])

    context = {"user_id": "lou", "org_id": "acme"}
    thread = await planned_past_its_token(root, sign_in, "for lou", context=context)
    (run,) = await root.client.runs.list(thread)
    assert run["status"] == "error"
    assert "Lou's own." not in str(await root.client.threads.get_state(thread))
    thread = await sign_in(3600).thread()
    await sign_in(3600).turn(thread, "for lou", context=context)
    assert "Lou's own." in str(await root.client.threads.get_state(thread))


@pytest.mark.proof
@pytest.mark.server
async def test_a_write_approved_after_the_token_of_its_person_is_written_for_no_group(
    member: Member, model: ScriptedAnthropic
) -> None:
    root, late = member("root"), member("may", seconds=20, board_id="b2")
    model.script("vote later", [write("No.", "/board/vote.md")], [Text("done")])
    may, thread = member("may"), await late.thread()
    message: Any = {"messages": [{"role": "user", "content": "vote later"}]}
    run: Any = await late.client.runs.create(thread, "agent", input=message)
    await may.client.runs.join(thread, run["run_id"])
    (interrupt,) = (await may.client.threads.get_state(thread))["interrupts"]
    await asyncio.sleep(max(0, run["metadata"].get("group_claims_expire_at", 0) - time.time()))
    command: Any = {"resume": {interrupt["id"]: {"decisions": [{"type": "approve"}]}}}
    await root.client.runs.wait(thread, "agent", command=command)
    (unwritten,) = tool_answers(await may.client.threads.get_state(thread))
    assert (
        "/board/ is not available: the token that proved this person's claim 'board_id' has expired"
        in unwritten
    )
    items = await member("may", board_id="b2").client.store.search_items(
        ["groups", "acme:board_id:b2"]
    )
    assert items["items"] == []


@pytest.mark.server
async def test_a_cron_has_no_groups(member: Member) -> None:
    """Its firings come for months, and a token's proof does not last."""
    root = member("root", team_id="red")
    cron: Any = await root.made(
        "POST",
        "/runs/crons",
        {"assistant_id": "agent", "schedule": "0 0 1 1 *", "input": {"messages": []}},
    )
    stamped = cron["payload"]["config"]["configurable"]["langgraph_auth_user"]
    assert set(stamped) == {"identity", "org_id", "permissions"}
    await root.made("DELETE", f"/runs/crons/{cron['cron_id']}")
