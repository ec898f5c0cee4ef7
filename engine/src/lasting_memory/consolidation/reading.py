"""What a run reads: a person's new conversations, all of them again for a dream, all of their
memory to tidy, or a part of a text that they brought.

Each function fills a draft, or raises `NothingToDoError` where there is nothing to read.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from deepagents.backends.protocol import FileData
from langchain_core.messages import AnyMessage
from langgraph.store.base import Item
from langgraph_sdk.client import LangGraphClient
from pydantic import ValidationError

from lasting_memory import days, platform
from lasting_memory.agent.backends import starting_files
from lasting_memory.agent.file_sections import sections
from lasting_memory.consolidation import dreaming
from lasting_memory.consolidation.batch import CHARS_PER_TOKEN, Due, batch
from lasting_memory.consolidation.bringing import Reading
from lasting_memory.consolidation.brought import Part, proposal_id, shown
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.due import Marks, due_by, mark_places, marks_in
from lasting_memory.consolidation.expired_lines import ExpiredLines
from lasting_memory.consolidation.facts import Key, TextFile, facts_of
from lasting_memory.consolidation.no_batch import (
    INTERRUPTED,
    NOTHING_NEW,
    NOTHING_TO_TIDY,
    UNDECIDED,
    NothingToDoError,
)
from lasting_memory.consolidation.said_since import said_since
from lasting_memory.consolidation.stored_memory import StoredMemory, read_stored_memory
from lasting_memory.consolidation.taken_back import Dated, still_gone
from lasting_memory.days import zone_of
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory import ends, journal
from lasting_memory.memory.proposals import (
    MAX_PROPOSALS,
    Memory,
    Proposal,
    files_in,
    texts,
)
from lasting_memory.memory.stored_files import text_of
from lasting_memory.vouching import Evidence

_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")
_SKILLS = "/memories/skills/"


class _Stored(NamedTuple):
    """What a run reads of the store before it reads conversations: the memory, its files and their
    expired lines, and what says which turns are new.
    """

    memory: StoredMemory
    files: Mapping[str, FileData]
    expired: ExpiredLines
    marks: Marks


async def read(draft: Draft, messages: Sequence[AnyMessage], client: LangGraphClient) -> None:
    """Read a run's batch, and the person's files. `messages` are the run's input, in which a text
    that was brought is.
    """
    stored = await _read_stored(draft)
    draft.expired = stored.expired
    await _read_files(draft, stored, messages, client)
    taken = await draft.taken_back(stored.memory)
    if draft.dream:
        present = texts(stored.files)
        taken = await platform.in_thread(still_gone, taken, present)
    ends_taken = await draft.ends_taken_back(stored.memory)
    lines_taken = [*taken.values(), *ends_taken.values()]
    if draft.reading:
        talk = await _read_text(draft, draft.reading, taken)
    else:
        talk = await _talk(draft, stored, lines_taken, client)
    await platform.in_thread(draft.show, talk, lines_taken)


async def _read_files(
    draft: Draft, stored: _Stored, messages: Sequence[AnyMessage], client: LangGraphClient
) -> None:
    """Give a draft the files that the model works on; of a dream its conversations, too."""
    undecided = [proposal for proposal in stored.memory.proposals if proposal.changes]
    if draft.record.kind == "dream":
        # Its draft is what the model works on. Lines of old conversations may have expired by now.
        draft.expired = replace(stored.expired, written={})
        await dreaming.choose(draft, stored.marks, client)
    elif draft.record.kind == "bring":
        part = await _part_of(messages)
        await _begin_reading(draft, part, undecided)
    else:
        _check_room(undecided)
        draft.base = await _with_proposals(draft.memory, stored.files, undecided)


async def _talk(
    draft: Draft, stored: _Stored, taken: Sequence[Dated], client: LangGraphClient
) -> str:
    """What the model reads, of whichever kind it is. `taken` are lines that were taken back."""
    if draft.record.kind == "tidy":
        return await _read_memory(draft)
    if draft.dream:
        return await _transcripts(draft, taken, client)
    return await _read_conversations(draft, stored.marks, taken, client)


async def _read_stored(draft: Draft) -> _Stored:
    places = mark_places(draft.memory.actor)
    memory = await read_stored_memory(draft.memory, places)
    files = await platform.in_thread(files_in, memory.files)
    expired = await platform.in_thread(_expired_in, draft.deployment, memory.files)
    marks = marks_in(draft.owner, *memory.others)
    return _Stored(memory, files, expired, marks)


def _expired_in(d: Deployment, items: Sequence[Item]) -> ExpiredLines:
    """Which lines of these files have expired. Blocks."""
    profile: str | None = None
    written = dict[str, Mapping[str, str]]()
    for item in items:
        if profile is None and item.key == _PROFILE_KEY:
            profile = text_of(item)
        times = ends.written_of(item)
        if times:
            written[item.key] = times
    day = ends.present_day(d, profile)
    began = days.now().isoformat()
    return ExpiredLines(day, began, written)


def _check_room(undecided: Sequence[Proposal]) -> None:
    if len(undecided) >= MAX_PROPOSALS:
        raise NothingToDoError(UNDECIDED)


async def _with_proposals(
    memory: Memory, files: Mapping[str, FileData], proposals: Sequence[Proposal]
) -> Mapping[str, FileData]:
    """The files as they are once these proposals are accepted."""
    for proposal in proposals:
        changes = proposal.changes
        author = proposal.author
        files = await platform.in_thread(memory.applied, files, changes, author, skip=True)
    return files


# --- New conversations


async def _read_conversations(
    draft: Draft, marks: Marks, taken: Sequence[Dated], client: LangGraphClient
) -> str:
    """What is new in the oldest conversations that fit, which are then the draft's."""
    memory = draft.memory
    rules = draft.rules
    due, draft.reading_ops = await due_by(
        marks,
        memory.deployment,
        client.threads,
        memory.store,
        draft.owner,
        began=memory.began,
        runs=client.runs,
    )
    draft.shown = await platform.in_thread(batch, due, rules.batch_tokens)
    if not draft.shown:
        await journal.put_unless_forgotten(memory.store, draft.reading_ops, memory.began)
        raise NothingToDoError(NOTHING_NEW)
    waiting = [item for item in due if not item.position.undone]
    shown_whole = [item for item in draft.shown if item.whole]
    draft.more = len(waiting) > len(shown_whole)
    return await _transcripts(draft, taken, client)


async def _transcripts(draft: Draft, taken: Sequence[Dated], client: LangGraphClient) -> str:
    """The conversations of a batch as the model reads them, with what the person said in them."""
    if taken:
        draft.said = await _said_since_first(draft, taken, client)
    profile = texts(draft.base).get(_PROFILE_KEY)
    zone = await platform.in_thread(zone_of, profile)
    draft.evidence = await platform.in_thread(_evidence_of, draft.shown)
    transcripts = list[str]()
    for item in draft.shown:
        transcript = await platform.in_thread(item.transcript, draft.rules, zone)
        transcripts.append(transcript)
    return "\n\n".join(transcripts)


async def _said_since_first(
    draft: Draft, taken: Sequence[Dated], client: LangGraphClient
) -> Sequence[Dated]:
    """What the person said in the conversations since they first took one of these lines back."""
    times = [line.at for line in taken]
    first = min(times)
    return await said_since(client, draft.thread_ids, draft.owned, first)


def _evidence_of(shown: Sequence[Due]) -> Evidence:
    return Evidence.joined(item.evidence() for item in shown)


# --- All of memory


async def _read_memory(draft: Draft) -> str:
    """The person's files but their skills, as much as a batch holds."""
    files = draft.base_files()
    if not facts_of(files):
        raise NothingToDoError(NOTHING_TO_TIDY)
    draft.source = files
    own = list[TextFile]()
    for path, text in await platform.in_thread(draft.current_files):
        if not path.startswith(_SKILLS):
            own.append((path, text))
    max_bytes = draft.rules.batch_tokens * CHARS_PER_TOKEN
    talk, _ = await platform.in_thread(sections, own, max_bytes)
    return talk


# --- A text that was brought


async def _part_of(messages: Sequence[AnyMessage]) -> Part:
    """The part of a text that is the run's input."""
    with suppress(ValidationError):
        if len(messages) == 1:
            text = str(messages[0].text)
            return await platform.in_thread(Part.loaded, text)
    raise NothingToDoError(INTERRUPTED)


async def _begin_reading(draft: Draft, part: Part, undecided: Sequence[Proposal]) -> None:
    """Begin to read a part of a text, beside memory with what is proposed. Undecided proposals of
    other texts count no more.
    """
    memory = draft.memory
    own_id = proposal_id(part.text_id)
    own = list[Proposal]()
    older = list[str]()
    others = list[Proposal]()
    for proposal in undecided:
        if proposal.id.startswith(own_id):
            own.append(proposal)
        elif proposal.kind == "bring":
            older.append(proposal.id)
        else:
            others.append(proposal)
    # A new memory begins with its starting files, which the person may not have yet.
    await starting_files(memory.store, memory.actor, draft.assistant, memory.deployment, write=True)
    _check_room(others)
    # Of a text there are several proposals where the person decided while it was read: the run goes
    # on from the last.
    earlier = own[-1] if own else None
    decided_before = own[:-1]
    files = await memory.read()
    base = await _with_proposals(memory, files, [*others, *decided_before])
    draft.reading = Reading(part, base, earlier, older)
    draft.base = base
    if earlier:
        draft.base = await _with_proposals(memory, base, [earlier])


async def _read_text(draft: Draft, reading: Reading, taken: Mapping[Key, Dated]) -> str:
    """The entries that a model may read."""
    files = draft.base_files()
    deployment = draft.deployment
    known = await platform.in_thread(facts_of, files)
    await platform.in_thread(reading.sort_out, known, taken, deployment, draft.author)
    if not reading.entries:
        number_found = len(reading.part.entries)
        record = draft.record.ended("done", found=number_found)
        told = reading.told(record)
        raise NothingToDoError(json.dumps(told))
    text = await platform.in_thread(shown, reading.entries)
    draft.source = [*files, ("", text)]
    return f"# What the person brought\n\n{text}"
