"""The offline model's consolidation: facts of conversations become lines of memory.

The model is called again after each of its tool calls, with the results of all so far. A fact is
what a sentence of the person tells (`phrases.py`).
"""

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
    first_result = results[0]
    text, *_ = _AFTER_CONVERSATIONS.split(first_result)
    is_memory = text.startswith("## /memories/")
    calls = _edits(text) if is_memory else _additions(prompt, text)
    if not calls:
        return message_of(["Done."])
    return message_of(calls)


def _edits(memory: str) -> list[ToolCall]:
    """The calls that take repeated lines out of memory, one for each file that has some."""
    calls = list[ToolCall]()
    for path, old_text, new_text in _without_doubles(memory):
        call = tool_call("edit_file", file_path=path, old_string=old_text, new_string=new_text)
        calls.append(call)
    return calls


def _additions(prompt: str, text: str) -> list[ToolCall]:
    """The call that adds the facts in a text that memory lacks; none if it lacks none.

    The prompt shows what is in memory.
    """
    remembered_words = set[str]()
    for remembered_line in remembered_lines(prompt):
        words = _comparable(remembered_line.text)
        remembered_words.add(words)
    new_lines = dict[str, str]()
    for fact in _facts_in(text):
        words = _comparable(fact)
        if words in remembered_words:
            continue
        # With a credential in it, the whole write would be refused.
        if not find_credential(fact):
            new_lines[words] = f"- {fact}"
    if not new_lines:
        return []
    lines = "\n".join(new_lines.values())
    call = tool_call("append_memory", path=FILE, text=lines)
    return [call]


def _facts_in(text: str) -> list[str]:
    """Facts of the conversations in a text, and lines of what the person brought along."""
    messages = re.findall(r"(?m)^user: (.+)", text)
    facts = _told_facts(messages)
    _, _, brought_text = text.partition("# What the person brought\n\n")
    for line in re.findall(r"(?m)^- (.+)", brought_text):
        if not is_framing(line):
            facts.append(line)
    return facts


def _told_facts(messages: Iterable[str]) -> list[str]:
    """What a person told in these messages and did not take back in a later one."""
    facts = list[str]()
    for message in messages:
        for act in acts_of(message):
            if act.kind == "forget":
                facts = _facts_without(facts, act.about)
            elif act.kind in _TELLING:
                facts.append(act.about)
    return facts


def _facts_without(facts: Iterable[str], about: str) -> list[str]:
    """The facts that do not have all these words in a row."""
    words = plain(about)
    other_facts = list[str]()
    for fact in facts:
        if words not in plain(fact):
            other_facts.append(fact)
    return other_facts


def _comparable(line: str) -> str:
    """A line's words, which are equal for lines of the same words; the line if it has no words."""
    words = plain(line).strip()
    return words or line


def _without_doubles(memory: str) -> Iterator[tuple[str, str, str]]:
    """Path, old and new text of each file with lines whose words stood before, in it or another one.

    Headings, comments and empty lines stay.
    """
    seen_words = set[str]()
    for path, text in files_of(memory):
        lines = list[str]()
        for line in text.split("\n"):
            words = plain(line)
            has_words = bool(words.strip())
            is_form = line.startswith(("#", "["))
            is_repeated = has_words and words in seen_words
            if is_form or not is_repeated:
                lines.append(line)
            seen_words.add(words)
        new_text = "\n".join(lines)
        if new_text and new_text != text:
            yield path, text, new_text
