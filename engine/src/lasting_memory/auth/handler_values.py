"""What the platform gives an auth handler (its `value`), as far as the handlers here read it.

langgraph's SDK has types for most of these (`langgraph_sdk.auth.types`). They call a run's fields
`dict[str, Any]`, which lets a mistake with what a client sent pass, and lack some of what the platform
passes.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import NotRequired, TypedDict
from uuid import UUID

from langgraph_sdk.auth.types import ThreadsDelete

from lasting_memory.people.identity import Context

_Id = UUID | str


class RunState(TypedDict, total=False):
    """What of a run goes into its graph's state: `input`, and the `update` of its `command`."""

    input: object
    command: dict[str, object] | None


class RunKwargs(RunState):
    """What a run is called with. The platform makes a config for each."""

    config: dict[str, object]
    context: NotRequired[dict[str, object] | None]
    feedback_keys: NotRequired[Sequence[str] | None]
    durability: NotRequired[str | None]


class RunRequest(TypedDict):
    """A run that is to be created, on a thread or on a new one (None)."""

    assistant_id: _Id
    thread_id: _Id | None
    run_id: NotRequired[_Id | None]
    metadata: dict[str, object]
    after_seconds: NotRequired[object]
    kwargs: RunKwargs


class ThreadDeletion(ThreadsDelete, total=False):
    """A thread that is to be deleted, or one of its runs, or several threads."""

    thread_ids: Sequence[_Id]


class CronPayload(TypedDict, total=False):
    """What the runs of a cron are created with."""

    config: dict[str, object] | None


class CronChange(TypedDict, total=False):
    """A cron that is to be created, or what is to change of one."""

    payload: CronPayload | None


class StoreRequest(TypedDict, total=False):
    """What is asked of the store: an item, a search, or namespaces."""

    namespace: Sequence[str] | None
    key: str
    value: Mapping[str, object] | None
    filter: Mapping[str, object] | None
    index: Sequence[str] | bool | None
    ttl: float | None


def configurable_of(config: MutableMapping[str, object]) -> dict[str, object]:
    """The `configurable` of a run's rebuilt config, made if it has none."""
    configurable = config.get("configurable")
    if isinstance(configurable, dict):
        return configurable
    new_configurable = dict[str, object]()
    config["configurable"] = new_configurable
    return new_configurable


def checkpoint_of(configurable: Mapping[str, object]) -> str | None:
    """The id of the checkpoint where a run begins; None for the latest, which nobody named."""
    checkpoint_id = configurable.get("checkpoint_id")
    if not isinstance(checkpoint_id, str):
        return None
    return checkpoint_id


def named_person(context: Mapping[str, object]) -> Context:
    """The person and the organization that a run's context names; None for what it does not name."""
    user_id = _text_or_none(context.get("user_id"))
    org_id = _text_or_none(context.get("org_id"))
    return Context(user_id, org_id)


def _text_or_none(value: object) -> str | None:
    """The value if it is a text."""
    if not isinstance(value, str):
        return None
    return value
