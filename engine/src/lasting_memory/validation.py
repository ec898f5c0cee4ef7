"""Checks of writes. Every write of a memory file or a skill, by any author, calls one hook:
`before_write`.

A fork adds its own in `Deployment.checks`, and schemas of JSON files in `Deployment.schemas`.
"""

import base64
import logging
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from deepagents.backends.protocol import FileData
from deepagents.middleware.skills import SkillMetadata
from langgraph.store.base import Item
from pydantic import BaseModel, ValidationError

from lasting_memory.credentials import CREDENTIALS as CREDENTIALS  # noqa: PLC0414  # their kinds, for who tests a fork
from lasting_memory.credentials import find_credential, find_credential_in_json
from lasting_memory.days import is_zone, timezone_in
from lasting_memory.deployment import Change, Deployment, Limits, Profile
from lasting_memory.people.identity import Author
from lasting_memory.plain_text import plain
from lasting_memory.skill_file import SkillError, parse_skill

# Bytes of one file, and of its path within a route.
MAX_FILE_BYTES = 262_144
MAX_PATH_BYTES = 512
# Bytes of a request, to any route but those that take a person's memory along.
MAX_INPUT_BYTES = 1_048_576
SKILL_PATH = re.compile(r"(?:/memories)?/skills/[^/]+/SKILL\.md")
_UNKEPT = re.compile(
    "[\x00\ud800-\udfff]"
)  # what Postgres cannot keep, no file could hold and no model could be sent
# Bounds of the errors and field names in a refusal.
_ERRORS_TOLD, _FIELD_CHARS = 5, 40
logger = logging.getLogger(__name__)


class RefusedWrite(ValueError):  # noqa: N818  # the name that forks use
    """A write that is not allowed or not valid. The message goes to the model and says what to do
    instead.

    `kind` says the reason in one word, by which the page finds a sentence for people; "" where it
    shows the message.
    """

    def __init__(self, message: str = "", *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


def before_write(
    deployment: Deployment,
    path: str,
    content: str | None,
    author: Author,
    encoding: str | None = "utf-8",
    *,
    before: str | None = None,
) -> None:
    """Raise `RefusedWrite` for content that must not be written at a path (as the agent sees it);
    None is a deletion.

    `content` is text, or base64 where `encoding` says so; `before` is what is there, None for no
    file.
    """
    check_file(deployment, path, content, author, encoding)
    if content is not None and issubclass(deployment.schemas.get(path, BaseModel), Profile):
        check_zone(path, before, content)
    check_change(deployment, Change(path, before, content, author))


def check_file(
    deployment: Deployment,
    path: str,
    content: str | None,
    author: Author,
    encoding: str | None = "utf-8",
) -> None:
    """The part of `before_write` that no fork decides, but for its schemas."""
    if content is not None:
        check_content(path, content)
        check_credentials(path, _decoded(content) if encoding == "base64" else content)
        if author.kind == "consolidation" and path.startswith(
            "/memories/skills/"
        ):  # every prompt shows them
            raise RefusedWrite(
                f"{path} was not written: skills are made with the person; leave it out."
            )
        if SKILL_PATH.fullmatch(path):
            read_skill(path, content)
        if schema := deployment.schemas.get(path):
            check_schema(path, content, schema)


def check_change(deployment: Deployment, change: Change) -> None:
    """Raise `RefusedWrite` for a change that one of the deployment's own checks refuses, or fails
    at.
    """
    for judge in deployment.judges:
        try:
            judge(change)
        except RefusedWrite:
            raise
        except Exception as error:
            path = change.path
            logger.exception(
                "A check of this deployment failed at a write of %r, which is refused.", path
            )
            raise RefusedWrite(
                f"{path} was not written: a check of this deployment failed; tell who runs it."
            ) from error


def check_text(value: object) -> None:
    """Raise `RefusedWrite` for text, at any depth, with a NUL character or half of one, which
    Postgres cannot look up.
    """
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            parts += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            parts += part
        elif isinstance(part, str) and _UNKEPT.search(part):
            raise RefusedWrite(
                f"{part[:40]!r} holds a character that no store can keep; leave it out.",
                kind="bad_text",
            )


def is_plain(path: str) -> bool:
    """Whether this is the normal, printable spelling of a file's path, and not too long."""
    absolute = path.startswith("/") and not path.startswith("//") and path != "/"
    # deepagents' file tools read a backslash as a slash.
    # A decoder puts U+FFFD for bytes that are no text, so two paths would be one.
    normal = (
        posixpath.normpath(path) == path and path.isprintable() and not {"\\", "\ufffd"} & {*path}
    )
    return absolute and normal and len(path.encode()) <= MAX_PATH_BYTES


def check_path(path: str, shown: str = "") -> str:
    """The path. Raises `RefusedWrite` for one that is not plain. `shown` is the path as the caller
    wrote it.
    """
    if not is_plain(path):
        wanted = (
            f"one plain path of at most {MAX_PATH_BYTES} bytes, such as /memories/preferences.md"
        )
        raise RefusedWrite(f"{(shown or path)[:80]!r} does not name a file; use {wanted}.")
    return path


def check_content(path: str, content: str) -> None:
    """Raise `RefusedWrite` for content that no store can keep, or with more than `MAX_FILE_BYTES`."""
    if _UNKEPT.search(content):
        raise RefusedWrite(
            f"{path} was not written: its text holds a NUL character, or is not valid Unicode.",
            kind="bad_text",
        )
    if (size := len(content.encode())) > MAX_FILE_BYTES:
        told = f"{path} was not written: {size:,} bytes, and a file may have {MAX_FILE_BYTES:,}; split it."
        raise RefusedWrite(told, kind="too_large")


def check_credentials(path: str, content: str) -> None:
    """Raise `RefusedWrite` for a path or a text that holds a credential. The error names its kind,
    never its value.
    """
    if kind := find_credential(path):
        raise RefusedWrite(
            f"The file was not written: its path would hold {kind}; use another name.",
            kind="credential",
        )
    if kind := find_credential_in_json(content):
        told = f"{path} was not written: it would hold {kind}; leave it out, memory is no place for it."
        raise RefusedWrite(told, kind="credential")


def _decoded(content: str) -> str:
    """The text in base64, as far as it is text; "" for what is no base64. What holds NUL bytes is
    read as UTF-16, too.
    """
    try:
        data = base64.b64decode(content)
    except ValueError:
        return ""
    encodings = ["utf-8"]
    if b"\x00" in data:
        encodings += ["utf-16-le", "utf-16-be"]
    return "\n".join(data.decode(encoding, errors="replace") for encoding in encodings)


def read_skill(path: str, content: str) -> SkillMetadata:
    """A SKILL.md as deepagents' own loader reads it. Blocks for milliseconds. Raises `RefusedWrite`
    if it is not valid.
    """
    try:
        skill = parse_skill(path, content)
        check_text(skill)
    except (SkillError, RefusedWrite) as error:
        raise RefusedWrite(f"{path} is no valid skill: {error}") from None
    return skill


def check_schema(path: str, content: str, schema: type[BaseModel]) -> None:
    """Raise `RefusedWrite` for text that is not JSON of this schema. The error names each invalid
    field.
    """
    try:
        schema.model_validate_json(content)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)[
            :_ERRORS_TOLD
        ]
        wrong = "; ".join(
            f"{'.'.join(map(str, part['loc']))[:_FIELD_CHARS] or 'it'}: {part['msg']}"
            for part in errors
        )
        known = ", ".join(schema.model_fields)
        raise RefusedWrite(
            f"{path} was not written: {wrong}. It is JSON with these fields: {known}."
        ) from None


def check_zone(path: str, before: str | None, content: str) -> None:
    """Raise `RefusedWrite` for a profile whose time zone is none, unless it was so before: another
    field may change.
    """
    zone = timezone_in(content)
    if not zone or is_zone(zone) or zone == timezone_in(before):
        return
    raise RefusedWrite(
        f"{path} was not written: timezone: {zone!r} is no time zone; use an IANA name such as 'Europe/Berlin'."
    )


def is_policy(key: str) -> bool:
    """Whether every prompt shows this file of an organization."""
    return key.endswith(".md") and key.count("/") == 1


def check_policy(key: str, value: Mapping[str, Any] | None) -> None:
    """Raise `RefusedWrite` for a policy that prompts could not show, or should not. A value of None
    deletes the file.
    """
    check_path(key)
    if not key.endswith(".md"):
        raise RefusedWrite(f"'{key}' does not end in .md; policies are Markdown.")
    if value is not None:
        if not isinstance(value.get("content"), str) or value.get("encoding", "utf-8") != "utf-8":
            raise RefusedWrite(
                f'\'{key}\' needs a value such as {{"content": "...", "encoding": "utf-8"}}.'
            )
        check_content(key, value["content"])
        check_credentials(f"/policies{key}", value["content"])


def check_room(files: Sequence[Item], key: str, size: int, limits: Limits) -> None:
    """Raise `RefusedWrite` for a file of this size beyond `max_files` or `max_bytes`, unless it
    shrinks.

    `files` are all present ones.
    """
    sizes = {item.key: content_size(item) for item in files}
    before = sizes.pop(key, None)
    if before is None and len(sizes) >= limits.max_files:
        told = f"There are {len(sizes)} files, and {limits.max_files} is the limit; merge or delete some."
        raise RefusedWrite(told, kind="memory_full")
    if size > (before or 0) and (total := sum(sizes.values()) + size) > limits.max_bytes:
        told = (
            f"All files would have {total:,} bytes of {limits.max_bytes:,}; shorten or delete some."
        )
        raise RefusedWrite(told, kind="memory_full")


def content_size(item: Item) -> int:
    """UTF-8 bytes of a file's content."""
    return len(str(item.value.get("content", "")).encode(errors="replace"))


class NoFileError(RefusedWrite):
    """A path of the store holds a value that is no file."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"'{path}' holds a value that is not a file; delete it or write another path."
        )


def stored_file(item: Item) -> FileData:
    """A store item as a file, with plain text. Raises `NoFileError` for another value: anybody's
    code may put one there.
    """
    content, encoding = item.value.get("content"), item.value.get("encoding", "utf-8")
    if (
        not isinstance(content, str)
        or encoding not in ("utf-8", "base64")
        or _UNKEPT.search(content)
    ):
        raise NoFileError(item.key)
    file = FileData(content=plain(content) if encoding == "utf-8" else content, encoding=encoding)
    for stamp in ("created_at", "modified_at"):
        if isinstance(item.value.get(stamp), str):
            file[stamp] = item.value[stamp]
    return file


def text_of(item: Item) -> str | None:
    """The text of a stored file; None for one that is not text, and for a value that is no file."""
    try:
        file = stored_file(item)
    except RefusedWrite:
        return None
    return file["content"] if file["encoding"] == "utf-8" else None


def file_bytes(file: FileData) -> bytes:
    """The content of a file as bytes. Raises `ValueError` for invalid base64."""
    return (
        base64.b64decode(file["content"], validate=True)
        if file["encoding"] == "base64"
        else file["content"].encode()
    )
