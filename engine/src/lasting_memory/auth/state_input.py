"""What of a request reaches a graph's state: messages and files of a shape that graphs can read.

It comes as `input` and `command.update` of a run, and as a state update or supersteps of a thread.
A value of another shape would break the run, which could not say why. A message is one in any form
that langchain takes: an object, a pair of a role and content, a text.
"""

from collections.abc import Mapping
from typing import Annotated

from langgraph_sdk import Auth
from pydantic import AfterValidator, ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from lasting_memory.auth.handler_values import RunState
from lasting_memory.auth.message_checks import check_messages
from lasting_memory.auth.message_forms import as_list
from lasting_memory.auth.message_marks import drop_server_marks
from lasting_memory.auth.request_fields import checked
from lasting_memory.auth.state_messages import superstep_updates

HTTPException = Auth.exceptions.HTTPException

# langgraph's key of a value that no reducer sees.
OVERWRITE = "__overwrite__"


def rebuild_state(kwargs: RunState) -> None:
    """Rebuild a run's `input`, and check its `command.update`: both go into the graph's state.

    Raises `HTTPException` 422. It reads every message: call it outside of the event loop.
    """
    state = kwargs.get("input")
    if isinstance(state, Mapping):
        state = _without_null_fields(state)
        kwargs["input"] = state
    if state is not None:
        _check_state(state, "input")
    command = kwargs.get("command") or {}
    _check_update(command)


def _without_null_fields(state: Mapping[str, object]) -> dict[str, object]:
    """The state, without those fields of the graphs that are null."""
    fields = dict[str, object]()
    for name, value in state.items():
        is_null = value is None and name in _STATE_FIELDS
        if not is_null:
            fields[name] = value
    return fields


def check_state_write(body: object) -> None:
    """Check what a request writes into a thread's state by the rules for a run's input.

    `body` is that of `POST /threads/{thread_id}/state`, or of `POST /threads` with `supersteps`.
    Takes what only the server writes out of its messages, in place. Raises `HTTPException` 422. It
    reads every message: call it outside of the event loop.
    """
    if not isinstance(body, Mapping):  # the platform answers that
        return
    values = body.get("values")
    _check_states(values, "values")
    for update in superstep_updates(body):
        update_values = update.get("values")
        _check_states(update_values, "supersteps.updates.values")
        command = update.get("command")
        if isinstance(command, Mapping):
            _check_update(command)


def _check_states(values: object, place: str) -> None:
    """Check a state, or each state of a list. Null is no state. Raises as `_check_state`."""
    for state in as_list(values):
        if state is not None:
            _check_state(state, place)


def _check_update(command: Mapping[str, object]) -> None:
    """Raise `HTTPException` 422 for an update of a command that would break a run."""
    update = command.get("update")
    if update is None:
        return
    is_only_update = command.get("resume") is None and not command.get("goto")
    if update in ({}, []) and is_only_update:
        raise HTTPException(
            422, "command.update is empty, and there is nothing beside it; leave the command out."
        )
    if not isinstance(update, list):
        _check_state(update, "command.update")
        return
    # Pairs of a field and its value, as the platform also takes it.
    pairs = checked(_PAIRS, update, "command.update")
    for name, value in pairs:
        _check_state({name: value}, "command.update")


def _check_state(state: object, place: str) -> None:
    """Raise `HTTPException` 422 for fields of the state that would break a run.

    Takes what only the server writes out of its messages, in place. `place` is the field of the
    request that the answer names.
    """
    if isinstance(state, Mapping):
        messages = state.get("messages")
        drop_server_marks(messages)
    checked(_STATE, state, place)
    if not isinstance(state, Mapping):
        return
    for name, value in state.items():
        if name == "messages":
            continue
        items = as_list(value)
        if any(_is_half_a_message(item) for item in items):
            shown_name = str(name)[:100]
            raise HTTPException(
                422,
                f"{place}.{shown_name} has a role or a type that is no text; leave that out.",
            )


def _is_half_a_message(item: object) -> bool:
    """Whether langgraph, which looks for messages in any field, would fail at this."""
    if not isinstance(item, Mapping):
        return False
    has_role = isinstance(item.get("role"), str | None)
    has_type = isinstance(item.get("type"), str | None)
    return not (has_role and has_type)


def _check_files(files: dict[str, object]) -> dict[str, object]:
    """Check the files of a request, and return them as they are: they are merged into the thread's.

    Raises `ValueError` for langgraph's order to put them in place of the thread's.
    """
    if OVERWRITE in files:
        raise ValueError(f"{OVERWRITE} is no path")
    return files


# Fields of the graphs' state which a value of another type would break. A field that is not here is
# ignored by the graphs, or has a reducer that takes anything. A fork's own pass.
_STATE_FIELDS: Mapping[str, object] = {
    "messages": Annotated[object, AfterValidator(check_messages)],
    "files": Annotated[dict[str, object], AfterValidator(_check_files)],
}
_STATE = TypeAdapter[dict[str, object]](
    with_config(ConfigDict(extra="allow"))(TypedDict("State", dict(_STATE_FIELDS), total=False))  # type: ignore[operator]
)
_PAIRS = TypeAdapter(list[tuple[str, object]])
