"""The offline model's side of a conversation."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from langchain_core.messages import ToolCall

from lasting_memory.agent.backends import WAITS
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
    """One message of a person: what is said to it, and the tool calls that it takes."""

    def __init__(self, prompt: str, tools: Collection[str], language: str) -> None:
        self._prompt = prompt
        self._tools = tools
        self._language = language
        self.remembered = list(remembered_lines(prompt))

    def _reply(self, name: str, about: str = "", date: str = "") -> str:
        return reply(name, self._language, about, date)

    def answer(self, act: Act) -> str | ToolCall:
        """What is said to a sentence, or the call that it takes."""
        match act.kind:
            case "remember" | "name":
                return self._remember(act)
            case "forget":
                return self._forget(act.about)
            case "recall" | "about":
                return tool_call(_SEARCHES[act.kind], query=act.about)
            case "known" | "policies" | "skills":
                return self._show(act.kind)
            case "ask":
                return self._answer_question(act.about)
        return self._reply(act.kind)

    def _show(self, kind: str) -> str:
        if kind == "known":
            listed = as_list(self.remembered)
        else:
            block = block_of(self._prompt, kind)
            entries = re.findall(_ENTRIES[kind], block)
            listed = "\n".join(entries)
        name = kind if listed else f"no_{kind}"
        return self._reply(name, listed)

    def _answer_question(self, question: str) -> str:
        """The remembered lines that have at least half of the question's words."""
        asked = subject_words(question)
        matching = list[RememberedLine]()
        for line in self.remembered:
            shared = asked & subject_words(line.text)
            if asked and 2 * len(shared) >= len(asked):
                matching.append(line)
        name = "ask" if matching else "unknown"
        return self._reply(name, as_list(matching))

    def _remember(self, act: Act) -> str | ToolCall:
        about = act.about
        if act.kind == "name" and "save_profile" in self._tools:
            profile = {"name": name_in(about)}
            return tool_call("save_profile", profile=profile)
        if "append_memory" not in self._tools:
            return self._reply("read_only")
        known = [plain(line.text) for line in self.remembered]
        if plain(about) in known:
            return self._reply("already", about)
        return tool_call("append_memory", path=FILE, text=f"- {about}")

    def _forget(self, about: str) -> str | ToolCall:
        """The call that removes the one line, or the one field, that is meant; or a question back."""
        meant = list[RememberedLine]()
        if subject_words(about):
            words = plain(about)
            meant = [line for line in self.remembered if words in plain(line.text)]
        if not meant:
            return self._reply("not_known", about)
        if len(meant) > 1:
            return self._reply("several", as_list(meant))
        line = meant[0]
        return tool_call(
            "edit_file", file_path=line.path, old_string=line.old, new_string=line.without
        )

    def report(self, call: Mapping[str, Any], result: str) -> str:
        """What is said once a tool has answered.

        Nothing is said to be written that was refused.
        """
        match call:
            case {"name": "search_past_conversations", "args": {"query": query}}:
                return self._recalled(query, result) or self._reply("no_recall", query)
            case {"name": "search_memories"}:
                return f"{self._reply('about')}\n\n{result}"
        if not result.startswith(_WRITTEN):
            kind = _kind_of_refusal(result)
            reason = result.removeprefix("Error: ")[:_REASON_CHARS]
            return self._reply(kind, reason or "...")
        args = call["args"]
        match args:
            case {"profile": {"name": name}}:
                return self._reply("name", name)
            case {"text": text}:
                remembered = text.removeprefix("- ")
                return self._reply("remembered", remembered)
        forgotten = args["old_string"].strip("\n- ")
        return self._reply("forgotten", forgotten)

    def _recalled(self, query: str, result: str) -> str:
        """What the person said about it in the conversations found, but questions."""
        asked = subject_words(query)
        day = ""
        days_by_text = dict[str, str]()
        for began, words in _DAY_OR_WORDS.findall(result):
            day = began or day
            if asked & subject_words(words):
                text = words.rstrip(".")
                days_by_text.setdefault(text, day)
        texts = list(days_by_text)
        replies = list[str]()
        for text in texts[:_MOST_RECALLED]:
            said = self._reply("recall", text, days_by_text[text])
            replies.append(said)
        return "\n\n".join(replies)


def _kind_of_refusal(result: str) -> str:
    if PAUSED in result:
        return "paused"
    return "waits" if WAITS in result else "refused"
