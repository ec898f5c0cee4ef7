"""The chat model itself: it tells a conversation from a consolidation, and answers.

The question is the last message of the person. What follows it are the model's own answers, and the
results of the tools that these called. An act is what a sentence of the question asks for
(`phrases.py`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable

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

    def bind_tools(
        self, tools: Sequence[object], **kwargs: object
    ) -> Runnable[LanguageModelInput, AIMessage]:
        names = list[str]()
        for tool in tools:
            if hasattr(tool, "name"):
                names.append(tool.name)
        return self.bind(tools=names)

    def _generate(
        self,
        messages: list[BaseMessage],
        *args: object,
        tools: Collection[str] = (),
        **kwargs: object,
    ) -> ChatResult:
        message = answer(messages, tools)
        generation = ChatGeneration(message=message)
        return ChatResult(generations=[generation])


def answer(messages: Sequence[BaseMessage], tools: Collection[str]) -> AIMessage:
    """The next message of a conversation, or of a consolidation. `tools` are their names."""
    prompt = _prompt_of(messages)
    place = _place_of_question(messages)
    results = _results(messages[place:])
    if "search_recent_conversations" in tools:
        texts = list(results.values())
        return consolidate(prompt, texts)
    question: dict[str, object] | None = None
    text = ""
    if place < len(messages):
        question = messages[place].model_dump()
        text = message_text(own_content(question))
    turn = Turn(prompt, tools, language_of(text))
    answers = _answers(messages)
    is_answered = isinstance(messages[-1], AIMessage)
    if results and not is_answered:
        last_answer = answers[-1]
        reports = _reports(turn, last_answer, results)
        return message_of(reports)
    if is_answered:
        question = None
    acts = _acts(prompt, question, text)
    # Said once: at the beginning of a conversation, to a person of whom nothing is remembered.
    if not turn.remembered_lines and not answers:
        acts.append(Act("stand_in"))
    return message_of(turn.answer(act) for act in acts)


def _prompt_of(messages: Sequence[BaseMessage]) -> str:
    """The text of all system messages."""
    texts = list[str]()
    for message in messages:
        if isinstance(message, SystemMessage):
            texts.append(message.text)
    return "\n".join(texts)


def _answers(messages: Sequence[BaseMessage]) -> list[AIMessage]:
    """The model's own messages, in order."""
    return [message for message in messages if isinstance(message, AIMessage)]


def _reports(turn: Turn, answer: AIMessage, results: Mapping[str, str]) -> Iterator[str]:
    """A reply to the result of each tool call of an answer. `results` are texts by the calls' ids."""
    for call in answer.tool_calls:
        call_id = str(call["id"])
        result = results.get(call_id, "")
        yield turn.report(call, result)


def _place_of_question(messages: Sequence[BaseMessage]) -> int:
    """The index of the person's last message; the number of messages if there is none."""
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


def _acts(prompt: str, question: Mapping[str, object] | None, text: str) -> list[Act]:
    """What a person's message asks for, in order. `text` is what they wrote in it.

    `question` is the message as a mapping; None where there is nothing to answer.
    """
    if question is None:
        return [Act("nothing")]
    if "<temporary>" in prompt and "<memory>" not in prompt:
        return [Act("temporary")]
    if not has_attachments(question):
        return acts_of(text)
    acts = [Act("attached")]
    if text:
        acts += acts_of(text)
    return acts
