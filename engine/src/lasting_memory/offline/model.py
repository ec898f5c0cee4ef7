"""The chat model itself: it tells a conversation from a consolidation, and answers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from lasting_memory.attachments import has_attachments, own_content
from lasting_memory.offline.consolidating import consolidate
from lasting_memory.offline.conversing import Turn
from lasting_memory.offline.phrases import Act, acts_of, language_of
from lasting_memory.offline.replies import message_of
from lasting_memory.recall import message_text


class OfflineModel(BaseChatModel):
    """A chat model made of rules."""

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        names = list[str]()
        for tool in tools:
            if hasattr(tool, "name"):
                names.append(tool.name)
        return self.bind(tools=names)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        tools = kwargs.get("tools", [])
        message = answer(messages, tools)
        generation = ChatGeneration(message=message)
        return ChatResult(generations=[generation])


def answer(messages: Sequence[BaseMessage], tools: Collection[str]) -> AIMessage:
    """The next message of a conversation, or of a consolidation. `tools` are their names."""
    prompt = _prompt_of(messages)
    asked = _place_of_last_question(messages)
    results = _results(messages[asked:])
    if "search_recent_conversations" in tools:
        texts = list(results.values())
        return consolidate(prompt, texts)
    question: dict[str, Any] | None = None
    text = ""
    if asked < len(messages):
        question = messages[asked].model_dump()
        text = message_text(own_content(question))
    turn = Turn(prompt, tools, language_of(text))
    answers = [message for message in messages if isinstance(message, AIMessage)]
    is_answered = isinstance(messages[-1], AIMessage)
    if results and not is_answered:
        reports = _reports(turn, answers[-1], results)
        return message_of(reports)
    if is_answered:
        question = None
    acts = _acts(prompt, question, text)
    # Said once: at the beginning of a conversation, to a person of whom nothing is remembered.
    if not turn.remembered and not answers:
        acts.append(Act("stand_in"))
    return message_of(turn.answer(act) for act in acts)


def _prompt_of(messages: Sequence[BaseMessage]) -> str:
    texts = list[str]()
    for message in messages:
        if isinstance(message, SystemMessage):
            texts.append(message.text)
    return "\n".join(texts)


def _reports(turn: Turn, answer: AIMessage, results: Mapping[str, str]) -> Iterator[str]:
    """What is said of each call of an answer, by the results of tools."""
    for call in answer.tool_calls:
        call_id = str(call["id"])
        result = results.get(call_id, "")
        yield turn.report(call, result)


def _place_of_last_question(messages: Sequence[BaseMessage]) -> int:
    """The index of the person's last message; behind the last one if there is none."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, HumanMessage):
            return place
    return len(messages)


def _results(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """The texts of tools' results, by the ids of their calls."""
    results = dict[str, str]()
    for message in messages:
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = str(message.text)
    return results


def _acts(prompt: str, question: Mapping[str, Any] | None, text: str) -> list[Act]:
    """What a person's message asks for. `text` is what they wrote in it.

    `question` is None where there is nothing to answer.
    """
    if question is None:
        return [Act("nothing")]
    if "<temporary>" in prompt and "<memory>" not in prompt:
        return [Act("temporary")]
    if not has_attachments(question):
        return acts_of(text)
    attached = [Act("attached")]
    return attached + acts_of(text) if text else attached
