"""Answers about a memory's files: their list, one with its lines, its history."""

from operator import not_
from typing import Annotated, Literal

from pydantic import Field

from lasting_memory.http.models.base import Answer, Author, Usage, author_of
from lasting_memory.memory.journal import Revision
from lasting_memory.settings import SharedWrites

Encoding = Annotated[str, Field(json_schema_extra={"enum": ["utf-8", "base64"]})]


class ListedFile(Answer):
    """A file without its content."""

    encoding: Encoding
    created_at: str = Field(default="", exclude_if=not_)
    modified_at: str = Field(default="", exclude_if=not_)
    path: str
    bytes: int
    revision: int | None = Field(description="its number; null where other code wrote the file")


class UnreadableFile(Answer):
    """A value in the store that is no file."""

    path: str
    error: str


class SharedFolder(Answer):
    """A folder that the members of a group share."""

    path: str
    claim: str = Field(description="the claim of the token that makes somebody a member")
    group: str = Field(description="the claim's value")
    writes: SharedWrites = Field(description="whether your agent writes there")
    files: list[ListedFile | UnreadableFile]


class MemoryFiles(Answer):
    files: list[ListedFile | UnreadableFile]
    usage: Usage
    shared: list[SharedFolder]


class LineOrigin(Answer):
    """Where a line of a file comes from."""

    revision: int
    at: str
    author: Author
    threads: list[str] = Field(description="ids of its conversations; empty in a group's file")
    source: Literal["confirmed", "inferred", "unconfirmed"] = Field(
        description="who vouches for it"
    )


class MemoryFile(Answer):
    content: str
    encoding: Encoding
    created_at: str = Field(default="", exclude_if=not_)
    modified_at: str = Field(default="", exclude_if=not_)
    path: str
    bytes: int
    revision: int | None = Field(description="its number, which is the ETag, too")
    lines: list[LineOrigin | None] = Field(
        description="by line of the content; null where unknown, empty for more than 2,000 lines"
    )


class WrittenFile(Answer):
    """A file after a change."""

    path: str
    revision: int | None = Field(description="null: what was deleted was no file")


class RevisionSummary(Answer):
    revision: int = Field(description="its number")
    id: str
    at: str
    author: Author
    deleted: bool
    bytes: int
    diff: str | None = Field(description="null: the revision before it is not kept any more")


class FileHistory(Answer):
    path: str
    revisions: list[RevisionSummary] = Field(description="the newest first")
    revisions_dropped: int = Field(description="older ones that were removed to make room")


def summary_of(revision: Revision, diff: str | None) -> RevisionSummary:
    """A revision without its content, for an answer."""
    return RevisionSummary(
        revision=revision.number,
        id=revision.id,
        at=revision.at,
        author=author_of(revision.author),
        deleted=revision.content is None,
        bytes=size_of(revision),
        diff=diff,
    )


def size_of(revision: Revision) -> int:
    """The bytes of a revision's content."""
    return len((revision.content or "").encode(errors="replace"))
