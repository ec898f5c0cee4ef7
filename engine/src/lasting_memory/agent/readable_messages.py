"""What of a conversation a model can read that another provider's model has answered in.

A thread keeps each answer in its provider's own form: thoughts, calls of tools and signatures are
blocks of its content. Another provider's client does not know them. Some leave them out; that of
Ollama fails every later turn. So they are left out of what is sent. Tool calls are sent: langchain
keeps them beside the content, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage

from lasting_memory.attachments import base64_of, noun_of, words_of

# What an integration's answers say of their provider, by package.
_PROVIDERS: Mapping[str, str] = {
    "langchain_anthropic": "anthropic",
    "langchain_openai": "openai",
    "langchain_google_genai": "google_genai",
    "langchain_ollama": "ollama",
}
_OLLAMA = "ollama"


def readable_messages(
    messages: Sequence[AnyMessage], kind: type[BaseChatModel]
) -> list[AnyMessage]:
    """The messages as a model of this class can read them.

    They stay as they are for a class of another integration than those known here.
    """
    reader = _provider_of(kind)
    if not reader:
        return list(messages)
    return [_readable(message, reader) for message in messages]


def _provider_of(kind: type[BaseChatModel]) -> str:
    """The provider of a class of models, or of one above it; "" for one that is not known."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if package in _PROVIDERS:
            return _PROVIDERS[package]
    return ""


def _readable(message: AnyMessage, reader: str) -> AnyMessage:
    if isinstance(message.content, str):
        return message
    if isinstance(message, AIMessage) and _is_of_another(message, reader):
        return _without_forms(message)
    if reader == _OLLAMA:
        content = [_for_ollama(block) for block in message.content]
        return message.model_copy(update={"content": content})
    return message


def _is_of_another(message: AIMessage, reader: str) -> bool:
    """Whether another provider's model gave this answer. Of a provider not known here: no."""
    provider = message.response_metadata.get("model_provider")
    if provider is None:
        # Answers of before langchain said it. Ollama's are a text.
        return reader == _OLLAMA
    return provider in _PROVIDERS.values() and provider != reader


def _without_forms(message: AIMessage) -> AIMessage:
    """An answer of text and media alone, without its provider's own blocks."""
    blocks = list[Any]()
    texts = list[str]()
    for block in message.content:
        words = words_of(block)
        if words:
            texts.append(words)
            blocks.append({"type": "text", "text": words})
        elif isinstance(block, Mapping) and noun_of(block):
            blocks.append(block)
    has_text_alone = len(texts) == len(blocks)
    content = "".join(texts) if has_text_alone else blocks
    # The form of the content, which is another now.
    metadata = dict(message.response_metadata)
    metadata.pop("output_version", None)
    return message.model_copy(update={"content": content, "response_metadata": metadata})


def _for_ollama(block: Any) -> Any:
    """A block of a message that Ollama's client takes: texts and pictures in their bytes."""
    if not isinstance(block, Mapping) or base64_of(block) is not None:
        return block
    noun = noun_of(block)
    text = words_of(block)
    if noun:
        text = f"[a {noun} that this model cannot look at]"
    return {"type": "text", "text": text}
