"""`open_to_people` of auth.py: what a fork may open, and what it may not."""

from types import SimpleNamespace
from typing import Any

import pytest
from langgraph_sdk import Auth

from lasting_memory.auth.handlers import build_auth
from lasting_memory.settings import SettingsError
from lasting_memory.testing.deployed import PROJECT, deployed
from lasting_memory.testing.people import SignedIn


@pytest.mark.parametrize("name", ["threads:write", "*", "crons:search", "assistants:create"])
def test_what_would_not_keep_people_apart_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(SettingsError) as refused:
        build_auth(deployed(), open_to_people={"threads:read", name})
    assert repr(name) in str(refused.value)
    assert "threads:create_run" in str(refused.value), "it says what can be opened"
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["threads:read", "threads:search", "threads:update"])
def test_runs_are_not_opened_without_what_they_need(name: str) -> None:
    needed = {"threads:read", "threads:search", "threads:update", "threads:create_run"}
    assert build_auth(deployed(), open_to_people=needed)
    with pytest.raises(SettingsError, match=f"'threads:create_run' without '{name}'"):
        build_auth(deployed(), open_to_people=needed - {name})


def handler_of(auth: Auth, name: str) -> Any:
    """The handler that the platform calls for an action."""
    resource, action = name.split(":")
    handlers = auth._handlers.get((resource, action)) or auth._global_handlers
    (handler,) = handlers
    return handler


def asked(identity: str, name: str, **claims: Any) -> Any:
    user = SignedIn({"identity": identity, "org_id": "acme", "permissions": [], **claims})
    return SimpleNamespace(user=user, action=name.split(":")[1])


LISTED = ["assistants:read", "threads:read", "threads:search", "threads:delete"]


@pytest.mark.parametrize("name", LISTED)
async def test_what_is_left_out_is_for_operators(name: str) -> None:
    """The others in the list stay open, each on what is the person's."""
    without = build_auth(deployed(), open_to_people=set(LISTED) - {name})
    assert await handler_of(without, name)(ctx=asked("alice", name), value={}) is False
    assert await handler_of(without, name)(ctx=asked("root", name, permissions=["memory:operate"]), value={}) is None
    for other in set(LISTED) - {name}:
        own = None if other.startswith("assistants") else {"user_id": "alice", "org_id": "acme"}
        assert await handler_of(without, other)(ctx=asked("alice", other), value={}) == own


def test_the_project_opens_all_that_has_a_rule() -> None:
    """So the authorization matrix, which runs on it, tries each rule."""
    text = (PROJECT / "auth.py").read_text("utf-8")
    with pytest.raises(SettingsError) as refused:
        build_auth(deployed(), open_to_people={"x"})
    for name in str(refused.value).rpartition("use one of ")[2].removesuffix(".").split(", "):
        assert f'"{name}"' in text
