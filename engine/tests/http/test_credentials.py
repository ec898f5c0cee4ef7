"""No door writes a credential, however it is spelled."""

import base64
import json

import pytest
from langgraph.store.base import BaseStore

from lasting_memory.memory.proposals import Changed, Memory
from lasting_memory.memory.validation import RefusedWrite, before_write
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.conftest import BuildGraph
from tests.http.conftest import MEMORIES, Open, exported, put
from tests.http.fork import forked

ALICE = Actor("alice", "acme")
CONSOLIDATION = Author("consolidation", "alice")
PATH = "/memories/topics/note.md"
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
