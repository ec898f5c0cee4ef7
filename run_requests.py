"""Requests rebuilt: what `run_fields.py` lists of a request reaches the run, within its bounds, and nothing else.

A deny-list cannot keep up here: langgraph copies every key of a run's `config` that it does not know into `configurable`, over
what the platform put there, so that `{"config": {"thread_id": ...}}` would run on that thread, whoever owns it. So `auth.py`
has each request rebuilt before the run, thread, cron or assistant exists. The platform goes on with the very objects that its
handlers were given: they are changed in place. What it stamps (identity, thread, assistant, graph) it writes afterwards.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from typing import Annotated, Any, TypeVar

import pydantic.dataclasses
from langgraph_sdk import Auth
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

import settings
from memory import scopes
from run_fields import OWNER_KEYS, Config, Cron, Metadata, Number, OperatorRun, Run

HTTPException = Auth.exceptions.HTTPException
# The graph of conversations: what a history that is put into a new thread is a history of.
CONVERSATION = "agent"
# As the platform marks a run whose request had a context. It strips the mark from what clients send.
_CONTEXT_MARK = "__context_provided__"

_Shape = TypeVar("_Shape")
_RUN, _OPERATOR_RUN, _CONFIG, _CRON = (TypeAdapter[Any](shape) for shape in (Run, OperatorRun, Config, Cron))
_METADATA: TypeAdapter[Any] = TypeAdapter(Metadata)
_AFTER: TypeAdapter[float] = TypeAdapter(Annotated[Number, Field(ge=0, le=settings.MAX_AFTER_SECONDS)])
_CONTEXT: TypeAdapter[Any] = TypeAdapter(pydantic.dataclasses.dataclass(config=ConfigDict(extra="forbid"))(scopes.Context))
_CONTEXT_FIELDS = tuple(field.name for field in dataclasses.fields(scopes.Context))


def rebuild_run(value: MutableMapping[str, Any], *, operator: bool) -> None:
    """Rebuild what `threads.create_run` is given: `kwargs`, of it `config` in place, and `metadata`.

    Raises:
        HTTPException: 422 a field cannot be used; 403 it is an operator's; 400 the context's `user_id` or `org_id` is no text.
    """
    kwargs, metadata = value["kwargs"], value["metadata"]
    for name in () if operator else _operators_fields():
        if kwargs.get(name):
            raise HTTPException(status_code=403, detail=f"{name} is for operators; leave it out.")
    _check_nesting(kwargs, ("input", "command", "context"))
    _checked(_AFTER, value.get("after_seconds") or 0, "after_seconds")
    own = _checked(_METADATA, metadata, "metadata")
    run = _checked(_OPERATOR_RUN if operator else _RUN, kwargs)
    context = _context(kwargs.get("context") or {}, told=_has_context(kwargs))
    config = kwargs["config"]
    _become(metadata, own)
    _become(config, _config(run.config))
    # Both are said, also where nobody is named, so that an assistant's context names nobody for a run.
    content = run.given() | {"config": config, "context": {**dict.fromkeys(OWNER_KEYS), **context}}
    if run.command:
        content["command"] = run.command.given()
    _become(kwargs, {name: None for name in kwargs if name in Run.model_fields} | content)


def rebuild_thread_metadata(metadata: MutableMapping[str, Any], *, new: bool) -> None:
    """Rebuild a thread's metadata in place. A new thread, which may come with a history, may say that it is a conversation.

    Raises:
        HTTPException: 422, it cannot be used.
    """
    conversation = new and metadata.get("graph_id") == CONVERSATION
    _become(metadata, _checked(_METADATA, metadata, "metadata") | ({"graph_id": CONVERSATION} if conversation else {}))


def rebuild_cron(value: MutableMapping[str, Any]) -> None:
    """Rebuild what `crons.create` and `crons.update` are given. What a cron is marked with stays: operators find it by that.

    Raises:
        HTTPException: as `rebuild_run`.
    """
    payload, metadata = value.get("payload"), value.get("metadata")
    if metadata:
        mark = {"created_by": metadata["created_by"]} if isinstance(metadata.get("created_by"), str) else {}
        _become(metadata, _checked(_METADATA, metadata, "metadata") | mark)
    if payload:
        _check_nesting(payload, ("input", "context"))
        cron = _checked(_CRON, payload)
        content = cron.given()
        if cron.config:
            content["config"] = _config(cron.config)
        if cron.context is not None:
            content["context"] = _context(cron.context)
        _become(payload, content)


def rebuild_assistant(value: Mapping[str, Any]) -> None:
    """Rebuild what `assistants.create` and `assistants.update` are given: it reaches every run of the assistant.

    Raises:
        HTTPException: as `rebuild_run`.
    """
    config, context, metadata = (value.get(name) for name in ("config", "context", "metadata"))
    if metadata:
        _become(metadata, _checked(_METADATA, metadata, "metadata"))
    if context:
        _become(context, _context(context))
    if config:
        old_style = _context(config.get("configurable") or {}, told=False)
        content = _config(_checked(_CONFIG, {**config, "configurable": None}))
        _become(config, {**content, "configurable": old_style} if old_style else content)


def names_nobody(reason: object) -> Exception:
    """The refusal of a context whose `user_id` and `org_id` cannot be anybody's."""
    return HTTPException(status_code=400, detail=f"The context names nobody that could be: {reason}")


def _operators_fields() -> tuple[str, ...]:
    return ("interrupt_before", "interrupt_after", *(() if settings.WEBHOOKS_FOR_EVERYBODY else ("webhook",)))


def _config(config: Config) -> dict[str, Any]:
    configurable = config.configurable
    return {**config.given(), **({"configurable": configurable.given()} if configurable else {})}


def _has_context(kwargs: Mapping[str, Any]) -> bool:
    """Whether the request had a context. Without one the platform passes a copy of `configurable` for it."""
    configurable = kwargs["config"].get("configurable") or {}
    return _CONTEXT_MARK in configurable and _CONTEXT_MARK not in (kwargs.get("context") or {})


def _context(given: Mapping[str, Any], *, told: bool = True) -> dict[str, Any]:
    """The fields of `scopes.Context` among those given. Others are refused, unless they only stand in `configurable`."""
    kept = given if told else {name: given[name] for name in _CONTEXT_FIELDS if name in given}
    try:
        context = _CONTEXT.validate_python(dict(kept))
    except ValidationError as error:
        if unknown := [str(found["loc"][0]) for found in error.errors() if found["type"] == "unexpected_keyword_argument"]:
            fields = ", ".join(_CONTEXT_FIELDS)
            detail = f"context has no field {unknown[0][:100]!r}; it takes {fields}."
            raise HTTPException(status_code=422, detail=detail) from None
        if any(found["loc"][0] in OWNER_KEYS for found in error.errors()):
            raise names_nobody("user_id and org_id are texts") from None
        raise _refusal(error, kept, "context") from None
    return {name: getattr(context, name) for name in kept}


def _checked(shape: TypeAdapter[_Shape], given: object, *where: str) -> _Shape:
    try:
        return shape.validate_python(given)
    except ValidationError as error:
        raise _refusal(error, given, *where) from None


def _check_nesting(given: Mapping[str, Any], names: Collection[str]) -> None:
    """Refuse what nests so deep that Python could not copy it: the thread would stay busy with a run that never came to be."""
    for name in names:
        level: list[Any] = [given.get(name)]
        for _ in range(settings.MAX_NESTING):
            level = [child for item in level for child in _children(item)]
        if level:
            raise HTTPException(status_code=422, detail=f"{name} nests deeper than {settings.MAX_NESTING} levels; flatten it.")


def _children(item: object) -> Iterable[Any]:
    if isinstance(item, Mapping):
        return item.values()
    return item if isinstance(item, list) else ()


def _refusal(error: ValidationError, given: object, *where: str) -> Exception:
    """422, naming the first field at fault; beyond it, pydantic's path names types."""
    found, path = error.errors(include_url=False)[0], list(where)
    for part in found["loc"]:
        if not (part in given if isinstance(given, Mapping) else isinstance(given, list) and isinstance(part, int)):
            break
        given = given[part]  # type: ignore[index]  # it is one of the two
        path.append(str(part)[:100])
    detail = f"{'.'.join(path)} is {reprlib.repr(found['input'])}; {found['msg'][0].lower()}{found['msg'][1:]}."
    return HTTPException(status_code=422, detail=detail)


def _become(target: MutableMapping[str, Any], content: Mapping[str, Any]) -> None:
    kept = dict(content)
    target.clear()
    target.update(kept)
