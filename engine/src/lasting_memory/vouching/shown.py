"""What the run of a tool's call has shown its model: the messages of the thread, and in a subagent
those of the subagent beside them.
"""

import json
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
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
from lasting_memory.attachments import own_text
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
class Shown:
    """Messages that a run has shown: of the thread, and of the subagents that it is in.

    In a subagent nobody speaks but assistants and tools: what looks like a person's message there
    is the task that an assistant gave.
    """

    thread: Sequence[object] = ()
    inner: Sequence[object] = ()

    @classmethod
    def of_values(cls, messages: object, said_in: Collection[str]) -> "Shown":
        """What a thread showed, by the messages in its values as the platform gives them. Of a
        person's messages those with these ids are their word; the others are left out.
        """
        values = messages if isinstance(messages, list) else []
        shown = list[BaseMessage]()
        for value in values:
            message = _message_of(value)
            is_their_word = (message.id or "") in said_in
            if is_their_word or not _is_of_person(message):
                shown.append(message)
        return cls(shown)

    def evidence(self, *, own_memory: bool = True) -> Evidence:
        """What speaks for and against a line. Blocks.

        With `own_memory` what tools show of `/memories/` is the person's own, of whose lines it is
        known who vouches for them.
        """
        said = list[str]()
        foreign = list[str]()
        calls = _calls_in([*self.thread, *self.inner])
        several_speak = len(self._speakers()) > 1
        for message in self.thread:
            is_of_another = several_speak and bool(_name_of(message))
            if is_of_another or not _is_of_person(message):
                foreign += _texts_of(message, calls, own_memory=own_memory)
                continue
            fields = _dumped(message)
            said.append(own_text(fields, files=False))
            foreign.append(_attached_text(fields))
        for message in self.inner:
            foreign += _texts_of(message, calls, own_memory=own_memory)
        return evidence_of(filter(None, said), filter(None, foreign))

    def _speakers(self) -> set[str]:
        """The names of the persons who speak in the thread; "" for one without a name."""
        names = set[str]()
        for message in self.thread:
            if _is_of_person(message):
                names.add(_name_of(message))
        return names


def _message_of(value: object) -> BaseMessage:
    """A message in a thread's values. What is none is a text from elsewhere."""
    try:
        (message,) = convert_to_messages([cast("Any", value)])
    except (AttributeError, KeyError, NotImplementedError, TypeError, ValueError):
        return SystemMessage(json.dumps(value, ensure_ascii=False, default=str))
    return message


# What the tool's call that is being made was shown; None outside of one.
_SHOWN: ContextVar[Shown | None] = ContextVar("shown", default=None)


def shown_now() -> Shown | None:
    """What the run of the present tool's call has shown; None outside of a call."""
    return _SHOWN.get()


@contextmanager
def showing(messages: Sequence[object]) -> Iterator[None]:
    """Note what is shown where a tool is called, for what the tool writes. `messages` are those of
    the agent that calls it; within a call of another agent it is that one's subagent.
    """
    shown = Shown(messages)
    outer = _SHOWN.get()
    if outer is not None:
        inner = [*outer.inner, *messages]
        shown = Shown(outer.thread, inner)
    token = _SHOWN.set(shown)
    try:
        yield
    finally:
        _SHOWN.reset(token)


def _is_of_person(message: object) -> bool:
    """Whether a person wrote a message of a thread, and not a middleware in their name."""
    if not isinstance(message, HumanMessage):
        return False
    return "lc_source" not in message.additional_kwargs


def _name_of(message: object) -> str:
    return str(getattr(message, "name", None) or "")


def _dumped(message: object) -> Mapping[str, Any]:
    return message.model_dump() if isinstance(message, BaseMessage) else {}


def _attached_text(message: Mapping[str, Any]) -> str:
    """The texts of files that came with a message."""
    whole = recall.message_text(message.get("content"))
    own = own_text(message, files=False)
    if not own:
        return whole
    if own == whole:
        return ""
    return whole.replace(own, "\n")


def _calls_in(messages: Sequence[object]) -> dict[str, Mapping[str, Any]]:
    """The calls of tools in these messages, by id."""
    calls = dict[str, Mapping[str, Any]]()
    for message in messages:
        if not isinstance(message, AIMessage):
            continue
        for call in message.tool_calls:
            call_id = str(call["id"])
            calls[call_id] = {"name": call["name"], "args": call["args"]}
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
        if isinstance(block, Mapping):
            for part in _found_parts(block):
                found.append(json.dumps(part, ensure_ascii=False, default=str))
    return found


def _found_parts(block: Mapping[str, Any]) -> list[object]:
    """What of a block was found: all of a result, or what it quotes."""
    kind = str(block.get("type"))
    if "result" in kind or "search" in kind:
        return [block]
    quoted = [block.get("citations"), block.get("annotations")]
    return [part for part in quoted if part]


def _repeats(call: Mapping[str, Any], *, own_memory: bool) -> bool:
    """Whether the result of a call has only what the model gave it, or the person's own memory."""
    name = str(call.get("name"))
    if name in _ECHOES:
        return own_memory or name != "search_memories"
    if not own_memory or name not in _READERS:
        return False
    args = call.get("args")
    if not isinstance(args, Mapping):
        return False
    argument = _READERS[name]
    path = args.get(argument)
    if not isinstance(path, str):
        return False
    if name == "glob" and _leads_away(args.get("pattern")):
        return False
    relative = path.lstrip("/")
    plain = posixpath.normpath(f"/{relative}")
    return f"{plain}/".startswith(_MEMORY)


def _leads_away(pattern: object) -> bool:
    """Whether a pattern finds files outside of the folder in which it is looked for."""
    if not isinstance(pattern, str):
        return False
    return pattern.startswith("/") or ".." in pattern
