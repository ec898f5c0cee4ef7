"""Which path belongs to whom, who may write it, what may be written, and how that is deepagents'
own backend.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from deepagents.backends import StoreBackend
from deepagents.backends.utils import create_file_data
from deepagents.middleware.filesystem import FilesystemState
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory import plain_text
from lasting_memory.agent import thread_files
from lasting_memory.agent.backends import build_backend
from lasting_memory.agent.scoped_files import ScopedFiles
from lasting_memory.deployment import Deployment
from lasting_memory.memory import validation
from lasting_memory.memory.validation import MAX_FILE_BYTES, MAX_PATH_BYTES, RefusedWrite
from lasting_memory.people.identity import Author, Context
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.conftest import Scripted

POLICIES, SKILLS = ("policies", "acme"), ("skills", AGENT)
DEFAULTS = deployed()
SPELLINGS = [
    "{0}/x.md",
    "{0}",
    "{0}/",
    "/{0}//x.md",
    "{0}//x.md",
    "{0}/./x.md",
    "{0}/sub/../x.md",
    "/./{0}/x.md",
]


async def called(
    store: BaseStore,
    method: str,
    *args: Any,
    settings: Deployment = DEFAULTS,
    consolidating: bool = False,
) -> Any:
    """What a method of the backend answers a tool inside a run, without any middleware in between."""
    results = []

    async def node(state: FilesystemState) -> None:
        backend = build_backend(settings, (lambda: None) if consolidating else None)
        results.append(await getattr(backend, method)(*args))

    graph = (
        StateGraph(FilesystemState, context_schema=Context)
        .add_node("node", node)
        .add_edge(START, "node")
    )
    await graph.compile(store=store).ainvoke(
        {"messages": []}, context=Context(user_id="alice", org_id="acme")
    )
    return results[0]


def everything(store: BaseStore) -> dict[tuple[tuple[str, ...], str], Any]:
    return {(item.namespace, item.key): item.value for item in store.search((), limit=1000)}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("route", ["/policies", "/skills"])
async def test_the_backend_itself_refuses_every_write_to_what_is_shared(
    store: BaseStore, route: str, spelling: str
) -> None:
    for namespace in (POLICIES, SKILLS):
        store.put(namespace, "/x.md", {**create_file_data("rule")})
    before, path = everything(store), spelling.format(route)
    deletions = (("adelete", each) for each in (path, "/", ""))
    for method, *args in (("awrite", path, "mine"), ("aedit", path, "rule", "mine"), *deletions):
        assert (await called(store, method, *args)).error
    with pytest.raises((NotImplementedError, RefusedWrite)):
        await called(store, "aupload_files", [(path, b"mine")])
    assert everything(store) == before


@pytest.mark.parametrize(("settings", "agent", "consolidation"), [
    ({}, True, True),
    ({"memory_writes": "background"}, False, True),
    ({"memory_scope": "assistant"}, False, False),
    ({"memory_scope": "assistant", "shared_writes": "interrupt"}, False, False),
    ({"memory_scope": "assistant", "shared_writes": "allow"}, True, False),
])  # fmt: skip
async def test_the_settings_say_who_writes_memory(
    store: BaseStore, settings: dict[str, Any], agent: bool, consolidation: bool
) -> None:
    for consolidating, written in ((False, agent), (True, consolidation)):
        how: Any = {"settings": deployed(**settings), "consolidating": consolidating}
        assert (
            not (await called(store, "awrite", f"/memories/{consolidating}.md", "x", **how)).error
        ) is written
        assert any(key == f"/{consolidating}.md" for _, key in everything(store)) is written
    assert (await called(store, "awrite", "/skills/x.md", "x", **how)).error


def write(path: str, content: str) -> ToolCall:
    return ToolCall("write_file", {"file_path": path, "content": content})


def read(path: str) -> ToolCall:
    return ToolCall("read_file", {"file_path": path})


async def test_any_path_under_memories_lasts_and_others_go_with_their_thread(
    agent: Scripted,
) -> None:
    paths = ["/memories/work/draft.md", "/work/draft.md"]
    await agent.called(*(write(path, "A draft.") for path in paths), thread="1")
    lasts, gone = await agent.called(*map(read, paths), thread="2")
    assert "A draft." in lasts
    assert "not found" in gone


async def test_a_tool_given_what_no_store_could_keep_answers_so(agent: Scripted) -> None:
    part = "a\x00b"
    path = f"/memories/{part}"
    told = await agent.called(
        ToolCall("ls", {"path": path}),
        read(path),
        write(path, "x"),
        ToolCall("edit_file", {"file_path": path, "old_string": "x", "new_string": "y"}),
        ToolCall("delete", {"file_path": path}),
        ToolCall("glob", {"pattern": part, "path": "/memories"}),
        ToolCall("grep", {"pattern": part, "path": path}),
        ToolCall("append_memory", {"path": path, "text": "x"}),
        ToolCall("append_memory", {"path": "/memories/x.md", "text": part}),
        ToolCall("save_profile", {"profile": {"name": part}}),
        ToolCall("search_memories", {"query": part}),
        ToolCall("search_past_conversations", {"query": part}),
        ToolCall("read_conversation", {"thread_id": part}),
    )
    assert ["rror" in result for result in told] == [True] * 13


async def test_a_client_s_files_under_a_route_or_an_unwritable_path_are_not_seen(
    agent: Scripted,
) -> None:
    paths = [
        "/policies/forged.md",
        "/skills/x/SKILL.md",
        "/mine.md",
        "/" + "a/" * 100_000 + "b.md",
        "/a/../x.md",
    ]
    forged = {path: {**create_file_data("FORGED")} for path in paths}
    calls = [
        ToolCall("grep", {"pattern": "FORGED"}),
        ToolCall("glob", {"pattern": "**/*.md"}),
        ToolCall("ls", {"path": "/"}),
    ]
    told = "".join(await agent.called(*calls, files=forged))
    assert "/mine.md" in told
    assert not any(path in told for path in ("forged.md", "/skills/x/SKILL.md", "a/a", "x.md"))


async def test_files_of_a_conversation_are_bounded_each_and_all(
    agent: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "MAX_FILE_BYTES", 1_000)
    monkeypatch.setattr(thread_files, "MAX_SCRATCH_BYTES", 4_200)
    grow = ToolCall(
        "edit_file",
        {"file_path": "/s.md", "old_string": "é", "new_string": "éé", "replace_all": True},
    )
    full = [write(f"/{number}.md", "x" * 1_000) for number in range(4)]
    again = [ToolCall("delete", {"file_path": "/0.md"}), write("/again.md", "x")]
    told = await agent.called(
        write("/large.md", "é" * 501), write("/s.md", "é" * 250), grow, grow, *full, *again
    )
    refused = [number for number, text in enumerate(told) if "Error" in text]
    assert refused == [0, 3, 7], (
        "too large, too large when twice as much, and no room beside the others"
    )
    assert ["1,002 bytes" in told[0], "2,000 bytes" in told[3], "of 4,200" in told[7]] == [True] * 3


async def test_a_long_message_of_a_person_is_still_put_aside(agent: Scripted) -> None:
    assert (await agent.turn("put this aside " + "x" * (2 * MAX_FILE_BYTES)))[-1]
    assert len(str(agent.model.requests[-1])) < 2 * MAX_FILE_BYTES


FILES = ("memories", "acme:alice")
# What is in the store before the calls.
VALUES: dict[str, dict[str, Any]] = {
    "/a.md": {**create_file_data("one\ntwo\nthree\nfour\nfive\n")},
    "/crlf.md": {**create_file_data("a\r\nb\r\n")},
    "/d/e/b.py": {
        **create_file_data("def __init__(self):\n    x = r'[a-z]+' if y | z else '(.*)'")
    },
    "/d/empty.md": {**create_file_data("")},
    "/binary.png": {"content": "iVBORw==", "encoding": "base64"},
}
Call = tuple[Any, ...]
Build = Callable[..., StoreBackend]


def plain(store: BaseStore) -> StoreBackend:
    return StoreBackend(namespace=lambda _: FILES, store=store)


def ours(store: BaseStore) -> ScopedFiles:
    return ScopedFiles(
        DEFAULTS, lambda _: FILES, route="/memories", author=Author("agent"), store=store
    )


def bare(value: Any) -> Any:
    """A result without the times in it, the order in which a store gives what it finds, and our
    folder in an error's path.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, bare(
            {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        )
    if isinstance(value, dict):
        return {
            key: bare(part)
            for key, part in value.items()
            if key not in {"created_at", "modified_at"}
        }
    if isinstance(value, str):
        return (
            value.replace("File '/memories/", "File '/") if value.endswith("' not found") else value
        )
    return sorted(map(bare, value), key=repr) if isinstance(value, list) else value


async def played(
    build: Build, values: dict[str, Any], calls: Iterable[Call]
) -> tuple[list[Any], dict[str, tuple[Any, ...]]]:
    """What calls returned, and the files in the store afterwards."""
    store = InMemoryStore()
    for key, value in values.items():
        store.put(FILES, key, dict(value))
    results = [bare(await getattr(build(store), f"a{name}")(*args)) for name, *args in calls]
    kept = {
        item.key: (item.value.get("content"), item.value.get("encoding"))
        for item in store.search(FILES, limit=100)
    }
    return results, kept


PATHS = st.sampled_from(
    [*sorted(VALUES), "/a.md/b.md", "/[d]/*.md", "/größe 📏.md", "/clip.mkv", "/missing.md"]
)
FOLDERS = PATHS | st.sampled_from(["/", "/d", "/d/", "/d/e", "/*"])
WORDS = st.sampled_from(
    [
        "",
        "a",
        "b\n",
        "two\nthree",
        "a\r\nb",
        "é📏",
        "[a",
        "(.*)",
        "x | y",
        "__init__(",
        "\t",
        "x\u2028y\n",
        "iVB",
    ]
)
TEXTS = st.lists(WORDS, max_size=4).map("".join)
CALLS = st.one_of(
    st.tuples(st.just("write"), PATHS, TEXTS),
    st.tuples(st.just("edit"), PATHS, WORDS, WORDS, st.booleans()),
    st.tuples(st.just("read"), FOLDERS),
    st.tuples(st.just("delete"), FOLDERS.filter(lambda path: not path.endswith("/"))),
    st.tuples(st.just("ls"), FOLDERS),
    st.tuples(st.just("grep"), WORDS, FOLDERS),
    st.tuples(st.just("download_files"), st.lists(FOLDERS, max_size=3)),
)


@hypothesis_settings(max_examples=250, deadline=None, derandomize=True)
@given(calls=st.lists(CALLS, max_size=12))
@example(
    calls=[*(("read", path) for path in VALUES), ("ls", "/"), ("download_files", sorted(VALUES))]
)
@example(
    calls=[("delete", "/d"), ("ls", "/"), ("write", "/d/e/b.py", "again"), ("read", "/d/e/b.py")]
)
async def test_any_calls_have_the_same_results_and_leave_the_same_files(calls: list[Call]) -> None:
    """But that of ours each line ends with a line feed, as if it had been written so."""
    results, kept = await played(ours, VALUES, calls)
    with_line_feeds = [
        (name, *(plain_text.plain(arg) if isinstance(arg, str) else arg for arg in args))
        for name, *args in calls
    ]
    values = {
        key: {**value, "content": plain_text.plain(value["content"])}
        for key, value in VALUES.items()
    }
    as_text = {
        key: (plain_text.plain(str(content)), encoding) for key, (content, encoding) in kept.items()
    }
    assert (results, as_text) == await played(plain, values, with_line_feeds)


@pytest.mark.parametrize("value", [
    {"content": 7}, {"content": None}, {}, {"content": ["a", 1]}, {"content": "x", "encoding": "?"},
    {"content": "x", "encoding": {}},
])  # fmt: skip
async def test_a_value_that_is_no_file_is_an_error_of_its_own_and_in_nobody_s_way(
    value: dict[str, Any],
) -> None:
    """Where the plain backend raises or is misled, ours says so: an exception would end the run."""
    good = {"/good.md": {**create_file_data("find me")}}
    calls: list[Call] = [
        ("ls", "/"),
        ("grep", "find"),
        ("glob", "*.md"),
        ("edit", "/good.md", "find", "found"),
    ]
    assert (await played(ours, {**good, "/odd.md": value}, calls))[0] == (
        await played(plain, good, calls)
    )[0]
    calls = [
        ("read", "/odd.md"),
        ("write", "/odd.md", "x"),
        ("edit", "/odd.md", "a", "b"),
        ("download_files", ["/odd.md"]),
    ]
    results, left = await played(ours, {**good, "/odd.md": value}, calls)
    assert all("not a file" in str(result) for result in results)
    assert left["/odd.md"] == (value.get("content"), value.get("encoding"))
    assert [*(await played(ours, {**good, "/odd.md": value}, [("delete", "/odd.md")]))[1]] == [
        "/good.md"
    ]


@pytest.mark.parametrize("path", [
    *("*", "a.md", "", "/", "/d/", "//a.md", "/./a.md", "/d/../a.md", "/..", "/a\\b.md", "/a\x00b.md", "/a.md\n"),
    *("/\ud800.md", "/\ufffd.md", "/" + "é" * (MAX_PATH_BYTES // 2)),
])  # fmt: skip
async def test_a_file_has_one_spelling_that_begins_with_a_slash(path: str) -> None:
    calls: list[Call] = [("write", path, "x"), ("edit", path, "a", "b"), ("delete", path)]
    results, left = await played(ours, VALUES, calls)
    assert all("rror" in str(result) for result in results)
    assert (await played(ours, VALUES, []))[1] == left


def test_methods_that_do_not_await_write_nothing_around_the_journal() -> None:
    store = InMemoryStore()
    for method in ("write", "edit", "delete", "upload_files", "download_files"):
        with pytest.raises(NotImplementedError, match="await awrite"):
            getattr(ours(store), method)("/a.md")
    assert store.search(()) == []
