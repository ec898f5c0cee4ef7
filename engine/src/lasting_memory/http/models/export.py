"""Answers that hold or count a whole memory: its export, an import, forgetting a person."""

from operator import not_
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from lasting_memory.consolidation import DreamStatus
from lasting_memory.http.models.base import Answer, Author, closed
from lasting_memory.http.models.files import Encoding
from lasting_memory.http.models.person import Controls
from lasting_memory.http.models.proposals import Proposal
from lasting_memory.memory.offers import Status as OfferStatus

Action = Literal["create", "append", "keep", "same"]


Stays = Literal["time", "traces", "groups", "shared"]


@closed
class ExportedRevision(TypedDict):
    revision: int
    id: str
    at: str
    author: Author
    deleted: bool
    bytes: int
    content: Annotated[str | None, Field(description="null: the file was deleted")]


@closed
class ExportedFile(TypedDict):
    path: str
    content: str
    encoding: Encoding
    created_at: NotRequired[str]
    modified_at: NotRequired[str]
    written: NotRequired[
        Annotated[
            dict[str, str],
            Field(description="when lines that end with a day were written, by a key of the line"),
        ]
    ]
    sources: Annotated[
        str,
        Field(
            description="who vouches for each line with text, or value of a JSON object, in order: "
            "+ confirmed, - unconfirmed, . or nothing inferred"
        ),
    ]
    assistant_id: NotRequired[str]
    revisions: list[ExportedRevision]


@closed
class ExportedDeletedFile(TypedDict):
    path: str
    assistant_id: NotRequired[str]
    revisions: list[ExportedRevision]


@closed
class ExportedValue(TypedDict):
    """A value in the store that is no file."""

    path: str
    value: dict[str, object]
    assistant_id: NotRequired[str]


@closed
class ExportedChange(TypedDict):
    """A change that a proposal makes of a file: its whole text before and after."""

    path: str
    before: str
    after: str
    deleted: bool


@closed
class ExportedConversation(TypedDict):
    """A thread as the platform gives it."""

    thread_id: str
    created_at: str
    updated_at: str
    metadata: dict[str, object] | None
    values: Annotated[dict[str, object] | None, Field(description="its state, with the messages")]


@closed
class UnreadableConversation(TypedDict):
    thread_id: str
    error: str


class ExportedProposal(Proposal):
    assistant_id: str = Field(default="", exclude_if=not_)


@closed
class ExportedOffer(TypedDict):
    """A line that is offered to a group, or was."""

    id: str
    at: str
    status: OfferStatus
    text: str
    path: str
    folder: str
    claim: str
    group: str
    keep: bool


@closed
class ExportedTakenBack(TypedDict):
    """A line that was taken back, in a revision that is no longer kept; of JSON one field."""

    path: str
    text: str
    at: str


@closed
class ExportedDream(TypedDict):
    """All conversations are read again, or were: how far, and the draft."""

    began: str
    status: DreamStatus
    cap: int
    tokens: int
    conversations: int
    read: int
    files: Annotated[dict[str, str], Field(description="texts of the draft, by path")]


@closed
class Export(TypedDict):
    """Everything of a person's. `POST /memory/import` takes it."""

    version: Literal[1]
    exported_at: str
    user_id: str
    org_id: str
    proposals: list[ExportedProposal]
    proposed_changes: Annotated[
        dict[str, list[ExportedChange]], Field(description="by a proposal's id what makes it again")
    ]
    offers: Annotated[
        list[ExportedOffer], Field(description="to groups; an import brings none back")
    ]
    dream: Annotated[
        ExportedDream | None,
        Field(description="conversations that are read again; an import brings none back"),
    ]
    taken_back: Annotated[
        list[ExportedTakenBack], Field(description="lines, in revisions that are no longer kept")
    ]
    left_out: Annotated[list[str], Field(description="what of yours is not in this document")]
    controls: Controls
    files: list[ExportedFile]
    conversations: list[ExportedConversation | UnreadableConversation]
    deleted_files: list[ExportedDeletedFile]
    unreadable: list[ExportedValue]


class ImportedFile(Answer):
    path: str
    action: Action = Field(
        description="append: Markdown, of which lines were missing; keep: another one is there"
    )


class ImportedConversations(Answer):
    """Counts of the conversations of an import."""

    created: int
    there: int
    left_out: int = Field(description="they cannot be read, say nothing, or are too long")


class Import(Answer):
    files: list[ImportedFile]
    proposals: int = Field(description="how many wait for you again")
    controls: Controls
    conversations: ImportedConversations


class Forgotten(Answer):
    deleted: dict[str, int] = Field(
        description="counts: runs, threads, memories and others; `conversations` are the threads "
        "that you had with an agent, the other threads are consolidation's"
    )
    kept: list[str] = Field(description="what stays, and why, in sentences")
    stays: list[Stays] = Field(description="the same in a word each")
