"""What version 0.1 left, recorded by `tests/fixtures/make_v01.py`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

from langgraph.store.base import BaseStore

from memory import identity, namespaces
from memory.identity import Actor
from settings import PROJECT, Settings
from testing.threads import Threads

RECORDED: Mapping[str, Any] = json.loads(gzip.decompress((PROJECT / "tests" / "fixtures" / "v01.json.gz").read_bytes()))
ALICE, ODD = Actor("alice@example.com", "acme"), Actor("auth0|42 Zoë/Ω", "globex.example")
ALICE_2, BOB, GONE = Actor("alice@example.com", "globex.example"), Actor("bob", "acme"), Actor("gone", "acme")
PEOPLE = (ALICE, ODD, ALICE_2, BOB)


class Client:
    """The platform's client, of everybody."""

    def __init__(self) -> None:
        self.threads = Threads()
        self.threads.kept = {thread["thread_id"]: dict(thread) for thread in RECORDED["threads"]}


async def fill(store: BaseStore) -> BaseStore:
    """Put what was recorded into a store."""
    for item in RECORDED["store"]:
        await store.aput(tuple(item["namespace"]), item["key"], item["value"], index=False)
    return store


def files_of(actor: Actor) -> namespaces.Namespace:
    return namespaces.memories(actor, identity.DEFAULT_AGENT_ASSISTANT, Settings())


async def texts(store: BaseStore, actor: Actor) -> dict[str, str]:
    return {item.key: str(item.value["content"]) for item in await store.asearch(files_of(actor), limit=100)}
