"""Answers about the lines of memory as facts: their list, a search in them, what deleting one took along."""

from operator import not_
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from lasting_memory.http.models.base import Answer, Usage, closed
from lasting_memory.settings import SharedWrites

# Who vouches for a line.
Vouched = Annotated[
    Literal["unconfirmed"],
    Field(
        description="a text from elsewhere says it, and the person did not confirm it; absent: the "
        "person said it, or the assistant concluded it"
    ),
]


@closed
class FactLine(TypedDict):
    """A line of a file as people read it: without list marker, source, end and comments."""

    line: Annotated[int, Field(description="its number in the file, from 0")]
    text: Annotated[str, Field(description="of a table's row its cells in words")]
    until: NotRequired[
        Annotated[str, Field(description="the last day on which it holds, YYYY-MM-DD")]
    ]
    over: NotRequired[
        Annotated[
            Literal[True],
            Field(description="that day has passed: neither prompts nor searches have the line"),
        ]
    ]
    raw: NotRequired[Annotated[str, Field(description="the line itself, in tables and code")]]
    source: NotRequired[Vouched]


@closed
class Heading(TypedDict):
    """A subtitle."""

    line: int
    heading: str


@closed
class FactsOfFile(TypedDict):
    """A text file as lines under a title."""

    path: str
    title: str
    kind: Literal["lines"]
    revision: int | None
    bytes: int
    modified_at: str | None
    lines: list[FactLine | Heading]


@closed
class ProfileField(TypedDict):
    name: str
    description: str | None
    value: Annotated[object, Field(description="JSON of the field's schema")]
    schema: Annotated[dict[str, object], Field(description="the field's JSON schema")]
    source: NotRequired[Vouched]


@closed
class FactsOfProfile(TypedDict):
    """The profile as its fields. It is listed before its file is there, as revision 0."""

    path: str
    title: str
    kind: Literal["profile"]
    revision: int | None
    bytes: int
    modified_at: str | None
    fields: list[ProfileField]


@closed
class FileWithoutFacts(TypedDict):
    """A file that has no lines for people. `GET /memory/file` reads it."""

    path: str
    title: str
    kind: Literal["file"]
    revision: int | None
    bytes: int
    modified_at: str | None


@closed
class ValueWithoutFacts(TypedDict):
    """A value in the store that is no file."""

    path: str
    title: str
    kind: Literal["file"]
    error: str


FactGroup = FactsOfFile | FactsOfProfile | FileWithoutFacts | ValueWithoutFacts


@closed
class SharedFacts(TypedDict):
    """The facts in a folder that the members of a group share."""

    path: str
    claim: str
    group: str
    writes: SharedWrites
    groups: list[FactGroup]


@closed
class Facts(TypedDict):
    groups: Annotated[list[FactGroup], Field(description="one for each file")]
    usage: Usage
    shared: list[SharedFacts]


class FoundLine(Answer):
    line: int = Field(description="its number, as in `GET /memory/facts`")
    text: str


class FoundFile(Answer):
    path: str
    text: str = Field(description="the passage that matches best")
    lines: list[FoundLine] = Field(description="lines with words of the query, the best first")


class FoundFiles(Answer):
    found: list[FoundFile] = Field(description="the best file first")


class DeletedCounts(Answer):
    """How many had a fact. What is 0 is absent, apart from `conversations`."""

    revisions: int = Field(default=0, exclude_if=not_)
    files: int = Field(default=0, exclude_if=not_)
    proposals: int = Field(default=0, exclude_if=not_)
    offers: int = Field(default=0, exclude_if=not_, description="to groups; none that is accepted")
    consolidations: int = Field(default=0, exclude_if=not_, description="records of its runs")
    passages: int = Field(
        default=0, exclude_if=not_, description="of deleted conversations, in the index"
    )
    conversations: int


class DeletedFact(Answer):
    path: str
    deleted: DeletedCounts
    conversations: list[str] = Field(
        description="ids of the conversations that it came from, and that are there"
    )
