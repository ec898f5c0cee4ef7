"""The built-in chat model that answers while AGENT_MODEL is unset: no key, no network, no intelligence.

It follows a few phrases, so that a first conversation proves that memory works: its answers come from what it is shown (the
policies and memory in its prompt, tool results) and it drives the real tools. Delete this file, and the lines in `models.py`
that name it, once you have a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

HELLO = "(Offline model: AGENT_MODEL is not set, so I follow a few phrases only.) "
HELP = (
    'I cannot answer that. Try "Remember that I prefer metric units.", "What do you know about me?", "Forget that I prefer '
    'metric units.", "What did we say about units?" or "What are the policies?".'
)
PREFERENCES = "/memories/preferences.md"
# Sentences that state something lasting about the person who says them.
_STATED = r"(?:i (?:am|prefer|like|love|hate|live|work|use|always|never|don't like)|my [\w ]+? is)"
_FACT = re.compile(rf"\b(?:remember that (?P<told>.+)|(?P<plain>{_STATED}\b.+))", re.IGNORECASE)


class OfflineModel(BaseChatModel):
    """A chat model made of rules."""

    tool_names: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        names = [tool.name if isinstance(tool, BaseTool) else getattr(tool, "__name__", "") for tool in tools]
        return self.model_copy(update={"tool_names": tuple(names)})

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = "\n".join(message.text for message in messages if isinstance(message, SystemMessage))
        asked = max(i for i, message in enumerate(messages) if isinstance(message, HumanMessage))
        results = [str(message.text) for message in messages[asked:] if isinstance(message, ToolMessage)]
        answer = consolidate if "search_recent_conversations" in self.tool_names else reply
        message = answer(messages[asked].text, prompt, results)
        if answer is reply and not any(isinstance(earlier, AIMessage) for earlier in messages):
            message.content = HELLO + message.text if not message.tool_calls else HELLO.strip()
        return ChatResult(generations=[ChatGeneration(message=message)])


def reply(text: str, prompt: str, results: list[str]) -> AIMessage:
    """What to say or which tool to call next, for what the user said, what the prompt shows and what tools answered."""
    rules: list[tuple[str, Callable[[str, str, list[str]], AIMessage]]] = [
        (r"remember (?:that )?(.+)", _remember),
        (r"forget (?:that |about )?(.+)", _forget),
        (r"what did (?:we|i|you) say about (.+)", _recall),
        (r"what do you (?:know|remember) about (me)", _known),
        (r"what are (?:the|our|my) (policies|rules)", _policies),
    ]
    for pattern, act in rules:
        if match := re.search(rf"\b{pattern}", text, re.IGNORECASE | re.DOTALL):
            return act(match[1].strip().rstrip("?.! "), prompt, results)
    return AIMessage(HELP)


def consolidate(text: str, prompt: str, results: list[str]) -> AIMessage:
    """Read what is new, then add the facts in it that memory does not have."""
    if not results:
        return _call("search_recent_conversations")
    if len(results) > 1:
        return AIMessage(results[-1])
    known = {_plain(line) for _, line in _lines(prompt)}
    facts: dict[str, str] = {}
    for said in re.findall(r"user: (.+)", results[0]):
        for sentence in re.split(r"(?<=[.!?])\s+", said):
            if "?" not in sentence and (match := _FACT.search(sentence)):
                fact = (match["told"] or match["plain"]).strip().rstrip(".! ")
                facts.setdefault(_plain(fact), fact)
    new = [fact for plain, fact in facts.items() if plain not in known]
    if not new:
        return AIMessage("Nothing new to remember.")
    return _call("append_memory", path=PREFERENCES, text="\n".join(f"- {fact}" for fact in new))


def _remember(what: str, prompt: str, results: list[str]) -> AIMessage:
    if results:
        return AIMessage(results[-1] if "Error" in results[-1] else f"I will remember that: {what}.")
    if _plain(what) in {_plain(line) for _, line in _lines(prompt)}:
        return AIMessage(f"I remember that already: {what}.")
    return _call("append_memory", path=PREFERENCES, text=f"- {what}")


def _forget(what: str, prompt: str, results: list[str]) -> AIMessage:
    if results and "Error" not in results[-1]:
        return AIMessage(f"I have forgotten that: {what}.")
    for path, line in _lines(prompt):
        if _plain(what) in _plain(line):
            if results:
                return AIMessage(results[-1])
            return _call("edit_file", file_path=path, old_string=f"\n{line}", new_string="")
    return AIMessage(f"I remember nothing like that: {what}.")


def _recall(what: str, prompt: str, results: list[str]) -> AIMessage:
    return (
        AIMessage(f"Earlier conversations:\n\n{results[-1]}")
        if results
        else _call("search_past_conversations", query=what)
    )


def _known(what: str, prompt: str, results: list[str]) -> AIMessage:
    lines = [line for _, line in _lines(prompt)]
    return AIMessage("\n".join(["This is what I remember about you:", *lines]) if lines else "Nothing yet.")


def _policies(what: str, prompt: str, results: list[str]) -> AIMessage:
    return AIMessage(_block(prompt, "policies").partition("\n\n")[2].strip() or "I was shown none.")


def _call(tool: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": args, "id": str(uuid4()), "type": "tool_call"}])


def _block(prompt: str, name: str) -> str:
    match = re.search(rf"<{name}>(.*?)</{name}>", prompt, re.DOTALL)
    return match[1] if match else ""


def _lines(prompt: str) -> list[tuple[str, str]]:
    """The remembered lines in the prompt's memory block, each with the file it is in."""
    path, lines = "", []
    for line in _block(prompt, "memory").partition("\n\n")[2].splitlines():
        if line.startswith("## /memories/"):
            path = line.removeprefix("## ")
        elif line.strip() and not line.startswith(("#", "(", "[")):
            lines.append((path, line))
    return lines


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
