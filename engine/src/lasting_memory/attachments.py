"""What comes with a message beside its writer's own words: pictures, texts of files, thoughts of
models, and clients' marks.

A picture is a block of the message's content, as langchain spells it. A file's text is a block of
text, which the message names in `additional_kwargs`: `{"attachments": [{"name": "notes.txt",
"block": 1}]}`. Neither is what the person said: recall does not index it, and consolidation does
not read it. Only text that its writer wrote is words (`words_of`).
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
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
# What text is called in the forms of langchain and the providers. A block without a type is a
# provider's own.
_WORDS = (None, "text", "input_text", "output_text", "refusal")
# What is called what in a sentence for people. Other files are files.
_NOUNS = {
    **dict.fromkeys(("image", "image_url", "input_image"), "picture"),
    **dict.fromkeys(("audio", "input_audio"), "sound"),
    "video": "video",
}
# Keys by which blocks without a type name a file: Google's and Bedrock's own forms.
_UNTYPED = (
    "inline_data",
    "inlineData",
    "file_data",
    "fileData",
    "image",
    "document",
    "video",
    "audio",
)
# Where a block names its file, and says of which media type it is.
_NAMES, _MEDIA_TYPES = (
    ("filename", "file_name", "name", "title"),
    ("mime_type", "mimeType", "media_type"),
)
_PLACES = ("metadata", "extras", "file", "source", "document", "image", *_UNTYPED[:4])
_NAME_CHARS = 200
# What a local model thinks, where its server leaves it in the text: closed, or not closed before
# the end. A name in a line of code is no thought.
_THOUGHTS = re.compile(
    r"(?<!`)<(think|thinking|thought|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE
)
# The end of a thought that the model's own template has begun.
_THOUGHT_END = re.compile(r"(?<!`)</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
# In the `response_metadata` of a note to the person: ids of the messages whose media the model's
# provider refused.
REFUSED_MEDIA = "refused_media"
# A client's marks of what its provider should cache, and how deep in a block they may be. A
# provider counts them, with ours.
CACHE_MARK, _CACHE_POINTS, _DEPTH = "cache_control", ("cache_point", "cachePoint"), 4
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
    """Why a block of a message is not taken; "" if it is. `of_person`: it is no answer of a model
    or a tool.
    """
    kind = block.get("type")
    if kind not in _FILES:
        return (
            ""
            if kind in _OF_PEOPLE or not of_person
            else f"is of the type {str(kind)[:40]!r}; send text, or {_EXAMPLE}"
        )
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
    """Why the bytes of a picture are not of its media type; "" if they are. Providers fail a run
    with others.
    """
    beginning = base64.b64decode(data[:_BEGINNING_CHARS])
    if _BEGINNINGS[media_type].match(beginning):
        return ""
    for other, shape in _BEGINNINGS.items():
        if shape.match(beginning):
            return f"says that it is {media_type}, and its bytes are {other}; send that as its media type"
    return f"says that it is {media_type}, and its bytes are no picture; send a file that is {', '.join(PICTURES)}"


def _has_known_fields(block: Mapping[str, Any]) -> bool:
    if block["type"] == "image":
        return block.keys() <= _PICTURE_FIELDS
    if not block.keys() <= {"type", "image_url"}:
        return False
    address = block["image_url"]
    return isinstance(address, str) or address.keys() <= _URL_FIELDS


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
    return any(
        isinstance(block, Mapping) and base64_of(block) is not None for block in blocks
    ) or bool(_attached(message))


def own_content(message: Mapping[str, Any]) -> object:
    """A message's content without the texts of files that are attached to it."""
    content = message.get("content")
    if not isinstance(content, list):
        return content
    attached = _attached(message)
    return [block for number, block in enumerate(content) if number not in attached]


def _attached(message: Mapping[str, Any]) -> set[int]:
    """Numbers of a message's blocks that are attached to it."""
    return set(_attached_names(message))


def words_of(block: object) -> str:
    """The text of a block of content that its writer wrote; "" for what is none: files, thoughts,
    calls and their results.
    """
    block = _unwrapped(block)
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping) or block.get("type") not in _WORDS or block.get("thought"):
        return ""
    text = block.get("text", block.get("refusal"))
    return text if isinstance(text, str) else ""


def own_text(message: Mapping[str, Any], *, files: bool = True) -> str:
    """What a message's author wrote, and, with `files`, in place of each file with a name
    "[attachment letter.txt]".
    """
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    names = _attached_names(message)
    parts = list[str]()
    for number, block in enumerate(blocks):
        name = names.get(number) or _file_name(block)
        is_words = number not in names and not name
        parts.append(
            words_of(block) if is_words else f"[attachment {name}]" if name and files else ""
        )
    text = "\n".join(filter(None, parts)).strip()
    return without_thoughts(text) if message.get("type") == "ai" else text


def file_names(message: Mapping[str, Any]) -> list[str]:
    """The names of the files that came with a message, in order; a file without a name has none."""
    content = message.get("content")
    names = _attached_names(message)
    blocks = content if isinstance(content, list) else [content]
    return [
        name
        for number, block in enumerate(blocks)
        if (name := names.get(number) or _file_name(block))
    ]


def without_thoughts(text: str) -> str:
    """A model's whole text without what it thought, where its server leaves that in the text."""
    return _THOUGHT_END.split(_THOUGHTS.sub("", text))[-1].strip()


def _unwrapped(block: object) -> object:
    """The provider's own block in langchain's `non_standard` one; others are as they are."""
    if isinstance(block, Mapping) and block.get("type") == "non_standard":
        return block.get("value")
    return block


def _attached_names(message: Mapping[str, Any]) -> dict[int, str]:
    """The names of a message's blocks that are attached to it, by number; "" for one without a
    name.
    """
    about = message.get("additional_kwargs")
    listed = about.get("attachments") if isinstance(about, Mapping) else None
    entries = (
        [entry for entry in listed if isinstance(entry, Mapping)]
        if isinstance(listed, list)
        else []
    )
    return {
        entry["block"]: _line(entry.get("name"))
        for entry in entries
        if isinstance(entry.get("block"), int)
    }


def _file_name(block: object) -> str:
    """The name of the file in a block; "" for a block without a file, or a file without a name."""
    block = _unwrapped(block)
    if not isinstance(block, Mapping) or not _noun_of(block):
        return ""
    places = [block, *(block.get(place) for place in _PLACES)]
    names = [
        _line(place.get(key)) for place in places if isinstance(place, Mapping) for key in _NAMES
    ]
    return next(filter(None, names), "")


def _line(name: object) -> str:
    """A name that cannot end its brackets or its line."""
    return (
        " ".join(re.sub(r"[\[\]]", " ", name).split())[:_NAME_CHARS]
        if isinstance(name, str)
        else ""
    )


def _noun_of(block: object) -> str:
    """What people call the file in a block, of langchain's form or a provider's; "" for a block
    without a file.
    """
    block = _unwrapped(block)
    if not isinstance(block, Mapping):
        return ""
    kind = block.get("type")
    if not isinstance(kind, str | None) or kind not in (None, *_FILES):
        return ""
    if kind is None and not any(isinstance(block.get(key), Mapping) for key in _UNTYPED):
        return ""
    if kind in _NOUNS:
        return _NOUNS[kind]
    places = [block, *(block.get(place) for place in _PLACES)]
    types = [
        place.get(key) for place in places if isinstance(place, Mapping) for key in _MEDIA_TYPES
    ]
    kinds = [str(given).partition("/")[0] for given in types if given]
    return _NOUNS.get(kinds[0], "file") if kinds else "picture" if "image" in block else "file"


def media_nouns(content: object) -> list[str]:
    """What is in a message's content beside text, also in a tool's result: "picture", "sound",
    "video", "file".
    """
    nouns = list[str]()

    def note(block: Mapping[str, Any]) -> object:
        nouns.extend(filter(None, [_noun_of(block)]))
        return block

    _changed_blocks(content, note)
    return nouns


def without_media(content: Any) -> Any:
    """A message's content with a line of text in place of its media; the same object if it has
    none.
    """
    return _changed_blocks(content, _refused_line)


def _refused_line(block: Mapping[str, Any]) -> object:
    noun = _noun_of(block)
    return (
        {"type": "text", "text": f"[a {noun} that the model's provider refused]"} if noun else block
    )


def without_cache_marks(content: Any) -> Any:
    """A message's content without a client's marks of what its provider should cache; the same
    object if it has none.
    """
    return _changed_blocks(content, _unmarked)


def _unmarked(block: Mapping[str, Any]) -> object:
    """A block without its mark; None for one that is a mark."""
    if block.get("type") in _CACHE_POINTS or any(key in block for key in _CACHE_POINTS):
        return None
    kept = {key: of for key, of in block.items() if key != CACHE_MARK}
    extras = kept.get("extras")
    if isinstance(extras, Mapping) and CACHE_MARK in extras:
        kept["extras"] = {key: of for key, of in extras.items() if key != CACHE_MARK}
        if not kept["extras"]:
            del kept["extras"]
    return block if kept.keys() == block.keys() and kept.get("extras") is extras else kept


def _changed_blocks(
    content: Any, change: Callable[[Mapping[str, Any]], object], depth: int = _DEPTH
) -> Any:
    """Content with its blocks changed, and those in tools' results and documents; None takes a
    block out.
    """
    if not isinstance(content, list) or not depth:
        return content
    blocks = [
        _changed_block(block, change, depth) if isinstance(block, Mapping) else block
        for block in content
    ]
    is_same = all(after is before for after, before in zip(blocks, content, strict=True))
    return content if is_same else [block for block in blocks if block is not None]


def _changed_block(
    block: Mapping[str, Any], change: Callable[[Mapping[str, Any]], object], depth: int
) -> object:
    after = change(block)
    if not isinstance(after, Mapping):
        return after
    for key in (
        "content",
        "source",
        "value",
    ):  # of a tool's result, a document, and langchain's `non_standard`
        inner = after.get(key)
        if isinstance(inner, Mapping):
            (changed,) = _changed_blocks([inner], change, depth - 1) or [{}]
        else:
            changed = _changed_blocks(inner, change, depth - 1)
        if changed is not inner:
            after = {**after, key: changed}
    return after


def refused_media_of(metadata: object) -> list[str]:
    """Of a note to the person, by its `response_metadata`: ids of the messages whose media a
    provider refused. Else none.
    """
    ids = metadata.get(REFUSED_MEDIA) if isinstance(metadata, Mapping) else None
    return [each for each in ids if isinstance(each, str)] if isinstance(ids, list) else []
