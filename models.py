"""The chat model that the settings name; without one, the built-in offline model."""

from __future__ import annotations

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from offline_model import OfflineModel
from settings import SettingsError

# The extra of this project that installs a provider's package.
EXTRAS = ("anthropic", "openai", "google_genai", "ollama")


def build_model(name: str | None, variable: str = "AGENT_MODEL") -> BaseChatModel:
    """The chat model `name` (`provider:model`) that the setting `variable` gave, or the offline one if there is no name.

    Raises:
        SettingsError: the provider's package is not installed, or the provider is unknown.
    """
    if name is None:
        # Without offline_model.py: raise SettingsError(f"{variable} is empty; use provider:model.")
        return OfflineModel()
    provider = name.partition(":")[0]
    try:
        model: BaseChatModel = init_chat_model(name)
    except ImportError:
        extra = f"the extra '.[{provider}]'" if provider in EXTRAS else "the provider's langchain package"
        fix = f"install {extra} (make install EXTRA={provider}), or add its package to pyproject.toml for a deployment"
        raise SettingsError(f"{variable} is {name!r}, whose provider is not installed; {fix}.") from None
    except ValueError as error:
        raise SettingsError(f"{variable} is {name!r}; {str(error).splitlines()[0]}") from None
    return model
