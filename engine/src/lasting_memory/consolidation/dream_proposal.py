"""The end of a dream: where nothing is left to read, its last run proposes what the dream's files
would change of today's memory (`dream_result.py`), or notes that nothing would change.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation import guard
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.dream_progress import (
    advance,
    dream_store_of,
    pause,
    plan_next,
    store_progress,
)
from lasting_memory.consolidation.dream_result import Result, result_of
from lasting_memory.consolidation.dream_threads import LoadedDream, readable
from lasting_memory.consolidation.dreams import Dream, DreamUpdate, Reason
from lasting_memory.consolidation.facts import LineWords
from lasting_memory.consolidation.no_batch import NO_DREAM, NothingToDoError
from lasting_memory.consolidation.record import Record
from lasting_memory.consolidation.record_keeping import keep_record
from lasting_memory.consolidation.returning_lines import returning
from lasting_memory.consolidation.stored_memory import StoredMemory, read_stored_memory
from lasting_memory.consolidation.taken_back import DatedText
from lasting_memory.consolidation.undecided_proposals import undecided_in
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import MAX_PROPOSALS, Proposal, diffs, files_in, texts
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author

logger = logging.getLogger(__name__)

# Answers of the last run.
DONE = "All conversations were read again; what would change is proposed."
SAME = "All conversations were read again; nothing would change."
CAPPED = "The agreed number of tokens is used; what would change by then is proposed."


async def finish(draft: Draft, loaded_dream: LoadedDream, client: LangGraphClient) -> str:
    """Propose what the dream's files would change of today's memory, and end the dream.

    Returns the run's answer: `DONE` or `CAPPED`, or `SAME` if nothing would change. `NO_DREAM` where
    it does not end: memory refuses the proposal, and the dream waits; or a conversation was deleted
    meanwhile, and the dream goes on.

    Raises `NothingToDoError` where the dream is over by now, or waits until the person has decided
    about other proposals.
    """
    is_anything_unread = bool(loaded_dream.unread())
    dream = loaded_dream.dream
    is_capped = is_anything_unread and dream.tokens >= dream.cap
    reason: Reason = "cap" if is_capped else ""
    update = DreamUpdate(threads=loaded_dream.updates_without_new_turns())
    dream = await advance(draft, loaded_dream, dream, update)
    stored_memory = await read_stored_memory(draft.memory)
    proposals = stored_memory.proposals
    await _check_room(draft, proposals)
    result = await _result_for_today(draft, loaded_dream, stored_memory)
    # A run that died may have proposed it.
    ids = [proposal.id for proposal in proposals]
    is_proposed = any(proposal_id.startswith(dream.proposal_id) for proposal_id in ids)
    if not is_proposed and not result.changes:
        ended_dream = replace(dream, status="ended", reason=reason or "same")
        record = draft.record.ended("done")
        await _end(draft, ended_dream, record)
        return SAME
    if not is_proposed:
        is_proposed = await _propose(draft, dream, result, proposals)
    if not is_proposed:
        # The files stay, for the person to make room and go on.
        refused_dream = replace(dream, status="failed", reason="refused")
        no_update = DreamUpdate()
        await store_progress(draft, refused_dream, no_update)
        return NO_DREAM
    if await _is_any_deleted(draft, loaded_dream, client):  # what came of it is not proposed
        await _withdraw(draft, dream)
        await plan_next(draft, client)
        return NO_DREAM
    proposed_dream = replace(dream, status="proposed", reason=reason)
    record = await _record_of_all_runs(draft, dream, result)
    await _end(draft, proposed_dream, record)
    return CAPPED if is_capped else DONE


async def _is_any_deleted(draft: Draft, loaded_dream: LoadedDream, client: LangGraphClient) -> bool:
    """Whether a conversation that the dream has read was deleted, or marked, since then."""
    memory = draft.memory
    changed_at = await readable(draft.deployment, client.threads, draft.owner)
    # Whoever deletes one notes that first, then looks whether a proposal has something of it.
    run_began = draft.record.started_at
    deleted_ids = await journal.deleted_since(memory.store, memory.actor, run_began)
    present_ids = changed_at.keys() - deleted_ids
    return not present_ids.issuperset(loaded_dream.stored_dream.threads)


async def _check_room(draft: Draft, proposals: Sequence[Proposal]) -> None:
    """Raises `NothingToDoError` where the person has too many undecided proposals of other kinds.
    Then the dream waits.
    """
    number = 0
    for proposal in undecided_in(proposals):
        if proposal.kind != "dream":
            number += 1
    if number >= MAX_PROPOSALS:
        await pause(draft, "undecided")
        raise NothingToDoError(NO_DREAM)


async def _result_for_today(
    draft: Draft, loaded_dream: LoadedDream, stored_memory: StoredMemory
) -> Result:
    """What the dream's files would change of today's memory, without lines that were taken back
    since the dream began.
    """
    files = await platform.in_thread(files_in, stored_memory.files)
    limits = draft.deployment.limits
    histories = await platform.in_thread(journal.histories_in, stored_memory.revisions, limits)
    result = await platform.in_thread(
        result_of,
        files,
        dict(histories),
        loaded_dream.stored_dream.files,
        read_thread_ids=loaded_dream.read_whole(),
        expired_lines=draft.expired_lines,
        rules=draft.rules,
    )
    # What was taken back earlier, every batch has left out, unless it was said again later.
    taken_lines = await draft.taken_back(stored_memory)
    lines_taken_since = dict[LineWords, DatedText]()
    for line_words, line in taken_lines.items():
        if line.at >= loaded_dream.dream.began:
            lines_taken_since[line_words] = line
    present_texts = texts(files)
    findings = await platform.in_thread(
        returning, result.changes, present_texts, lines_taken_since, (), draft.rules
    )
    remaining_changes = await platform.in_thread(guard.without, result.changes, findings)
    return result._replace(changes=remaining_changes)


async def _withdraw(draft: Draft, dream: Dream) -> None:
    """Delete a dream's proposal."""
    memory = draft.memory
    place = namespaces.proposals(memory.actor)
    await memory.store.adelete(place, dream.proposal_id)


async def _propose(
    draft: Draft, dream: Dream, result: Result, proposals: Sequence[Proposal]
) -> bool:
    """Propose a result in place of undecided ones of earlier dreams, which are among the memory's
    `proposals`. Returns False if memory refuses it.

    Raises `NothingToDoError` where the dream is over by now.
    """
    memory = draft.memory
    author = Author("consolidation", draft.owner.actor.user_id, dream.proposal_id)
    proposal = Proposal(
        id=dream.proposal_id,
        at=draft.record.started_at,
        memory=memory.files[-1],
        author=author,
        changes=result.changes,
        threads=result.thread_ids,
        kind="dream",
        reasons=result.reasons,
        sources=result.sources,
        origins=result.origins,
    )
    undecided_ids = list[str]()
    for undecided_proposal in undecided_in(proposals):
        if undecided_proposal.kind == "dream":
            undecided_ids.append(undecided_proposal.id)
    try:
        await memory.check(result.changes, author, sources=result.sources)
        await memory.propose_instead(proposal, undecided_ids)
    except RefusedWrite as error:
        logger.warning("What a dream would change was not proposed: %s", error)
        return False
    if await dream_store_of(draft).is_going_on(dream):
        return True
    # Its person stopped it while it was proposed.
    await _withdraw(draft, dream)
    raise NothingToDoError(NO_DREAM)


async def _record_of_all_runs(draft: Draft, dream: Dream, result: Result) -> Record:
    """The one record of all runs of a dream, whose result is proposed."""
    files = await platform.in_thread(diffs, result.changes)
    record = draft.record.ended("proposed", files=files)
    return replace(
        record,
        run_id=dream.proposal_id,
        started_at=dream.began,
        input_tokens=dream.tokens,
    )


async def _end(draft: Draft, dream: Dream, record: Record) -> None:
    """Keep the record of a dream that is over, with its numbers of conversations and messages, and
    delete its files.
    """
    record_with_numbers = replace(record, conversations=dream.read, messages=dream.messages)
    await keep_record(draft, record_with_numbers)
    await dream_store_of(draft).end(dream)
