"""The document that is imported: an export, or a part of one."""

import json
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from deepagents.backends.protocol import FileData
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError, model_validator

from lasting_memory import days
from lasting_memory.agent.additions import with_addition
from lasting_memory.deployment import Source
from lasting_memory.http import requests
from lasting_memory.memory import journal
from lasting_memory.memory.dated_lines import MAX_ENDS
from lasting_memory.memory.entries import entries
from lasting_memory.memory.sources import lowest, sources_in
from lasting_memory.memory.stored_files import file_bytes
from lasting_memory.memory.validation import MAX_FILE_BYTES, check_content
from lasting_memory.memory.vouches import Vouch, vouch_new_as, vouch_new_by
from lasting_memory.plain_text import compared, plain

# Of one import. What a memory may have beside what is there is checked file by file.
MOST_FILES = 10_000
MOST_CONVERSATIONS = 1_000

_Short = Annotated[str, Field(max_length=64)]
# A sign for each entry of a file, as `memory/sources.py` has them.
_Signs = Annotated[str, Field(max_length=MAX_FILE_BYTES, pattern=r"^[-+.]*$")]
_Times = Annotated[dict[_Short, _Short], Field(max_length=MAX_ENDS)]


class DocumentFile(BaseModel, strict=True):
    """A file to import. What else an export has of it is ignored."""

    path: requests.Path
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"
    written: _Times = Field(default_factory=dict)
    sources: _Signs | None = None

    def vouch(self) -> Vouch:
        """Who vouches for what it brings. Blocks.

        A document proves nothing of what a person said, so nothing of it is confirmed. An export
        says which lines nobody vouched for; the others are as the assistant's. Without that all are
        unconfirmed.
        """
        vouch_of_others = vouch_new_as(Source.UNCONFIRMED)
        if self.sources is None:
            return vouch_of_others
        exported_sources = sources_in(self.path, self.content, self.sources)
        source_by_entry = dict[str, Source]()
        for entry, source in exported_sources.items():
            source_by_entry[entry] = lowest([source, Source.INFERRED])
        return vouch_new_by(source_by_entry, vouch_of_others)

    def times(self) -> dict[str, str]:
        """When lines of it with an end were written, in ISO format, UTC; none that is no time, or
        is in the future.
        """
        times = dict[str, str]()
        now = days.now()
        for key, text in self.written.items():
            with suppress(ValueError, OverflowError):
                time = datetime.fromisoformat(text)
                time = time.astimezone(UTC)
                if time <= now:
                    times[key] = time.isoformat()
        return times

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.encoding == "utf-8":
            self.content = plain(self.content)
        file_bytes(self.merged(None))
        signs = self.sources or ""
        number_of_entries = len(entries(self.path, self.content))
        if len(signs) > number_of_entries:
            raise ValueError(
                f"sources has {len(signs)} signs, and the file {number_of_entries} "
                "lines or values; leave it out, and nothing of the file is confirmed"
            )
        return self

    def merged(self, old_file: FileData | None) -> FileData:
        """The merged file, given the existing one."""
        if old_file is None:
            return FileData(content=self.content, encoding=self.encoding)
        are_texts = old_file["encoding"] == "utf-8" and self.encoding == "utf-8"
        if not are_texts or not self.path.endswith(".md"):
            return old_file
        content = old_file["content"]
        missing_lines = self._missing_in(content)
        new_content = with_addition(content, missing_lines)
        return FileData(content=new_content, encoding="utf-8")

    def _missing_in(self, content: str) -> str:
        """The lines of the file that a text has not, in their order."""
        present_lines = {compared(line) for line in journal.lines_of(content)}
        missing_lines = ""
        for line in journal.lines_of(self.content):
            is_present = compared(line) in present_lines
            if line.strip() and not is_present:
                missing_lines += f"{line}\n"
        return missing_lines


class DocumentChange(BaseModel, strict=True):
    path: requests.Path
    before: str
    after: str
    deleted: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.before = plain(self.before)
        self.after = plain(self.after)
        check_content(self.path, self.before)
        check_content(self.path, self.after)
        return self


DocumentChanges = Annotated[list[DocumentChange], Field(max_length=MOST_FILES)]


class DocumentProposal(BaseModel, strict=True):
    """A proposal of an export, as its person saw it. `proposed_changes` has what makes it again."""

    id: str = ""
    kind: str = ""


class DocumentConversation(BaseModel, strict=True):
    """A conversation as the platform gives it. What cannot be read of it is left out."""

    thread_id: Annotated[str, Field(max_length=200)]
    created_at: object = None
    updated_at: object = None
    metadata: object = None
    values: object = None


class DocumentControls(BaseModel, strict=True):
    paused: bool = False
    review: bool = False
    review_agent: bool = False


class Document(BaseModel, strict=True):
    """An export, or a part of one. Its other parts are ignored."""

    version: Literal[1]
    files: Annotated[list[DocumentFile], Field(max_length=MOST_FILES)]
    proposals: Annotated[list[DocumentProposal], Field(max_length=MOST_FILES)] = Field(
        default_factory=list
    )
    proposed_changes: Annotated[dict[str, DocumentChanges], Field(max_length=MOST_FILES)] = Field(
        default_factory=dict
    )
    controls: DocumentControls = DocumentControls()
    conversations: Annotated[list[DocumentConversation], Field(max_length=MOST_CONVERSATIONS)] = (
        Field(default_factory=list)
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        counts = Counter(file.path for file in self.files)
        for path, count in counts.items():
            if count > 1:
                raise ValueError(
                    f"{path} is there more than once; import one assistant's files at a time"
                )
        return self


_LIST = {"type": "array", "items": {"type": "object"}}
_OBJECT = {"type": "object"}
_SCHEMA = {
    "type": "object",
    "description": "An export (GET /memory/export), or a part of one.",
    "required": ["version", "files"],
    "properties": {
        "version": {"const": 1},
        "files": _LIST,
        "proposals": _LIST,
        "conversations": _LIST,
        "proposed_changes": _OBJECT,
        "controls": _OBJECT,
    },
}
# What OpenAPI says of the body. Checking it blocks for long, so FastAPI does not read it.
BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _SCHEMA}}}}


def parsed(body: bytes) -> Document:
    """The document. Raises as FastAPI for what is none. Blocks."""
    try:
        value = json.loads(body)
        return Document.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        problem = problems[0]
        in_body = {**problem, "loc": ("body", *problem["loc"])}
        raise RequestValidationError([in_body]) from None
    except (ValueError, RecursionError):
        raise RequestValidationError(
            [{"type": "json_invalid", "loc": ("body",), "msg": "JSON decode error"}]
        ) from None
