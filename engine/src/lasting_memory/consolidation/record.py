"""The record of a run: what it read, spent and did, as the person is shown it later, and as the log
has it.

A *note* says why something was left out or did not happen, for people. Records and notes are stored
and shown as JSON, with the fields that they have here.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, TypedDict, Unpack, cast

from langgraph.store.base import BaseStore, Item, PutOp

from lasting_memory import platform
from lasting_memory.consolidation.brought import proposal_id
from lasting_memory.memory import journal
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.proposals import BatchKind, Proposal, all_proposals
from lasting_memory.people import identity, namespaces

logger = logging.getLogger(__name__)

_LOGGED = ("run_id", "conversations", "model_calls", "input_tokens", "output_tokens", "undone")
# Lines that a note names, and characters of each.
_NOTED_LINES = 5
_NOTE_CHARS = 120

# done; proposed: the person decides; undone: its changes were refused.
RunStatus = Literal["running", "done", "proposed", "undone", "failed"]


class Note(TypedDict):
    """Why something was left out or did not happen: one word, for which the page has a sentence,
    and the lines it is about.
    """

    kind: str
    texts: list[str]


def note(kind: str, *lines: str) -> Note:
    """A note with the first of these lines, each cut to a bounded length."""
    texts = list[str]()
    for line in lines[:_NOTED_LINES]:
        start = line[:_NOTE_CHARS]
        texts.append(start)
    return {"kind": kind, "texts": texts}


class EndFields(TypedDict, total=False):
    """What a run may have to say at its end. The fields are those of `Record`."""

    conversations: int
    messages: int
    files: dict[str, str]
    found: int
    proposed: int
    notes: list[Note]


@dataclass
class Record:
    """One run's work, as `GET /memory/consolidations` shows it. Times are ISO in UTC; `files` are
    diffs by path.

    `reason` says why the run has its status, as the model was told, and `notes` say it for people.
    """

    run_id: str
    started_at: str
    ended_at: str = ""
    status: RunStatus = "running"
    reason: str = ""
    conversations: int = 0
    messages: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    undone: int = 0  # 1 for a run that is undone
    dry_run: bool = False
    kind: BatchKind = "conversations"
    files: dict[str, str] = field(default_factory=dict)
    # Facts and messages in a text that was brought, and those of them that are proposed.
    found: int = 0
    proposed: int = 0
    notes: list[Note] = field(default_factory=list)

    def ended(
        self, status: RunStatus, reason: str = "", **end_fields: Unpack[EndFields]
    ) -> "Record":
        """This record at the end of its run, with these fields."""
        return replace(
            self,
            status=status,
            reason=reason,
            ended_at=now(),
            undone=int(status == "undone"),
            **end_fields,
        )

    def log(self) -> None:
        """Log `consolidation` and a JSON object, for log pipelines."""
        is_done_dry = self.dry_run and self.status == "done"
        entry: dict[str, object] = {
            "status": "dry_run" if is_done_dry else self.status,
            "people": 1,
        }
        for name in _LOGGED:
            entry[name] = getattr(self, name)
        start_time = datetime.fromisoformat(self.started_at)
        duration = datetime.now(UTC) - start_time
        seconds = duration.total_seconds()
        entry["seconds"] = round(seconds, 1)
        text = json.dumps(entry)
        logger.info("consolidation %s", text)


class StoredRecord(TypedDict):
    """A record as it is stored and shown: the fields of `Record`. `status` may also say what became
    of a proposal.
    """

    run_id: str
    started_at: str
    ended_at: str
    status: str
    reason: str
    conversations: int
    messages: int
    model_calls: int
    input_tokens: int
    output_tokens: int
    undone: int
    dry_run: bool
    kind: BatchKind
    files: dict[str, str]
    found: int
    proposed: int
    notes: list[Note]


def record_in(item: Item) -> StoredRecord:
    """The record that an item of the store holds. It has every field, also where its server knew
    fewer of them.
    """
    empty_record = Record("", "")
    fields = {**asdict(empty_record), **item.value}
    return cast("StoredRecord", fields)  # only `keep_record` and `erase_from_records` store any


def now() -> str:
    """The present time, in ISO format, UTC."""
    at = datetime.now(UTC)
    return at.isoformat()


async def records(store: BaseStore, actor: identity.Actor) -> list[StoredRecord]:
    """A person's last records, newest first.

    Of a run that proposed something the status is what became of the proposal.
    """
    place = namespaces.run_records(actor)
    items = await journal.all_items(store, place)
    proposals = await all_proposals(store, actor)
    newest_first = list[StoredRecord]()
    for item in reversed(items):
        record = record_in(item)
        if record["status"] == "proposed":
            run_id = record["run_id"]
            record["status"] = _status_of_proposal(run_id, proposals)
        newest_first.append(record)
    return newest_first


def _status_of_proposal(run_id: str, proposals: Sequence[Proposal]) -> str:
    """What became of a run's newest proposal; "replaced" if there is none any more.

    `proposals` are all of its person's, the oldest first.
    """
    prefixes = (run_id, proposal_id(run_id))
    for proposal in reversed(proposals):
        if proposal.id.startswith(prefixes):
            return proposal.status()
    return "replaced"


async def erase_from_records(
    store: BaseStore,
    actor: identity.Actor,
    fact: Fact,
    writer: journal.Writer,
    *,
    dry_run: bool = False,
) -> int:
    """Take a fact out of a person's records. Returns how many records had it.

    With `dry_run` it only counts. If the person was forgotten since the `writer` began, nothing is
    stored; the number is the same.
    """
    place = namespaces.run_records(actor)
    items = await journal.all_items(store, place)
    ops = list[PutOp]()
    for item in items:
        record = await platform.in_thread(_without, item.value, fact)
        has_fact = record != item.value
        if has_fact:
            op = PutOp(item.namespace, item.key, record, index=False)
            ops.append(op)
    if not dry_run:
        await journal.put_unless_forgotten(store, ops, writer)
    return len(ops)


def _without(record: Mapping[str, object], fact: Fact) -> dict[str, object]:
    """A stored record without what quotes a fact. Blocks."""
    cleaned_record = dict(record)
    reason = record.get("reason")
    if isinstance(reason, str) and fact.is_quoted(reason):
        cleaned_record["reason"] = ""
    files = record.get("files")
    if isinstance(files, Mapping):
        cleaned_record["files"] = _files_without(files, fact)
    notes = record.get("notes")
    if isinstance(notes, list):
        cleaned_record["notes"] = [_note_without(note, fact) for note in notes]
    return cleaned_record


def _files_without(files: Mapping[str, object], fact: Fact) -> dict[str, object]:
    """The diffs of a stored record by path, without a fact, and without empty ones."""
    cleaned_diffs = dict[str, object]()
    for path, stored_diff in files.items():
        diff = stored_diff
        text = str(stored_diff)
        if fact.is_quoted(text):
            diff = fact.cleaned_diff(text)
        if diff:
            cleaned_diffs[path] = diff
    return cleaned_diffs


def _note_without(note: Note, fact: Fact) -> Note:
    """A note of a stored record without the lines that quote a fact."""
    texts = list[str]()
    for text in note["texts"]:
        if not fact.is_quoted(text):
            texts.append(text)
    return {"kind": note["kind"], "texts": texts}
