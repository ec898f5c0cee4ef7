"""What the run of a tool's call has shown its model: the messages of the thread, and in a subagent
those of the subagent beside them.

The person's word is what their own messages in the thread say. All else that is shown is a foreign
text, such as a tool's result, unless it only repeats what the model wrote itself.
"""

import json
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    MessageLikeRepresentation,
    SystemMessage,
    ToolCall,
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
# Tools that show files, and the argument that says which file or folder.
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

    thread_messages: Sequence[object] = ()
    subagent_messages: Sequence[object] = ()

    @classmethod
    def of_values(cls, messages: object, own_message_ids: Collection[str]) -> "ShownMessages":
        """What a thread showed, by the messages in its values as the platform gives them.

        `own_message_ids` are those of the messages that are the person's word. Other messages of a
        person are left out.
        """
        shown_messages = list[BaseMessage]()
        values = messages if isinstance(messages, list) else []
        for value in values:
            message = _message_of(value)
            message_id = message.id or ""
            is_said = message_id in own_message_ids
            if is_said or not _is_of_person(message):
                shown_messages.append(message)
        return cls(shown_messages)

    def of_others(self) -> "ShownMessages":
        """The same, of which nothing is the person's word."""
        return ShownMessages((), self._all())

    def _all(self) -> list[object]:
        return [*self.thread_messages, *self.subagent_messages]

    def evidence(self, *, own_memory: bool = True) -> Evidence:
        """What speaks for and against a line. Blocks.

        With `own_memory` what tools show of `/memories/` is the person's own, of whose lines it is
        known who vouches for them.
        """
        all_messages = self._all()
        calls = _calls_in(all_messages)
        typed_texts = list[str]()
        foreign_texts = list[str]()
        for message, is_own in self._messages_with_is_own():
            if is_own:
                fields = _fields_of(message)
                typed_text = own_text(fields, files=False)
                attached_text = _attached_text(fields)
                typed_texts.append(typed_text)
                foreign_texts.append(attached_text)
            else:
                foreign_texts += _foreign_texts_of(message, calls, own_memory=own_memory)
        own_messages = filter(None, typed_texts)
        other_texts = filter(None, foreign_texts)
        evidence = evidence_of(own_messages, other_texts)
        has_unread = any(map(_has_unread, all_messages))
        return replace(evidence, has_unread=has_unread)

    def _messages_with_is_own(self) -> Iterator[tuple[object, bool]]:
        """All messages, each with whether it is the person's word.

        Where people with several names speak, only messages without a name are.
        """
        names = set[str]()
        for message in self.thread_messages:
            if _is_of_person(message):
                names.add(_name_of(message))
        has_one_speaker = len(names) <= 1
        for message in self.thread_messages:
            is_theirs = has_one_speaker or not _name_of(message)
            yield message, is_theirs and _is_of_person(message)
        for message in self.subagent_messages:
            yield message, False


def _message_of(value: object) -> BaseMessage:
    """A message in a thread's values. What is no message is a text from elsewhere."""
    try:
        # It is looked at there, and refused if it is none.
        representation = cast("MessageLikeRepresentation", value)
        (message,) = convert_to_messages([representation])
    except (AttributeError, KeyError, NotImplementedError, TypeError, ValueError):
        text = _json_text(value)
        return SystemMessage(text)
    return message


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# What was shown to the model that makes the present tool's call; None outside of a call.
_SHOWN: ContextVar[ShownMessages | None] = ContextVar("shown", default=None)


def messages_shown_now() -> ShownMessages | None:
    """What the run of the present tool's call has shown; None outside of a call."""
    return _SHOWN.get()


@contextmanager
def noting_shown_messages(messages: Sequence[object]) -> Iterator[None]:
    """Note what is shown where a tool is called, for what the tool writes. `messages` are those of
    the agent that calls it; within a call of another agent it is that one's subagent.
    """
    shown_messages = ShownMessages(messages)
    outer_messages = _SHOWN.get()
    if outer_messages is not None:
        subagent_messages = [*outer_messages.subagent_messages, *messages]
        shown_messages = ShownMessages(outer_messages.thread_messages, subagent_messages)
    token = _SHOWN.set(shown_messages)
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
    marks = message.additional_kwargs.keys()
    return marks.isdisjoint({"lc_source", SPOKEN_FOR})


def _name_of(message: object) -> str:
    """The name that a message has; "" if it has none."""
    name = getattr(message, "name", None)
    return str(name or "")


def _fields_of(message: object) -> Mapping[str, object]:
    """The fields of a message; none of what is no message."""
    return message.model_dump() if isinstance(message, BaseMessage) else {}


def _attached_text(message: Mapping[str, object]) -> str:
    """The texts of files that came with a message; "" if none came."""
    content = message.get("content")
    whole_text = recall.message_text(content)
    typed_text = own_text(message, files=False)
    if whole_text == typed_text:
        return ""
    return whole_text.replace(typed_text, "\n") if typed_text else whole_text


def _calls_in(messages: Sequence[object]) -> dict[str, ToolCall]:
    """The calls of tools in these messages, by id."""
    calls = dict[str, ToolCall]()
    for message in messages:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                call_id = str(call["id"])
                calls[call_id] = call
    return calls


def _foreign_texts_of(
    message: object, calls: Mapping[str, ToolCall], *, own_memory: bool
) -> list[str]:
    """The foreign texts in a message that is not the person's word; none if it has none.

    What an assistant says is no foreign text: it is what the lines are compared for. What the
    assistant's provider has found for it is in the same message.
    """
    if not isinstance(message, BaseMessage):
        return []
    if isinstance(message, AIMessage):
        return _provider_results(message)
    text = recall.message_text(message.content)
    if not isinstance(message, ToolMessage):
        return [text]
    name = str(message.name)
    arguments: Mapping[str, object] = {}
    call = calls.get(message.tool_call_id)
    if call is not None:
        name = call["name"]
        arguments = call["args"]
    if _is_echo(name, arguments, own_memory=own_memory):
        return []
    texts = [text]
    if isinstance(message.artifact, str):
        texts.append(message.artifact)
    return texts


def _provider_results(message: AIMessage) -> list[str]:
    """What the provider of a model has found for it, as in a search of its own: blocks with results,
    and quotations in other blocks, each as JSON.
    """
    results = list[str]()
    for block in _blocks_of(message):
        block_type = str(block.get("type"))
        if "result" in block_type or "search" in block_type:
            text = _json_text(block)
            results.append(text)
            continue
        for name in ("citations", "annotations"):
            quotation = block.get(name)
            if quotation:
                text = _json_text(quotation)
                results.append(text)
    return results


def _blocks_of(message: BaseMessage) -> list[Mapping[str, object]]:
    """The blocks of a message's content; none if it is one text. Texts among blocks are left out."""
    if not isinstance(message.content, list):
        return []
    return [block for block in message.content if isinstance(block, Mapping)]


def _has_unread(message: object) -> bool:
    """Whether a message shows what is no text here: a picture, a file, what a provider has found."""
    if isinstance(message, AIMessage):
        results = _provider_results(message)
        return bool(results)
    if not isinstance(message, HumanMessage | ToolMessage):
        return False
    for block in _blocks_of(message):
        is_text = block.get("type") == "text"
        if not is_text and not words_of(block):
            return True
    return False


def _is_echo(name: str, arguments: object, *, own_memory: bool) -> bool:
    """Whether the result of a tool has only what the model gave it, or the person's own memory.

    Without `own_memory` that memory counts as a foreign text, too.
    """
    if name in _ECHOES:
        return own_memory or name != "search_memories"
    return own_memory and _reads_memory(name, arguments)


def _reads_memory(name: str, arguments: object) -> bool:
    """Whether a tool that is called so shows files of the person's memory, and no others."""
    if name not in _READERS or not isinstance(arguments, Mapping):
        return False
    if name == "glob" and _may_leave_folder(arguments.get("pattern")):
        return False
    path = arguments.get(_READERS[name])
    if not isinstance(path, str):
        return False
    from_root = "/" + path.lstrip("/")
    normal_path = posixpath.normpath(from_root)
    return f"{normal_path}/".startswith(_MEMORY)


def _may_leave_folder(pattern: object) -> bool:
    """Whether a pattern of `glob` may find files outside of the folder in which it looks."""
    if not isinstance(pattern, str):
        return False
    return pattern.startswith("/") or ".." in pattern
