"""What a model's provider refuses, as errors of this library with a sentence for people.

Each provider's client has errors of its own. They are told by the status of the provider's answer,
so that the page, `make chat`, a consolidation's record and other front ends have one sentence for
one cause. The status is that of HTTP. The causes of an error are the error itself, and the errors
that it was raised from.
"""

from collections.abc import Iterator

from langchain_core.exceptions import (
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
)

_FIRST_FAILURE = 500


class ProviderError(ModelError, RuntimeError):
    """A model's provider refused a call, or failed. The message is for people.

    A `RuntimeError`, because of these the platform shows people the message. The cause is the error
    of the provider's client.
    """

    sentence = "The model's provider answered with an error ({})."


class ProviderAuthenticationError(ProviderError):
    """401: the provider does not know the key."""

    sentence = "The model's provider refuses this server's key ({}). Whoever runs it sees to that."


class ProviderPaymentError(ProviderError):
    """402: the account has no credit."""

    sentence = (
        "The account at the model's provider has no credit ({}). Whoever runs it sees to that."
    )


class ProviderPermissionDeniedError(ProviderError):
    """403: the key may not use the model."""

    sentence = "The key of this server may not use this model ({}). Whoever runs it sees to that."


class ProviderNotFoundError(ProviderError):
    """404: there is no such model, or it was not pulled."""

    sentence = "The provider does not have this model ({}). Whoever runs this server names another."


class ProviderTimeoutError(ProviderError):
    """The provider did not answer in time."""

    sentence = "The model's provider did not answer in time ({}); try again."


class ProviderRequestTooLargeError(ProviderError):
    """413: the request is too large."""

    sentence = "This conversation, or what came with it, is too large for the model ({})."


class ProviderRateLimitError(ProviderError):
    """429: there were too many requests."""

    sentence = "The model's provider has too many requests ({}); try again in a minute."


class ProviderOverloadedError(ProviderError):
    """503 or 529: the provider is overloaded."""

    sentence = "The model's provider is overloaded ({}); try again in a minute."


class ProviderBadRequestError(ProviderError):
    """Any other 4xx: the provider does not take the request."""

    sentence = "The model's provider does not take this request ({})."


class ProviderAPIError(ProviderError):
    """Any other 5xx: the provider failed."""

    sentence = "The model's provider failed ({}); try again."


class ProviderConnectionError(ProviderError):
    """The provider could not be reached, or the connection was lost before it answered."""

    sentence = "The model's provider cannot be reached ({}); try again."


_BY_STATUS: dict[int, type[ProviderError]] = {
    401: ProviderAuthenticationError,
    402: ProviderPaymentError,
    403: ProviderPermissionDeniedError,
    404: ProviderNotFoundError,
    408: ProviderTimeoutError,
    413: ProviderRequestTooLargeError,
    429: ProviderRateLimitError,
    503: ProviderOverloadedError,
    504: ProviderTimeoutError,
    529: ProviderOverloadedError,
}
_STATUSES = range(400, 600)
_WORDS_CHARS = 300
# Names of classes of the clients, and of the libraries for HTTP that they use.
_TIMEOUTS = frozenset({"APITimeoutError", "TimeoutException"})
_LOST_CONNECTIONS = frozenset({"APIConnectionError", "TransportError"})


def provider_error(error: Exception) -> ProviderError | None:
    """The error of this library for one of a provider's client; None for any other error.

    A request that is too long for the model is none: it is summarized, and sent again.
    """
    causes = list(_causes(error))
    is_too_long = any(isinstance(cause, ContextOverflowError) for cause in causes)
    if is_too_long:
        return None
    if isinstance(error, RuntimeError):
        # One of this library, which has a sentence already, or a fork's.
        return None
    for cause in causes:
        status = status_of(cause)
        if status is not None:
            return _error_of_status(status, cause)
    for cause in causes:
        if isinstance(cause, ModelTimeoutError) or _is_one_of(cause, _TIMEOUTS):
            sentence = ProviderTimeoutError.sentence.format("no answer")
            return ProviderTimeoutError(sentence)
        if is_lost_connection(cause):
            sentence = ProviderConnectionError.sentence.format("no connection")
            return ProviderConnectionError(sentence)
    return None


def _error_of_status(status: int, cause: BaseException) -> ProviderError:
    """The error for the status of a provider's answer."""
    error_class = _class_of(status)
    sentence = error_class.sentence.format(status)
    if error_class is ProviderBadRequestError:
        # What is wrong with a request only its provider can say.
        sentence += f" It says: {_words_of(cause)}"
    return error_class(sentence)


def _words_of(error: BaseException) -> str:
    """The beginning of an error's message, in one line."""
    words = str(error).split()
    line = " ".join(words)
    return line[:_WORDS_CHARS]


def _class_of(status: int) -> type[ProviderError]:
    """The class of the error for a status."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= _FIRST_FAILURE:
        return ProviderAPIError
    return ProviderBadRequestError


def is_lost_connection(error: BaseException) -> bool:
    """Whether the connection to a provider was not made, or was lost.

    Python's own `ConnectionError` may be the store's. Ollama's client raises it, too, and names
    itself.
    """
    if isinstance(error, ConnectionError):
        return "Ollama" in str(error)
    if isinstance(error, ModelConnectionError):
        return True
    return _is_one_of(error, _LOST_CONNECTIONS)


def _is_one_of(error: BaseException, names: frozenset[str]) -> bool:
    """Whether an error is of a class with one of these names, or of one below it."""
    names_of_classes = [error_class.__name__ for error_class in type(error).__mro__]
    return not names.isdisjoint(names_of_classes)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and then the errors that it was raised from, the direct cause first."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def status_of(error: BaseException) -> int | None:
    """The status of the provider's answer in an error of its client; None without one."""
    response = getattr(error, "response", None)
    candidates = [
        getattr(error, "status_code", None),
        getattr(error, "code", None),  # of Google's clients
        getattr(response, "status_code", None),  # of `httpx`, whose error has the answer itself
    ]
    for status in candidates:
        if isinstance(status, int) and status in _STATUSES:
            return status
    return None
