"""What a run reads: a person's new conversations, all of them again for a dream, all of their
memory to tidy, or a part of a text that they brought.

Each function fills a draft, or raises `NothingToDoError` where there is nothing to read. What the
model is given to read is one text, whatever it is made of. Files and proposals are those of the
draft's memory.
"""

import json
from collections.abc import Mapping, Sequence
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
from lasting_memory.memory import ends, journal, line_times
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
    """Fill a draft with the files that the model works on, and with the text that it reads.

    `messages` are the run's input, which is read only for the text that a person brought. Raises
    `NothingToDoError` where there is nothing to read.
    """
    stored = await _read_stored(draft)
    draft.expired = stored.expired
    await _read_files(draft, stored, messages, client)
    taken_back = await draft.taken_back(stored.memory)
    if draft.dream:
        present = texts(stored.files)
        taken_back = await platform.in_thread(still_gone, taken_back, present)
    ends_taken_back = await draft.ends_taken_back(stored.memory)
    lines_taken_back = [*taken_back.values(), *ends_taken_back.values()]
    if draft.reading:
        text = await _read_text(draft, draft.reading, taken_back)
    elif draft.dream:
        text = await _transcripts(draft, lines_taken_back, client)
    elif draft.record.kind == "tidy":
        text = await _read_memory(draft)
    else:
        await _choose_conversations(draft, stored.marks, client)
        text = await _transcripts(draft, lines_taken_back, client)
    await platform.in_thread(draft.show, text, lines_taken_back)


async def _read_files(
    draft: Draft, stored: _Stored, messages: Sequence[AnyMessage], client: LangGraphClient
) -> None:
    """Give a draft the files that the model works on, of a dream also its conversations, and of a
    text that was brought the part that is read.
    """
    undecided = list[Proposal]()
    for proposal in stored.memory.proposals:
        if proposal.changes:
            undecided.append(proposal)
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


async def _read_stored(draft: Draft) -> _Stored:
    """What the store has of a draft's person."""
    places = mark_places(draft.memory.actor)
    memory = await read_stored_memory(draft.memory, places)
    files = await platform.in_thread(files_in, memory.files)
    expired = await platform.in_thread(_expired_in, draft.deployment, memory.files)
    reading_marks, kept_out = memory.other_places
    marks = marks_in(draft.owner, reading_marks, kept_out)
    return _Stored(memory, files, expired, marks)


def _expired_in(d: Deployment, items: Sequence[Item]) -> ExpiredLines:
    """The expired lines of these files. Blocks."""
    profile: str | None = None
    written = dict[str, Mapping[str, str]]()
    for item in items:
        # Of several files with this key the first counts.
        is_profile = item.key == _PROFILE_KEY
        if is_profile and profile is None:
            profile = text_of(item)
        times = line_times.times_of_file(item)
        if times:
            written[item.key] = times
    day = ends.present_day(d, profile)
    began = days.now().isoformat()
    return ExpiredLines(day, began, written)


def _check_room(undecided: Sequence[Proposal]) -> None:
    """Raises `NothingToDoError` if the person has too many undecided proposals for another one."""
    if len(undecided) >= MAX_PROPOSALS:
        raise NothingToDoError(UNDECIDED)


async def _with_proposals(
    memory: Memory, files: Mapping[str, FileData], proposals: Sequence[Proposal]
) -> Mapping[str, FileData]:
    """The files as they are once these proposals are accepted. A change that cannot be made any more
    is left out.
    """
    for proposal in proposals:
        files = await platform.in_thread(
            memory.applied, files, proposal.changes, proposal.author, skip=True
        )
    return files


# --- Conversations


async def _choose_conversations(draft: Draft, marks: Marks, client: LangGraphClient) -> None:
    """Give a draft what is new in the oldest conversations that fit into a batch.

    Raises `NothingToDoError` if nothing is new, and notes in the store until when that holds.
    """
    memory = draft.memory
    due, reading_ops = await due_by(
        marks,
        memory.deployment,
        client.threads,
        memory.store,
        draft.owner,
        began=memory.began,
        runs=client.runs,
    )
    draft.reading_ops = reading_ops
    draft.shown = await platform.in_thread(batch, due, draft.rules.batch_tokens)
    if not draft.shown:
        await journal.put_unless_forgotten(memory.store, reading_ops, memory.began)
        raise NothingToDoError(NOTHING_NEW)
    draft.more = _are_more_due(due, draft.shown)


def _are_more_due(due: Sequence[Due], shown: Sequence[Due]) -> bool:
    """Whether conversations are left for the next run: more are due, not counting those that were
    undone, than are shown whole.
    """
    waiting = 0
    for item in due:
        if not item.position.undone:
            waiting += 1
    shown_whole = 0
    for item in shown:
        if item.whole:
            shown_whole += 1
    return waiting > shown_whole


async def _transcripts(draft: Draft, taken_back: Sequence[Dated], client: LangGraphClient) -> str:
    """The conversations of a batch as the model reads them. The draft gets what the person said in
    them, and, where lines were taken back, what they said since.
    """
    if taken_back:
        draft.said = await _said_since_first(draft, taken_back, client)
    draft.evidence = await platform.in_thread(_evidence_of, draft.shown)
    return await platform.in_thread(_transcripts_of, draft)


def _transcripts_of(draft: Draft) -> str:
    """The transcripts of a draft's conversations, with the days of the person's time zone. Blocks."""
    base_texts = texts(draft.base)
    profile = base_texts.get(_PROFILE_KEY)
    zone = zone_of(profile)
    transcripts = list[str]()
    for item in draft.shown:
        transcript = item.transcript(draft.rules, zone)
        transcripts.append(transcript)
    return "\n\n".join(transcripts)


async def _said_since_first(
    draft: Draft, taken_back: Sequence[Dated], client: LangGraphClient
) -> Sequence[Dated]:
    """What the person said in the conversations since they first took one of these lines back."""
    times = [line.at for line in taken_back]
    first = min(times)
    return await said_since(client, draft.thread_ids, draft.owned, first)


def _evidence_of(shown: Sequence[Due]) -> Evidence:
    """What the person said in these conversations, and what texts from elsewhere say. Blocks."""
    return Evidence.joined(item.evidence() for item in shown)


# --- All of memory


async def _read_memory(draft: Draft) -> str:
    """The person's files but their skills, as much as a batch holds.

    Raises `NothingToDoError` if they have no facts.
    """
    files = draft.base_files()
    if not facts_of(files):
        raise NothingToDoError(NOTHING_TO_TIDY)
    draft.source = files
    current_files = await platform.in_thread(draft.current_files)
    shown_files = list[TextFile]()
    for path, text in current_files:
        if not path.startswith(_SKILLS):
            shown_files.append((path, text))
    max_bytes = draft.rules.batch_tokens * CHARS_PER_TOKEN
    text, _ = await platform.in_thread(sections, shown_files, max_bytes)
    return text


# --- A text that was brought


async def _part_of(messages: Sequence[AnyMessage]) -> Part:
    """The part of a text that is the run's input.

    Raises `NothingToDoError` if the input is anything else: the person has to send the text again.
    """
    if len(messages) != 1:
        raise NothingToDoError(INTERRUPTED)
    text = str(messages[0].text)
    try:
        return await platform.in_thread(Part.loaded, text)
    except ValidationError:
        raise NothingToDoError(INTERRUPTED) from None


class _Undecided(NamedTuple):
    """Undecided proposals, oldest first: those of a text that was brought, those of other such
    texts, and all others.
    """

    of_text: Sequence[Proposal]
    of_other_texts: Sequence[Proposal]
    others: Sequence[Proposal]


def _sorted_out(undecided: Sequence[Proposal], text_id: str) -> _Undecided:
    """The undecided proposals by whether they are of this text."""
    id_prefix = proposal_id(text_id)
    of_text = list[Proposal]()
    of_other_texts = list[Proposal]()
    others = list[Proposal]()
    for proposal in undecided:
        if proposal.id.startswith(id_prefix):
            of_text.append(proposal)
        elif proposal.kind == "bring":
            of_other_texts.append(proposal)
        else:
            others.append(proposal)
    return _Undecided(of_text, of_other_texts, others)


async def _begin_reading(draft: Draft, part: Part, undecided: Sequence[Proposal]) -> None:
    """Begin to read a part of a text, beside memory with what is proposed.

    Undecided proposals of other texts do not count: what is proposed of this one takes their place.
    """
    memory = draft.memory
    proposals = _sorted_out(undecided, part.text_id)
    # A new memory begins with its starting files, which the person may not have yet.
    await starting_files(
        memory.store,
        memory.actor,
        assistant=draft.assistant,
        deployment=memory.deployment,
        write=True,
    )
    _check_room(proposals.others)
    # Of a text there are several proposals where the person decided while it was read: the run goes
    # on from the last.
    decided_before = proposals.of_text[:-1]
    earlier: Proposal | None = None
    if proposals.of_text:
        earlier = proposals.of_text[-1]
    files = await memory.read()
    assumed = [*proposals.others, *decided_before]
    base = await _with_proposals(memory, files, assumed)
    older_ids = [proposal.id for proposal in proposals.of_other_texts]
    draft.reading = Reading(part, base, earlier, older=older_ids)
    draft.base = base
    if earlier:
        draft.base = await _with_proposals(memory, base, [earlier])


async def _read_text(draft: Draft, reading: Reading, taken_back: Mapping[Key, Dated]) -> str:
    """The entries that a model may read.

    Raises `NothingToDoError` if there are none. Its message is the answer to the request, as JSON.
    """
    files = draft.base_files()
    known = await platform.in_thread(facts_of, files)
    await platform.in_thread(reading.sort_out, known, taken_back, draft.deployment, draft.author)
    if not reading.entries:
        number_found = len(reading.part.entries)
        record = draft.record.ended("done", found=number_found)
        answer = reading.told(record)
        raise NothingToDoError(json.dumps(answer))
    text = await platform.in_thread(shown, reading.entries)
    text_without_file = ("", text)
    draft.source = [*files, text_without_file]
    return f"# What the person brought\n\n{text}"
