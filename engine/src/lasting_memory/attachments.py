"""What comes with a message beside its writer's own words: pictures, and texts of files.

A picture is a block of the message's content, as langchain spells it. A file's text is a block of text, which the message names
in `additional_kwargs`: `{"attachments": [{"name": "notes.txt", "block": 1}]}`. Neither is what the person said: recall does not
index it, and consolidation does not read it.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

# Media types of pictures, how many one request may have, and bytes of each.
PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")
MAX_PICTURES, MAX_PICTURE_BYTES = 4, 3_000_000
MAX_BASE64_CHARS = MAX_PICTURE_BYTES // 3 * 4
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_DATA = re.compile(rf"data:({'|'.join(PICTURES)});base64,")
# How the bytes of each media type begin. Bytes 4 to 7 of a WebP are its size.
_BEGINNINGS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "image/gif": re.compile(rb"GIF8[79]a"),
}
_BEGINNING_CHARS = 16  # of base64, which are 12 bytes
# Fields of a block of one's own words or of a picture, in langchain's form and in OpenAI's.
_PICTURE_FIELDS, _URL_FIELDS = {"type", "base64", "mime_type", "id"}, {"url", "detail"}
# What people's messages are made of.
_OF_PEOPLE = {"text", "image", "image_url"}
# What may name a file anywhere, which a provider's client or the provider would fetch.
_FILES = {
    "image", "image_url", "audio", "video", "file", "text-plain", "media", "document", "container_upload",
    "input_image", "input_audio", "input_file",
}  # fmt: skip
_EXAMPLE = '{"type": "image", "base64": "...", "mime_type": "image/png"}'


def base64_of(block: Mapping[str, Any]) -> str | None:
    """The bytes of a block's picture, as base64; None for a block that has none."""
    if block.get("type") == "image":
        data = block.get("base64")
        return data if isinstance(data, str) else None
    match = _data_address(block)
    return match.string[match.end() :] if match else None


def _data_address(block: Mapping[str, Any]) -> re.Match[str] | None:
    """The beginning of the address in a block of OpenAI's form that is a picture itself."""
    if block.get("type") != "image_url":
        return None
    given = block.get("image_url")
    url = given.get("url") if isinstance(given, Mapping) else given
    return _DATA.match(url) if isinstance(url, str) else None


def _media_type(block: Mapping[str, Any]) -> Any:
    """What a block with a picture says that it is."""
    match = _data_address(block)
    return match[1] if match else block.get("mime_type")


def refusal(block: Mapping[str, Any], *, of_person: bool) -> str:
    """Why a block of a message is not taken; "" if it is. `of_person`: it is no answer of a model or a tool."""
    kind = block.get("type")
    if kind not in _FILES:
        return "" if kind in _OF_PEOPLE or not of_person else f"is of the type {str(kind)[:40]!r}; send text, or {_EXAMPLE}"
    data = base64_of(block)
    if data is None or not _has_known_fields(block):
        return f"is no picture that is sent along; send {_EXAMPLE}"
    media_type = _media_type(block)
    if media_type not in PICTURES:
        return f"has a mime_type that is none of {', '.join(PICTURES)}"
    if len(data) > MAX_BASE64_CHARS:
        return f"has more than {MAX_PICTURE_BYTES:,} bytes; send a smaller picture"
    if len(data) % 4 or not _BASE64.fullmatch(data):
        return "has no base64"
    return _other_bytes(data, media_type)


def _other_bytes(data: str, media_type: str) -> str:
    """Why the bytes of a picture are not of its media type; "" if they are. Providers fail a run with others."""
    beginning = base64.b64decode(data[:_BEGINNING_CHARS])
    if _BEGINNINGS[media_type].match(beginning):
        return ""
    for other, shape in _BEGINNINGS.items():
        if shape.match(beginning):
            return f"says that it is {media_type}, and its bytes are {other}; send that as its media type"
    return f"says that it is {media_type}, and its bytes are no picture; send a file that is {', '.join(PICTURES)}"


def _has_known_fields(block: Mapping[str, Any]) -> bool:
    given = block.get("image_url")
    if block["type"] == "image":
        return block.keys() <= _PICTURE_FIELDS
    return block.keys() <= {"type", "image_url"} and (isinstance(given, str) or given.keys() <= _URL_FIELDS)  # type: ignore[union-attr]


def pictures_in(value: object) -> Iterator[str]:
    """The bytes of all pictures in a JSON value, as base64."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, list):
            left += item
        elif isinstance(item, Mapping):
            if (data := base64_of(item)) is not None:
                yield data
            else:
                left += item.values()


def has_attachments(message: Mapping[str, Any]) -> bool:
    """Whether something is attached to a message."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, Mapping) and base64_of(block) is not None for block in blocks) or bool(_attached(message))


def own_content(message: Mapping[str, Any]) -> object:
    """A message's content without the texts of files that are attached to it."""
    content = message.get("content")
    if not isinstance(content, list):
        return content
    attached = _attached(message)
    return [block for number, block in enumerate(content) if number not in attached]


def _attached(message: Mapping[str, Any]) -> set[int]:
    """Numbers of a message's blocks that are attached to it."""
    about = message.get("additional_kwargs")
    listed = about.get("attachments") if isinstance(about, Mapping) else None
    entries = listed if isinstance(listed, list) else []
    numbers = [entry.get("block") for entry in entries if isinstance(entry, Mapping)]
    return {number for number in numbers if isinstance(number, int)}
