"""What comes with a message beside its writer's own words: pictures, files, thoughts of models.

A picture is a block of the message's content, as langchain spells it. A file's text is a block of
text, which the message names in `additional_kwargs`: `{"attachments": [{"name": "notes.txt",
"block": 1}]}`. Neither is what the person said: recall does not index it, and consolidation does
not read it. Only text that its writer wrote is words (`words_of`).
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence

# Media types of pictures, how many one request may have, and bytes of each.
PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")
MAX_PICTURES = 4
MAX_PICTURE_BYTES = 3_000_000
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
# Fields of a picture's block in langchain's form, and of an address in OpenAI's.
_PICTURE_FIELDS = {"type", "base64", "mime_type", "id"}
_URL_FIELDS = {"url", "detail"}
# What people's messages are made of.
_OF_PEOPLE = {"text", "image", "image_url"}
# What may name a file anywhere, which a provider's client or the provider would fetch.
_FILES = {
    "image", "image_url", "audio", "video", "file", "text-plain", "media", "document", "container_upload",
    "input_image", "input_audio", "input_video", "input_file", "output_image", "output_audio",
    "audio_url", "video_url", "file_url", "document_url", "image_file", "binary",
}  # fmt: skip
# What text is called in the forms of langchain and the providers. A block without a type is a
# provider's own.
_WORDS = (None, "text", "input_text", "output_text", "refusal")
# What is called what in a sentence for people. Other files are files.
_NOUNS = {
    **dict.fromkeys(("image", "image_url", "input_image", "output_image", "image_file"), "picture"),
    **dict.fromkeys(("audio", "input_audio", "output_audio", "audio_url"), "sound"),
    **dict.fromkeys(("video", "input_video", "video_url"), "video"),
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
_NAMES = ("filename", "file_name", "fileName", "name", "title")
_MEDIA_TYPES = ("mime_type", "mimeType", "media_type", "mediaType", "content_type", "contentType")
_PLACES = ("metadata", "extras", "file", "source", "document", "image", *_UNTYPED[:4])
_NAME_CHARS = 200
# What a local model thinks, where its server leaves it in the text: how models begin it, and end it.
_THOUGHT_MARKS = (
    (r"(?i:<(?:think|thinking|thoughts?|reasoning|seed:think)(?:\s[^<>]{0,100})?>)",
     r"(?i:</(?:think|thinking|thoughts?|reasoning|seed:think)\s*>)"),
    (r"\[THINK\]", r"\[/THINK\]"),
    (r"◁think▷", r"◁/think▷"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
)  # fmt: skip
# A message of gpt-oss to itself, and the marks around its answer and others'.
_INNER_CHANNEL = re.compile(
    r"<\|channel\|>(?:analysis|commentary)\b[^<>]{0,100}<\|message\|>.*?(?:<\|end\|>|\Z)", re.DOTALL
)
_ANSWER_MARKS = re.compile(
    r"<\|(?:begin|end)_of_solution\|>|<\|start\|>assistant|<\|channel\|>final<\|message\|>"
    r"|<\|return\|>"
)
# A name in a line of code is no thought.
_THOUGHTS = tuple(
    (re.compile(rf"(?<!`){begins}"), re.compile(rf"(?<!`){ends}"))
    for begins, ends in _THOUGHT_MARKS
)
_EXAMPLE = '{"type": "image", "base64": "...", "mime_type": "image/png"}'


def base64_of(block: Mapping[str, object]) -> str | None:
    """The bytes of a block's picture, as base64; None for a block that has none."""
    if block.get("type") == "image":
        data = block.get("base64")
        return data if isinstance(data, str) else None
    match = _data_address(block)
    if match is None:
        return None
    address = match.string
    return address[match.end() :]


def _data_address(block: Mapping[str, object]) -> re.Match[str] | None:
    """The beginning of the address in a block of OpenAI's form that is a picture itself."""
    if block.get("type") != "image_url":
        return None
    url = block.get("image_url")
    if isinstance(url, Mapping):
        url = url.get("url")
    if not isinstance(url, str):
        return None
    return _DATA.match(url)


def _media_type(block: Mapping[str, object]) -> object:
    """What a block with a picture says that it is."""
    match = _data_address(block)
    if match is None:
        return block.get("mime_type")
    return match[1]


def refusal(block: Mapping[str, object], *, of_person: bool) -> str:
    """Why a block of a message is not taken; "" if it is.

    `of_person` says that the message is no answer of a model or a tool.
    """
    kind = block.get("type")
    if kind not in _FILES:
        if kind in _OF_PEOPLE or not of_person:
            return ""
        return f"is of the type {str(kind)[:40]!r}; send text, or {_EXAMPLE}"
    return _picture_refusal(block)


def _picture_refusal(block: Mapping[str, object]) -> str:
    """Why a block with a file is no picture that is taken; "" if it is."""
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
    """Why the bytes of a picture are not of its media type; "" if they are.

    Providers fail a run with others.
    """
    beginning = base64.b64decode(data[:_BEGINNING_CHARS])
    if _BEGINNINGS[media_type].match(beginning):
        return ""
    for other_type, shape in _BEGINNINGS.items():
        if shape.match(beginning):
            return f"says that it is {media_type}, and its bytes are {other_type}; send that as its media type"
    return f"says that it is {media_type}, and its bytes are no picture; send a file that is {', '.join(PICTURES)}"


def _has_known_fields(block: Mapping[str, object]) -> bool:
    """Whether a block with a picture has only the fields of its form."""
    if block["type"] == "image":
        return block.keys() <= _PICTURE_FIELDS
    if not block.keys() <= {"type", "image_url"}:
        return False
    address = block["image_url"]
    if isinstance(address, Mapping):
        return address.keys() <= _URL_FIELDS
    return isinstance(address, str)


def pictures_in(value: object) -> Iterator[str]:
    """The bytes of all pictures in a JSON value, as base64."""
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, Mapping):
            data = base64_of(part)
            if data is None:
                parts += part.values()
            else:
                yield data


def has_attachments(message: Mapping[str, object]) -> bool:
    """Whether something is attached to a message."""
    if _attached_names(message):
        return True
    content = message.get("content")
    if not isinstance(content, list):
        return False
    return any(map(_has_picture, content))


def _has_picture(block: object) -> bool:
    """Whether a block of content is a picture in a form that is taken."""
    if not isinstance(block, Mapping):
        return False
    return base64_of(block) is not None


def own_content(message: Mapping[str, object]) -> object:
    """A message's content without the texts of files that are attached to it."""
    content = message.get("content")
    if not isinstance(content, list):
        return content
    attached_names = _attached_names(message)
    own_blocks = list[object]()
    for number, block in enumerate(content):
        if number not in attached_names:
            own_blocks.append(block)
    return own_blocks


def words_of(block: object) -> str:
    """The text of a block that its writer wrote.

    "" for other blocks: files, thoughts, calls and their results.
    """
    block = unwrapped(block)
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return ""
    is_of_writer = block.get("type") in _WORDS and not block.get("thought")
    if not is_of_writer:
        return ""
    text = block.get("text", block.get("refusal"))
    return text if isinstance(text, str) else ""


def own_text(message: Mapping[str, object], *, files: bool = True) -> str:
    """What a message's author wrote.

    With `files`, "[attachment letter.txt]" stands in place of each file with a name.
    """
    names = _attached_names(message)
    parts = list[str]()
    for number, block in enumerate(_blocks_of(message)):
        name = names.get(number) or _file_name(block)
        part = ""
        if name and files:
            part = f"[attachment {name}]"
        elif not name and number not in names:
            part = words_of(block)
        if part:
            parts.append(part)
    text = "\n".join(parts).strip()
    if message.get("type") == "ai":
        return without_thoughts(text)
    return text


def file_names(message: Mapping[str, object]) -> list[str]:
    """The names of the files that came with a message, in order; a file without a name has none."""
    attached = _attached_names(message)
    names = list[str]()
    for number, block in enumerate(_blocks_of(message)):
        name = attached.get(number) or _file_name(block)
        if name:
            names.append(name)
    return names


def _blocks_of(message: Mapping[str, object]) -> list[object]:
    """The blocks of a message's content; a text is one."""
    content = message.get("content")
    if isinstance(content, list):
        return content
    return [content]


def without_thoughts(text: str) -> str:
    """A model's whole text without what it thought, where its server leaves that in the text."""
    text = _INNER_CHANNEL.sub("", text)
    for begins, ends in _THOUGHTS:
        text = _without_thoughts_between(text, begins, ends)
    answer = _ANSWER_MARKS.sub("", text)
    return answer.strip()


def _without_thoughts_between(text: str, begins: re.Pattern[str], ends: re.Pattern[str]) -> str:
    """A text without what stands between these marks.

    A thought that is not closed goes on to the end. One that the model's own template has begun
    ends at a mark that closes none. In linear time.
    """
    parts = list[str]()
    position = 0
    while end := ends.search(text, position):
        start = begins.search(text, position, end.start())
        if start is None:  # all so far was a thought
            parts.clear()
        else:
            part = text[position : start.start()]
            parts.append(part)
        position = end.end()
    last_part = text[position:]
    start = begins.search(text, position)
    if start:
        last_part = text[position : start.start()]
    parts.append(last_part)
    return "".join(parts)


def unwrapped(block: object) -> object:
    """The provider's own block in langchain's `non_standard` one; others are as they are."""
    if isinstance(block, Mapping) and block.get("type") == "non_standard":
        return block.get("value")
    return block


def _attached_names(message: Mapping[str, object]) -> dict[int, str]:
    """The names of a message's blocks that are attached to it, by number.

    "" for one without a name.
    """
    metadata = message.get("additional_kwargs")
    if not isinstance(metadata, Mapping):
        return {}
    attachments = metadata.get("attachments")
    if not isinstance(attachments, list):
        return {}
    names = dict[int, str]()
    for entry in attachments:
        if not isinstance(entry, Mapping):
            continue
        number = entry.get("block")
        if isinstance(number, int):
            names[number] = _line(entry.get("name"))
    return names


def _file_name(block: object) -> str:
    """The name of the file in a block; "" for a block without a file, or a file without a name."""
    block = unwrapped(block)
    if not isinstance(block, Mapping) or not noun_of(block):
        return ""
    for value in _values_in(block, _NAMES):
        name = _line(value)
        if name:
            return name
    return ""


def _values_in(block: Mapping[str, object], keys: Sequence[str]) -> Iterator[object]:
    """What a block has under these keys, in itself and in the places where providers put them."""
    places = [block, *map(block.get, _PLACES)]
    for place in places:
        if isinstance(place, Mapping):
            yield from map(place.get, keys)


def _line(name: object) -> str:
    """A name that cannot end its brackets or its line."""
    if not isinstance(name, str):
        return ""
    without_brackets = re.sub(r"[\[\]]", " ", name)
    words = without_brackets.split()
    line = " ".join(words)
    return line[:_NAME_CHARS]


def noun_of(block: object) -> str:
    """What people call the file in a block, such as "picture"; "" for a block without a file.

    The block has langchain's form, or a provider's.
    """
    block = unwrapped(block)
    if not isinstance(block, Mapping) or not _has_file(block):
        return ""
    kind = block.get("type")
    if kind in _NOUNS:
        return _NOUNS[kind]
    for media_type in _values_in(block, _MEDIA_TYPES):
        if media_type:
            return _NOUNS.get(str(media_type).partition("/")[0], "file")
    for key in ("image", "audio", "video"):  # Bedrock's own form
        if key in block:
            return _NOUNS[key]
    return "file"


def _has_file(block: Mapping[str, object]) -> bool:
    """Whether a block may name or hold a file, in any provider's form."""
    kind = block.get("type")
    if kind is None:
        values = map(block.get, _UNTYPED)
        return any(isinstance(value, Mapping) for value in values)
    return isinstance(kind, str) and kind in _FILES
