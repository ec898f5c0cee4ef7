"""The chat model that the settings name."""

from __future__ import annotations

import sys

import pytest
from langchain.chat_models import base

from lasting_memory.agent.models import build_model
from lasting_memory.settings import SettingsError
from lasting_memory.testing.deployed import deployed


def test_no_name_anywhere_but_on_langgraph_dev_is_an_error_naming_the_setting() -> None:
    with pytest.raises(SettingsError, match="AGENT_MODEL is empty; use provider:model"):
        build_model(deployed())


@pytest.mark.parametrize(("provider", "kind"), [("anthropic", "ChatAnthropic"), ("google_genai", "ChatGoogleGenerativeAI")])
def test_named_providers_give_their_own_client(provider: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "test")
    assert type(build_model(deployed(agent_model=f"{provider}:some-model"))).__name__ == kind


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_a_provider_that_is_not_installed_is_an_error_naming_the_extra(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, f"langchain_{provider}", None)
    base._get_chat_model_creator.cache_clear()  # of a test before, which had the provider
    with pytest.raises(SettingsError, match=f"CONSOLIDATION_MODEL is '{provider}:x'.* EXTRA={provider}"):
        build_model(deployed(consolidation_model=f"{provider}:x"), consolidating=True)


def test_an_unknown_provider_is_an_error_naming_the_setting() -> None:
    with pytest.raises(SettingsError, match="AGENT_MODEL is 'nobody:x'"):
        build_model(deployed(agent_model="nobody:x"))
