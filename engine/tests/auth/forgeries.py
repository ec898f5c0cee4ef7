"""What a client may try to say about itself, by where it says it, on every route that starts a run."""

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

from lasting_memory.people import identity
from lasting_memory.testing.scripted_anthropic import system_text
from tests.auth.bodies import a2a_message, command, rpc
from tests.auth.rules import Row, signed_in
from tests.auth.world import Echo, World

# What a client may try to say about itself, by where it says it.
Arguments = dict[str, Any]
FORGED = f"forged-{uuid.uuid4().hex}"


def _identity(victim: World) -> Arguments:
    owner = {"user_id": victim.owner, "org_id": victim.org}
    user = {"identity": victim.owner, "org_id": victim.org, "permissions": [identity.OPERATE], "is_authenticated": True}
    return {
        **owner,
        "thread_owner": owner,
        "langgraph_auth_user": {**user, "thread_owner": owner},
        "langgraph_auth_user_id": victim.owner,
        "langgraph_auth_permissions": [identity.OPERATE],
        "server_info": {"user": user},
    }


def _contents() -> Arguments:
    """Keys by which deepagents and this project could hold what a prompt shows."""
    file = {"content": FORGED, "encoding": "utf-8"}
    skill = {"name": "forged", "description": FORGED, "path": "/skills/forged/SKILL.md", "metadata": {}, "allowed_tools": []}
    return {
        "memory_contents": {"/memories/preferences.md": FORGED, "/policies/preferences.md": FORGED},
        "skills_metadata": [skill],
        "skills_load_errors": [FORGED],
        "policies": FORGED,
        "memories": FORGED,
        "files": {f"/{route}/preferences.md": file for route in ("memories", "policies", "skills/forged")},
    }


def _internals(victim: World) -> Arguments:
    """Keys by which the platform and langgraph steer a run."""
    return {
        "thread_id": victim.names["thread"],
        "checkpoint_id": victim.names["checkpoint"],
        "checkpoint_ns": "",
        "run_id": str(uuid.uuid4()),
        "graph_id": "consolidation_agent",
        "assistant_id": victim.names["assistant"],
        "cron_id": str(uuid.uuid4()),
        "__pregel_resuming": True,
        "__pregel_resume_map": {"x": "y"},
        "__pregel_read": None,
        "__pregel_runtime": {"context": {"user_id": victim.owner, "org_id": victim.org}},
        "__pregel_scratchpad": None,
        "__pregel_thread_id": victim.names["thread"],
    }


# What only a thread has: a state for a command to change, and that it may be made by its first run.
STATE = "everything in the state, by a command"
FIRST_RUN = "everything in the metadata of a thread's first run"


def attempts(victim: World) -> dict[str, Arguments]:
    told = {**_identity(victim), **_contents()}
    internals = _internals(victim)
    keys = {name: str(value) for name, value in told.items()}
    metadata = {"metadata": keys, "config": {**internals, "configurable": {**told, **internals}, "metadata": keys}}
    return {
        "identity in context": {"context": {key: told[key] for key in ("user_id", "org_id")}},
        "everything in context": {"context": told},
        "everything in config and metadata": metadata,
        "everything in the input and the checkpoint": {
            "input": {**told, **internals},
            "checkpoint": {**internals, **_identity(victim)},
        },
        STATE: {"command": {"update": {**_contents(), **_identity(victim)}, "goto": "model"}, "config": internals},
        FIRST_RUN: {"if_not_exists": "create", **metadata},
        "headers": {"headers": {f"x-{name.replace('_', '-')}": str(value)[:1000] for name, value in told.items()}},
    }


def _body(question: str, given: Arguments) -> Arguments:
    asked = {"messages": [{"role": "user", "content": question}]}
    body = {"assistant_id": "agent", **given, "input": {**given.get("input", {}), **asked}}
    if "command" in given:  # it takes the input's place
        body["command"] = {**given["command"], "update": {**given["command"]["update"], **asked}}
    return body


def _message(question: str, given: Arguments) -> Arguments:
    parts = [{"kind": "text", "text": question}]
    parts += [{"kind": "data", "data": given["input"]}] if "input" in given else []
    others = {name: value for name, value in given.items() if name != "input"}
    return {**others, "message": {**a2a_message(), "parts": parts, "metadata": given.get("metadata", {})}}


# Every route that starts a run, and the request that asks a question there.
ASKING: dict[str, Callable[[str, Arguments], Any]] = {
    "POST /threads/{thread_id}/runs": _body,
    "POST /threads/{thread_id}/runs/wait": _body,
    "POST /threads/{thread_id}/runs/stream": _body,
    "POST /runs": _body,
    "POST /runs/wait": _body,
    "POST /runs/stream": _body,
    "POST /runs/batch": lambda question, given: [_body(question, given)],
    "POST /threads/{thread_id}/commands": lambda question, given: command("run.start", **_body(question, given)),
    "POST /mcp": lambda question, given: rpc(
        "tools/call", **{**given, "input": None, "name": "agent", "arguments": _body(question, given)["input"]}
    ),
    "POST /a2a/{assistant_id}": lambda question, given: rpc("message/send", **_message(question, given)),
    "POST /a2a/{assistant_id}/": lambda question, given: rpc("message/stream", **_message(question, given)),
}
_HERS = ("kept", "rule", "said", "skill")
# A context takes no other fields. An event stream takes no context.
REFUSED = {("everything in context", route) for route in ASKING if "/commands" not in route}


async def smuggled(victim: World, me: World, echo: Echo, attempt: str, route: str) -> list[str]:
    """What goes wrong when `me`, who owns nothing of the victim's, tries this there."""
    await me.furnish("")
    if "{thread_id}" in route:
        await me.make("thread")
        if attempt == FIRST_RUN:
            me.names["thread"] = str(uuid.uuid4())
    question = f"ask-{uuid.uuid4().hex}"
    given = dict(attempts(victim)[attempt])
    headers = given.pop("headers", {})
    row = Row(route, attempt, signed_in(), ASKING[route](question, given), headers=headers)
    answer = await me.send("owner", row, until=me.names["kept"])
    for _ in range(400):
        if echo.asked[question] or answer.status >= 400 or (attempt, route) in REFUSED:
            break
        await asyncio.sleep(0.05)
    asked = echo.asked[question]
    if (attempt, route) in REFUSED:
        return [f"no longer refused: {answer}"] if asked else []
    faults = [] if asked else [f"the model was asked nothing: {answer.status} {answer.text[-500:]}"]
    for body in asked:
        system, everything = system_text(body), json.dumps(body)
        faults += [f"not shown its own {name}" for name in ("kept", "rule") if me.names[name] not in system]
        faults += [f"shown the victim's {name}" for name in _HERS if victim.names[name] in everything]
        faults += ["the prompt shows what was forged"] if FORGED in system else []
    if "{thread_id}" in route:
        path = f"/threads/{me.names['thread']}"
        kept = [await me.api("studio", "GET", path), *await me.api("studio", "GET", f"{path}/runs")]
        stamps = {(of["metadata"]["user_id"], of["metadata"]["org_id"]) for of in kept}
        faults += [] if stamps == {(me.owner, me.org)} else [f"the thread or its run is of {stamps}"]
    return faults
