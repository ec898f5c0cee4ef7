"""What a fork decides about writes: its checks see every door."""

import asyncio
import operator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore
from langgraph_sdk import Auth
from pydantic import BaseModel

from lasting_memory import platform
from lasting_memory.agent.starting_files import starting_files
from lasting_memory.auth.handler_values import StoreRequest
from lasting_memory.auth.handlers import _Handlers
from lasting_memory.deployment import PROFILE_PATH, Change, Limits, Profile
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed, Memory
from lasting_memory.memory.validation import RefusedWrite, before_write
from lasting_memory.people.identity import WRITE_POLICIES, Actor, Author
from lasting_memory.settings import Settings, SettingsError
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.conftest import BuildGraph
from tests.http.conftest import MEMORIES, Open, exported, put
from tests.http.fork import SECRET, MyProfile, Table, forked, no_secret

ALICE = Actor("alice", "acme")
CONSOLIDATION = Author("consolidation", "alice")
PATH = "/memories/topics/note.md"


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
