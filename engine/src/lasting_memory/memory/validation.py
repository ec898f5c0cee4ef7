"""Checks of writes.

Every write of a memory file or a skill, by any author, calls `before_write`. A fork adds its own
checks in `Deployment.checks`, and schemas of JSON files in `Deployment.schemas`.
"""

import base64
import logging
import posixpath
import re
from collections.abc import Mapping

from deepagents.middleware.skills import SkillMetadata
from pydantic import BaseModel, ValidationError

from lasting_memory.credentials import CREDENTIALS as CREDENTIALS  # noqa: PLC0414  # their kinds, for who tests a fork
from lasting_memory.credentials import find_credential, find_credential_in_json
from lasting_memory.days import is_zone, timezone_in
from lasting_memory.deployment import Change, Deployment, Profile, Source
from lasting_memory.people.identity import Author
from lasting_memory.skill_file import SkillError, parse_skill

# Bytes of one file, and of its path within a route.
MAX_FILE_BYTES = 262_144
MAX_PATH_BYTES = 512
# Bytes of a request, to any route but those that take a person's memory along.
MAX_INPUT_BYTES = 1_048_576
SKILL_PATH = re.compile(r"(?:/memories)?/skills/[^/]+/SKILL\.md")
# NUL and halves of characters: Postgres cannot keep them, no file could hold them, and no model
# could be sent them.
UNKEPT = re.compile("[\x00\ud800-\udfff]")
# Errors that a refusal names, and characters of a field's name in it.
_ERRORS_NAMED = 5
_FIELD_CHARS = 40
logger = logging.getLogger(__name__)


class RefusedWrite(ValueError):  # noqa: N818  # the name that forks use
    """A write that is not allowed or not valid.

    The message goes to the model and says what to do instead. `kind` is the reason in one word, by
    which the page finds a sentence for people; with "" it shows the message.
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
    source: Source | None = None,
) -> None:
    """Raises `RefusedWrite` for content that must not be written at a path, as the agent sees it.

    `content` is text, or base64 if `encoding` says so; None is a deletion. `before` is what is
    there now; None for no file. `source` is who vouches for what is new; None where nothing is, or
    nobody knows.
    """
    check_file(deployment, path, content, author, encoding)
    schema = deployment.schemas.get(path, BaseModel)
    if content is not None and issubclass(schema, Profile):
        check_zone(path, before, content)
    change = Change(path, before, content, author, source)
    check_change(deployment, change)


def check_file(
    deployment: Deployment,
    path: str,
    content: str | None,
    author: Author,
    encoding: str | None = "utf-8",
) -> None:
    """The part of `before_write` that no fork decides, but for its schemas."""
    if content is None:
        return
    check_content(path, content)
    text = _decoded(content) if encoding == "base64" else content
    check_credentials(path, text)
    # Every prompt shows skills.
    if author.kind == "consolidation" and path.startswith("/memories/skills/"):
        raise RefusedWrite(
            f"{path} was not written: skills are made with the person; leave it out."
        )
    if SKILL_PATH.fullmatch(path):
        read_skill(path, content)
    schema = deployment.schemas.get(path)
    if schema:
        check_schema(path, content, schema)


def check_change(deployment: Deployment, change: Change) -> None:
    """Raises `RefusedWrite` for a change that a check of the deployment refuses, or fails at."""
    for judge in deployment.judges:
        try:
            judge(change)
        except RefusedWrite:
            raise
        except Exception as error:
            logger.exception(
                "A check of this deployment failed at a write of %r, which is refused.",
                change.path,
            )
            raise RefusedWrite(
                f"{change.path} was not written: a check of this deployment failed; tell who runs it."
            ) from error


def check_text(value: object) -> None:
    """Raises `RefusedWrite` for text, at any depth of a value, that no store can keep."""
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            parts.extend(part.keys())
            parts.extend(part.values())
        elif isinstance(part, list | tuple):
            parts.extend(part)
        elif isinstance(part, str) and UNKEPT.search(part):
            raise RefusedWrite(
                f"{part[:40]!r} holds a character that no store can keep; leave it out.",
                kind="bad_text",
            )


def is_plain(path: str) -> bool:
    """Whether this is the normal, printable spelling of a file's path, and not too long."""
    if path == "/" or not path.startswith("/") or path.startswith("//"):
        return False
    if posixpath.normpath(path) != path or not path.isprintable():
        return False
    # deepagents' file tools read a backslash as a slash. A decoder puts U+FFFD for bytes that are no
    # text, so that two paths would be one.
    if "\\" in path or "\ufffd" in path:
        return False
    return len(path.encode()) <= MAX_PATH_BYTES


def check_path(path: str, shown_path: str = "") -> str:
    """The path itself. Raises `RefusedWrite` for one that is not plain.

    `shown_path` is the path as the caller wrote it.
    """
    if not is_plain(path):
        requirement = (
            f"one plain path of at most {MAX_PATH_BYTES} bytes, such as /memories/preferences.md"
        )
        raise RefusedWrite(
            f"{(shown_path or path)[:80]!r} does not name a file; use {requirement}."
        )
    return path


def check_content(path: str, content: str) -> None:
    """Raises `RefusedWrite` for content that no store can keep, or above `MAX_FILE_BYTES`."""
    if UNKEPT.search(content):
        raise RefusedWrite(
            f"{path} was not written: its text holds a NUL character, or is not valid Unicode.",
            kind="bad_text",
        )
    size = len(content.encode())
    if size > MAX_FILE_BYTES:
        raise RefusedWrite(
            f"{path} was not written: {size:,} bytes, and a file may have {MAX_FILE_BYTES:,}; "
            "split it.",
            kind="too_large",
        )


def check_credentials(path: str, content: str) -> None:
    """Raises `RefusedWrite` for a path or a text that holds a credential.

    The error names its kind, never its value.
    """
    in_path = find_credential(path)
    if in_path:
        raise RefusedWrite(
            f"The file was not written: its path would hold {in_path}; use another name.",
            kind="credential",
        )
    in_text = find_credential_in_json(content)
    if in_text:
        raise RefusedWrite(
            f"{path} was not written: it would hold {in_text}; leave it out, "
            "memory is no place for it.",
            kind="credential",
        )


def _decoded(content: str) -> str:
    """The text in base64, as far as it is text; "" for what is no base64.

    Bytes with NUL among them are read as UTF-16, too.
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
    """A SKILL.md as deepagents' own loader reads it. Blocks for milliseconds.

    Raises `RefusedWrite` if it is not valid.
    """
    try:
        skill = parse_skill(path, content)
        check_text(skill)
    except (SkillError, RefusedWrite) as error:
        raise RefusedWrite(f"{path} is no valid skill: {error}") from None
    return skill


def check_schema(path: str, content: str, schema: type[BaseModel]) -> None:
    """Raises `RefusedWrite` for text that is not JSON of this schema.

    The error names each invalid field.
    """
    try:
        schema.model_validate_json(content)
    except ValidationError as error:
        faults = list[str]()
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        for detail in errors[:_ERRORS_NAMED]:
            place = ".".join(map(str, detail["loc"]))
            field = place[:_FIELD_CHARS] or "it"
            faults.append(f"{field}: {detail['msg']}")
        fault_text = "; ".join(faults)
        fields = ", ".join(schema.model_fields)
        raise RefusedWrite(
            f"{path} was not written: {fault_text}. It is JSON with these fields: {fields}."
        ) from None


def check_zone(path: str, before: str | None, content: str) -> None:
    """Raises `RefusedWrite` for a profile whose time zone is none.

    One that was so before passes, so that another field may change.
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


def check_policy(key: str, value: Mapping[str, object] | None) -> None:
    """Raises `RefusedWrite` for a policy that prompts could not show, or should not.

    A value of None deletes the file.
    """
    check_path(key)
    if not key.endswith(".md"):
        raise RefusedWrite(f"'{key}' does not end in .md; policies are Markdown.")
    if value is None:
        return
    content = value.get("content")
    if not isinstance(content, str) or value.get("encoding", "utf-8") != "utf-8":
        raise RefusedWrite(
            f'\'{key}\' needs a value such as {{"content": "...", "encoding": "utf-8"}}.'
        )
    check_content(key, content)
    check_credentials(f"/policies{key}", content)
