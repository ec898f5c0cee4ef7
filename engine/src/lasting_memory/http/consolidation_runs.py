"""Runs of consolidation that a request waits for."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TypedDict

from fastapi import Depends, Request
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError, ConflictError, NotFoundError
from langgraph_sdk.schema import RunCreateMetadata
from starlette.exceptions import HTTPException

from lasting_memory import consolidation, platform
from lasting_memory.consolidation import Trigger
from lasting_memory.conversations.marks import may_set
from lasting_memory.http.models.base import Note
from lasting_memory.http.models.consolidation import NothingToDo
from lasting_memory.http.requests import PersonRequest
from lasting_memory.memory.controls import PAUSED
from lasting_memory.platform import get_client
from lasting_memory.settings import CONSOLIDATION_GRAPH


class _RunInput(TypedDict):
    messages: list[dict[str, str]]


def _check_is_on(request: Request) -> None:
    """Raise `HTTPException` 404 where there is no consolidation."""
    if request.app.state.deployment.consolidation is None:
        raise HTTPException(
            404, "There is no consolidation here: consolidation is None in deployment.py."
        )


# Of all routes about consolidation.
IS_ON = Depends(_check_is_on)


async def owner_of(caller: PersonRequest) -> consolidation.Owner:
    """Whose memory a run is about. Raises where there is none of their own, or it is paused."""
    caller.check_not_shared()
    controls = await caller.controls()
    if controls.paused:
        raise HTTPException(409, f"{PAUSED}; resume it first (PUT /memory/controls).")
    per_assistant = caller.deployment.memory.per_assistant
    assistant = caller.assistant if per_assistant else None
    return consolidation.Owner(caller.actor, assistant)


async def run_and_wait(
    caller: PersonRequest,
    owner: consolidation.Owner,
    trigger: Trigger,
    text: str = "",
    *,
    dry_run: bool = False,
) -> dict[str, object] | NothingToDo:
    """The report of a run whose thread is deleted at its end.

    Raises `HTTPException` with the platform's status if the run cannot begin, 409 if the person was
    forgotten meanwhile, and 502 if it failed.
    """
    name = "dry run" if dry_run else "run"
    context: dict[str, str | bool] = {**owner.context(), "dry_run": dry_run}
    try:
        async with platform.acting_as_caller(caller.http), get_client() as client:
            answer = await _last_message(client, trigger, text, context)
    except APIStatusError as error:
        raise HTTPException(
            error.response.status_code, f"The {name} could not begin: {error.message}"
        ) from None
    if await caller.is_forgotten():
        raise HTTPException(409, "You were forgotten meanwhile; nothing of it is kept.")
    if answer is None:
        raise HTTPException(502, f"The {name} failed; see the server's log.")
    try:
        report: object = json.loads(answer)
    except ValueError:
        report = None
    if not isinstance(report, dict):  # a sentence
        return nothing_to_do(answer, dry_run=dry_run)
    return report


def nothing_to_do(reason: str, *, dry_run: bool) -> NothingToDo:
    """The answer where a run had nothing to work on, or did not begin."""
    notes = list[Note]()
    kind = consolidation.NOTHING_TO_DO.get(reason)
    if kind:
        note = Note.model_validate(consolidation.note(kind))
        notes.append(note)
    return NothingToDo(dry_run=dry_run, files={}, reason=reason, notes=notes)


async def _last_message(
    client: LangGraphClient, trigger: Trigger, text: str, context: Mapping[str, str | bool]
) -> str | None:
    """Run consolidation, and return what it said last; None if it did not come to its end."""
    run_input = _RunInput(messages=[])
    if text:
        run_input["messages"].append({"role": "user", "content": text})
    created_runs = list[RunCreateMetadata]()
    with may_set("trigger"):
        values = await client.runs.wait(
            None,
            CONSOLIDATION_GRAPH,
            input=run_input,
            context=context,
            metadata={"trigger": trigger},
            on_disconnect="cancel",
            raise_error=False,
            on_run_created=created_runs.append,
        )
    message = _final_message(values)
    is_answer = message.get("type") == "ai" and not message.get("tool_calls")
    if is_answer:
        return str(message.get("content"))
    # As when it is cancelled: then its thread stays.
    thread_ids = [run["thread_id"] for run in created_runs if run["thread_id"]]
    await _delete_threads(client, thread_ids)
    return None


def _final_message(values: object) -> Mapping[str, object]:
    """The last message of a thread's state; an empty one where there is none."""
    if not isinstance(values, dict):
        return {}
    messages = values.get("messages")
    if not isinstance(messages, list) or not messages:
        return {}
    last_message = messages[-1]
    return last_message if isinstance(last_message, Mapping) else {}


async def _delete_threads(client: LangGraphClient, thread_ids: list[str]) -> None:
    """Delete these threads, as far as they are there and no run goes on in them."""
    if not thread_ids:
        return
    for thread in await client.threads.search(ids=thread_ids):
        with suppress(ConflictError, NotFoundError):
            await client.threads.delete(thread["thread_id"])
