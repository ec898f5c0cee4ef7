"""The providers: how each one's protocol is spoken by a scripted server, and the real client for it."""

from dataclasses import dataclass
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from lasting_memory.testing import (
    scripted_google,
    scripted_messages,
    scripted_ollama,
    scripted_openai,
)
from lasting_memory.testing.scripted_provider import Speak

KEY = SecretStr("test")


@dataclass(frozen=True)
class Provider:
    """How a protocol is spoken, and the client for it."""

    speak: Speak
    model: str
    options: dict[str, Any]

    def client(self, url: str) -> BaseChatModel:
        client: BaseChatModel = init_chat_model(self.model, base_url=url, **self.options)
        return client


PROVIDERS = {
    "anthropic": Provider(scripted_messages.messages, "anthropic:m", {"api_key": KEY}),
    "openai": Provider(scripted_openai.completions, "openai:m", {"api_key": KEY}),
    "openai unstreamed": Provider(
        scripted_openai.completions, "openai:m", {"api_key": KEY, "disable_streaming": True}
    ),
    "responses": Provider(
        scripted_openai.responses, "openai:m", {"api_key": KEY, "use_responses_api": True}
    ),
    "google": Provider(scripted_google.stream_generate_content, "google_genai:m", {"api_key": KEY}),
    "ollama": Provider(scripted_ollama.chat, "ollama:m", {}),
}
