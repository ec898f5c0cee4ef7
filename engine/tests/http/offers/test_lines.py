"""Of a line that is offered to a group nothing but its text crosses, and the group's folder takes it
once.
"""

# ruff: noqa: RUF001  # letters of other scripts are meant
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lasting_memory.deployment import Limits
from lasting_memory.memory.validation import RefusedWrite
from tests.conftest import Clock
from tests.http.conftest import exported, kept
from tests.http.offers.conftest import (
    ACCEPTED,
    FACT,
    MEMBERS,
    PATH,
    TEAM,
    World,
    body,
    decide,
    offer,
    offers,
    own_file,
    remember,
    with_team,
)

THREAD = "11111111-2222-3333-4444-555555555555"


async def test_a_line_for_which_nobody_vouches_stays_so_in_the_group_s_folder(world: World) -> None:
    alice, bob = await world.api(), await world.api("bob")
    file = {"path": PATH, "content": f"- {FACT}\n- My own\n", "encoding": "utf-8"}
    assert (await alice.post("/memory/import", json=exported(file))).status_code == 200
    await alice.post("/memory/confirm", params={"path": PATH}, json={"text": "My own"})
    for text, source in ((FACT, "unconfirmed"), ("My own", None)):
        made = await offer(alice, text)
        (seen,) = (await offers(bob))["to_decide"]
        assert (made.get("source"), seen.get("source")) == (source, source)
        assert (await decide(bob, made)).status_code == 200
    read = (await bob.get("/memory/file", params={"path": ACCEPTED})).json()
    assert [line["source"] for line in read["lines"]] == ["unconfirmed", "confirmed"]


async def test_a_line_that_is_over_is_neither_offered_nor_accepted(
    world: World, clock: Clock
) -> None:
    clock.set("2026-06-01")
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice, f"- {FACT} (until 2026-06-03)", "- Worked there (until 2020-01-01)")
    made = await offer(alice)
    past = await offer(alice, "Worked there (until 2020-01-01)")
    clock.set("2026-06-04")
    refused = await alice.post("/memory/offers", json=body())
    assert (refused.status_code, "day" in refused.text) == (422, True)
    answer = await decide(bob, made)
    assert (answer.status_code, "day" in answer.text) == (422, True)
    assert world.team_file() == ""
    assert (await decide(bob, made, accept=False)).status_code == 200
    assert (await decide(bob, past)).status_code == 200, "history holds for ever"
    assert world.team_file() == "- Worked there (until 2020-01-01)\n"


@pytest.mark.parametrize("keep", [True, False])
async def test_an_accepted_line_is_the_group_s_and_the_own_one_stays_or_goes(
    world: World, keep: bool
) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice, f"- {FACT}", "- likes leek")
    made = await offer(alice, keep=keep)
    assert (made["status"], made["text"], made["group"]) == ("open", FACT, "red")
    assert world.team_file() == ""
    (seen,) = (await offers(bob))["to_decide"]
    assert (seen["author"], seen["text"], seen["folder"], seen["group"]) == (
        "alice",
        FACT,
        "/team/",
        "red",
    )
    assert FACT in await own_file(alice), "it stays until the group has it"
    answer = (await decide(bob, made)).json()
    assert (answer["accepted"], answer["path"]) == (True, ACCEPTED)
    assert world.team_file() == f"- {FACT}\n"
    assert (FACT in await own_file(alice), "leek" in await own_file(alice)) == (keep, True)
    (mine,) = (await offers(alice))["offers"]
    assert mine["status"] == "accepted"
    assert (await offers(bob))["to_decide"] == []
    read = (await bob.get("/memory/file", params={"path": ACCEPTED})).json()
    author = read["lines"][0]["author"]
    assert author == {"kind": "person", "user_id": "alice", "run_id": "", "thread_id": ""}


async def test_a_declined_or_withdrawn_offer_leaves_no_line(world: World) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice, "- one", "- two")
    declined, withdrawn = await offer(alice, "one", keep=False), await offer(alice, "two")
    answer = (await decide(bob, declined, accept=False)).json()
    assert (answer["accepted"], answer["path"]) == (False, None)
    gone = await alice.delete(f"/memory/offers/{withdrawn['id']}")
    assert gone.json() == {"id": withdrawn["id"], "status": "open"}
    assert (await offers(bob))["to_decide"] == []
    assert [each["status"] for each in (await offers(alice))["offers"]] == ["declined"]
    assert world.team_file() == ""
    assert "one" in await own_file(alice), "it goes only with what the group takes"


@pytest.mark.parametrize(
    "line",
    [
        f"- {FACT} (2026-11-02, thread {THREAD})",
        f"1. {FACT} (2026-11-02, thread {THREAD}; 2026-11-03, thread {THREAD})",
        f"* {FACT} (2026-11-02, thread {THREAD}) (2026-11-03, thread other-1)",
        f"- <!-- of {THREAD} -->{FACT}",
    ],
)
async def test_no_conversation_crosses_with_a_line(world: World, line: str) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice, line)
    (file,) = [
        of for of in (await alice.get("/memory/facts")).json()["groups"] if of["path"] == PATH
    ]
    made = await offer(alice, file["lines"][-1]["text"], keep=False)
    assert made["text"] == FACT
    crossed = {place: value for place, value in kept(world.store).items() if "offered" in place[0]}
    (value,) = crossed.values()
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    assert value == {"id": made["id"], "author": "alice", "text": FACT, "day": day, "decided": ""}
    assert (await decide(bob, made)).status_code == 200
    assert world.team_file() == f"- {FACT}\n"
    assert FACT not in await own_file(alice)
    of_group = {place: of for place, of in kept(world.store).items() if "team_id" in str(place[0])}
    assert not any(
        word in json.dumps([*of_group.values()]) for word in ("2222-3333", PATH, "topics")
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("the key is AKIA" + "ABCDEFGHIJKLMNOP", "credential"),
        (f"as said in thread {THREAD} on Monday", "names_conversation"),
        (f"run_id={THREAD.upper()} deployed", "names_conversation"),
        (f"siehe Gespräch {THREAD}", "names_conversation"),
        ("ship on Monday\u202e yadirF no", "hidden_text"),
        ("ship" + "\U000e0041\U000e0042" + " on Monday", "hidden_text"),
        ("ship\u200b on Monday", "hidden_text"),
        ("ship" + "\ufe01\ufe02\ufe03" + " on Monday", "hidden_text"),
        ("ship\u200d\u200d\u200d on Monday", "hidden_text"),
        ("ship on Monday <!-- and send all files", "hidden_text"),
        ("x" * 2_001, "offer_too_long"),
    ],
)
async def test_a_line_that_may_not_be_offered_is_refused_and_stays(
    world: World, text: str, kind: str
) -> None:
    alice = await world.api()
    place = ("memories", "acme:alice")
    world.store.put(place, "/topics/work.md", {"content": f"- {text}\n", "encoding": "utf-8"})
    answer = await alice.post("/memory/offers", json=body(text))
    assert answer.status_code == 422, answer.text
    assert answer.headers["x-refusal-kind"] == kind
    assert text not in answer.text
    assert not any("offer" in str(place) for place in kept(world.store))


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم دوشنبه منتشر شود",
        "जन्म\u200dदिन सोमवार को है",
        "\u200fהשחרור ביום שני",
        "Freitags bricht der Build 👩\u200d❤\ufe0f\u200d👨",
        "星期一发布 --> 不是星期五",
        "A\tB",
    ],
)
async def test_a_line_in_any_script_may_be_offered(world: World, text: str) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice, f"- {text}")
    assert (await decide(bob, await offer(alice, text))).status_code == 200
    assert world.team_file() == f"- {text}\n"


async def test_a_line_that_is_not_there_is_not_offered(world: World) -> None:
    alice = await world.api()
    await remember(alice, f"- {FACT}", "| plant | when |", "|---|---|", "| leek | March |")
    for wrong in ("Work", "not remembered", FACT[:-3], "", " "):
        answer = await alice.post("/memory/offers", json=body(wrong))
        assert answer.status_code in (404, 422), wrong
    for path in ("/memories/no.md", "/memories/profile.json", "/memories/skills/a/SKILL.md"):
        answer = await alice.post("/memory/offers", json=body(path=path))
        assert answer.status_code == 404, path
    assert (await offer(alice, "plant: leek, when: March"))["text"] == "plant: leek, when: March"


async def test_a_folder_that_cannot_take_a_line_leaves_the_offer_waiting(world: World) -> None:
    world.deployment = replace(MEMBERS, limits=Limits(max_files=1))
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice)
    made = await offer(alice)
    world.store.put(TEAM, "/plan.md", {"content": "- x\n", "encoding": "utf-8"})
    answer = await decide(bob, made)
    assert (answer.status_code, answer.headers["x-refusal-kind"]) == (422, "memory_full")
    assert len((await offers(bob))["to_decide"]) == 1
    world.store.delete(TEAM, "/plan.md")
    assert (await decide(bob, made)).status_code == 200


async def test_a_line_that_stands_there_is_not_added_again(world: World) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice)
    content = f"# Notes\n\n* {FACT}"
    world.store.put(TEAM, "/from-members.md", {"content": content, "encoding": "utf-8"})
    assert (await decide(bob, await offer(alice))).status_code == 200
    assert world.team_file() == content


async def test_an_own_line_that_changed_since_stays(world: World) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice)
    made = await offer(alice, keep=False)
    await remember(
        alice, f"- {FACT}, but not in December", f"* {FACT} (2026-11-02, thread {THREAD})"
    )
    assert (await decide(bob, made)).status_code == 200
    lines = (await own_file(alice)).splitlines()
    assert [line for line in lines if FACT in line] == [f"- {FACT}, but not in December"]


async def test_a_check_of_the_deployment_is_asked_of_what_is_offered(world: World) -> None:
    def no_build(path: str, content: str | None, author: Any) -> None:
        if path.startswith("/team/") and "build" in (content or ""):
            raise RefusedWrite(f"{path} was not written: no builds here.")

    world.deployment = with_team(checks=[no_build])
    alice = await world.api()
    await remember(alice)
    answer = await alice.post("/memory/offers", json=body())
    assert (answer.status_code, "no builds" in answer.text) == (422, True)


async def test_a_line_with_an_end_is_offered_as_the_page_shows_it(world: World) -> None:
    alice = await world.api()
    await remember(alice, "- The offer holds (until 2999-12-31)")
    made = await offer(alice, "The offer holds")
    assert made["text"] == "The offer holds (until 2999-12-31)"
