"""The built-in chat model that answers while AGENT_MODEL is unset: no key, no network, no intelligence.

Its answers come from what it is shown (prompt, tool results) and it drives the real tools. Delete it once you have a model.
"""

import re
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool

HELLO = "(Offline model: AGENT_MODEL is not set, so I follow a few phrases only.) "
HELP = """I cannot answer that. Try "Remember that I prefer metric units.", "What do you know about me?",
"Forget that I prefer metric units.", "What did we say about units?" or "What are the policies?"."""
LEFT_TO_CONSOLIDATION = "I cannot write memory here: that is done between conversations."
PREFERENCES = "/memories/preferences.md"
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_FORGET = re.compile(r"(?:please )?forget (?:that |about )?(.+)", re.IGNORECASE)
_REMEMBER = re.compile(r"(?:please )?remember (?:that )?(.+)", re.IGNORECASE)
_KNOWN = re.compile(r"what do you (?:know|remember) about (me)\b", re.IGNORECASE)
_RECALL = re.compile(r"what did (?:we|i|you) say about (.+)", re.IGNORECASE)
_POLICIES = re.compile(r"what are (?:the|our|my) (policies|rules)\b", re.IGNORECASE)
# Plain statements of people about themselves.
_STATED = re.compile(
    r"((?:i (?:am|prefer|like|love|hate|live|work|use|always|never|don't like)|my [\w ]+? is)\b.+)", re.IGNORECASE
)


class OfflineModel(BaseChatModel):
    """A chat model made of rules."""

    tool_names: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.model_copy(update={"tool_names": tuple(tool.name for tool in tools if isinstance(tool, BaseTool))})

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = "\n".join(message.text for message in messages if isinstance(message, SystemMessage))
        asked = max((i for i, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
        results = [str(message.text) for message in messages[asked:] if isinstance(message, ToolMessage)]
        if "search_recent_conversations" in self.tool_names:
            message = consolidate(prompt, results)
        else:
            message = reply(str(messages[asked].text), prompt, results[-1] if results else "")
            if any(call["name"] not in (*self.tool_names, "edit_file") for call in message.tool_calls):
                message = AIMessage(_block(prompt, "temporary") or LEFT_TO_CONSOLIDATION)
            if not any(isinstance(earlier, AIMessage) for earlier in messages):
                message.content = HELLO + message.text
        return ChatResult(generations=[ChatGeneration(message=message)])


def reply(text: str, prompt: str, result: str) -> AIMessage:
    """The next message or tool call, given the user's words, the prompt and the last tool's answer."""
    for sentence in map(str.strip, _SENTENCE.split(text)):
        if _KNOWN.match(sentence):
            lines = [line for _, line in _lines(prompt)] or ["nothing yet"]
            return AIMessage("\n".join(["This is what I remember about you:", *lines]))
        if _POLICIES.match(sentence):
            return AIMessage(_block(prompt, "policies") or "I was shown none.")
        for pattern, act in ((_RECALL, _recall), (_FORGET, _forget), (_REMEMBER, _remember)):
            if (match := pattern.match(sentence)) and (what := match[1].rstrip("?.! ")):
                return AIMessage(result) if "Error" in result else act(what, prompt, result)
    return AIMessage(HELP)


def consolidate(prompt: str, results: list[str]) -> AIMessage:
    """Read the new conversations, then add their facts that memory lacks and that nobody took back."""
    if not results:
        return _call("search_recent_conversations")
    if len(results) > 1:
        return AIMessage(results[-1])
    facts: list[str] = []
    for said in re.findall(r"^user: (.+)", results[0], re.MULTILINE):
        for sentence in (part.strip() for part in _SENTENCE.split(said) if not part.rstrip().endswith("?")):
            if match := _FORGET.match(sentence):
                facts = [fact for fact in facts if not _has(fact, match[1])]
            elif match := _REMEMBER.match(sentence) or _STATED.match(sentence):
                facts.append(match[1].rstrip(".! "))
    known = {_plain(line) for _, line in _lines(prompt)}
    new = {_plain(fact): f"- {fact}" for fact in facts if _plain(fact) not in known}
    return _call("append_memory", path=PREFERENCES, text="\n".join(new.values())) if new else AIMessage("Nothing new.")


def _remember(what: str, prompt: str, result: str) -> AIMessage:
    if result or _plain(what) in [_plain(line) for _, line in _lines(prompt)]:
        return AIMessage(f"I will remember that: {what}.")
    return _call("append_memory", path=PREFERENCES, text=f"- {what}")


def _forget(what: str, prompt: str, result: str) -> AIMessage:
    lines = [(path, line) for path, line in _lines(prompt) if _has(line, what)]
    exact = [(path, line) for path, line in lines if _plain(line) == _plain(what)] or lines
    if result or len(exact) != 1:
        return AIMessage(f"I have forgotten that: {what}." if result else f"I do not know that: {what}.")
    return _call("edit_file", file_path=exact[0][0], old_string=exact[0][1], new_string="")


def _recall(what: str, prompt: str, result: str) -> AIMessage:
    return AIMessage(f"Earlier talks:\n\n{result}") if result else _call("search_past_conversations", query=what)


def _call(tool: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": args, "id": str(uuid4()), "type": "tool_call"}])


def _block(prompt: str, name: str) -> str:
    """The contents of a block of the prompt, without its introduction."""
    match = re.search(rf"<{name}>(.*?)</{name}>", prompt, re.DOTALL)
    return match[1].partition("\n\n")[2].strip() if match else ""


def _lines(prompt: str) -> list[tuple[str, str]]:
    """The remembered lines in the prompt's memory block, each with the file it is in."""
    parts = re.split(r"^## (/memories/\S+)$", _block(prompt, "memory"), flags=re.MULTILINE)[1:]
    lines = [(path, line) for path, text in zip(parts[::2], parts[1::2], strict=True) for line in text.splitlines()]
    return [(path, line) for path, line in lines if re.search(r"\w", line) and line[0] != "#"]


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _has(line: str, words: str) -> bool:
    return f" {_plain(words)} " in f" {_plain(line)} "
