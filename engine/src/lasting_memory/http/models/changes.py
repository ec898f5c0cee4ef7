"""Answers about what changed, and about what was deleted and can come back."""

from pydantic import Field

from lasting_memory.http.models.base import Answer, Author


class FileChange(Answer):
    """What one run, or one person, changed in a file."""

    path: str
    revision: int = Field(description="the number of the newest of its revisions")
    at: str
    author: Author
    deleted: bool
    diff: str
    changes: list[str] | None = Field(
        description="ids of its revisions, which `POST /memory/undo` takes back; null: what they "
        "changed is not kept any more"
    )


class FileChanges(Answer):
    since: str | None = Field(description="when you last looked; null: never")
    until: str = Field(description="now, for `PUT /memory/seen`")
    changes: list[FileChange] = Field(description="the newest first")
    more: int = Field(description="older changes that were not looked at")


class SeenUntil(Answer):
    since: str


class DeletedFile(Answer):
    path: str
    changes: list[str] = Field(description="what `POST /memory/undo` takes back")
    at: str
    author: Author


class DeletedLine(Answer):
    """A line that was taken out of a file that is still there."""

    path: str
    text: str
    at: str
    author: Author


class Trash(Answer):
    files: list[DeletedFile] = Field(description="the newest first")
    lines: list[DeletedLine] = Field(description="the newest first")
