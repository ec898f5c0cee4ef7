"""The answers of the routes under `/memory`, as `/openapi.json` describes them.

A route returns one of these, so it cannot send what its schema does not have. A field with
`exclude_if` is absent where it is empty. Answers with very many entries are typed dicts: `Facts`
and `Export`, of which a full memory has 100,000 lines. Building a model of each would take longer
than reading them.
"""

from collections.abc import Mapping
from operator import not_
from typing import Annotated, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, with_config
from pydantic.config import JsonDict
from typing_extensions import TypedDict

from lasting_memory.auth.interrupt_forms import Kind as AnswerKind
from lasting_memory.consolidation import DreamReason, DreamStatus
from lasting_memory.memory.controls import Controls as OwnControls
from lasting_memory.memory.journal import Revision
from lasting_memory.memory.offers import Status as OfferStatus
from lasting_memory.memory.proposals import BatchKind, ProposalKind
from lasting_memory.people import identity
from lasting_memory.settings import MemoryScope, SharedWrites

# A typed dict with it has no other keys.
closed = with_config(ConfigDict(extra="forbid"))

Action = Literal["create", "append", "keep", "same"]
_AUTHORS = [
    "agent",
    "subagent",
    "consolidation",
    "person",
    "client",
    "operator",
    "seed",
    "outside",
]
Stays = Literal["time", "traces", "groups", "shared"]
_LEFT_OUT_REASONS: JsonDict = {
    "propertyNames": {
        "enum": [
            "known",
            "taken_back",
            "twice",
            "too_long",
            "too_many",
            "credential",
            "refused",
            "not_taken",
            "failed",
            "not_read",
        ]
    }
}
Encoding = Annotated[str, Field(json_schema_extra={"enum": ["utf-8", "base64"]})]
Outcome = Literal["accepted", "declined"]


class Answer(BaseModel, extra="forbid"):
    pass


class Refusal(Answer):
    """Every answer that is no success."""

    detail: str = Field(description="what is wrong, for people")


@closed
class Author(TypedDict):
    """Who made a revision."""

    kind: Annotated[
        str,
        Field(
            description="client: another program of the person's; outside: written past the "
            "journal",
            json_schema_extra={"enum": _AUTHORS},
        ),
    ]
    user_id: Annotated[str, Field(description='the person; "" where nobody knows')]
    run_id: str
    thread_id: Annotated[
        str,
        Field(
            description="the run's thread; of consolidation the conversations that it read, "
            "separated by spaces"
        ),
    ]
    client: NotRequired[
        Annotated[str, Field(description="what the program says it is called; only of a client")]
    ]


def author_of(author: identity.Author) -> Author:
    """The author of a revision, for an answer."""
    shown: Author = {
        "kind": author.kind,
        "user_id": author.user_id,
        "run_id": author.run_id,
        "thread_id": author.thread_id,
    }
    if isinstance(author, identity.ClientAuthor):
        shown["client"] = author.client
    return shown


class Note(Answer):
    """Why something was left out or did not happen."""

    kind: str = Field(description="the reason in a word, for which the page has a sentence")
    texts: list[str] = Field(description="lines that it is about")


@closed
class Usage(TypedDict):
    """How much of a memory's limits is used."""

    files: int
    bytes: int
    max_files: int
    max_bytes: int
    nearly_full: Annotated[bool, Field(description="from 80% of one of the limits on")]


def usage_from(counts: Mapping[str, int]) -> Usage:
    """What a memory uses of its limits, for an answer, as `stored_files.usage_of` counts it."""
    return {
        "files": counts["files"],
        "bytes": counts["bytes"],
        "max_files": counts["max_files"],
        "max_bytes": counts["max_bytes"],
        "nearly_full": bool(counts["nearly_full"]),
    }


# --- Files


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


# --- What is remembered


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


# --- What changed


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


# --- Who you are, and what the model sees


class MemoryRoute(Answer):
    """A folder of the agent's."""

    shared: bool = Field(description="with others")
    writes: SharedWrites = Field(
        description="whether your agent writes there; interrupt: an operator approves"
    )
    namespace: tuple[str, ...] | None = Field(
        description="where the store API reads it for you; null: nowhere"
    )


class Me(Answer):
    user_id: str
    org_id: str
    agents: list[str] = Field(description="ids of the graphs that people talk to")
    memory_scope: MemoryScope
    routes: dict[str, MemoryRoute] = Field(description="by folder")
    own_memory: bool = Field(description="false where memory is shared, or there is none")
    ends: bool = Field(description="whether lines of memory can be over after a day")
    memory_writes: Literal["both", "background"]
    sign_in: Literal["dev", "token", "provider"]
    pictures: bool = Field(description="whether the model looks at pictures")
    temporary_hours: int | float = Field(description="how long a temporary conversation stays")
    operator: bool
    writes_policies: bool


class PromptBlock(Answer):
    """A part of the system prompt."""

    name: str = Field(description="agent (its own), policies, memory, or skills")
    text: str
    budget: int | None = Field(description="bytes that its files may have; null: any")
    left_out: list[str] = Field(description="a line for each omission")
    bytes: int
    tokens: int = Field(description="estimated")


class Prompt(Answer):
    blocks: list[PromptBlock]
    tools: list[str] = Field(
        description="names of those that the first agent's model is offered; empty where the "
        "server does not tell"
    )
    tools_tokens: int = Field(description="an estimate of what these tools have in each request")


class PolicyFile(Answer):
    path: str
    key: str
    content: str | None = Field(description="null where it is not text")
    bytes: int
    in_prompt: bool


class Policies(Answer):
    namespace: tuple[str, ...] = Field(description="where the store API changes them")
    writable: bool = Field(description="whether you may")
    files: list[PolicyFile]


class Controls(Answer):
    """What a person decided about their memory."""

    paused: bool = Field(description="nothing new is remembered")
    review: bool = Field(description="consolidation proposes its changes to you")
    review_agent: bool = Field(
        default=False,
        exclude_if=not_,
        description="the agent proposes what it would write; absent where it is off",
    )


def controls_of(controls: OwnControls) -> Controls:
    """A person's controls, for an answer."""
    return Controls(
        paused=controls.paused, review=controls.review, review_agent=controls.review_agent
    )


# --- Conversations


class FoundTurn(Answer):
    number: int
    speaker: str
    text: str = Field(description="an excerpt")


class FoundConversation(Answer):
    thread_id: str
    updated_at: str = Field(description="when something was said in it last")
    turns: list[FoundTurn] = Field(description="the best ones, in their order")


class FoundConversations(Answer):
    conversations: list[FoundConversation] = Field(description="the best first")
    searched: int = Field(description="in how many conversations")
    outstanding: int = Field(description="older ones that are not indexed yet: search again")


class QuestionAction(Answer):
    """An action that a question is about."""

    name: str
    args: str = Field(description="JSON, cut to what a page shows")
    description: str
    may: list[str] = Field(description="types of answers; no edit where args were cut")


class Question(Answer):
    """An interrupt that waits for an answer."""

    id: str
    answered_by: Literal["person", "operator"]
    kind: AnswerKind = Field(
        description="of the answer: decisions to a HITLRequest of langchain's, response or "
        "responses to one or several of its HumanInterrupt, else value"
    )
    requests: list[QuestionAction]
    text: str = Field(description="of a question that is about no action")
    choices: list[bool | int | float | str] = Field(description="answers that its schema allows")


class Questions(Answer):
    interrupts: list[Question]


# --- Export, import, forgetting


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


class ProposedLine(Answer):
    """A line that a proposal takes out or puts in."""

    line: int = Field(description="its number, for the decision")
    sign: Literal["-", "+"]
    text: str
    reason: str = Field(description='why it goes; "" where none is known')


class Proposal(Answer):
    """Changes that wait for your decision."""

    id: str
    at: str
    kind: ProposalKind = Field(description="what it was made of, or by whom")
    threads: list[str] = Field(description="ids of the conversations that it comes from")
    files: dict[str, str] = Field(description="by path a diff")
    lines: dict[str, list[ProposedLine]] = Field(description="by path; of JSON there are none")
    unconfirmed: dict[str, list[int]] = Field(
        default_factory=dict,
        exclude_if=not_,
        description="by path the numbers of lines that a text from elsewhere says, and not you",
    )


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


# --- Offers to groups


class GroupToOffer(Answer):
    """A group's folder to which lines of one's own memory may be offered."""

    folder: str = Field(description="as the agent sees it, such as /team/")
    claim: str = Field(description="the claim of the token that makes somebody a member")
    group: str = Field(description="the claim's value")
    decided_by: Literal["members", "operators"] = Field(
        description="members, where their agents write there at once; operators decide everywhere"
    )
    left: int = Field(description="how many further offers of yours may wait there")


class OwnOffer(Answer):
    """A line of one's own memory that is offered to a group, or prepared for that by an agent."""

    id: str
    at: str
    status: OfferStatus = Field(description="prepared: by your agent; nothing of it is shared")
    text: str = Field(description="what the group gets, and nothing else")
    path: str = Field(description="your file that the line is from")
    folder: str
    claim: str
    group: str
    keep: bool = Field(description="whether your own line stays when it is accepted")
    source: Vouched | None = Field(default=None, exclude_if=not_)


class OfferToDecide(Answer):
    """An offer of somebody's to a group in whose folder you may write."""

    id: str
    author: str = Field(description="who offers it")
    text: str
    day: str = Field(description="when it was offered")
    folder: str
    claim: str
    group: str
    org_id: str
    source: Vouched | None = Field(default=None, exclude_if=not_)


class Offers(Answer):
    groups: list[GroupToOffer]
    offers: list[OwnOffer] = Field(description="yours, the oldest first")
    to_decide: list[OfferToDecide] = Field(description="the oldest first")
    more: int = Field(description="newer ones to decide, which are shown once these are decided")


class DecidedOffer(Answer):
    id: str
    accepted: bool
    path: str | None = Field(description="the group's file in which the line is now")


class WithdrawnOffer(Answer):
    id: str
    status: OfferStatus = Field(description="what it was")


class Forgotten(Answer):
    deleted: dict[str, int] = Field(
        description="counts: runs, threads, memories and others; `conversations` are the threads "
        "that you had with an agent, the other threads are consolidation's"
    )
    kept: list[str] = Field(description="what stays, and why, in sentences")
    stays: list[Stays] = Field(description="the same in a word each")


# --- Consolidation


class ConsolidationRecord(Answer):
    """One run of consolidation. Times are ISO in UTC."""

    run_id: str
    started_at: str
    ended_at: str
    status: Literal[
        "running", "done", "proposed", "undone", "failed", "accepted", "declined", "replaced"
    ] = Field(
        description="undone: its changes were refused; accepted, declined: what you decided; "
        "replaced: a newer proposal took its place"
    )
    reason: str = Field(description="as the model was told")
    conversations: int
    messages: int
    model_calls: int
    input_tokens: int
    output_tokens: int
    undone: int
    dry_run: bool
    kind: BatchKind
    files: dict[str, str] = Field(description="by path a diff")
    found: int = Field(description="facts and messages in a text that was brought")
    proposed: int = Field(description="those of them that are proposed")
    notes: list[Note] = Field(description="the reason for people")


class Records(Answer):
    consolidations: list[ConsolidationRecord] = Field(description="the newest first")


class NothingToDo(Answer):
    """A run had nothing to work on, or did not begin."""

    dry_run: bool
    files: dict[str, str] = Field(description="empty")
    reason: str
    notes: list[Note]


class Queued(Answer):
    queued: Literal[True]


class DreamEstimate(Answer):
    """What it would take to read all of your conversations again. Nothing has begun."""

    tokens: int = Field(description="about; to begin, send them as `tokens`")
    conversations: int
    messages: int


class Dream(Answer):
    """All of your conversations are read again, or were. Times are ISO in UTC."""

    began: str
    status: DreamStatus = Field(
        description="paused, failed: it waits for you; proposed: decide (GET /memory/proposals)"
    )
    reason: DreamReason = Field(description="why it waits or ended, in a word")
    tokens: int = Field(description="used up to now")
    cap: int = Field(description="tokens after which it ends with what it has")
    conversations: int
    read: int = Field(description="conversations of which nothing is left to read")
    left_out: int = Field(description="conversations that could not be read")
    messages: int


class DreamState(Answer):
    dream: Dream | None


class LeftOut(Answer):
    count: int
    lines: list[str] = Field(description="the beginnings of the first")


class FailedPart(Answer):
    part: int = Field(description="its number, from 1")
    reason: str


class Brought(Answer):
    """What became of a text that a person brought along."""

    proposal: Proposal | None = Field(description="what would be added")
    reason: str = Field(description="all of it in a sentence")
    notes: list[Note]
    found: int = Field(description="facts and messages")
    proposed: int
    left_out: dict[str, LeftOut] = Field(
        description="by reason", json_schema_extra=_LEFT_OUT_REASONS
    )
    invented: list[str] = Field(description="lines of the model's that the text does not say")
    framing: LeftOut = Field(description="lines that say nothing about you")
    parts: int
    failed: list[FailedPart]


class PartBegins(Answer):
    """A line of the answer before each part of a text."""

    part: int
    parts: int
    found: int


class LateRefusal(Answer):
    """The last line of an answer that had begun when it was refused."""

    status: int
    detail: str


class ProposalOutcome(Answer):
    """What became of what the agent would have written."""

    id: str
    at: str
    threads: list[str]
    files: dict[str, Outcome] = Field(description="by path")


class Proposals(Answer):
    proposals: list[Proposal] = Field(description="the oldest first")
    more: int = Field(description="newer ones, which are shown once these are decided")
    decided: list[ProposalOutcome]


class DecidedProposal(Answer):
    id: str
    accepted: bool
    refused: dict[str, str] = Field(
        description="by path why something could not be applied; that still waits"
    )
    notes: list[Note] = Field(
        default_factory=list, exclude_if=not_, description="a reason each; absent without one"
    )


class Backlog(Answer):
    """What is due for consolidation."""

    people: int
    conversations: int
    oldest: str | None = Field(description="when the oldest of them changed")


class Operations(Answer):
    due: Backlog
