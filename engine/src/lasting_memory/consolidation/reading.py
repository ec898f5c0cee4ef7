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
from lasting_memory.consolidation.facts import Key, facts_of
from lasting_memory.consolidation.lines_over import LinesOver
from lasting_memory.consolidation.no_batch import (
    INTERRUPTED,
    NOTHING_NEW,
    NOTHING_TO_TIDY,
    UNDECIDED,
    NothingToDoError,
)
from lasting_memory.consolidation.said_since import said_since
from lasting_memory.consolidation.taken_back import Dated, still_gone
from lasting_memory.days import zone_of
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory import ends, journal
from lasting_memory.memory.proposals import (
    MAX_PROPOSALS,
    Memory,
    Proposal,
    files_in,
    proposals_in,
    texts,
)
from lasting_memory.memory.stored_files import text_of
from lasting_memory.people import namespaces
from lasting_memory.recall import owned_by
from lasting_memory.vouching import Evidence


async def read(draft: Draft, messages: Sequence[AnyMessage], client: LangGraphClient) -> None:
    """Read a run's batch, and the person's files. `messages` are the run's input, in which a text
    that was brought is.
    """
    stored = await _read_stored(draft)
    draft.over = stored.over
    undecided = [proposal for proposal in stored.proposals if proposal.changes]
    if draft.record.kind == "dream":
        # Its draft is what the model works on. Lines of old conversations may be over by now.
        draft.over = replace(stored.over, written={})
        await dreaming.choose(draft, stored.marks, client)
    elif draft.record.kind == "bring":
        await _begin_reading(draft, await _part_of(messages), undecided)
    else:
        _check_room(undecided)
        draft.base = await _with_proposals(draft.memory, stored.files, undecided)
    taken = await draft.taken_back(stored.proposals, stored.revisions, stored.dropped)
    if draft.reading:
        talk = await _read_text(draft, draft.reading, taken)
    elif draft.record.kind == "tidy":
        talk = await _read_memory(draft)
    elif draft.dream:
        taken = await platform.in_thread(still_gone, taken, texts(stored.files))
        talk = await _transcripts(draft, taken, client)
    else:
        talk = await _read_conversations(draft, stored.marks, taken, client)
    await platform.in_thread(draft.show, talk, [*taken.values()])


class _Stored(NamedTuple):
    """What a run reads of the store before it reads conversations: the files, the items of their
    journals and of lines that were taken back before, the memory's proposals, and what says which turns are new.
    """

    files: Mapping[str, FileData]
    over: LinesOver
    revisions: Sequence[Item]
    dropped: Sequence[Item]
    proposals: Sequence[Proposal]
    marks: Marks


async def _read_stored(draft: Draft) -> _Stored:
    memory = draft.memory
    files, revisions, dropped, proposals, *marks = await journal.all_items_of(
        memory.store,
        [
            memory.files,
            namespaces.journals(memory.files),
            namespaces.taken_back(memory.files),
            namespaces.proposals(memory.actor),
            *mark_places(memory.actor),
        ],
    )
    return _Stored(
        files=await platform.in_thread(files_in, files),
        over=await platform.in_thread(_over_in, memory.deployment, files),
        revisions=revisions,
        dropped=dropped,
        proposals=memory.own_proposals(await proposals_in(proposals)),
        marks=marks_in(draft.owner, *marks),
    )


def _over_in(d: Deployment, items: Sequence[Item]) -> LinesOver:
    """Which lines of these files are over. Blocks."""
    profile = next((item for item in items if f"/memories{item.key}" == PROFILE_PATH), None)
    written = dict[str, Mapping[str, str]]()
    for item in items:
        times = ends.written_of(item)
        if times:
            written[item.key] = times
    day = ends.present_day(d, text_of(profile) if profile else None)
    return LinesOver(day, days.now().isoformat(), written)


def _check_room(undecided: Sequence[Proposal]) -> None:
    if len(undecided) >= MAX_PROPOSALS:
        raise NothingToDoError(UNDECIDED)


async def _with_proposals(
    memory: Memory, files: Mapping[str, FileData], proposals: Sequence[Proposal]
) -> Mapping[str, FileData]:
    """The files as they are once these proposals are accepted."""
    for proposal in proposals:
        files = await platform.in_thread(
            memory.applied, files, proposal.changes, proposal.author, skip=True
        )
    return files


# --- New conversations


async def _read_conversations(
    draft: Draft, marks: Marks, taken: Mapping[Key, Dated], client: LangGraphClient
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
    waiting = sum(not item.position.undone for item in due)
    draft.more = waiting > sum(item.whole for item in draft.shown)
    return await _transcripts(draft, taken, client)


async def _transcripts(draft: Draft, taken: Mapping[Key, Dated], client: LangGraphClient) -> str:
    """The conversations of a batch as the model reads them, with what the person said in them."""
    memory = draft.memory
    rules = draft.rules
    if taken:
        ids = [item.conversation.thread_id for item in draft.shown]
        owned = owned_by(draft.owner.actor, memory.deployment.agents)
        since = min(line.at for line in taken.values())
        draft.said = await said_since(client, ids, owned, since)
    profile = dict(draft.base_files()).get(PROFILE_PATH)
    zone = await platform.in_thread(zone_of, profile)
    draft.evidence = await platform.in_thread(_evidence_of, draft.shown)
    transcripts = list[str]()
    for item in draft.shown:
        transcripts.append(await platform.in_thread(item.transcript, rules, zone))
    return "\n\n".join(transcripts)


def _evidence_of(shown: Sequence[Due]) -> Evidence:
    return Evidence.joined(item.evidence() for item in shown)


# --- All of memory


async def _read_memory(draft: Draft) -> str:
    """The person's files but their skills, as much as a batch holds."""
    files = draft.base_files()
    if not facts_of(files):
        raise NothingToDoError(NOTHING_TO_TIDY)
    draft.source = files
    current = await platform.in_thread(draft.current_files)
    own = [(path, text) for path, text in current if not path.startswith("/memories/skills/")]
    talk, _ = await platform.in_thread(sections, own, draft.rules.batch_tokens * CHARS_PER_TOKEN)
    return talk


# --- A text that was brought


async def _part_of(messages: Sequence[AnyMessage]) -> Part:
    """The part of a text that is the run's input."""
    with suppress(ValidationError):
        if len(messages) == 1:
            return await platform.in_thread(Part.loaded, str(messages[0].text))
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
    files = await memory.read()
    base = await _with_proposals(memory, files, [*others, *own[:-1]])
    draft.reading = Reading(part, base, own[-1] if own else None, older)
    draft.base = await _with_proposals(memory, base, own[-1:])


async def _read_text(draft: Draft, reading: Reading, taken: Mapping[Key, Dated]) -> str:
    """The entries that a model may read."""
    files = draft.base_files()
    known = await platform.in_thread(facts_of, files)
    await platform.in_thread(reading.sort_out, known, taken, draft.memory.deployment, draft.author)
    if not reading.entries:
        nothing = draft.record.ended("done", found=len(reading.part.entries))
        raise NothingToDoError(json.dumps(reading.told(nothing)))
    text = await platform.in_thread(shown, reading.entries)
    draft.source = [*files, ("", text)]
    return f"# What the person brought\n\n{text}"
