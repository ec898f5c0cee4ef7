"""A policy over the platform's store API is kept as files are, and is checked as it is kept."""

from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from lasting_memory import platform
from lasting_memory.auth.handler_values import StoreRequest
from lasting_memory.auth.store_access import check_store_access
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import WRITE_POLICIES, Context
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from tests.memory.test_plain_text import KEY


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a policy as a person who may. Returns the value that the platform puts."""
    store = InMemoryStore()

    async def of_server() -> InMemoryStore:
        return store

    monkeypatch.setattr(platform, "store", of_server)
    user: Any = SignedIn(identity="ada", org_id="acme", permissions=[WRITE_POLICIES])
    caller = Caller.of_request(user, Context(), deployed().settings)

    async def put_policy(content: str) -> StoreRequest:
        policy = {"content": content, "encoding": "utf-8"}
        item: StoreRequest = {
            "namespace": ("policies", "acme"),
            "key": "/rules.md",
            "value": policy,
        }
        ctx: Any = SimpleNamespace(action="put", user=user)
        await check_store_access(deployed(), ctx, item, caller)
        return item

    return put_policy


async def test_a_policy_s_text_is_kept_plain(put: Any) -> None:
    item = await put("\ufeff# Rules\r\n\ufeff- be kind\r")
    assert item["value"] == {"content": "# Rules\n- be kind\n", "encoding": "utf-8"}


async def test_a_mark_hides_no_credential(put: Any) -> None:
    with pytest.raises(RefusedWrite):
        await put(f"{KEY[:6]}\ufeff{KEY[6:]}")
