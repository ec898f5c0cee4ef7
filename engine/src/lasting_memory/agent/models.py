"""The chat model that the settings name, as `provider:model`."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TypedDict

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from lasting_memory.agent.whole_answers import whole_answers
from lasting_memory.deployment import Deployment
from lasting_memory.settings import SettingsError

# Loaded by its name: only where no model is set, so that the server imports nothing of it.
_OFFLINE_MODEL = "lasting_memory.offline.model"
_FIX = "use provider:model, e.g. anthropic:claude-sonnet-4-6, with the provider's key in .env."
_REASON_CHARS = 200


class _ClientOptions(TypedDict, total=False):
    """What a provider's client is told beside the model's name."""

    max_retries: int
    stream_usage: bool


# By provider. Google's client tries six times, which takes more than a minute; that of OpenAI asks
# another address than OpenAI's own for no tokens.
_OPTIONS: Mapping[str, _ClientOptions] = {
    "google_genai": {"max_retries": 2},
    "openai": {"stream_usage": True},
}


def build_model(d: Deployment, *, consolidating: bool = False) -> BaseChatModel:
    """The chat model that `AGENT_MODEL` names, or, `consolidating`, `CONSOLIDATION_MODEL`.

    Its answers are whole and in time. Without a name it is the offline one, on `langgraph dev`.
    Raises `SettingsError` if there is no model, the provider is unknown, or its package or key is
    missing.
    """
    name = d.settings.agent_model
    variable = "AGENT_MODEL"
    if consolidating and d.settings.consolidation_model:
        name = d.settings.consolidation_model
        variable = "CONSOLIDATION_MODEL"
    if name is None:
        if d.offline_model and d.settings.local_dev:
            return whole_answers(_offline_model(), d.limits)
        raise SettingsError(f"{variable} is empty; {_FIX}")
    provider, _, _ = name.partition(":")
    options = _OPTIONS.get(provider, _ClientOptions())
    try:
        model = init_chat_model(name, **options)
        return whole_answers(model, d.limits)
    except Exception as error:  # noqa: BLE001  # a provider's client raises any error if its key is missing
        raise SettingsError(
            f"{variable} is {name!r}, which cannot be used: {_reason(error)}; {_fix(name, error)}"
        ) from None


def _offline_model() -> BaseChatModel:
    """The model that answers without a provider, for a first try on `langgraph dev`."""
    model: BaseChatModel = import_module(_OFFLINE_MODEL).OfflineModel()
    return model


def _reason(error: Exception) -> str:
    """What an error says, in one short line without a period."""
    text = str(error)
    if isinstance(error, ValidationError):
        text = error.errors()[0]["msg"]
    line = " ".join(text.split())
    return line[:_REASON_CHARS].rstrip(".")


def _fix(name: str, error: Exception) -> str:
    """What to do about an error of the client of the model with this name."""
    if not isinstance(error, ImportError):
        return _FIX
    extra, _, _ = name.partition(":")
    return (
        f"install it (make install EXTRA={extra}), and for a deployment name it in dependencies "
        "of pyproject.toml."
    )


@cache
def takes_pictures(name: str | None) -> bool:
    """Whether the model of this name (`AGENT_MODEL`) looks at pictures, by langchain's profile."""
    if not name:
        return False
    try:
        profile = init_chat_model(name).profile
    except Exception:  # noqa: BLE001  # as above: `build_model` says what is missing
        return False
    return bool(profile and profile.get("image_inputs"))
