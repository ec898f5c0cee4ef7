"""Where the messages are that a request writes into a graph's state, and changes of them in place.

A state is the `input` or `command.update` of a run, or `values` of a request that writes a thread's
state. It is an object, a list of such, or a list of pairs of a field and its value. Its holder is the
object that has it in a field.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping

from lasting_memory.auth.message_forms import as_list


def change_messages(
    holder: object, field: str, change: Callable[[list[object]], list[object]]
) -> None:
    """Change the messages of the state in a field of this holder, in place.

    `change` gets the messages and returns those in their place. A value that is no state has no
    messages.
    """
    if not isinstance(holder, Mapping):
        return
    state = holder.get(field)
    for part in as_list(state):
        if not isinstance(part, MutableMapping):
            continue
        messages = part.get("messages")
        if messages is not None:
            part["messages"] = change(as_list(messages))
    if isinstance(state, list) and isinstance(holder, MutableMapping):
        holder[field] = [_with_changed_messages(part, change) for part in state]


def _with_changed_messages(part: object, change: Callable[[list[object]], list[object]]) -> object:
    """The pair of the field `messages` and its value, with the messages changed.

    Any other part of a state is returned as it is.
    """
    match part:
        case ["messages", messages]:
            changed_messages = change(as_list(messages))
            return ["messages", changed_messages]
        case _:
            return part


def state_holders(body: object) -> Iterator[tuple[Mapping[str, object], str]]:
    """The holders of the states in the body of a request that writes a thread's state.

    Each comes with the name of the field. `body` is that of `POST /threads/{thread_id}/state`, or of
    `POST /threads` with `supersteps`; one that is no object has none.
    """
    if not isinstance(body, Mapping):
        return
    yield body, "values"
    for update in superstep_updates(body):
        yield update, "values"
        command = update.get("command")
        if isinstance(command, Mapping):
            yield command, "update"


def superstep_updates(body: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The updates of all `supersteps`, in order. What has another shape is left out."""
    supersteps = body.get("supersteps")
    for step in _mappings(supersteps):
        updates = step.get("updates")
        yield from _mappings(updates)


def _mappings(items: object) -> list[Mapping[str, object]]:
    """The objects in a list; none if this is no list."""
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, Mapping)]
