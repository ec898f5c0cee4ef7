"""What the run of a tool's call has shown its model: the messages of the thread, and in a subagent
those of the subagent beside them.
"""

import json
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)

from lasting_memory import recall
from lasting_memory.attachments import own_text, words_of
from lasting_memory.people.identity import SPOKEN_FOR
from lasting_memory.vouching.evidence import Evidence, evidence_of

# Tools whose results repeat what the model itself gave them, or say what is in memory.
_ECHOES = frozenset(
    {"append_memory", "save_profile", "search_memories", "write_todos", "write_file", "edit_file"}
)
# Tools that show files, and the argument that says which.
_READERS: Mapping[str, str] = {
    "read_file": "file_path",
    "ls": "path",
    "glob": "path",
    "grep": "path",
}
_MEMORY = "/memories/"


@dataclass(frozen=True, slots=True)
class ShownMessages:
    """Messages that a run has shown: of the thread, and of the subagents that it is in.

    In a subagent nobody speaks but assistants and tools: what looks like a person's message there
    is the task that an assistant gave.
    """

    thread: Sequence[object] = ()
    inner: Sequence[object] = ()

    @classmethod
    def of_values(cls, messages: object, said_in: Collection[str]) -> "ShownMessages":
        """What a thread showed, by the messages in its values as the platform gives them. Of a
        person's messages those with these ids are their word; the others are left out.
        """
        shown = list[BaseMessage]()
        for value in messages if isinstance(messages, list) else []:
            message = _message_of(value)
            if not _is_of_person(message) or (message.id or "") in said_in:
                shown.append(message)
        return cls(shown)

    def of_others(self) -> "ShownMessages":
        """The same, of which nothing is the person's word."""
        return ShownMessages((), [*self.thread, *self.inner])

    def evidence(self, *, own_memory: bool = True) -> Evidence:
        """What speaks for and against a line. Blocks.

        With `own_memory` what tools show of `/memories/` is the person's own, of whose lines it is
        known who vouches for them.
        """
        said = list[str]()
        foreign = list[str]()
        calls = _calls_in([*self.thread, *self.inner])
        names = {_name_of(message) for message in self.thread if _is_of_person(message)}
        for message in self.thread:
            if not _is_of_person(message) or (_name_of(message) and len(names) > 1):
                foreign += _texts_of(message, calls, own_memory=own_memory)
                continue
            told = _dumped(message)
            said.append(own_text(told, files=False))
            foreign.append(_attached_text(told))
        for message in self.inner:
            foreign += _texts_of(message, calls, own_memory=own_memory)
        evidence = evidence_of(filter(None, said), filter(None, foreign))
        has_unread = any(_has_unread(message) for message in (*self.thread, *self.inner))
        return replace(evidence, has_unread=has_unread)


def _message_of(value: object) -> BaseMessage:
    """A message in a thread's values. What is none is a text from elsewhere."""
    try:
        (message,) = convert_to_messages([cast("Any", value)])
    except (AttributeError, KeyError, NotImplementedError, TypeError, ValueError):
        return SystemMessage(json.dumps(value, ensure_ascii=False, default=str))
    return message


# What the tool's call that is being made was shown; None outside of one.
_SHOWN: ContextVar[ShownMessages | None] = ContextVar("shown", default=None)


def messages_shown_now() -> ShownMessages | None:
    """What the run of the present tool's call has shown; None outside of a call."""
    return _SHOWN.get()


@contextmanager
def noting_shown_messages(messages: Sequence[object]) -> Iterator[None]:
    """Note what is shown where a tool is called, for what the tool writes. `messages` are those of
    the agent that calls it; within a call of another agent it is that one's subagent.
    """
    outer = _SHOWN.get()
    shown = (
        ShownMessages(messages)
        if outer is None
        else ShownMessages(outer.thread, [*outer.inner, *messages])
    )
    token = _SHOWN.set(shown)
    try:
        yield
    finally:
        _SHOWN.reset(token)


def _is_of_person(message: object) -> bool:
    """Whether a person wrote a message of a thread, and not a middleware or an operator in their
    name.
    """
    if not isinstance(message, HumanMessage):
        return False
    return not {"lc_source", SPOKEN_FOR} & message.additional_kwargs.keys()


def _name_of(message: object) -> str:
    return str(getattr(message, "name", None) or "")


def _dumped(message: object) -> Mapping[str, Any]:
    return message.model_dump() if isinstance(message, BaseMessage) else {}


def _attached_text(message: Mapping[str, Any]) -> str:
    """The texts of files that came with a message."""
    whole = recall.message_text(message.get("content"))
    own = own_text(message, files=False)
    return "" if whole == own else whole.replace(own, "\n") if own else whole


def _calls_in(messages: Sequence[object]) -> dict[str, Mapping[str, Any]]:
    """The calls of tools in these messages, by id."""
    calls = dict[str, Mapping[str, Any]]()
    for message in messages:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                calls[str(call["id"])] = {"name": call["name"], "args": call["args"]}
    return calls


def _texts_of(
    message: object, calls: Mapping[str, Mapping[str, Any]], *, own_memory: bool
) -> list[str]:
    """What a message from elsewhere says. What an assistant says is its own, and no text; what its
    provider has searched is in the same message.
    """
    if not isinstance(message, BaseMessage):
        return []
    if isinstance(message, AIMessage):
        return _provider_results(message)
    if isinstance(message, ToolMessage):
        call = calls.get(message.tool_call_id, {"name": message.name, "args": {}})
        if _repeats(call, own_memory=own_memory):
            return []
        artifact = message.artifact if isinstance(message.artifact, str) else ""
        return [recall.message_text(message.content), artifact]
    return [recall.message_text(message.content)]


def _provider_results(message: AIMessage) -> list[str]:
    """What the provider of a model has found for it, as in a search of its own."""
    blocks = message.content if isinstance(message.content, list) else []
    found = list[str]()
    for block in blocks:
        if not isinstance(block, Mapping):
            continue
        kind = str(block.get("type"))
        quoted = [block.get(name) for name in ("citations", "annotations")]
        parts = (
            [block] if "result" in kind or "search" in kind else [part for part in quoted if part]
        )
        found += [json.dumps(part, ensure_ascii=False, default=str) for part in parts]
    return found


def _has_unread(message: object) -> bool:
    """Whether a message shows what is no text here: a picture, a file, what a provider has found."""
    if isinstance(message, AIMessage):
        return bool(_provider_results(message))
    content = message.content if isinstance(message, HumanMessage | ToolMessage) else None
    blocks = (
        [block for block in content if isinstance(block, Mapping)]
        if isinstance(content, list)
        else []
    )
    return any(block.get("type") != "text" and not words_of(block) for block in blocks)


def _repeats(call: Mapping[str, Any], *, own_memory: bool) -> bool:
    """Whether the result of a call has only what the model gave it, or the person's own memory."""
    name = str(call.get("name"))
    if name in _ECHOES:
        return own_memory or name != "search_memories"
    argument = _READERS.get(name)
    args = call.get("args")
    path = args.get(argument) if argument and isinstance(args, Mapping) else None
    if not own_memory or not isinstance(path, str):
        return False
    pattern = args.get("pattern") if name == "glob" and isinstance(args, Mapping) else ""
    if isinstance(pattern, str) and (pattern.startswith("/") or ".." in pattern):
        return False
    plain = posixpath.normpath("/" + path.lstrip("/"))
    return f"{plain}/".startswith(_MEMORY)
