"""What the page asks for beside files: facts, changes, trash; who one is, what the model sees,
rules, past conversations.
"""

import asyncio
import json
import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.deployment import DEFAULTS
from lasting_memory.http import conversations, facts
from lasting_memory.memory import journal
from lasting_memory.memory.journal import revisions
from lasting_memory.memory.journal import texts as journal_texts
from lasting_memory.memory.proposals import Changed, Memory, Proposal
from lasting_memory.people.identity import WRITE_POLICIES, Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, system_text
from tests.http.conftest import MEMORIES, NOTES, Open, kept, put
from tests.recall.talks import ALICE, left, say

BLOCKS = ["agent", "policies", "memory", "skills"]
POLICIES, SKILL = (
    ("policies", "acme"),
    "---\nname: letters\ndescription: Write letters.\n---\nDo it well.\n",
)


async def told(client: httpx.AsyncClient, path: str, **params: Any) -> Any:
    answer = await client.get(f"/memory/{path}", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


async def test_me_says_who_one_is_and_how_memory_is_kept(calling: Open) -> None:
    settings = deployed(memory_scope="user+assistant", memory_writes="background")
    own = ["memories", f"{settings.default_assistant}:acme:alice"]
    async with calling("alice", settings, permissions=[WRITE_POLICIES]) as client:
        assert await told(client, "me") == {
            "user_id": "alice", "org_id": "acme", "agents": ["agent"], "memory_scope": "user+assistant",
            "own_memory": True, "ends": True,
            "memory_writes": "background", "sign_in": "token", "operator": False, "writes_policies": True,
            "pictures": False, "temporary_hours": 24,
            "routes": {
                "/memories/": {"shared": False, "writes": "deny", "namespace": own},
                "/policies/": {"shared": True, "writes": "deny", "namespace": ["policies", "acme"]},
                "/skills/": {"shared": True, "writes": "deny", "namespace": None},
            },
        }  # fmt: skip
    async with calling("root", deployed(operators=frozenset({"root"}), local_dev=True)) as root:
        root.headers["host"] = "127.0.0.1"
        me = await told(root, "me", user_id="bob", org_id="globex")
        assert (me["user_id"], me["org_id"], me["operator"], me["sign_in"]) == (
            "bob",
            "globex",
            True,
            "dev",
        )


async def test_policies_are_one_s_organization_s_with_the_way_to_change_them(
    calling: Open, store: BaseStore
) -> None:
    store.put(POLICIES, "/compliance.md", {**create_file_data("Be kind.\n")})
    store.put(POLICIES, "/more/details.md", {**create_file_data("é")})
    store.put(POLICIES, "/odd.md", {"content": 7})
    store.put(("policies", "globex"), "/secret.md", {**create_file_data("Theirs.\n")})
    async with calling() as client:
        policies = await told(client, "policies")
    assert (policies["namespace"], policies["writable"]) == (list(POLICIES), False)
    assert [
        (file["path"], file["key"], file["content"], file["bytes"], file["in_prompt"])
        for file in policies["files"]
    ] == [
        ("/policies/compliance.md", "/compliance.md", "Be kind.\n", 9, True),
        ("/policies/more/details.md", "/more/details.md", "é", 2, False),
        ("/policies/odd.md", "/odd.md", None, 0, True),
    ]
    async with calling(permissions=[WRITE_POLICIES]) as writer:
        assert (await told(writer, "policies"))["writable"] is True


async def test_the_prompt_is_shown_with_sizes_and_what_was_left_out(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    store.put(POLICIES, "/compliance.md", {**create_file_data("Be kind.\n")})
    await put(api, "x" * (DEFAULTS.memory_block_bytes + 1_000), "/memories/preferences.md")
    await put(api, SKILL, "/memories/skills/letters/SKILL.md")
    agent, policies, memory, *skills = blocks = (await told(api, "prompt"))["blocks"]
    assert [block["name"] for block in blocks] == BLOCKS
    assert (agent["text"][:60] in deployed().prompt("agent.md"), agent["budget"]) == (True, None)
    assert all(
        len(block["text"]) / 5 < block["tokens"] < len(block["text"]) / 3 + 10 for block in blocks
    )
    assert "## /policies/compliance.md\n\nBe kind." in policies["text"]
    assert (policies["left_out"], memory["budget"]) == ([], DEFAULTS.memory_block_bytes)
    assert memory["left_out"] == ["/memories/preferences.md: 1,000 bytes"]
    assert ["Write letters." in block["text"] for block in skills] == [True]
    assert all(block["bytes"] == len(block["text"].encode()) for block in blocks)


async def test_looking_at_a_prompt_writes_nothing_and_shows_the_first_memory(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    assert "## /memories/preferences.md" in (await told(api, "prompt"))["blocks"][2]["text"]
    assert not kept(store)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "q=",
        "q=%20",
        f"q={'x' * 1_001}",
        "q=x&limit=0",
        "q=x&limit=21",
        "q=x&limit=1.5",
        "q=x&Q=y",
    ],
)
async def test_a_bad_search_is_refused(api: httpx.AsyncClient, query: str) -> None:
    assert (await api.get(f"/memory/search?{query}")).status_code == 422


@pytest.mark.server
async def test_a_person_s_next_prompt_and_past_words_are_shown(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, bob = server.person(alice), server.person(f"bob-{alice}")
    told = await person.made("GET", "/memory/prompt")
    assert {"append_memory", "search_past_conversations", "task", "read_file"} <= set(told["tools"])
    thread = await person.chat("I keep a zebra called Quirin.")
    shown = system_text(model.requests[-1])
    assert sorted(told["tools"]) == sorted(tool["name"] for tool in model.requests[-1]["tools"])
    sent = len(json.dumps(model.requests[-1]["tools"])) / 4
    assert 0.8 * sent < told["tools_tokens"] < 1.2 * sent
    assert [block["name"] for block in told["blocks"] if block["text"] not in shown] == []
    answer = await person.made("GET", "/memory/search", q="zebra", limit=3)
    assert [talk["thread_id"] for talk in answer["conversations"]] == [thread]
    assert answer["conversations"][0]["turns"][0] == {
        "number": 1,
        "speaker": "user",
        "text": "I keep a zebra called Quirin.",
    }
    assert "zebra" not in json.dumps(await bob.made("GET", "/memory/search", q="zebra"))


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
async def test_a_search_of_somebody_forgotten_meanwhile_writes_no_index_back(
    store: BaseStore, calling: Open, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    threads = Platform()

    async def forget_alice(_: str) -> None:
        if threads.calls["threads.search"] == nth:
            await journal.forget(store, ALICE)
            while items := await left(store):
                for item in items:
                    await store.adelete(tuple(item.namespace), item.key)
            for thread_id in list(threads.kept):
                threads.remove(thread_id)

    threads.after = forget_alice
    monkeypatch.setattr(conversations, "get_client", lambda: threads)
    async with calling() as client:
        for number in range(30):
            say(threads, f"t{number}", "a zebra", days=number)
        assert (await client.get("/memory/search?q=zebra")).is_success
    assert threads.calls["threads.search"] >= nth
    assert await left(store) == []


THREAD = "0199f0aa-0000-7000-8000-000000000001"
AGENT = Author("agent", "alice", "run-1", THREAD)


async def groups(api: httpx.AsyncClient) -> dict[str, Any]:
    return {group["path"]: group for group in (await told(api, "facts"))["groups"]}


async def changed(api: httpx.AsyncClient) -> list[dict[str, Any]]:
    return list((await told(api, "changes"))["changes"])


async def by(store: BaseStore, author: Author, content: str, key: str = "/notes.md") -> None:
    await journal.change(store, MEMORIES, key, lambda _: create_file_data(content), author)


async def test_lines_are_facts_without_markers_comments_and_sources(api: httpx.AsyncClient) -> None:
    content = f"""# Food & drink

<!-- How this is kept:
one line each. -->
- likes dill (2026-01-01, thread {THREAD})
- likes tea (obey, thread {THREAD}, and tell nobody)
2. no nuts <!-- really -->
## Drinks
Tea (with milk)
* <!-- this never ends
"""
    await put(api, content, "/memories/topics/food.md")
    group = (await groups(api))["/memories/topics/food.md"]
    assert (group["title"], group["kind"], group["revision"]) == ("Food & drink", "lines", 1)
    assert group["lines"] == [
        {"line": 4, "text": "likes dill"},
        {"line": 5, "text": f"likes tea (obey, thread {THREAD}, and tell nobody)"},
        {"line": 6, "text": "no nuts"},
        {"line": 7, "heading": "Drinks"},
        {"line": 8, "text": "Tea (with milk)"},
        {"line": 9, "text": "<!-- this never ends"},
    ]


async def test_a_row_of_a_table_is_a_fact_in_words_and_marks_of_form_are_none(
    api: httpx.AsyncClient,
) -> None:
    path = "/memories/topics/garden.md"
    table = "| plant | when |\n|---|:-:|\n| leek | March |\n| a \\| b | |\n"
    code = "```sh\n# c\n- x\n```\n"
    await put(api, f"{table}\nkept | as it is\n{code}~~~~\n```\n~~~~\n", path)
    assert (await groups(api))[path]["lines"] == [
        {"line": 2, "text": "plant: leek, when: March", "raw": "| leek | March |"},
        {"line": 3, "text": "plant: a | b", "raw": "| a \\| b | |"},
        {"line": 5, "text": "kept | as it is"},
        {"line": 7, "text": "# c", "raw": "# c"},
        {"line": 8, "text": "- x", "raw": "- x"},
        {"line": 11, "text": "```", "raw": "```"},
    ]
    await put(api, "- tea\n", path)
    gone = (await api.get("/memory/trash")).json()["lines"]
    assert {line["text"] for line in gone} >= {"| leek | March |", "x"}
    assert not {"|---|:-:|", "```sh", "```"} & {line["text"] for line in gone}


async def test_titles_come_from_names_and_what_has_no_facts_is_a_file(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await put(api, "x", "/memories/topics/winter-garden.md")
    await put(api, "- garden.md", "/memories/topics/index.md")
    await put(
        api, "---\nname: mine\ndescription: x\n---\n- do it so", "/memories/skills/mine/SKILL.md"
    )
    await put(api, "{}", "/memories/data.json")
    store.put(MEMORIES, "/odd.md", {"content": 7})
    found = await groups(api)
    assert found["/memories/topics/winter-garden.md"]["title"] == "Winter garden"
    assert {path: group["kind"] for path, group in found.items()} == {
        "/memories/profile.json": "profile",
        "/memories/topics/winter-garden.md": "lines",
        "/memories/data.json": "file",
        "/memories/odd.md": "file",
        "/memories/skills/mine/SKILL.md": "file",
        "/memories/topics/index.md": "file",
    }
    assert "not a file" in found["/memories/odd.md"]["error"]
    assert next(iter(found)) == "/memories/profile.json"
    await api.delete("/memory/file", params={"path": "/memories/odd.md"})
    assert "/memories/odd.md" not in await groups(api)


async def test_a_profile_is_its_fields_also_before_there_is_one(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    path = "/memories/profile.json"
    empty = (await groups(api))[path]
    assert (empty["revision"], {field["value"] for field in empty["fields"]}) == (0, {None})
    assert [field["name"] for field in empty["fields"]] == [
        "name",
        "role",
        "language",
        "timezone",
        "units",
    ]
    assert empty["fields"][0]["description"] == "What to call the person."
    await put(api, '{"name": "Zoe"}', path)
    assert (await groups(api))[path]["fields"][0]["value"] == "Zoe"
    store.put(MEMORIES, "/profile.json", {**create_file_data('{"name": NaN, "x": ' + "[" * 5_000)})
    assert (await groups(api))[path]["kind"] == "file", "another code's value is no profile"


async def test_changes_are_those_since_one_looked_with_what_takes_them_back(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await by(store, Author("seed", "alice"), "# Notes\n")
    assert await changed(api) == [], "with what a memory starts nothing changed"
    await by(store, AGENT, "# Notes\n- tea\n")
    await by(store, AGENT, "# Notes\n- tea\n- milk\n")
    (notes,) = await changed(api)
    assert (notes["path"], notes["revision"], notes["author"]["kind"], notes["deleted"]) == (
        NOTES["path"],
        3,
        "agent",
        False,
    )
    assert [line for line in notes["diff"].splitlines() if line[0] in "+-"] == ["+- tea", "+- milk"]
    until = (await api.get("/memory/changes")).json()["until"]
    assert (await api.put("/memory/seen", json={"until": until})).json() == {"since": until}
    assert (await api.put("/memory/seen", json={"until": "2020-01-01T00:00:00Z"})).json() == {
        "since": until
    }
    assert await changed(api) == []
    await api.delete("/memory/file", params=NOTES)
    await by(store, AGENT, "x", "/new.md")
    new, deleted = await changed(api)
    assert (deleted["deleted"], new["path"]) == (True, "/memories/new.md")
    await take_back(api, deleted)
    assert (await api.get("/memory/file", params=NOTES)).json()[
        "content"
    ] == "# Notes\n- tea\n- milk\n"
    await take_back(api, new)
    assert (await api.get("/memory/file", params={"path": new["path"]})).status_code == 404
    assert not [change for change in await changed(api) if change["author"]["kind"] == "agent"], (
        "it was taken back"
    )


async def take_back(api: httpx.AsyncClient, change: dict[str, Any], status: int = 200) -> None:
    answer = await api.post(
        "/memory/undo", json={"path": change["path"], "changes": change["changes"]}
    )
    assert answer.status_code == status, answer.text


async def test_taking_back_touches_nothing_that_others_changed(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    async def content() -> str:
        return str((await api.get("/memory/file", params=NOTES)).json()["content"])

    await put(api, "- mine\n")
    await by(store, AGENT, "- mine\n- apples\n")
    await by(store, replace(AGENT, run_id="run-2"), "- mine\n- apples\n- SECRET\n")
    await put(api, "- mine\n- red apples only\n")
    await by(store, replace(AGENT, run_id="run-3"), "- mine\n- red apples only\n- dates\n")
    changes = [change for change in await changed(api) if change["author"]["kind"] == "agent"]
    assert [change["author"]["run_id"] for change in changes] == ["run-3"], (
        "the others have no effect any more"
    )
    await take_back(api, changes[0])
    assert await content() == "- mine\n- red apples only\n"
    await by(store, AGENT, "- mine\n- red apples only\n- pears\n")
    (pears,) = [change for change in await changed(api) if "pears" in change["diff"]]
    await put(api, "- mine\n- red apples only\n- pears\n- plums\n")
    await take_back(api, pears)
    assert await content() == "- mine\n- red apples only\n- plums\n"


async def test_changes_that_are_taken_back_at_once_are_all_taken_back(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    lines = ["- mine\n"]
    await put(api, lines[0])
    for number in range(3):
        lines.append(f"- of run {number}\n")
        await by(store, replace(AGENT, run_id=f"run-{number}"), "".join(lines))

    def more(file: Any) -> Any:
        return create_file_data(file["content"] + "- more\n")

    async def write_on() -> None:
        for _ in range(2):
            await asyncio.sleep(0.01)
            await journal.change(store, MEMORIES, "/notes.md", more, AGENT)

    back = [take_back(api, change) for change in await changed(api) if change["author"]["run_id"]]
    await asyncio.gather(*back, write_on())  # others write meanwhile
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == lines[
        0
    ] + "- more\n" * 2


async def test_a_future_or_malformed_time_marks_no_change_as_seen(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await api.put("/memory/seen", json={"until": "9998-01-01T00:00:00+12:00"})
    for until in (
        "soon",
        "2026-01-01T00:00:00",
        None,
        7,
        "0001-01-01T00:00:00+23:59",
        "9999999999999-01-01T00:00:00Z",
    ):
        assert (await api.put("/memory/seen", json={"until": until})).status_code == 422
    await by(store, AGENT, "x")
    assert len(await changed(api)) == 1


async def test_the_trash_has_deleted_files_and_lines_that_are_gone(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await put(api, "# Notes\n- tea\n- milk\n- bread\n")
    await by(store, AGENT, f"# Notes\n- tea (2026-01-01, thread {THREAD})\n- bread\n")
    await put(api, "# Notes\n- bread\n")
    await put(api, "gone", "/memories/gone.md")
    await api.delete("/memory/file", params={"path": "/memories/gone.md"})
    trash = (await api.get("/memory/trash")).json()
    assert [(line["text"], line["author"]["kind"]) for line in trash["lines"]] == [
        ("tea", "person"),
        ("milk", "agent"),
    ]
    (file,) = trash["files"]
    assert file["path"] == "/memories/gone.md"
    await take_back(api, file)
    assert (await api.get("/memory/file", params={"path": file["path"]})).json()[
        "content"
    ] == "gone"
    assert (await api.get("/memory/trash")).json()["files"] == []


async def test_a_hostile_memory_is_read_in_linear_time(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    """Each of these takes minutes where a pattern goes back and forth."""
    for number, text in enumerate(
        ("<!--" * 25_000, " (" * 50_000 + f"thread {THREAD})", " " * 100_000 + "x", "1" * 100_000)
    ):
        await by(store, AGENT, text, f"/{number}.md")
    assert len(await groups(api)) == 5
    assert len(await changed(api)) == 4


SHUFFLED = [f"- {number}" for number in range(1_990)]


def shuffled(number: int) -> str:
    """The same lines in another order for each number: 1,990 has no factor in common with 3."""
    step = pow(3, number, len(SHUFFLED))
    return "".join(f"{SHUFFLED[place * step % len(SHUFFLED)]}\n" for place in range(len(SHUFFLED)))


def put_history(store: BaseStore, path: str, texts: list[str], run: str = "") -> None:
    """Put a file with a revision for each text, as the journal would, a minute apart."""
    newest = journal.NOTHING
    for number, text in enumerate(texts):
        at = f"2026-01-01T{number // 60:02}:{number % 60:02}:00+00:00"
        author = Author("person", "alice", run)
        name = f"{number:032}"
        newest = journal.Revision(
            number + 1, name, tuple(filter(None, [newest.id])), text, "utf-8", at, at, author
        )
        store.batch([revisions.revision_op(MEMORIES, path, newest, "")])
    store.batch([revisions.copy_op(MEMORIES, path, newest)])


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the comparisons of texts, and the pairs of lines in them that are compared."""
    counted, edits = Counter[str](), journal_texts.edits

    def counting(before: Any, after: Any) -> Any:
        counted["texts"] += 1
        counted["lines"] += len(before) * len(after)
        return edits(before, after)

    monkeypatch.setattr(journal_texts, "edits", counting)
    # `line_origins` calls it by the name that its own module imported.
    monkeypatch.setattr(revisions, "edits", counting)
    return counted


async def test_changes_compared_for_an_answer_are_bounded_and_the_rest_is_counted(
    api: httpx.AsyncClient, store: BaseStore, pairs: Counter[str]
) -> None:
    texts = [shuffled(number) for number in range(50)]
    for number in range(12):
        put_history(store, f"/{number}.md", texts)
    told = (await api.get("/memory/changes")).json()
    assert 10 <= len(told["changes"]) <= 100
    assert told["more"] == 12 * 50 - len(told["changes"])
    assert pairs["lines"] < 300 * 1_990**2, "more than 300 comparisons of two such files"
    oldest = min(change["at"] for change in told["changes"])
    assert oldest >= "2026-01-01T00:43", "the newest of all files come first"


async def test_many_changes_of_a_line_in_long_files_are_all_shown_up_to_200(
    api: httpx.AsyncClient, store: BaseStore, pairs: Counter[str]
) -> None:
    lines = [f"{line}\n" for line in SHUFFLED[:1_000]]
    for number in range(5):
        put_history(store, f"/{number}.md", ["".join(lines[: 900 + place]) for place in range(50)])
    told = (await api.get("/memory/changes")).json()
    assert (len(told["changes"]), told["more"]) == (200, 50)
    assert [line for line in told["changes"][0]["diff"].splitlines() if line[0] in "+-"] == [
        f"+{SHUFFLED[948]}"
    ]


async def test_a_run_that_rewrote_a_file_often_is_one_change(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    put_history(store, "/a.md", [shuffled(number) for number in range(50)], run="run")
    put_history(store, "/b.md", [shuffled(number) for number in range(50)], run="run")
    told = (await api.get("/memory/changes")).json()
    assert len(told["changes"]) + told["more"] == 2
    assert len(told["changes"][0]["changes"]) == 50


async def test_a_few_changes_have_no_more(api: httpx.AsyncClient) -> None:
    await put(api, "- tea\n")
    assert (await api.get("/memory/changes")).json()["more"] == 0


@pytest.mark.proof
async def test_proposals_that_cost_much_are_shown_some_at_a_time(
    api: httpx.AsyncClient, store: BaseStore, pairs: Counter[str]
) -> None:
    memory = Memory(store, Actor("alice", "acme"), MEMORIES, deployed())
    texts = [shuffled(number) for number in range(13)]
    for number in range(12):
        changes = [Changed(f"/{place}.md", texts[place], texts[place + 1]) for place in range(12)]
        at = f"2026-01-01T00:{number:02}:00+00:00"
        await memory.propose(
            Proposal(f"{number:02}", at, MEMORIES[-1], Author("agent", "alice"), changes, [])
        )
    known = await told(api, "proposals")
    assert (len(known["proposals"]), known["more"]) == (7, 5)
    assert [proposal["id"] for proposal in known["proposals"]] == [
        f"{number:02}" for number in range(7)
    ]
    assert pairs["lines"] < 300 * 1_990**2
    for number in range(3):
        assert (
            await api.post(f"/memory/proposals/{number:02}", json={"accept": False})
        ).status_code == 200
    known = await told(api, "proposals")
    assert (known["proposals"][0]["id"], len(known["proposals"]), known["more"]) == ("03", 7, 2)


async def test_a_person_s_flood_is_computed_a_little_at_a_time(
    api: httpx.AsyncClient, calling: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them is not done before all have come, and bob has his answer."""
    await put(api, "- a line\n")
    may_end = threading.Event()
    group = facts._fact_group

    def held(*args: Any) -> Any:
        may_end.wait(300)
        return group(*args)

    monkeypatch.setattr(facts, "_fact_group", held)
    flood = [asyncio.create_task(api.get("/memory/facts")) for _ in range(100)]
    async with asyncio.timeout(300), calling("bob") as bob:
        while sum(each.done() for each in flood) < 50:  # noqa: ASYNC110  # those who are refused
            await asyncio.sleep(0.01)
        assert (await bob.get("/memory/facts")).status_code == 200
        assert sum(each.done() for each in flood) == 50, "bob waited for the flood"
        may_end.set()
        answers = Counter([(await each).status_code for each in flood])
    assert answers == {200: 50, 429: 50}
