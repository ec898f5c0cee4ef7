"""Answers about past conversations, and the questions that wait in them."""

from typing import Literal

from pydantic import Field

from lasting_memory.auth.interrupt_forms import Kind as AnswerKind
from lasting_memory.http.models.base import Answer


class FoundTurn(Answer):
    number: int
    speaker: str
    text: str = Field(description="an excerpt")


class FoundConversation(Answer):
    thread_id: str
    updated_at: str = Field(description="when something was said in it last")
    turns: list[FoundTurn] = Field(description="the best ones, in their order")


class FoundConversations(Answer):
    conversations: list[FoundConversation] = Field(description="the best first")
    searched: int = Field(description="in how many conversations")
    outstanding: int = Field(description="older ones that are not indexed yet: search again")


class QuestionAction(Answer):
    """An action that a question is about."""

    name: str
    args: str = Field(description="JSON, cut to what a page shows")
    description: str
    may: list[str] = Field(description="types of answers; no edit where args were cut")


class Question(Answer):
    """An interrupt that waits for an answer."""

    id: str
    answered_by: Literal["person", "operator"]
    kind: AnswerKind = Field(
        description="of the answer: decisions to a HITLRequest of langchain's, response or "
        "responses to one or several of its HumanInterrupt, else value"
    )
    requests: list[QuestionAction]
    text: str = Field(description="of a question that is about no action")
    choices: list[bool | int | float | str] = Field(description="answers that its schema allows")


class Questions(Answer):
    interrupts: list[Question]
