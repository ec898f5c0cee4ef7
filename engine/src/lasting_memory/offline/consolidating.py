"""The offline model's consolidation: facts of conversations become lines of memory."""

import re
from collections.abc import Iterable, Iterator, Sequence

from langchain_core.messages import AIMessage, ToolCall

from lasting_memory.credentials import find_credential
from lasting_memory.offline.phrases import acts_of, is_framing, plain
from lasting_memory.offline.replies import message_of, tool_call
from lasting_memory.offline.shown_memory import files_of, remembered_lines

# Where new lines go.
FILE = "/memories/preferences.md"
# Acts that tell a fact.
_TELLING = {"remember", "name", "noted"}
# What follows the conversations in the result of `search_recent_conversations`.
_AFTER_CONVERSATIONS = re.compile(r"\n\n# (?:Taken back|Files about the same)\n")


def consolidate(prompt: str, results: Sequence[str]) -> AIMessage:
    """The next message of a consolidation, by the results of the tools that it has called so far.

    It reads what there is, then adds what memory lacks: facts of conversations, and lines of a text
    that was brought along. In memory that is to be tidied it takes out lines that stand there twice.
    """
    if not results:
        call = tool_call("search_recent_conversations")
        return message_of([call])
    if len(results) > 1:
        return message_of(["Done."])
    text, *_ = _AFTER_CONVERSATIONS.split(results[0])
    if text.startswith("## /memories/"):
        calls = [_edit(path, old, new) for path, old, new in _without_doubles(text)]
    else:
        calls = _additions(prompt, text)
    if not calls:
        return message_of(["Done."])
    return message_of(calls)


def _edit(path: str, old: str, new: str) -> ToolCall:
    return tool_call("edit_file", file_path=path, old_string=old, new_string=new)


def _additions(prompt: str, text: str) -> list[ToolCall]:
    """The call that adds the lines that memory lacks; none if it lacks none."""
    known = {_compared(line.text) for line in remembered_lines(prompt)}
    added = dict[str, str]()
    for line in _facts_in(text):
        compared = _compared(line)
        # With a credential in it, the whole write would be refused.
        if compared not in known and not find_credential(line):
            added[compared] = f"- {line}"
    if not added:
        return []
    lines = "\n".join(added.values())
    call = tool_call("append_memory", path=FILE, text=lines)
    return [call]


def _facts_in(text: str) -> list[str]:
    """Facts of the conversations in a text, and lines of what the person brought along."""
    messages = re.findall(r"(?m)^user: (.+)", text)
    facts = _told_facts(messages)
    _, _, brought = text.partition("# What the person brought\n\n")
    for line in re.findall(r"(?m)^- (.+)", brought):
        if not is_framing(line):
            facts.append(line)
    return facts


def _told_facts(messages: Iterable[str]) -> list[str]:
    """What a person told in these messages and did not take back."""
    facts = list[str]()
    for message in messages:
        for act in acts_of(message):
            if act.kind == "forget":
                about = plain(act.about)
                facts = [fact for fact in facts if about not in plain(fact)]
            elif act.kind in _TELLING:
                facts.append(act.about)
    return facts


def _compared(line: str) -> str:
    """What is equal for lines of the same words."""
    words = plain(line).strip()
    return words or line


def _without_doubles(memory: str) -> Iterator[tuple[str, str, str]]:
    """Path, old and new text of each file with lines that stood before in the same words."""
    seen = set[str]()
    for path, text in files_of(memory):
        lines = list[str]()
        for line in text.split("\n"):
            words = plain(line)
            is_form = line.startswith(("#", "[")) or not words.strip()
            if is_form or words not in seen:
                lines.append(line)
            seen.add(words)
        new = "\n".join(lines)
        if new and new != text:
            yield path, text, new
