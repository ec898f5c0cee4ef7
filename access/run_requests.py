"""Rebuilds requests: only the fields in `access/run_fields.py` reach a run, within their bounds.

A deny-list cannot keep up: langgraph copies every unknown key of a run's `config` into `configurable`, over the platform's own
values, so `{"config": {"thread_id": ...}}` would run on anybody's thread. So `auth.py` rebuilds each request before the run,
thread, cron or assistant exists. The platform continues with the objects that it gave to its handlers, so they are changed in
place. It writes its stamps (identity, thread, assistant, graph) afterwards.
"""

import dataclasses
import reprlib
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from itertools import islice
from typing import Annotated, Any, TypeVar, cast

import pydantic.dataclasses
from langgraph_sdk import Auth
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

import settings
from access.run_fields import OWNER_KEYS, Config, Cron, Metadata, Number, OperatorRun, Run
from environment import MAX_SECONDS_DIGITS
from memory import identity
from memory.controls import TEMPORARY
from memory.file_operations import scratch_size

HTTPException = Auth.exceptions.HTTPException
# Levels of nesting in a run's input, command and context. Python copies a few hundred at most.
MAX_NESTING = 100
# Objects in any list of them except messages: each may be a task at once.
MAX_LISTED = 50
# Values in each of them, at any depth: each is looked at here, and copied by the platform.
MAX_PARTS = 50_000
# The platform's mark of a run whose request had a context. It strips the mark from clients' input.
_CONTEXT_MARK = "__context_provided__"

_Shape = TypeVar("_Shape")
_RUN, _OPERATOR_RUN, _CONFIG, _CRON = (TypeAdapter[Any](shape) for shape in (Run, OperatorRun, Config, Cron))
_METADATA: TypeAdapter[Any] = TypeAdapter(Metadata)
_AFTER: TypeAdapter[float] = TypeAdapter(Annotated[Number, Field(ge=0, le=10**MAX_SECONDS_DIGITS)])
_CONTEXT: TypeAdapter[Any] = TypeAdapter(pydantic.dataclasses.dataclass(config=ConfigDict(extra="forbid"))(identity.Context))
_CONTEXT_FIELDS = tuple(field.name for field in dataclasses.fields(identity.Context))


def rebuild_run(value: MutableMapping[str, Any], *, operator: bool, webhooks: bool = settings.WEBHOOKS_FOR_EVERYBODY) -> None:
    """Rebuild the value of `threads.create_run`: its `kwargs`, with `config` in place, and its `metadata`. `webhooks`: for all.
    Raises `HTTPException`: 422, a field is invalid; 403, it is for operators; 400, `user_id` or `org_id` is not text.
    """
    kwargs, metadata = value["kwargs"], value["metadata"]
    for name in () if operator else ("interrupt_before", "interrupt_after", *(() if webhooks else ("webhook",))):
        if kwargs.get(name):
            raise HTTPException(403, f"{name} is for operators; leave it out.")
    _check_shape(kwargs, ("input", "command", "context"))
    checked(_AFTER, value.get("after_seconds") or 0, "after_seconds")
    own = checked(_METADATA, metadata, "metadata")
    run = checked(_OPERATOR_RUN if operator else _RUN, kwargs)
    context = _context(kwargs.get("context") or {}, told=_has_context(kwargs))
    config = kwargs["config"]
    _become(metadata, own)
    _become(config, _config(run.config))
    # Both keys are always set, so that an assistant's context cannot name a person for a run.
    content = run.given() | {"config": config, "context": {**dict.fromkeys(OWNER_KEYS), **context}}
    if run.command:
        content["command"] = run.command.given()
    _become(kwargs, {name: None for name in kwargs if name in Run.model_fields} | content)


def rebuild_thread_metadata(metadata: MutableMapping[str, Any], *, new: bool) -> None:
    """Rebuild a thread's metadata in place. A new thread, which may have a history, may say that it is a conversation, and
    temporary. Raises `HTTPException` 422 if the metadata is invalid.
    """
    graph = metadata.get("graph_id")
    own = {"graph_id": graph} if new and graph in settings.agent_graphs() else {}
    mark = _temporary(metadata) if new else {}
    _become(metadata, checked(_METADATA, metadata, "metadata") | own | mark)


def _temporary(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The mark of a new thread, or of the cron whose runs each make one, that asks to be temporary."""
    return {TEMPORARY: True} if asks_temporary(metadata) else {}


def run_asks_temporary(value: Mapping[str, Any]) -> bool:
    """`asks_temporary` for the value of `threads.create_run`: by the run's metadata, or by that of its config."""
    of_config = (value["kwargs"].get("config") or {}).get("metadata")
    return asks_temporary(value["metadata"]) | asks_temporary(of_config if isinstance(of_config, Mapping) else {})


def asks_temporary(metadata: Mapping[str, Any]) -> bool:
    """Whether a new thread is to be a temporary conversation. Raises `HTTPException` 422 if that is not true or false."""
    given = metadata.get(TEMPORARY)
    if given is not None and not isinstance(given, bool):
        raise HTTPException(422, f"metadata.temporary is {reprlib.repr(given)}; send true, or leave it out.")
    return bool(given)


def rebuild_cron(value: MutableMapping[str, Any]) -> None:
    """Rebuild the value of `crons.create` and `crons.update`, except the mark by which operators find a cron. The platform
    gives that mark to the thread of each run. Raises as `rebuild_run`.
    """
    payload, metadata = value.get("payload"), value.get("metadata")
    if metadata:
        mark = {"created_by": metadata["created_by"]} if isinstance(metadata.get("created_by"), str) else {}
        _become(metadata, checked(_METADATA, metadata, "metadata") | mark | _temporary(metadata))
    if payload:
        _check_shape(payload, ("input", "context"))
        cron = checked(_CRON, payload)
        content = cron.given()
        if cron.config:
            content["config"] = _config(cron.config)
        if cron.context is not None:
            content["context"] = _context(cron.context)
        if cron.metadata is not None:
            content["metadata"] |= _temporary(payload["metadata"])
        _become(payload, content)


def rebuild_assistant(value: Mapping[str, Any]) -> None:
    """Rebuild the value of `assistants.create` and `assistants.update`, which reaches every run of the assistant. Raises as
    `rebuild_run`.
    """
    config, context, metadata = (value.get(name) for name in ("config", "context", "metadata"))
    if metadata:
        _become(metadata, checked(_METADATA, metadata, "metadata"))
    if context:
        _become(context, _context(context))
    if config:
        old_style = _context(config.get("configurable") or {}, told=False)
        content = _config(checked(_CONFIG, {**config, "configurable": None}))
        _become(config, {**content, "configurable": old_style} if old_style else content)


def names_nobody(reason: object) -> Exception:
    """The refusal of a context whose `user_id` and `org_id` cannot name a person."""
    return HTTPException(400, f"The context names nobody that could be: {reason}")


def _config(config: Config) -> dict[str, Any]:
    configurable = config.configurable
    return {**config.given(), **({"configurable": configurable.given()} if configurable else {})}


def _has_context(kwargs: Mapping[str, Any]) -> bool:
    """Whether the request had a context. Without one the platform passes a copy of `configurable`."""
    configurable = kwargs["config"].get("configurable") or {}
    return _CONTEXT_MARK in configurable and _CONTEXT_MARK not in (kwargs.get("context") or {})


def _context(given: Mapping[str, Any], *, told: bool = True) -> dict[str, Any]:
    """The given fields of `identity.Context`. Others are refused, unless they come from `configurable`."""
    kept = given if told else {name: given[name] for name in _CONTEXT_FIELDS if name in given}
    try:
        context = _CONTEXT.validate_python(dict(kept))
    except ValidationError as error:
        if unknown := [str(each["loc"][0]) for each in error.errors() if each["type"] == "unexpected_keyword_argument"]:
            detail = f"context has no field {unknown[0][:100]!r}; it takes {', '.join(_CONTEXT_FIELDS)}."
            raise HTTPException(422, detail) from None
        if any(each["loc"][0] in OWNER_KEYS for each in error.errors()):
            raise names_nobody("user_id and org_id are texts") from None
        raise _refusal(error, kept, "context") from None
    return {name: getattr(context, name) for name in kept}


def checked(shape: TypeAdapter[_Shape], given: object, *where: str) -> _Shape:
    """What is given, in its shape. Raises `HTTPException` 422, which names the first invalid field."""
    try:
        return shape.validate_python(given)
    except ValidationError as error:
        raise _refusal(error, given, *where) from None


def _check_shape(given: Mapping[str, Any], names: Collection[str]) -> None:
    """Refuse input with too many tasks or too large a file, or that nests too deep for Python to copy: its run would never
    begin, and its thread stay busy.
    """
    for name in names:
        level, room = [(cast("object", name), given.get(name))], MAX_PARTS
        for _ in range(MAX_NESTING):
            for key, item in level:
                _check_listed(name, key, item)
            level = list(islice((child for _, item in level for child in _children(item)), room + 1))
            room -= len(level)
            if room < 0:
                raise HTTPException(422, f"{name} has more than {MAX_PARTS:,} values; send less.")
        if level:
            raise HTTPException(422, f"{name} nests deeper than {MAX_NESTING} levels; flatten it.")


def _check_listed(name: str, key: object, item: Any) -> None:
    objects = [each for each in item if isinstance(each, Mapping | list)] if isinstance(item, list) else []
    if key != "messages" and len(objects) > MAX_LISTED:
        raise HTTPException(422, f"{name} has a list of {len(item)} ({str(key)[:100]!r}); send at most {MAX_LISTED}.")
    if key == "files" and isinstance(item, Mapping):
        for path, file in item.items():
            if scratch_size(file) > settings.MAX_FILE_BYTES:
                detail = f"{name} has a file of more than {settings.MAX_FILE_BYTES:,} bytes ({str(path)[:100]!r}); split it."
                raise HTTPException(422, detail)


def _children(item: object) -> Iterable[tuple[object, Any]]:
    """The keys and values of a mapping or list."""
    if isinstance(item, Mapping):
        return item.items()
    return ((None, child) for child in item) if isinstance(item, list) else ()


def _refusal(error: ValidationError, given: object, *where: str) -> Exception:
    """422 with the first invalid field. Pydantic's path ends there: its further parts name types."""
    first, path = error.errors(include_url=False)[0], list(where)
    for part in first["loc"]:
        if not (part in given if isinstance(given, Mapping) else isinstance(given, list) and isinstance(part, int)):
            break
        given = given[part]  # type: ignore[index]  # it is one of the two
        path.append(str(part)[:100])
    detail = f"{'.'.join(path)} is {reprlib.repr(first['input'])}; {first['msg'][0].lower()}{first['msg'][1:]}."
    return HTTPException(422, detail)


def _become(target: MutableMapping[str, Any], content: Mapping[str, Any]) -> None:
    kept = dict(content)
    target.clear()
    target.update(kept)
