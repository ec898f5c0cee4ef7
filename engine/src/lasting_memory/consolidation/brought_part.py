"""What a run reads of a text that its person brought: one part of it, without the entries that
memory has, that were taken back or that may not be written (`bringing.py`).

Each function fills a draft, or raises `NothingToDoError` where there is nothing to read.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from langchain_core.messages import AnyMessage
from pydantic import ValidationError

from lasting_memory import platform
from lasting_memory.agent.starting_files import starting_files
from lasting_memory.consolidation.bringing import Reading
from lasting_memory.consolidation.brought import Part, proposal_id, text_of_entries
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.facts import LineWords, facts_of
from lasting_memory.consolidation.no_batch import INTERRUPTED, NothingToDoError
from lasting_memory.consolidation.taken_back import DatedText
from lasting_memory.consolidation.undecided_proposals import check_room, with_proposals
from lasting_memory.memory.proposals import Proposal


async def part_of(messages: Sequence[AnyMessage]) -> Part:
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

    text_proposals: Sequence[Proposal]
    other_text_proposals: Sequence[Proposal]
    other_proposals: Sequence[Proposal]


def _sorted_out(undecided_proposals: Sequence[Proposal], text_id: str) -> _Undecided:
    """The undecided proposals by whether they are of this text."""
    id_prefix = proposal_id(text_id)
    text_proposals = list[Proposal]()
    other_text_proposals = list[Proposal]()
    other_proposals = list[Proposal]()
    for proposal in undecided_proposals:
        if proposal.id.startswith(id_prefix):
            text_proposals.append(proposal)
        elif proposal.kind == "bring":
            other_text_proposals.append(proposal)
        else:
            other_proposals.append(proposal)
    return _Undecided(text_proposals, other_text_proposals, other_proposals)


async def begin_reading(draft: Draft, part: Part, undecided_proposals: Sequence[Proposal]) -> None:
    """Begin to read a part of a text, beside memory with what is proposed.

    Undecided proposals of other texts do not count: what is proposed of this one takes their place.
    """
    memory = draft.memory
    proposals = _sorted_out(undecided_proposals, part.text_id)
    # A new memory begins with its starting files, which the person may not have yet.
    await starting_files(
        memory.store,
        memory.actor,
        assistant=draft.assistant,
        deployment=memory.deployment,
        write=True,
    )
    check_room(proposals.other_proposals)
    # Of a text there are several proposals where the person decided while it was read: the run goes
    # on from the last.
    decided_proposals = proposals.text_proposals[:-1]
    earlier_proposal: Proposal | None = None
    if proposals.text_proposals:
        earlier_proposal = proposals.text_proposals[-1]
    files = await memory.read()
    assumed_proposals = [*proposals.other_proposals, *decided_proposals]
    base = await with_proposals(memory, files, assumed_proposals)
    replaced_ids = [proposal.id for proposal in proposals.other_text_proposals]
    draft.reading = Reading(part, base, earlier_proposal, replaced_ids=replaced_ids)
    draft.base = base
    if earlier_proposal:
        draft.base = await with_proposals(memory, base, [earlier_proposal])


async def read_text(
    draft: Draft, reading: Reading, taken_lines: Mapping[LineWords, DatedText]
) -> str:
    """The entries that a model may read.

    Raises `NothingToDoError` if there are none. Its message is the answer to the request, as JSON.
    """
    files = draft.base_files()
    known_facts = await platform.in_thread(facts_of, files)
    await platform.in_thread(
        reading.sort_out, known_facts, taken_lines, draft.deployment, draft.author
    )
    if not reading.entries:
        number_found = len(reading.part.entries)
        record = draft.record.ended("done", found=number_found)
        answer = reading.answer(record)
        raise NothingToDoError(json.dumps(answer))
    text = await platform.in_thread(text_of_entries, reading.entries)
    text_without_file = ("", text)
    draft.usable_texts = [*files, text_without_file]
    return f"# What the person brought\n\n{text}"
