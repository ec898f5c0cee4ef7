"""The offline model's side of a conversation: what it answers to a sentence, and which tools it
calls.

An act is what a sentence of the person asks for (`phrases.py`). A reply is a text of `phrases.yaml`,
by its name. A remembered line is a line of memory as the prompt shows it.
"""

import re
from collections.abc import Collection
from itertools import islice

from langchain_core.messages import ToolCall

from lasting_memory.agent.scoped_files import WAITS
from lasting_memory.memory.controls import PAUSED
from lasting_memory.offline.consolidating import FILE
from lasting_memory.offline.phrases import Act, name_in, plain, reply, subject_words
from lasting_memory.offline.replies import tool_call
from lasting_memory.offline.shown_memory import (
    RememberedLine,
    as_list,
    block_of,
    remembered_lines,
)

# In the prompt: a policy without its path, a skill with what it is for.
_ENTRIES = {
    "policies": r"(?s)\n## /policies/\S+\n+(.+?)(?=\n+## /policies/|\Z)",
    "skills": r"(?m)^- \*\*.+",
}
_SEARCHES = {"recall": "search_past_conversations", "about": "search_memories"}
# How the results of tools begin that have written.
_WRITTEN = ("Added to", "Saved", "Successfully")
# In a result of `search_past_conversations`: a conversation's day, or what the person said in it,
# but questions.
_DAY_OR_WORDS = re.compile(
    r"(?m)^(?:about )?(\d{4}-\d\d-\d\d) thread_id=|^ +\d+\. user: (.+[^?\s])\s*$"
)
_MOST_RECALLED = 5
_REASON_CHARS = 300


class Turn:
    """The answer to one message of a person: texts and tool calls.

    It knows the prompt, the names of the tools that there are, and the language of the message.
    """

    def __init__(self, prompt: str, tools: Collection[str], language: str) -> None:
        self._prompt = prompt
        self._tools = tools
        self._language = language
        self.remembered_lines = list(remembered_lines(prompt))

    def _reply(self, name: str, about: str = "", date: str = "") -> str:
        """The reply of this name, in the language of the message."""
        return reply(name, self._language, about, date)

    def answer(self, act: Act) -> str | ToolCall:
        """The answer to what a sentence asks for: a text, or a tool call."""
        match act.kind:
            case "remember" | "name":
                return self._remember(act)
            case "forget":
                return self._forget(act.about)
            case "recall" | "about":
                search = _SEARCHES[act.kind]
                return tool_call(search, query=act.about)
            case "known" | "policies" | "skills":
                return self._show(act.kind)
            case "ask":
                return self._answer_question(act.about)
        return self._reply(act.kind)

    def _show(self, kind: str) -> str:
        """A list of what the prompt has of this kind: "known" (memory), "policies" or "skills"."""
        if kind == "known":
            list_text = as_list(self.remembered_lines)
        else:
            block = block_of(self._prompt, kind)
            pattern = _ENTRIES[kind]
            entries = re.findall(pattern, block)
            list_text = "\n".join(entries)
        if not list_text:
            return self._reply(f"no_{kind}")
        return self._reply(kind, list_text)

    def _answer_question(self, question: str) -> str:
        """The remembered lines that have at least half of the question's words."""
        question_words = subject_words(question)
        min_shared = len(question_words) / 2
        matching_lines = list[RememberedLine]()
        for line in self.remembered_lines:
            words = subject_words(line.text)
            shared_words = question_words & words
            if shared_words and len(shared_words) >= min_shared:
                matching_lines.append(line)
        if not matching_lines:
            return self._reply("unknown")
        return self._reply("ask", as_list(matching_lines))

    def _remember(self, act: Act) -> str | ToolCall:
        """The call that writes a fact, or a name, into memory; or why there is none."""
        fact = act.about
        tells_name = act.kind == "name"
        if tells_name and "save_profile" in self._tools:
            profile = {"name": name_in(fact)}
            return tool_call("save_profile", profile=profile)
        if "append_memory" not in self._tools:
            return self._reply("read_only")
        words = plain(fact)
        for line in self.remembered_lines:
            if plain(line.text) == words:
                return self._reply("already", fact)
        return tool_call("append_memory", path=FILE, text=f"- {fact}")

    def _forget(self, about: str) -> str | ToolCall:
        """The call that removes the one line, or the one field, that is meant; or a question back."""
        matching_lines = self._lines_about(about)
        if not matching_lines:
            return self._reply("not_known", about)
        if len(matching_lines) > 1:
            return self._reply("several", as_list(matching_lines))
        line = matching_lines[0]
        return tool_call(
            "edit_file", file_path=line.path, old_string=line.old_text, new_string=line.new_text
        )

    def _lines_about(self, about: str) -> list[RememberedLine]:
        """The remembered lines with all these words in a row; none for words without a subject."""
        lines = list[RememberedLine]()
        if not subject_words(about):
            return lines
        words = plain(about)
        for line in self.remembered_lines:
            if words in plain(line.text):
                lines.append(line)
        return lines

    def report(self, call: ToolCall, result: str) -> str:
        """The reply to the result of a tool call.

        It says that something was written only if it was.
        """
        match call:
            case {"name": "search_past_conversations", "args": {"query": query}}:
                recalled_text = self._recalled(query, result)
                return recalled_text or self._reply("no_recall", query)
            case {"name": "search_memories"}:
                return f"{self._reply('about')}\n\n{result}"
        if not result.startswith(_WRITTEN):
            name = _name_of_refusal(result)
            reason = result.removeprefix("Error: ")
            short_reason = reason[:_REASON_CHARS]
            return self._reply(name, short_reason or "...")
        args = call["args"]
        match args:
            case {"profile": {"name": name}}:
                return self._reply("name", name)
            case {"text": text}:
                remembered_text = text.removeprefix("- ")
                return self._reply("remembered", remembered_text)
        forgotten_text = args["old_string"].strip("\n- ")
        return self._reply("forgotten", forgotten_text)

    def _recalled(self, query: str, result: str) -> str:
        """What the person said about it in the conversations found, but questions; "" for nothing."""
        query_words = subject_words(query)
        day = ""
        days_by_text = dict[str, str]()
        for day_of_conversation, words in _DAY_OR_WORDS.findall(result):
            day = day_of_conversation or day
            if query_words & subject_words(words):
                text = words.rstrip(".")
                days_by_text.setdefault(text, day)
        replies = list[str]()
        texts_and_days = islice(days_by_text.items(), _MOST_RECALLED)
        for text, day_of_text in texts_and_days:
            reply_to_text = self._reply("recall", text, day_of_text)
            replies.append(reply_to_text)
        return "\n\n".join(replies)


def _name_of_refusal(result: str) -> str:
    """The name of the reply to the result of a tool that did not write."""
    if PAUSED in result:
        return "paused"
    if WAITS in result:
        return "waits"
    return "refused"
