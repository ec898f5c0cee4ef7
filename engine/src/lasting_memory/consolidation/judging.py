"""Judges what the model made of a draft.

The verdict says what may be committed, what is left out, and why nothing may be committed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from deepagents.backends.protocol import FileData

from lasting_memory import platform
from lasting_memory.agent.answers import CUT, SILENT, says_something
from lasting_memory.consolidation import guard
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.editor import Ending
from lasting_memory.consolidation.facts import Findings, Key
from lasting_memory.consolidation.kinds import Beyond, listed, within
from lasting_memory.consolidation.no_batch import FORGOTTEN, NothingToDoError
from lasting_memory.consolidation.record import Note, note
from lasting_memory.consolidation.sources import sources_now, sources_of_changes, unconfirmed
from lasting_memory.consolidation.taken_back import Dated, still_gone
from lasting_memory.consolidation.taken_back import returning as lines_returning
from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.memory.controls import PAUSED
from lasting_memory.memory.folder import sources_of_files
from lasting_memory.memory.proposals import Changed, Sources, changes, files_in, proposals_in, texts
from lasting_memory.people import namespaces

RETURNS = (
    "The person took this back, and has not said it again since: {}. What was said earlier does not count, however it is "
    "worded; leave it out."
)
INVENTED = (
    "This says what stands nowhere in what you were given: {}. Leave it out, or use its words."
)
DOUBTFUL = (
    "A text from elsewhere says this, and the person did not say it: {}. Leave it out, however it is "
    "worded."
)
BEYOND = "Consolidation may only {} lines and fields here. Leave this out: {}."
NOT_DONE = "Not done, because consolidation may only {} here: {}."  # as the person reads it
# Lines of one kind that the model is told of, and characters of each.
_LINES_TOLD = 5
_LINE_CHARS = 120


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a draft."""

    changed: Sequence[Changed] = ()  # what may be committed
    # Who vouches for what that adds, by path and entry.
    sources: Sources = MappingProxyType({})
    waits: bool = False  # whether the person sees and decides it first
    left_out: str = ""  # what is left out of the draft, and why, as the model is told
    problem: str = ""  # why nothing may be committed, as the model is told
    notes: Sequence[Note] = ()  # why something is left out, or nothing may be committed, for people
    failure: str = ""  # why the model's last answer is none
    # Whether nothing is tried again, nor planned, whatever the model would do.
    is_stopped: bool = False

    @property
    def objection(self) -> str:
        """What the model is told in another attempt; "" where there is no reason for one."""
        if self.is_stopped or self.failure:
            return ""
        return self.problem or self.left_out


async def judge(draft: Draft, ending: Ending) -> Verdict:
    """What becomes of a draft, once the model has ended.

    Raises `NothingToDoError` if its person was forgotten.
    """
    since, controls = await draft.since_it_began()
    if since.all_of_it or since.conversation:
        raise NothingToDoError(FORGOTTEN)
    if controls.paused:
        return Verdict(problem=f"{PAUSED}.", notes=[note("paused")], is_stopped=True)
    if ending.too_long:
        return Verdict(problem=ending.too_long, notes=[note("too_long")], is_stopped=True)
    if ending.failure:
        return Verdict(failure=ending.failure)
    verdict = await _judge_changes(draft)
    failure = _why_no_answer(ending, verdict)
    if failure:
        return Verdict(failure=failure)
    doubtful = await platform.in_thread(unconfirmed, verdict.changed, verdict.sources)
    is_proposed = bool(doubtful) and draft.memory.deployment.unconfirmed == "propose"
    return replace(verdict, waits=controls.review or bool(draft.source) or is_proposed)


def _why_no_answer(ending: Ending, verdict: Verdict) -> str:
    """Why the model's last answer is none.

    "" if it ended as whole answers end, and said or changed something.
    """
    if ending.answer is None:
        return SILENT
    cut = str(ending.answer.response_metadata.get(CUT, ""))
    if cut:
        return cut
    changes_something = verdict.changed or verdict.left_out or verdict.problem
    if changes_something or says_something(ending.answer):
        return ""
    return SILENT


async def _judge_changes(draft: Draft) -> Verdict:
    """What the guard, the deployment and the present files leave of a draft's changes."""
    edited = await replace(draft.memory, store=draft.copy).read()
    changed = await platform.in_thread(_settled, draft, edited)
    if not changed:
        return _left_out(draft, {}, {}, [], {})
    memory = await _memory_now(draft)
    returning = await _returning(draft, changed, memory)
    invented = Findings()
    if draft.source:
        invented = await platform.in_thread(guard.invented, changed, draft.source, draft.rules)
    changed = await platform.in_thread(guard.without, changed, {*returning, *invented})
    changed, beyond = await platform.in_thread(within, changed, draft.rules.may)
    sources = await platform.in_thread(sources_of_changes, draft, changed, memory.sources)
    doubtful = Findings()
    if draft.memory.deployment.unconfirmed == "refuse":
        doubtful = await platform.in_thread(unconfirmed, changed, sources)
        changed = await platform.in_thread(guard.without, changed, doubtful)
    left_out = _left_out(draft, returning, invented, beyond, doubtful)
    verdict = replace(left_out, changed=changed, sources=sources)
    objection = await _objection(draft, changed, memory, sources)
    if objection is None:
        return verdict
    return replace(verdict, problem=objection.problem, notes=objection.notes)


def _settled(draft: Draft, edited: Mapping[str, FileData]) -> list[Changed]:
    """What a draft changes, with what becomes of lines that are over: a tidy takes them out, where
    it may remove something, and other runs leave them. Blocks.
    """
    if draft.record.kind != "tidy" or "remove" not in draft.rules.may:
        return draft.over.kept(changes(draft.base, edited), draft.contradicted)
    changed, reasons = draft.over.taken_out(draft.base, edited)
    for path, lines in reasons.items():
        draft.given_up[path] |= lines
    return changed


class _MemoryNow(NamedTuple):
    """The person's files as they are now, and what the person has taken back up to now."""

    files: Mapping[str, FileData]
    taken_back: Mapping[Key, Dated]
    sources: Mapping[str, Source]  # who vouches for their entries, and for what is proposed


async def _memory_now(draft: Draft) -> _MemoryNow:
    memory = draft.memory
    files, revisions, dropped, proposals = await journal.all_items_of(
        memory.store,
        [
            memory.files,
            namespaces.journals(memory.files),
            namespaces.taken_back(memory.files),
            namespaces.proposals(memory.actor),
        ],
    )
    own_proposals = memory.own_proposals(await proposals_in(proposals))
    present = await platform.in_thread(files_in, files)
    sources = sources_now(await platform.in_thread(sources_of_files, files), own_proposals)
    taken_back = await draft.taken_back(own_proposals, revisions, dropped)
    if draft.dream:  # it changes its own draft
        taken_back = await platform.in_thread(still_gone, taken_back, texts(present))
        present = dict(draft.base)
        sources |= draft.dream.sources()
    return _MemoryNow(
        files=present,
        taken_back=taken_back,
        sources=sources,
    )


async def _returning(draft: Draft, changed: Sequence[Changed], memory: _MemoryNow) -> Findings:
    """The new lines that bring back what the person took back, also since the run began."""
    if not memory.taken_back:
        return {}
    return await platform.in_thread(
        lines_returning, changed, texts(memory.files), memory.taken_back, draft.said, draft.rules
    )


def _left_out(
    draft: Draft,
    returning: Findings,
    invented: Findings,
    beyond: Sequence[Beyond],
    doubtful: Findings,
) -> Verdict:
    """What is left out of a draft, and why, for the model and for people. A reading notes it, too."""
    reasons = list[str]()
    notes = list[Note]()
    if returning:
        reasons.append(RETURNS.format(_first_lines(returning)))
        lines = [sentence.rpartition(" (at ")[0] for sentence in returning.values()]
        notes.append(note("taken_back", *lines))
    if invented:
        reasons.append(INVENTED.format(_first_lines(invented)))
        notes.append(note("not_given", *invented.values()))
    kinds = listed(draft.rules.may)
    lines_beyond = [str(change) for change in beyond]
    first_beyond = "; ".join(lines_beyond[:_LINES_TOLD])
    if beyond:
        reasons.append(BEYOND.format(kinds, first_beyond))
        notes.append(note("not_allowed", *lines_beyond))
    if doubtful:
        reasons.append(DOUBTFUL.format(_first_lines(doubtful)))
        notes.append(note("unconfirmed", *doubtful.values()))
    if draft.reading:
        draft.reading.returning = {key: " ".join(key) for _, key in returning}
        draft.reading.invented = [*invented.values()]
        draft.reading.beyond = NOT_DONE.format(kinds, first_beyond) if beyond else ""
    return Verdict(left_out=" ".join(reasons), notes=notes)


def _first_lines(findings: Findings) -> str:
    """The first of these lines, with their files, as the model is told."""
    lines = list[str]()
    for (path, _), line in findings.items():
        lines.append(f"{path}: {line[:_LINE_CHARS]}")
    return "; ".join(lines[:_LINES_TOLD])


async def _objection(
    draft: Draft, changed: Sequence[Changed], memory: _MemoryNow, sources: Sources
) -> Verdict | None:
    """Why none of the changes may be committed, if there is a reason."""
    rules = draft.rules
    unchanged = list[tuple[str, str]]()
    if draft.source:
        rules = replace(rules, removable_share=0)  # each line that goes needs a reason
        unchanged = _unchanged_source(draft.source, changed)
    # A text that was brought takes no line away.
    given_up = {} if draft.reading else draft.given_up
    found = await platform.in_thread(guard.objection, changed, given_up, rules, unchanged)
    if found:
        return Verdict(problem=found.reason, notes=[note(found.kind, *found.lines)])
    whole = draft.with_earlier_parts(changed)
    try:
        await draft.memory.check(whole, draft.author, memory.files, sources)
    except ValueError as error:
        return Verdict(problem=str(error), notes=[note(getattr(error, "kind", "") or "refused")])
    return None


def _unchanged_source(
    source: Sequence[tuple[str, str]], changed: Sequence[Changed]
) -> list[tuple[str, str]]:
    """The files of a source, as path and text, that have not changed."""
    paths = {change.path for change in changed}
    return [(path, text) for path, text in source if path and path not in paths]
