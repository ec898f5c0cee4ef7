"""What a fork decides about writes: its checks see every door, its schemas are all that a field
needs.
"""

import asyncio
import base64
import json
import operator
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from agent import build_agent
from deepagents.backends.utils import create_file_data
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore
from langgraph_sdk import Auth
from pydantic import BaseModel, Field, ValidationError

from lasting_memory import platform
from lasting_memory.agent.backends import starting_files
from lasting_memory.auth.handler_values import StoreRequest
from lasting_memory.auth.handlers import _Handlers
from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.days import is_zone, timezone_in
from lasting_memory.deployment import PROFILE_PATH, Change, Check, Deployment, Limits, Profile
from lasting_memory.http.app import build_http
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed, Memory
from lasting_memory.memory.validation import MAX_FILE_BYTES, RefusedWrite, before_write
from lasting_memory.people.identity import WRITE_POLICIES, Actor, Author
from lasting_memory.settings import Settings, SettingsError
from lasting_memory.testing.deployed import PROJECT, deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Text,
    ToolCall,
    system_text,
    tool_results,
)
from tests.conftest import BuildGraph, chat_on
from tests.http.conftest import MEMORIES, Open, exported, put

ALICE = Actor("alice", "acme")
CONSOLIDATION = Author("consolidation", "alice")
SECRET = "the launch code is 7"
PATH = "/memories/topics/note.md"


class MyProfile(Profile):
    pronouns: str | None = Field(None, max_length=10, description="How to refer to them.")
    tone: Literal["dry", "warm"] = Field("warm", description="How to sound.")


class Table(BaseModel):
    seats: int = Field(ge=1, le=12)


def forked(*checks: Check, **settings: Any) -> Deployment:
    schemas: dict[str, type[BaseModel]] = {
        PROFILE_PATH: MyProfile,
        "/memories/topics/table.json": Table,
    }
    return replace(deployed(**settings), checks=checks, schemas=schemas)


def no_secret(path: str, content: str | None, author: Author) -> None:
    if SECRET in (content or ""):
        raise RefusedWrite(f"{path} names the launch code; leave it out.")


def stored(store: BaseStore) -> str:
    return str([item.value for item in store.search(MEMORIES, limit=100)])


async def test_a_text_that_a_fork_s_check_refuses_is_written_by_no_door(
    calling: Open, graph: BuildGraph, store: BaseStore
) -> None:
    """The doors beside the contract's."""
    fork, text = forked(no_secret), f"- {SECRET}"
    told = await graph(fork).called(ToolCall("append_memory", {"path": PATH, "text": text}))
    for content in (text, "later"):  # as before there was the check
        file = create_file_data(content)
        await journal.change(store, MEMORIES, "/old.md", lambda _, f=file: f, Author("agent"))  # type: ignore[misc]
    async with calling("alice", fork) as api:
        told.append(
            (await api.post("/memory/undo", json={"path": "/memories/old.md", "revision": 1})).text
        )
        told.append(
            (await api.post("/memory/import", json=exported({"path": PATH, "content": text}))).text
        )
    told.append(
        str(
            await Memory(store, ALICE, MEMORIES, fork).apply(
                [Changed("/new.md", "", text)], CONSOLIDATION
            )
        )
    )
    assert ["names the launch code; leave it out." in each for each in told] == [True] * 4, told
    assert SECRET not in stored(store)


async def test_a_check_of_a_change_is_told_at_every_door_what_is_there(
    calling: Open, graph: BuildGraph, store: BaseStore
) -> None:
    seen: list[Change] = []

    def nothing_shrinks(change: Change) -> None:
        seen.append(change)
        if len(change.after or "") < len(change.before or ""):
            raise RefusedWrite(f"{change.path} would shrink; only add to it.")

    fork, key = forked(nothing_shrinks), PATH.removeprefix("/memories")
    told = await graph(fork).called(
        ToolCall("append_memory", {"path": PATH, "text": "- one"}),
        ToolCall("edit_file", {"file_path": PATH, "old_string": "one", "new_string": "1"}),
        ToolCall("delete", {"file_path": PATH}),
    )
    judged = dict.fromkeys((change.before, change.after) for change in seen if change.path == PATH)
    assert [*judged] == [(None, "- one\n"), ("- one\n", "- 1\n"), ("- one\n", None)]
    assert {change.author.kind for change in seen} == {"agent", "seed"}
    assert ["would shrink" in each for each in told] == [False, True, True]
    async with calling("alice", fork) as api:
        assert "would shrink" in (await put(api, "- 1\n", PATH)).text
        assert (await put(api, "- one\n- two\n", PATH)).status_code == 200
        undone = await api.post("/memory/undo", json={"path": PATH, "revision": 1})
        assert "would shrink" in undone.text
        seen.clear()
        imported = await api.post(
            "/memory/import", json=exported({"path": PATH, "content": "- three\n"})
        )
        assert imported.json()["files"] == [{"path": PATH, "action": "append"}]
    assert {(change.before, change.after) for change in seen} == {
        ("- one\n- two\n", "- one\n- two\n- three\n")
    }
    now = "- one\n- two\n- three\n"
    refused = await Memory(store, ALICE, MEMORIES, fork).apply(
        [Changed(key, now, "- one\n")], CONSOLIDATION
    )
    assert "would shrink" in str(refused[PATH])
    assert seen[-1] == Change(PATH, now, "- one\n", CONSOLIDATION)
    item = await store.aget(MEMORIES, key)
    assert item
    assert item.value["content"] == now


async def test_a_check_judges_what_a_person_makes_of_a_policy(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Change] = []

    def never_shorter(change: Change) -> None:
        seen.append(change)
        if len(change.after or "") < len(change.before or ""):
            raise RefusedWrite("A policy only grows.")

    async def of_server() -> BaseStore:
        return store

    monkeypatch.setattr(platform, "store", of_server)
    policies = ("policies", "acme")
    await store.aput(policies, "/rule.md", {**create_file_data("Be kind.")})
    handlers = _Handlers(forked(never_shorter))
    author = SignedIn(identity="alice", org_id="acme", permissions=[WRITE_POLICIES])

    async def asks(action: str, content: str | None) -> None:
        value: StoreRequest = {"namespace": policies, "key": "/rule.md"}
        if content is not None:
            value["value"] = {"content": content}
        context: Any = SimpleNamespace(user=author, action=action)
        await handlers.use_store(context, value)

    await asks("put", "Be kind. Be brief.")
    for action, content in (("put", "Be."), ("delete", None)):
        with pytest.raises(Auth.exceptions.HTTPException, match="only grows") as refused:
            await asks(action, content)
        assert refused.value.status_code == 422
    by = Author("person", "alice")
    assert seen == [
        Change("/policies/rule.md", "Be kind.", after, by)
        for after in ("Be kind. Be brief.", "Be.", None)
    ]


async def test_a_change_is_checked_against_the_file_that_others_wrote_meanwhile(
    store: BaseStore,
) -> None:
    """A proposal waits for days; the check sees the file as it is when the proposal is accepted."""
    seen: list[Change] = []
    await store.aput(MEMORIES, "/a.md", {**create_file_data("one\ntwo\nthree\n")})
    change = Changed("/a.md", "one\ntwo\n", "one\ntwo\nfour\n")
    assert (
        await Memory(store, ALICE, MEMORIES, forked(seen.append)).apply([change], CONSOLIDATION)
        == {}
    )
    assert {(change.path, change.before) for change in seen} == {
        ("/memories/a.md", "one\ntwo\nthree\n")
    }


async def test_a_check_that_fails_refuses_the_write_and_shows_nothing_of_itself(
    calling: Open, store: BaseStore
) -> None:
    def broken(path: str, content: str | None, author: Author) -> None:
        raise KeyError("internals")

    async with calling("alice", forked(broken)) as api:
        told = (await put(api, f"- {SECRET}")).text
    assert "was not written: a check of this deployment failed" in told
    assert "internals" not in told
    assert SECRET not in stored(store)


async def test_starting_files_are_checked(store: BaseStore) -> None:
    seen: list[tuple[str, str | None, str]] = []

    def refuse(path: str, content: str | None, author: Author) -> None:
        seen.append((path, content, author.kind))
        raise RefusedWrite("Not this.")

    texts = await starting_files(
        store, ALICE, deployed().default_assistant, forked(refuse), write=True
    )
    assert seen == [(f"/memories{key}", text, "seed") for key, text in texts.items()]
    assert seen
    assert stored(store) == "[]"


NO_MODEL = chat_on("http://127.0.0.1:9")
BAD_FIRST_FILES: list[tuple[str, str | bytes]] = [
    ("notes.md", "Zoë".encode("latin-1")),
    ("notes.txt", b"\xff\xfe"),
    ("a.md", "x" * (MAX_FILE_BYTES + 1)),
    ("keys.md", "AKIA" + "ABCDEFGHIJKLMNOP"),
    ("nul.md", "a\x00b"),
    ("profile.json", '{"nickname": "Al"}'),
    ("profile.json", "no JSON"),
    ("back\\slash.md", "x"),
    ("ours.md", f"- {SECRET}"),
]


def forked_folder(folder: Path, *checks: Check) -> Deployment:
    """A deployment of a folder that may be changed."""
    own = Path(
        shutil.copytree(PROJECT, folder / "fork", ignore=shutil.ignore_patterns("__pycache__"))
    )
    return replace(forked(*checks), folder=own)


@pytest.mark.parametrize("build", [build_agent, build_consolidation_agent])
@pytest.mark.parametrize(
    ("name", "content"),
    BAD_FIRST_FILES,
    ids=[str(number) for number in range(len(BAD_FIRST_FILES))],
)
def test_an_unusable_starting_file_stops_the_building_of_a_graph(
    tmp_path: Path, build: Any, name: str, content: str | bytes
) -> None:
    fork = forked_folder(tmp_path, no_secret)
    file = fork.folder / "seeds" / "memories" / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        SettingsError, match=rf"^{re.escape(str(file))} (cannot be seeded\. |is not UTF-8).*$"
    ):
        build(fork, NO_MODEL)


@pytest.mark.parametrize("build", [build_agent, build_consolidation_agent, build_http])
@pytest.mark.parametrize(
    "broken", ["seeds/memories/notes.md", "seeds/memories/linked.md", "prompts/memory_block.md"]
)
def test_an_unreadable_file_of_a_fork_stops_the_start_of_graphs_and_routes(
    tmp_path: Path, build: Any, broken: str
) -> None:
    fork = forked_folder(tmp_path)
    file = fork.folder / broken
    if file.name == "linked.md":
        file.symlink_to(fork.folder / "langgraph.json")
    else:
        file.write_bytes("Zoë".encode("latin-1"))
    with pytest.raises(SettingsError, match=rf"^{re.escape(str(file))} is (not UTF-8|a link).*$"):
        build(fork) if build is build_http else build(fork, NO_MODEL)


def test_more_first_files_than_a_memory_may_hold_stop_the_start(tmp_path: Path) -> None:
    fork = replace(forked_folder(tmp_path), limits=Limits(max_files=2))
    for name in ("a.md", "b.md"):
        (fork.folder / "seeds/memories" / name).write_text("x")
    with pytest.raises(
        SettingsError, match=r"seeds/memories has 3 files with .* for one person, and 2 files"
    ):
        build_agent(fork, NO_MODEL)


async def test_no_run_and_no_request_reads_the_first_files_again(
    calling: Open, graph: BuildGraph, tmp_path: Path
) -> None:
    fork = forked_folder(tmp_path)
    (fork.folder / "seeds/memories/.DS_Store").write_bytes(b"\xff")
    (fork.folder / "seeds/memories/preferences.md").write_text("- likes leek")
    agent = graph(fork)
    for name in (
        "seeds/memories/preferences.md",
        "seeds/memories/late.md",
        "prompts/memory_block.md",
    ):
        (fork.folder / name).write_bytes(b"\xff")
    async with calling("bob", fork) as api:
        answer = await api.get("/memory/prompt")
    assert answer.status_code == 200
    assert "- likes leek" in answer.text
    assert "- likes leek" in await agent.shown()


WRITTEN = [
    "4111 1111 1111 1111",
    "4111-1111-1111-1111",
    "3782 822463 10005",
    "gl" + "pat-" + "4k9Xw" * 4,
]
WRITTEN += ["my password is hunter2hunter2"]


@pytest.mark.parametrize(
    "secret", WRITTEN, ids=["spaces", "hyphens", "15 digits", "a key", "a password"]
)
async def test_no_door_writes_a_credential(
    calling: Open, graph: BuildGraph, store: BaseStore, secret: str
) -> None:
    text = f"- My own is {secret}"
    hidden = {
        "path": "/memories/photo.png",
        "content": base64.b64encode(text.encode()).decode(),
        "encoding": "base64",
    }
    told = await graph().called(
        ToolCall("append_memory", {"path": PATH, "text": text}),
        ToolCall("write_file", {"file_path": PATH, "content": text}),
        ToolCall("write_file", {"file_path": f"/memories/{secret}.md", "content": "x"}),
        ToolCall("save_profile", {"profile": {"name": secret}}),
        ToolCall("write_file", {"file_path": PATH, "content": "- My own is _"}),
        ToolCall("edit_file", {"file_path": PATH, "old_string": "_", "new_string": secret}),
    )
    del told[4]
    async with calling("alice") as api:
        for answer in (
            await put(api, text),
            await put(api, "x", path=f"/memories/{secret}.md"),
            await api.post("/memory/import", json=exported({"path": PATH, "content": text})),
            await api.post("/memory/import", json=exported(hidden)),
        ):
            assert answer.is_client_error, answer.text
            told.append(answer.text)
    memory = Memory(store, ALICE, MEMORIES, deployed())
    for author in (CONSOLIDATION, Author("person", "alice")):
        with pytest.raises(ValueError, match="would hold") as refused:
            await memory.check([Changed("/new.md", "", text)], author)
        told.append(str(refused.value))
        told.append(str(await memory.apply([Changed("/new.md", "", text)], author)))
    assert ["would hold a" in each for each in told] == [True] * len(told), told
    shown = [each for each in told if secret in each.replace(f"/memories/{secret}.md", "")]
    assert shown == []
    assert secret not in str([(item.key, item.value) for item in store.search((), limit=1000)])


ESCAPED = {
    "a line before": r"Ann\n4111111111111111", "spaces": r"4111\u00a01111\u00a01111\u00a01111",
    "a wide digit": r"\uff14111111111111111",
    "digits": r"\u0034\u0031\u0031\u0031111111111111", "a key": r"ghp\u005f" + "4k9Xw" * 8,
}  # fmt: skip


@pytest.mark.parametrize("escaped", ESCAPED.values(), ids=ESCAPED)
async def test_no_door_writes_a_credential_that_json_escapes(
    calling: Open, graph: BuildGraph, store: BaseStore, escaped: str
) -> None:
    name, key = f'{{"name": "{escaped}"}}', f'{{"{escaped}": 1}}'
    told = await graph().called(
        ToolCall("save_profile", {"profile": {"name": json.loads(f'"{escaped}"')}}),
        ToolCall("write_file", {"file_path": "/memories/p.json", "content": key}),
    )
    async with calling("alice") as api:
        for answer in (
            await put(api, name, path="/memories/profile.json"),
            await put(api, name, path="/memories/n.json"),
            await put(api, key, path="/memories/n.json"),
            await api.post(
                "/memory/import", json=exported({"path": "/memories/n.json", "content": name})
            ),
        ):
            assert answer.is_client_error, answer.text
            told.append(answer.text)
    assert ["would hold a" in each for each in told] == [True] * len(told), told
    assert {item.key for item in await store.asearch(MEMORIES)} <= {"/preferences.md"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_base64_of_utf_16_is_read(encoding: str) -> None:
    content = base64.b64encode("Zoë: 4111 1111 1111 1111".encode(encoding)).decode()
    with pytest.raises(RefusedWrite, match="would hold a card number"):
        before_write(forked(), "/memories/photo.png", content, Author("agent"), "base64")


@pytest.mark.parametrize("deleted", [True, False])
async def test_a_file_that_consolidation_deletes_is_shown_as_deleted(
    store: BaseStore, deleted: bool
) -> None:
    seen: list[str | None] = []
    await store.aput(MEMORIES, "/a.md", {**create_file_data("one\n")})
    change, fork = (
        Changed("/a.md", "one\n", "", deleted=deleted),
        forked(lambda _, content, __: seen.append(content)),
    )
    assert await Memory(store, ALICE, MEMORIES, fork).apply([change], CONSOLIDATION) == {}
    assert {*seen} == {None if deleted else ""}


class Demanding(Profile):
    badge: str


class Later:
    """A check that is called as a coroutine function."""

    async def __call__(self, change: Change) -> None: ...


def test_a_check_that_answers_later_lets_nothing_pass() -> None:
    later: Any = lambda _: asyncio.sleep(0)  # noqa: E731  # no coroutine function
    with pytest.raises(RefusedWrite, match="a check of this deployment failed"):
        before_write(forked(later), "/memories/a.md", "x", Author("agent"))


def test_a_check_of_one_change_may_have_further_parameters_with_defaults() -> None:
    seen = list[object]()

    def check(change: object, strict: bool = True, log: object = None) -> None:
        seen.append((type(change), strict, log))

    before_write(forked(check), "/memories/a.md", "x", Author("agent"))
    assert seen == [(Change, True, None)]


NO_SCHEMA = r"use a path like /memories/profile\.json and a pydantic model"


@pytest.mark.parametrize(("decided", "fix"), [
    ({"checks": [asyncio.sleep]}, "use a plain function"),  # nobody would await it
    ({"checks": [operator.contains]}, "takes neither one Change nor path, content and author"),
    ({"checks": [lambda: None]}, "takes neither one Change nor path, content and author"),
    ({"checks": [Change]}, "use a plain function"),
    ({"checks": [Later()]}, "use a plain function"),
    ({"checks": [partial(asyncio.sleep, 1)]}, "use a plain function"),
    ({"schemas": {PROFILE_PATH: Demanding}}, "'badge' has no default"),  # a profile begins empty
    ({"consolidation": None, "settings": Settings(memory_writes="background")}, "MEMORY_WRITES is 'background'"),
    ({"consolidation": None, "limits": Limits(conversation_days=30)}, "conversation_days is 30"),
    *(({"schemas": of}, NO_SCHEMA) for of in ({"profile.json": Profile}, {PROFILE_PATH: dict}, {PROFILE_PATH: Profile()})),
])  # fmt: skip
def test_an_unusable_argument_of_a_deployment_stops_the_start_with_its_fix(
    decided: dict[str, Any], fix: str
) -> None:
    with pytest.raises(SettingsError, match=fix):
        replace(deployed(), **decided)


def test_decisions_of_a_fork_do_not_change_afterwards() -> None:
    given: dict[str, type[BaseModel]] = {PROFILE_PATH: MyProfile}
    fork = replace(deployed(), schemas=given)
    given.clear()
    assert fork.profile is MyProfile
    with pytest.raises(TypeError):
        fork.schemas["/x"] = Table  # type: ignore[index]


# --- Schemas

VALUES = st.dictionaries(
    st.sampled_from([*MyProfile.model_fields, "seats", "nmae"]),
    st.none() | st.text(max_size=12) | st.integers(-1, 14),
)


@given(VALUES | st.text('{}[]:"a', max_size=5), st.sampled_from([*forked().schemas.items()]))
def test_a_file_with_a_schema_is_written_with_what_the_schema_takes_alone(
    value: object, place: tuple[str, type[BaseModel]]
) -> None:
    content = value if isinstance(value, str) else json.dumps(value)
    path, schema = place
    try:
        schema.model_validate_json(content)
    except ValidationError:
        with pytest.raises(
            RefusedWrite, match=f"with these fields: {', '.join(schema.model_fields)}"
        ):
            before_write(forked(), path, content, Author("agent"))
    else:
        zone = timezone_in(content) if schema is MyProfile else ""
        if zone and not is_zone(zone):
            with pytest.raises(RefusedWrite, match="is no time zone"):
                before_write(forked(), path, content, Author("agent"))
        else:
            before_write(forked(), path, content, Author("agent"))
    before_write(forked(), "/memories/topics/other.json", content, Author("agent"))


async def test_a_fork_s_field_is_offered_saved_and_kept(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore
) -> None:
    agent = graph(forked())
    for number, profile in enumerate(
        ({"tone": "dry", "name": "Al"}, {"pronouns": "they"}, {"pronouns": "x" * 11})
    ):
        model.script(
            f"go {number}", [ToolCall("save_profile", {"profile": profile})], [Text("done")]
        )
        await agent.turn(f"go {number}", thread=str(number))
    assert "at most 10" in tool_results(model.requests[-1])[0]
    item = await store.aget(MEMORIES, "/profile.json")
    assert item
    assert json.loads(item.value["content"]) == {"tone": "dry", "name": "Al", "pronouns": "they"}
    (tool,) = (tool for tool in model.requests[0]["tools"] if tool["name"] == "save_profile")
    assert "name, role, language, timezone, units, pronouns, tone" in tool["description"]
    fields = json.dumps(tool["input_schema"])
    assert all(
        about.description in fields
        for about in MyProfile.model_fields.values()
        if about.description
    )
    assert "`units`, `pronouns`, `tone`" in system_text(model.requests[0])


async def test_consolidation_is_told_the_fields_and_what_they_hold(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    await graph(forked(), build=build_consolidation_agent).turn("go")
    shown = system_text(model.requests[0])
    assert all(
        f"  - `{name}`: {about.description}\n" in shown
        for name, about in MyProfile.model_fields.items()
    )
    assert "{profile" not in shown


async def test_prompts_and_tools_without_a_profile_do_not_speak_of_one(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    fork = replace(deployed(), schemas={})
    await graph(fork).turn("one")
    await graph(fork, build=build_consolidation_agent).turn("two")
    for body in model.requests:
        assert "profile" not in system_text(body).split("<memory>")[0].replace(
            "the preferences, the profile", ""
        )
        assert "save_profile" not in {tool["name"] for tool in body["tools"]}
