"""What may be written: one hook, `before_write`, that every write of a memory file or a skill goes through, whoever writes it.

To add a check, write a function that raises `RefusedWriteError`, and call it in `before_write`.
"""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item
from pydantic import ValidationError

from memory.front_matter import SKILL_FILE, SkillError, front_matter, read_skill
from memory.profile import PROFILE_PATH, Profile
from memory.scopes import Author
from settings import MAX_FILE_BYTES, MAX_MEMORY_BYTES, MAX_MEMORY_FILES, MAX_PATH_BYTES

OWN_SKILLS = "/memories/skills/"
_SKILL = re.compile(rf"(?:/memories)?/skills/[^/]+/{re.escape(SKILL_FILE)}")
_SURROGATE = re.compile("[\ud800-\udfff]")  # what no file could hold, and no model could be sent
# Shapes that are a secret whoever wrote them: a prefix the issuer chose to be recognized by, and as many characters after it
# as it issues, so that talk about keys and placeholders for them pass. As their issuers document them, or show them where
# they do not; each is tested with made-up ones. A prefix counts only at the beginning of a word, hyphens included, whose end
# decides: so no text takes longer than its length.
_SHAPES = {
    "an AWS access key": r"(?:AKIA|ASIA)[A-Z2-7]{16}(?!\w)",
    "an AWS secret key": r"(?i:aws_?secret_?access_?key)\W{1,6}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
    "an Azure storage key": r"AccountKey=[A-Za-z0-9/+]{86}==",
    "a Google API key": r"AIza[\w-]{35}(?![\w-])",
    "an Anthropic API key": r"sk-ant-[a-z]+\d\d-[\w-]{80,}",
    "an OpenAI API key": r"sk-(?:[\w-]{16,}T3BlbkFJ[\w-]{16,}|(?=[a-zA-Z]*\d)[A-Za-z0-9]{32,64}(?![\w-]))",
    "a LangSmith API key": r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}(?!\w)",
    "a GitHub token": r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{60,})",
    "a GitLab token": r"glpat-[\w-]{20,}",
    "a Slack token": r"(?:xox[abeoprs]|xapp)-\d[\w-]{20,}",
    "a Stripe key": r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "a Hugging Face token": r"hf_[A-Za-z0-9]{34}(?!\w)",
    "a JSON web token": r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}",
    "a private key": r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----",
}
CREDENTIALS = {
    kind: re.compile(shape if shape.startswith("-") else rf"(?<![\w-]){shape}", re.ASCII) for kind, shape in _SHAPES.items()
}
# All of them at once: most texts hold none, and are looked through only this one time.
_ANY_CREDENTIAL = re.compile(
    rf"(?<![\w-])(?:{'|'.join(shape for shape in _SHAPES.values() if not shape.startswith('-'))})|"
    + "|".join(shape for shape in _SHAPES.values() if shape.startswith("-")),
    re.ASCII,
)
# Of a profile, which is a few short fields; and of what is wrong with it, and of the name of one of its fields.
_MAX_PROFILE_CHARS = 16_384
_ERRORS_TOLD, _FIELD_CHARS = 5, 40


class RefusedWriteError(ValueError):
    """A write that is not allowed or not valid. The message goes to the model and says what to do instead."""


class NotAFileError(ValueError):
    """A value of the store that is no file. Other code may put anything into a namespace."""


class WrongContentError(NotAFileError, TypeError):
    """A value whose content is neither text nor lines of it, for which `StoreBackend` raises a `TypeError`."""


def before_write(path: str, content: str, actor: Author) -> None:
    """Refuse content before it is written.

    Args:
        path: as the agent sees it, e.g. `/memories/preferences.md`.
        content: what the file would hold.
        actor: who writes it.

    Raises:
        RefusedWriteError: it must not be written. Nothing has been.
    """
    check_content(path, content)
    check_credentials(path, content)
    check_skill(path, content, actor)
    if path == PROFILE_PATH:
        check_profile(content)


def check_text(value: object) -> None:
    """Refuse text that not every store can keep, or even look for, at any depth. For reads, too: Postgres fails, and the run.

    Raises:
        RefusedWriteError: it holds a NUL character or half a character (a lone surrogate).
    """
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            parts += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            parts += part
        elif isinstance(part, str) and ("\x00" in part or _SURROGATE.search(part)):
            raise RefusedWriteError(f"{part[:40]!r} holds a character that no store can keep; leave it out.")


def check_path(path: str) -> None:
    """Refuse a path within a route that is not one file's one spelling.

    Raises:
        RefusedWriteError: the root, relative, with `//`, `.`, `..` or a backslash, unprintable, longer than `MAX_PATH_BYTES`.
    """
    check_text(path)
    # deepagents' file tools read a backslash as a slash, so that no other path may be spelled with one.
    if path == "/" or not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path or "\\" in path:
        raise RefusedWriteError(f"{path[:80]!r} does not name a file; use one plain path such as /memories/preferences.md.")
    if not path.isprintable():
        raise RefusedWriteError(f"The path {path[:40]!r} holds characters that cannot be printed; leave them out.")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise RefusedWriteError(f"The path '{path[:40]}...' is longer than {MAX_PATH_BYTES} bytes; choose a shorter one.")


def check_content(path: str, content: str) -> None:
    """Refuse content that some store could not hold, or that is too large to be memory.

    Raises:
        RefusedWriteError: not UTF-8, a NUL character (Postgres cannot keep one), or more than `MAX_FILE_BYTES`.
    """
    try:
        size = len(content.encode())
    except UnicodeEncodeError:
        raise RefusedWriteError(f"{path} was not written: its text is not valid Unicode.") from None
    if "\x00" in content:
        raise RefusedWriteError(f"{path} was not written: its text holds a NUL character; remove it.")
    if size > MAX_FILE_BYTES:
        raise RefusedWriteError(
            f"{path} was not written: {size:,} bytes, and a file may have {MAX_FILE_BYTES:,}; split it by topic."
        )


def check_replacement(path: str, content: str, old: str, new: str, *, replace_all: bool) -> None:
    """Refuse a replacement that makes a file too large before it is made: of 256 KiB, it could make gigabytes.

    Raises:
        RefusedWriteError: more than `MAX_FILE_BYTES`, and more than before.
    """
    times = content.count(old) if old and replace_all else 1
    size = len(content) + times * (len(new) - len(old))
    if size > max(MAX_FILE_BYTES, len(content)):
        raise RefusedWriteError(
            f"{path} was not written: {size:,} characters, and a file may have {MAX_FILE_BYTES:,} bytes; split it by topic."
        )


def check_credentials(path: str, content: str) -> None:
    """Refuse text that holds a secret, by its shape. The message names the kind, never the value.

    Raises:
        RefusedWriteError: it does.
    """
    if not _ANY_CREDENTIAL.search(content):
        return
    kind = next(kind for kind, shape in CREDENTIALS.items() if shape.search(content))
    raise RefusedWriteError(f"{path} was not written: it would hold {kind}; leave it out, memory is no place for it.")


def check_skill(path: str, content: str, actor: Author) -> None:
    """Refuse a skill that consolidation would make out of a conversation: its description is an instruction in every prompt.
    And one that could not be listed.

    Raises:
        RefusedWriteError: it is one of them.
    """
    if actor.kind == "consolidation" and path.startswith(OWN_SKILLS):
        raise RefusedWriteError(
            f"{path} was not written: skills are made with the person, not out of what was said; leave it out."
        )
    if _SKILL.fullmatch(path):
        try:
            read_skill(path, front_matter(content.encode()))
        except SkillError as error:
            raise RefusedWriteError(f"{path} was not written. {error}") from None


def check_profile(content: str) -> None:
    """Refuse a profile that code could not read.

    Raises:
        RefusedWriteError: not JSON, or not a `Profile`; with what is wrong, field by field.
    """
    if len(content) > _MAX_PROFILE_CHARS:
        raise RefusedWriteError(f"{PROFILE_PATH} was not written: {len(content):,} characters of {_MAX_PROFILE_CHARS:,}.")
    try:
        Profile.model_validate_json(content)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        fields = [(".".join(map(str, part["loc"])) or "it")[:_FIELD_CHARS] for part in errors[:_ERRORS_TOLD]]
        wrong = "; ".join(f"{field}: {part['msg']}" for field, part in zip(fields, errors, strict=False))
        known = ", ".join(Profile.model_fields)
        raise RefusedWriteError(f"{PROFILE_PATH} was not written: {wrong}. It is JSON with these fields: {known}.") from None


def check_room(files: Sequence[Item], key: str, size: int) -> None:
    """Refuse a file for which there is no room beside the others of its namespace. What shrinks is always let through.

    Args:
        files: what there is.
        key: the file's, among them or new.
        size: in UTF-8 bytes, of the new content.

    Raises:
        RefusedWriteError: more than `MAX_MEMORY_FILES`, or `MAX_MEMORY_BYTES` in all.
    """
    sizes = {item.key: len(str(item.value.get("content", "")).encode(errors="replace")) for item in files}
    before = sizes.pop(key, None)
    if before is None and len(sizes) >= MAX_MEMORY_FILES:
        raise RefusedWriteError(f"There are {len(sizes)} files, and {MAX_MEMORY_FILES} is the limit; merge or delete some.")
    if size > (before or 0) and (total := sum(sizes.values()) + size) > MAX_MEMORY_BYTES:
        raise RefusedWriteError(f"All files would have {total:,} bytes of {MAX_MEMORY_BYTES:,}; shorten or delete some.")


def check_policy(key: str, value: Mapping[str, Any] | None) -> None:
    """Refuse a policy that the agent could not be shown as a rule.

    Raises:
        RefusedWriteError: not one Markdown file, not text, or too large. A value of None deletes the file.
    """
    check_path(key)
    if not key.endswith(".md"):
        raise RefusedWriteError(f"'{key}' does not end in .md; policies are Markdown.")
    if value is None:
        return
    if not isinstance(value.get("content"), str) or value.get("encoding", "utf-8") != "utf-8":
        raise RefusedWriteError(f'\'{key}\' needs a value such as {{"content": "...", "encoding": "utf-8"}}.')
    check_content(key, value["content"])


def stored_file(item: Item) -> FileData:
    """A store item as a file. Other code may put anything into a namespace; that must not break what lists or shows the rest.

    Raises:
        NotAFileError: the value is not file data; a `WrongContentError`, where its content has another type.
    """
    content, encoding = item.value.get("content"), item.value.get("encoding", "utf-8")
    if isinstance(content, list) and all(isinstance(line, str) for line in content):
        content = "\n".join(content)  # how deepagents stored files before 0.5
    if content is not None and not isinstance(content, str):
        kind = type(content).__name__
        raise WrongContentError(
            f"'{item.key}' is not a file: its content is no text, got {kind}; delete it or write another path."
        )
    if content is None or encoding not in {"utf-8", "base64"} or _SURROGATE.search(content):
        raise NotAFileError(f"'{item.key}' holds a value that is not a file; delete it or write another path.")
    file = FileData(content=content, encoding=encoding)
    for stamp in ("created_at", "modified_at"):
        if isinstance(item.value.get(stamp), str):
            file[stamp] = item.value[stamp]
    return file


def file_bytes(file: FileData) -> bytes:
    """The content of a file as bytes.

    Raises:
        ValueError: it says it is base64 and is not.
    """
    return base64.b64decode(file["content"], validate=True) if file["encoding"] == "base64" else file["content"].encode()
