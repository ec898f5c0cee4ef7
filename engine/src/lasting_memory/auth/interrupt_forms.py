"""The form of a question: which actions it is about, and which kind of answer it takes."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

# Actions of one question that a form is made for.
_MAX_REQUESTS = 20

Kind = Literal["decisions", "responses", "response", "value"]

# The types of answers to a `HITLRequest`.
_DECISIONS = ("approve", "edit", "reject", "respond")
# The types of answers to a `HumanInterrupt`, and the key of its config that allows each.
_RESPONSES = {
    "accept": "allow_accept",
    "edit": "allow_edit",
    "response": "allow_respond",
    "ignore": "allow_ignore",
}


class Request(NamedTuple):
    """An action that a question is about, and the types of answers that it allows."""

    name: str
    args: Mapping[str, object]
    description: str
    allowed_kinds: tuple[str, ...]


def form(value: object) -> tuple[Kind, list[Request]]:
    """The kind of answer that a question takes, and the actions that it is about.

    langchain has three shapes for questions about actions: a `HITLRequest` takes "decisions", a
    `HumanInterrupt` a "response", and a list of these "responses". Every other question, and one
    about more than `_MAX_REQUESTS` actions, takes any "value".
    """
    hitl_requests = _hitl_requests(value)
    if hitl_requests:
        return "decisions", hitl_requests
    request = _human_request(value)
    if request:
        return "response", [request]
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_REQUESTS:
        return "value", []
    requests = list[Request]()
    for item in value:
        request = _human_request(item)
        if request is None:
            return "value", []
        requests.append(request)
    return "responses", requests


def _hitl_requests(value: object) -> list[Request]:
    """The actions of a `HITLRequest` (`langchain.agents.middleware`); none of another value."""
    if not isinstance(value, Mapping):
        return []
    actions = value.get("action_requests")
    configs = value.get("review_configs")
    if not isinstance(actions, list) or not isinstance(configs, list):
        return []
    if len(actions) > _MAX_REQUESTS:
        return []
    allowed_by_name = _allowed_decisions(configs)
    requests = list[Request]()
    for action in actions:
        request = _hitl_request(action, allowed_by_name)
        if request is None:
            return []
        requests.append(request)
    return requests


def _allowed_decisions(configs: Sequence[object]) -> dict[str, object]:
    """What each of the review configs allows, by the action's name."""
    allowed_by_name = dict[str, object]()
    for config in configs:
        if not isinstance(config, Mapping):
            continue
        name = config.get("action_name")
        if isinstance(name, str):
            allowed_by_name[name] = config.get("allowed_decisions")
    return allowed_by_name


def _hitl_request(action: object, allowed_by_name: Mapping[str, object]) -> Request | None:
    """One action of a `HITLRequest`; None if it is none, or if nothing says what is allowed."""
    if not isinstance(action, Mapping):
        return None
    name = action.get("name")
    args = action.get("args")
    if not isinstance(name, str) or not isinstance(args, Mapping):
        return None
    decisions = allowed_by_name.get(name)
    if not isinstance(decisions, list):
        return None
    description = _text(action.get("description"))
    kinds = tuple(kind for kind in _DECISIONS if kind in decisions)
    return Request(name, args, description, kinds)


def _human_request(value: object) -> Request | None:
    """The action of a `HumanInterrupt` (`langgraph.prebuilt.interrupt`); None of another value."""
    if not isinstance(value, Mapping):
        return None
    action = value.get("action_request")
    config = value.get("config")
    if not isinstance(action, Mapping) or not isinstance(config, Mapping):
        return None
    name = action.get("action")
    args = action.get("args")
    if not isinstance(name, str) or not isinstance(args, Mapping):
        return None
    description = _text(value.get("description"))
    kinds = list[str]()
    for kind, key in _RESPONSES.items():
        is_allowed = config.get(key) is True
        if is_allowed:
            kinds.append(kind)
    return Request(name, args, description, tuple(kinds))


def _text(value: object) -> str:
    """The value if it is a text, or else ""."""
    if not isinstance(value, str):
        return ""
    return value
