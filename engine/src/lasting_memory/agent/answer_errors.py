"""The errors for an answer of a model that is none: it broke off, cannot be used, or says nothing."""

from langchain_core.exceptions import ModelConnectionError, ModelError, ModelTimeoutError
from langchain_core.messages import AIMessage


class AnswerError(RuntimeError):
    """A model gave no answer that can be used. It is a `RuntimeError`, because of these the platform
    shows people the message.

    `unusable_answer` is what came before, with its tokens where the provider said them; None: nothing.
    """

    unusable_answer: AIMessage | None = None


class CutAnswerError(ModelConnectionError, AnswerError):
    """An answer broke off. The same call may succeed."""


class BadAnswerError(ModelError, AnswerError):
    """An answer is too long, or a tool call in it is cut or cannot be used.

    `advice` tells the model what to do otherwise, once. Without it a retry would not help.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class FilteredAnswerError(ModelError, AnswerError):
    """The provider filtered an answer, or the model refused to give one: there is no text.

    A retry would not help.
    """


class EmptyAnswerError(ModelError, AnswerError):
    """An answer ended with neither text nor tool calls."""


class SilentModelError(ModelTimeoutError, AnswerError):
    """A model sent nothing for too long.

    There is no automatic retry: the person has waited long enough to decide.
    """

    is_retryable = False


# A provider was there, and what it gave is no answer. The messages are for people.
NO_ANSWER = (CutAnswerError, BadAnswerError, FilteredAnswerError, EmptyAnswerError)
