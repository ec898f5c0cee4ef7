"""What of a conversation a model can read that another provider's model has answered in.

A thread keeps each answer in its provider's own form: thoughts, calls of tools and signatures are
blocks of its content. Another provider's client does not know them. Some leave them out; that of
Ollama fails every later turn. So they are left out of what is sent. Tool calls are sent: langchain
keeps them beside the content, too.
"""

from collections.abc import Mapping, Sequence

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
    messages: Sequence[AnyMessage], model_class: type[BaseChatModel]
) -> list[AnyMessage]:
    """The messages as a model of this class can read them.

    They stay as they are for a class of another integration than those known here.
    """
    reader = _provider_of(model_class)
    if not reader:
        return list(messages)
    return [_readable_message(message, reader) for message in messages]


def _provider_of(model_class: type[BaseChatModel]) -> str:
    """The provider of a class of models, or of one above it; "" for one that is not known."""
    for base in model_class.__mro__:
        package = base.__module__.partition(".")[0]
        if package in _PROVIDERS:
            return _PROVIDERS[package]
    return ""


def _readable_message(message: AnyMessage, reader: str) -> AnyMessage:
    """A message as a model of the provider `reader` can read it."""
    if isinstance(message.content, str):
        return message
    if isinstance(message, AIMessage) and _is_of_another(message, reader):
        return _without_own_blocks(message)
    if reader == _OLLAMA:
        content = [_for_ollama(block) for block in message.content]
        return message.model_copy(update={"content": content})
    return message


def _is_of_another(message: AIMessage, reader: str) -> bool:
    """Whether a model of another provider gave this answer. False for a provider not known here."""
    provider = message.response_metadata.get("model_provider")
    if provider is None:
        # An answer of before langchain named the provider. Ollama's would be a text, not blocks.
        return reader == _OLLAMA
    is_known = provider in _PROVIDERS.values()
    return is_known and provider != reader


def _without_own_blocks(message: AIMessage) -> AIMessage:
    """An answer of text and media alone, without its provider's own blocks."""
    blocks = list[object]()
    texts = list[str]()
    for block in message.content:
        words = words_of(block)
        if words:
            texts.append(words)
            blocks.append({"type": "text", "text": words})
        elif isinstance(block, Mapping) and noun_of(block):
            blocks.append(block)
    content: object = blocks
    has_text_alone = len(texts) == len(blocks)
    if has_text_alone:
        content = "".join(texts)
    metadata = dict(message.response_metadata)
    # It names the form of the content, which is another now.
    metadata.pop("output_version", None)
    changes = {"content": content, "response_metadata": metadata}
    return message.model_copy(update=changes)


def _for_ollama(block: object) -> object:
    """A block as Ollama's client takes it: a picture with its bytes, and a text for all others."""
    if not isinstance(block, Mapping):
        return block
    if base64_of(block) is not None:
        return block
    text = words_of(block)
    noun = noun_of(block)
    if noun:
        text = f"[a {noun} that this model cannot look at]"
    return {"type": "text", "text": text}
