"""Being forgotten: nothing is left, nothing of anybody else's is touched, and what was going writes
nothing afterwards. What tests of that share.
"""

from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, PutOp

from lasting_memory.http import forget as forget_route
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform

ALICE = Actor("alice", "acme")
MEMORIES = ("memories", "acme:alice")
OTHER = "11111111-2222-3333-4444-555555555555"
DEFAULTS = deployed()
BOTH = deployed(memory_scope="user+assistant")


def client(*ids: str, busy: tuple[str, ...] = ()) -> Any:
    """The platform's client, where alice has these conversations. In busy ones a run goes on that
    nobody can stop.
    """
    platform = Platform()
    for thread_id in (*ids, *busy):
        platform.talk("alice", thread_id=thread_id)["status"] = (
            "busy" if thread_id in busy else "idle"
        )
    return platform


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget_route, "FORGET_GRACE_SECONDS", 0.05)
    monkeypatch.setattr(forget_route, "STOP_SECONDS", 0.2)


def left(store: BaseStore) -> dict[tuple[tuple[str, ...], str], Any]:
    """What is in the store, but for the time of that."""
    items = store.search((), limit=1000)
    return {
        (item.namespace, item.key): item.value for item in items if item.namespace[0] != "forgotten"
    }


async def furnish(store: BaseStore, namespace: namespaces.Namespace, actor: Actor = ALICE) -> None:
    """Files with a history, and a position, as runs of that person leave them."""
    for key in ("/preferences.md", "/topics/a.md"):
        for text in ("one", "two"):
            file = create_file_data(text)
            await journal.change(store, namespace, key, lambda _, file=file: file, Author("agent"))  # type: ignore[misc]
    await store.abatch(
        [PutOp(namespaces.positions(actor), "thread", {"message_id": "1"}, index=False)]
    )
