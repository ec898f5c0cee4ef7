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
        return message_of([tool_call("search_recent_conversations")])
    if len(results) > 1:
        return message_of(["Done."])
    text = _AFTER_CONVERSATIONS.split(results[0])[0]
    if text.startswith("## /memories/"):
        calls = [_edit(path, old, new) for path, old, new in _without_doubles(text)]
    else:
        calls = _additions(prompt, text)
    return message_of(calls) if calls else message_of(["Done."])


def _edit(path: str, old: str, new: str) -> ToolCall:
    return tool_call("edit_file", file_path=path, old_string=old, new_string=new)


def _additions(prompt: str, text: str) -> list[ToolCall]:
    """The call that adds the lines that memory lacks; none if it lacks none."""
    known = {_compared(line.text) for line in remembered_lines(prompt)}
    added = dict[str, str]()
    for line in _facts_in(text):
        # With a credential in it, the whole write would be refused.
        if _compared(line) not in known and not find_credential(line):
            added[_compared(line)] = f"- {line}"
    if not added:
        return []
    return [tool_call("append_memory", path=FILE, text="\n".join(added.values()))]


def _facts_in(text: str) -> list[str]:
    """Facts of the conversations in a text, and lines of what the person brought along."""
    facts = _told_facts(re.findall(r"(?m)^user: (.+)", text))
    brought = text.partition("# What the person brought\n\n")[2]
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
                facts = [fact for fact in facts if plain(act.about) not in plain(fact)]
            elif act.kind in _TELLING:
                facts.append(act.about)
    return facts


def _compared(line: str) -> str:
    """What is equal for lines of the same words."""
    return plain(line).strip() or line


def _without_doubles(memory: str) -> Iterator[tuple[str, str, str]]:
    """Path, old and new text of each file with lines that stood before in the same words."""
    seen = set[str]()
    for path, text in files_of(memory):
        lines = list[str]()
        for line in text.split("\n"):
            is_form = line.startswith(("#", "[")) or not plain(line).strip()
            if is_form or plain(line) not in seen:
                lines.append(line)
            seen.add(plain(line))
        new = "\n".join(lines)
        if new not in {text, ""}:
            yield path, text, new
