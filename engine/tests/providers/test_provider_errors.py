"""What the clients of four providers raise, as this library's errors."""

from typing import Any, cast

import anthropic
import httpx
import httpx2
import openai
import pytest
from langchain_core.exceptions import ContextOverflowError

from lasting_memory.agent import budget, provider_errors
from lasting_memory.agent.answer_errors import CutAnswerError
from lasting_memory.agent.models import build_model
from lasting_memory.agent.provider_errors import provider_error
from lasting_memory.testing.deployed import deployed

REQUEST = httpx2.Request("POST", "https://model.example/v1")
KINDS = {
    400: "ProviderBadRequestError",
    401: "ProviderAuthenticationError",
    402: "ProviderPaymentError",
    403: "ProviderPermissionDeniedError",
    404: "ProviderNotFoundError",
    413: "ProviderRequestTooLargeError",
    422: "ProviderBadRequestError",
    429: "ProviderRateLimitError",
    500: "ProviderAPIError",
    502: "ProviderAPIError",
    503: "ProviderOverloadedError",
    529: "ProviderOverloadedError",
}


def raised(provider: str, status: int) -> Exception:
    """What the client of a provider raises for an answer with this status."""
    response: Any = httpx2.Response(status, request=REQUEST)
    if provider == "anthropic":
        return anthropic.APIStatusError("no", response=response, body=None)
    if provider == "openai":
        return openai.APIStatusError("no", response=response, body=None)
    if provider == "google":
        # Gemini's package takes a second, which every worker would spend to collect the tests.
        from google.genai import errors as google  # noqa: PLC0415

        return google.APIError(status, {"error": {"message": "no"}})
    import ollama  # noqa: PLC0415  # as above

    return ollama.ResponseError("no", status)


@pytest.mark.parametrize("status", KINDS)
@pytest.mark.parametrize("provider", ["anthropic", "openai", "google", "ollama"])
def test_a_provider_s_refusal_is_told_by_its_status(provider: str, status: int) -> None:
    explained = provider_error(raised(provider, status))
    assert type(explained).__name__ == KINDS[status]
    assert str(status) in str(explained)
    assert isinstance(explained, RuntimeError), "of these the platform shows the message"


def test_an_integration_s_own_error_is_told_by_its_cause() -> None:
    error = ValueError("the integration's words")
    error.__cause__ = raised("google", 503)
    assert isinstance(provider_error(error), provider_errors.ProviderOverloadedError)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx.ConnectError("refused"), "ProviderConnectionError"),
        (httpx2.ConnectError("refused"), "ProviderConnectionError"),
        (httpx2.ReadTimeout("late"), "ProviderTimeoutError"),
        (anthropic.APIConnectionError(request=cast("Any", REQUEST)), "ProviderConnectionError"),
        (openai.APITimeoutError(request=cast("Any", REQUEST)), "ProviderTimeoutError"),
        (httpx.ReadTimeout("late"), "ProviderTimeoutError"),
        (ConnectionError("Failed to connect to Ollama."), "ProviderConnectionError"),
        (ConnectionResetError("of the store"), "NoneType"),
        (ValueError("a bug of ours"), "NoneType"),
        (ContextOverflowError("too long"), "NoneType"),
        (CutAnswerError("broke off"), "NoneType"),
        (TypeError("a bug of ours"), "NoneType"),
    ],
)
def test_connection_errors_are_told_from_bugs_and_from_errors_of_this_library(
    error: Exception, kind: str
) -> None:
    assert type(provider_error(error)).__name__ == kind


def test_gemini_s_client_does_not_try_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    model = build_model(deployed(agent_model="google_genai:gemini-2.5-flash"))
    assert getattr(model, "max_retries") == 2  # noqa: B009  # of that integration alone


def test_a_gateway_is_asked_to_count_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    model = build_model(deployed(agent_model="openai:local"))
    assert getattr(model, "stream_usage") is True  # noqa: B009


def test_tokens_of_a_provider_that_counts_none_are_estimated() -> None:
    from langchain_core.messages import AIMessage, HumanMessage  # noqa: PLC0415

    assert budget._estimated_tokens([HumanMessage("x" * 400), AIMessage("y" * 400)]) > 150
