"""What a run reads: a person's new conversations, all of them again for a dream (`dreaming.py`), all
of their memory to tidy, or a part of a text that they brought (`brought_part.py`).

Each function fills a draft, or raises `NothingToDoError` where there is nothing to read. What the
model is given to read is one text, whatever it is made of. Files and proposals are those of the
draft's memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from deepagents.backends.protocol import FileData
from langchain_core.messages import AnyMessage
from langgraph.store.base import Item
from langgraph_sdk.client import LangGraphClient

from lasting_memory import days, platform
from lasting_memory.agent.file_sections import sections
from lasting_memory.consolidation import dreaming
from lasting_memory.consolidation.assignment import show
from lasting_memory.consolidation.batch import CHARS_PER_TOKEN, DueConversation, batch
from lasting_memory.consolidation.brought_part import begin_reading, part_of, read_text
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.due import Marks, due_by, mark_places, marks_in
from lasting_memory.consolidation.expired_lines import ExpiredLines
from lasting_memory.consolidation.facts import TextFile, facts_of
from lasting_memory.consolidation.no_batch import NOTHING_NEW, NOTHING_TO_TIDY, NothingToDoError
from lasting_memory.consolidation.said_since import said_since
from lasting_memory.consolidation.stored_memory import StoredMemory, read_stored_memory
from lasting_memory.consolidation.taken_back import DatedText, still_gone
from lasting_memory.consolidation.undecided_proposals import (
    check_room,
    undecided_in,
    with_proposals,
)
from lasting_memory.days import zone_of
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory import ends, journal, line_times
from lasting_memory.memory.proposals import files_in, texts
from lasting_memory.memory.stored_files import text_of
from lasting_memory.vouching import Evidence

_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")
_SKILLS = "/memories/skills/"


class _StoreContents(NamedTuple):
    """What a run reads of the store before it reads conversations: the memory, its files and their
    expired lines, and what says which turns are new.
    """

    memory: StoredMemory
    files: Mapping[str, FileData]
    expired_lines: ExpiredLines
    marks: Marks


async def read(draft: Draft, messages: Sequence[AnyMessage], client: LangGraphClient) -> None:
    """Fill a draft with the files that the model works on, and with the text that it reads.

    `messages` are the run's input, which is read only for the text that a person brought. Raises
    `NothingToDoError` where there is nothing to read.
    """
    contents = await _read_store(draft)
    draft.expired_lines = contents.expired_lines
    await _read_files(draft, contents, messages, client)
    taken_lines = await draft.taken_back(contents.memory)
    if draft.dream:
        present_texts = texts(contents.files)
        taken_lines = await platform.in_thread(still_gone, taken_lines, present_texts)
    taken_ends = await draft.ends_taken_back(contents.memory)
    all_taken_lines = [*taken_lines.values(), *taken_ends.values()]
    if draft.reading:
        text = await read_text(draft, draft.reading, taken_lines)
    elif draft.dream:
        text = await _transcripts(draft, all_taken_lines, client)
    elif draft.record.kind == "tidy":
        text = await _read_memory(draft)
    else:
        await _choose_conversations(draft, contents.marks, client)
        text = await _transcripts(draft, all_taken_lines, client)
    await platform.in_thread(show, draft, text, all_taken_lines)


async def _read_files(
    draft: Draft, contents: _StoreContents, messages: Sequence[AnyMessage], client: LangGraphClient
) -> None:
    """Give a draft the files that the model works on, of a dream also its conversations, and of a
    text that was brought the part that is read.
    """
    undecided_proposals = undecided_in(contents.memory.proposals)
    if draft.record.kind == "dream":
        # Its draft is what the model works on. Lines of old conversations may have expired by now.
        draft.expired_lines = replace(contents.expired_lines, times_written={})
        await dreaming.choose(draft, contents.marks, client)
    elif draft.record.kind == "bring":
        part = await part_of(messages)
        await begin_reading(draft, part, undecided_proposals)
    else:
        check_room(undecided_proposals)
        draft.base = await with_proposals(draft.memory, contents.files, undecided_proposals)


async def _read_store(draft: Draft) -> _StoreContents:
    """What the store has of a draft's person."""
    places = mark_places(draft.memory.actor)
    memory = await read_stored_memory(draft.memory, places)
    files = await platform.in_thread(files_in, memory.files)
    expired_lines = await platform.in_thread(_expired_in, draft.deployment, memory.files)
    reading_items, kept_out_items = memory.other_places
    marks = marks_in(draft.owner, reading_items, kept_out_items)
    return _StoreContents(memory, files, expired_lines, marks)


def _expired_in(d: Deployment, items: Sequence[Item]) -> ExpiredLines:
    """The expired lines of these files. Blocks."""
    profile: str | None = None
    times_written = dict[str, Mapping[str, str]]()
    for item in items:
        # Of several files with this key the first counts.
        is_profile = item.key == _PROFILE_KEY
        if is_profile and profile is None:
            profile = text_of(item)
        times = line_times.times_of_file(item)
        if times:
            times_written[item.key] = times
    day = ends.present_day(d, profile)
    began = days.now().isoformat()
    return ExpiredLines(day, began, times_written)


async def _choose_conversations(draft: Draft, marks: Marks, client: LangGraphClient) -> None:
    """Give a draft what is new in the oldest conversations that fit into a batch.

    Raises `NothingToDoError` if nothing is new, and notes in the store until when that holds.
    """
    memory = draft.memory
    due_conversations, reading_ops = await due_by(
        marks,
        memory.deployment,
        client.threads,
        memory.store,
        draft.owner,
        writer=memory.writer,
        runs=client.runs,
    )
    draft.reading_ops = reading_ops
    draft.shown_conversations = await platform.in_thread(
        batch, due_conversations, draft.rules.batch_tokens
    )
    if not draft.shown_conversations:
        await journal.put_unless_forgotten(memory.store, reading_ops, memory.writer)
        raise NothingToDoError(NOTHING_NEW)
    draft.is_more_due = _are_more_due(due_conversations, draft.shown_conversations)


def _are_more_due(
    due_conversations: Sequence[DueConversation], shown_conversations: Sequence[DueConversation]
) -> bool:
    """Whether conversations are left for the next run: more are due, not counting those that were
    undone, than are shown whole.
    """
    number_waiting = 0
    for item in due_conversations:
        if not item.position.undone:
            number_waiting += 1
    number_shown_whole = 0
    for item in shown_conversations:
        if item.is_whole:
            number_shown_whole += 1
    return number_waiting > number_shown_whole


async def _transcripts(
    draft: Draft, taken_lines: Sequence[DatedText], client: LangGraphClient
) -> str:
    """The conversations of a batch as the model reads them. The draft gets what the person said in
    them, and, where lines were taken back, what they said since.
    """
    if taken_lines:
        draft.messages_since = await _said_since_first(draft, taken_lines, client)
    draft.evidence = await platform.in_thread(_evidence_of, draft.shown_conversations)
    return await platform.in_thread(_transcripts_of, draft)


def _transcripts_of(draft: Draft) -> str:
    """The transcripts of a draft's conversations, with the days of the person's time zone. Blocks."""
    base_texts = texts(draft.base)
    profile = base_texts.get(_PROFILE_KEY)
    zone = zone_of(profile)
    transcripts = list[str]()
    for item in draft.shown_conversations:
        transcript = item.transcript(draft.rules, zone)
        transcripts.append(transcript)
    return "\n\n".join(transcripts)


async def _said_since_first(
    draft: Draft, taken_lines: Sequence[DatedText], client: LangGraphClient
) -> Sequence[DatedText]:
    """What the person said in the conversations since they first took one of these lines back."""
    times = [line.at for line in taken_lines]
    earliest = min(times)
    return await said_since(client, draft.thread_ids, draft.owner_metadata, earliest)


def _evidence_of(shown_conversations: Sequence[DueConversation]) -> Evidence:
    """What the person said in these conversations, and what texts from elsewhere say. Blocks."""
    return Evidence.joined(item.evidence() for item in shown_conversations)


async def _read_memory(draft: Draft) -> str:
    """The person's files but their skills, as much as a batch holds.

    Raises `NothingToDoError` if they have no facts.
    """
    files = draft.base_files()
    if not facts_of(files):
        raise NothingToDoError(NOTHING_TO_TIDY)
    draft.usable_texts = files
    current_files = await platform.in_thread(draft.current_files)
    shown_files = list[TextFile]()
    for path, text in current_files:
        if not path.startswith(_SKILLS):
            shown_files.append((path, text))
    max_bytes = draft.rules.batch_tokens * CHARS_PER_TOKEN
    text, _ = await platform.in_thread(sections, shown_files, max_bytes)
    return text
