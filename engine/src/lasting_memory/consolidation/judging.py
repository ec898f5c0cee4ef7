"""Judges what the model made of a draft.

The verdict says what may be committed, what is left out, and why nothing may be committed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from deepagents.backends.protocol import FileData

from lasting_memory import platform
from lasting_memory.agent.answers import CUT, SILENT, says_something
from lasting_memory.consolidation import guard
from lasting_memory.consolidation.bringing import Reading
from lasting_memory.consolidation.changed_ends import DatedKey, ends_returning
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.editor import Ending
from lasting_memory.consolidation.facts import Findings, Key, TextFile
from lasting_memory.consolidation.no_batch import FORGOTTEN, NothingToDoError
from lasting_memory.consolidation.permitted_changes import Beyond, listed, within
from lasting_memory.consolidation.record import Note, note
from lasting_memory.consolidation.sources import sources_now, sources_of_changes, unconfirmed
from lasting_memory.consolidation.stored_memory import read_stored_memory
from lasting_memory.consolidation.taken_back import Dated, still_gone
from lasting_memory.consolidation.taken_back import returning as lines_returning
from lasting_memory.deployment import Consolidation, Source
from lasting_memory.memory.controls import PAUSED
from lasting_memory.memory.folder import sources_of_files
from lasting_memory.memory.proposals import Changed, Sources, changes, files_in, texts

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
    sources: Sources = field(default_factory=dict)
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


class _MemoryNow(NamedTuple):
    """The person's files as they are now, and what the person has taken back up to now."""

    files: Mapping[str, FileData]
    taken_back: Mapping[Key, Dated]
    ends_taken_back: Mapping[DatedKey, Dated]
    sources: Mapping[str, Source]  # who vouches for their entries, and for what is proposed


@dataclass(slots=True)
class _LeftOut:
    """What is left out of a draft: what comes back, what nobody said, what may not be done, and what
    nobody vouches for.
    """

    returning: Findings = field(default_factory=Findings)
    invented: Findings = field(default_factory=Findings)
    beyond: Sequence[Beyond] = ()
    doubtful: Findings = field(default_factory=Findings)


async def judge(draft: Draft, ending: Ending) -> Verdict:
    """What becomes of a draft, once the model has ended.

    Raises `NothingToDoError` if its person was forgotten.
    """
    since, controls = await draft.since_it_began()
    if since.all_of_it or since.conversation:
        raise NothingToDoError(FORGOTTEN)
    if controls.paused:
        return _stopped(f"{PAUSED}.", "paused")
    if ending.too_long:
        return _stopped(ending.too_long, "too_long")
    if ending.failure:
        return Verdict(failure=ending.failure)
    verdict = await _judge_changes(draft)
    failure = _why_no_answer(ending, verdict)
    if failure:
        return Verdict(failure=failure)
    waits = controls.review or bool(draft.source)
    if not waits:
        waits = await _is_doubtful(draft, verdict)
    return replace(verdict, waits=waits)


def _stopped(problem: str, kind: str) -> Verdict:
    return Verdict(problem=problem, notes=[note(kind)], is_stopped=True)


async def _is_doubtful(draft: Draft, verdict: Verdict) -> bool:
    """Whether the deployment has the person decide what nobody vouches for, and there is such."""
    if draft.deployment.unconfirmed != "propose":
        return False
    doubtful = await platform.in_thread(unconfirmed, verdict.changed, verdict.sources)
    return bool(doubtful)


def _why_no_answer(ending: Ending, verdict: Verdict) -> str:
    """Why the model's last answer is none.

    "" if it ended as whole answers end, and said or changed something.
    """
    answer = ending.answer
    if answer is None:
        return SILENT
    cut = str(answer.response_metadata.get(CUT, ""))
    if cut:
        return cut
    changes_something = verdict.changed or verdict.left_out or verdict.problem
    if changes_something or says_something(answer):
        return ""
    return SILENT


async def _judge_changes(draft: Draft) -> Verdict:
    """What the guard, the deployment and the present files leave of a draft's changes."""
    edited = await _edited(draft)
    changed = await platform.in_thread(_settled, draft, edited)
    if not changed:
        return _verdict(draft, _LeftOut())
    memory = await _memory_now(draft)
    allowed, left_out = await _allowed(draft, changed, memory)
    sources = await platform.in_thread(sources_of_changes, draft, allowed, memory.sources)
    # What a person brings is their own decision: it waits for them, and is marked.
    if draft.deployment.unconfirmed == "refuse" and draft.reading is None:
        doubtful = await platform.in_thread(unconfirmed, allowed, sources)
        allowed = await platform.in_thread(guard.without, allowed, doubtful)
        left_out.doubtful = doubtful
    verdict = _verdict(draft, left_out)
    verdict = replace(verdict, changed=allowed, sources=sources)
    objection = await _objection(draft, allowed, memory, sources)
    if objection is None:
        return verdict
    return replace(verdict, problem=objection.problem, notes=objection.notes)


async def _edited(draft: Draft) -> Mapping[str, FileData]:
    """The files as the model left them."""
    memory_of_copy = replace(draft.memory, store=draft.copy)
    return await memory_of_copy.read()


async def _allowed(
    draft: Draft, changed: Sequence[Changed], memory: _MemoryNow
) -> tuple[list[Changed], _LeftOut]:
    """The changes without lines that come back, that nobody said, or that may not be changed so."""
    returning = await _returning(draft, changed, memory)
    invented = await _invented(draft, changed)
    given = await platform.in_thread(guard.without, changed, {*returning, *invented})
    allowed, beyond = await platform.in_thread(within, given, draft.rules.may)
    left_out = _LeftOut(returning, invented, beyond)
    return allowed, left_out


def _settled(draft: Draft, edited: Mapping[str, FileData]) -> list[Changed]:
    """What a draft changes, with what becomes of lines that are over: a tidy takes them out, where
    it may remove something, and other runs leave them. Blocks.
    """
    may_remove = "remove" in draft.rules.may
    if draft.record.kind != "tidy" or not may_remove:
        changed = changes(draft.base, edited)
        return draft.expired.put_back(changed, draft.contradicted)
    changed, reasons = draft.expired.changes_without(draft.base, edited)
    for path, lines in reasons.items():
        given_up = draft.given_up[path]
        given_up.update(lines)
    return changed


async def _memory_now(draft: Draft) -> _MemoryNow:
    memory = await read_stored_memory(draft.memory)
    present = await platform.in_thread(files_in, memory.files)
    in_files = await platform.in_thread(sources_of_files, memory.files)
    sources = sources_now(in_files, memory.proposals)
    taken_back = await draft.taken_back(memory)
    ends_taken_back = await draft.ends_taken_back(memory)
    if draft.dream is None:
        return _MemoryNow(present, taken_back, ends_taken_back, sources)
    # A dream changes its own draft.
    gone = await platform.in_thread(still_gone, taken_back, texts(present))
    in_draft = draft.dream.sources()
    return _MemoryNow(draft.base, gone, ends_taken_back, {**sources, **in_draft})


async def _returning(draft: Draft, changed: Sequence[Changed], memory: _MemoryNow) -> Findings:
    """The new lines that bring back what the person took back, also since the run began."""
    now = texts(memory.files)
    lines = await platform.in_thread(
        lines_returning, changed, now, memory.taken_back, draft.said, draft.rules
    )
    ends = await platform.in_thread(
        ends_returning, changed, now, memory.ends_taken_back, draft.said, draft.rules
    )
    return {**ends, **lines}


async def _invented(draft: Draft, changed: Sequence[Changed]) -> Findings:
    """The new lines that say what is not in the source, where the draft has one."""
    if not draft.source:
        return {}
    return await platform.in_thread(guard.invented, changed, draft.source, draft.rules)


def _verdict(draft: Draft, left_out: _LeftOut) -> Verdict:
    """What is left out of a draft, and why, for the model and for people. A reading notes it, too."""
    reasons = list[str]()
    notes = list[Note]()
    if left_out.returning:
        reason = RETURNS.format(_first_lines(left_out.returning))
        lines = [_without_time(line) for line in left_out.returning.values()]
        reasons.append(reason)
        notes.append(note("taken_back", *lines))
    if left_out.invented:
        reason = INVENTED.format(_first_lines(left_out.invented))
        lines = list(left_out.invented.values())
        reasons.append(reason)
        notes.append(note("not_given", *lines))
    if left_out.beyond:
        kinds = listed(draft.rules.may)
        reason = BEYOND.format(kinds, _first_beyond(left_out.beyond))
        lines = [str(change) for change in left_out.beyond]
        reasons.append(reason)
        notes.append(note("not_allowed", *lines))
    if left_out.doubtful:
        reason = DOUBTFUL.format(_first_lines(left_out.doubtful))
        lines = list(left_out.doubtful.values())
        reasons.append(reason)
        notes.append(note("unconfirmed", *lines))
    if draft.reading:
        _note_for_reading(draft.reading, left_out, draft.rules)
    text = " ".join(reasons)
    return Verdict(left_out=text, notes=notes)


def _note_for_reading(reading: Reading, left_out: _LeftOut, rules: Consolidation) -> None:
    """Note in a reading what its person is told of this attempt."""
    returning = dict[Key, str]()
    for _, key in left_out.returning:
        returning[key] = " ".join(key)
    reading.returning = returning
    reading.invented = list(left_out.invented.values())
    reading.beyond = ""
    if left_out.beyond:
        kinds = listed(rules.may)
        lines = _first_beyond(left_out.beyond)
        reading.beyond = NOT_DONE.format(kinds, lines)


def _first_beyond(beyond: Sequence[Beyond]) -> str:
    """The first of these changes, as the model and the person are told."""
    lines = [str(change) for change in beyond[:_LINES_TOLD]]
    return "; ".join(lines)


def _without_time(finding: str) -> str:
    """What was taken back, of what `returning` says of it."""
    line, _, _ = finding.rpartition(" (at ")
    return line


def _first_lines(findings: Findings) -> str:
    """The first of these lines, with their files, as the model is told."""
    lines = list[str]()
    for (path, _), line in findings.items():
        start = line[:_LINE_CHARS]
        lines.append(f"{path}: {start}")
    first = lines[:_LINES_TOLD]
    return "; ".join(first)


async def _objection(
    draft: Draft, changed: Sequence[Changed], memory: _MemoryNow, sources: Sources
) -> Verdict | None:
    """Why none of the changes may be committed, if there is a reason."""
    rules = draft.rules
    unchanged: Sequence[TextFile] = ()
    if draft.source:
        rules = replace(rules, removable_share=0)  # each line that goes needs a reason
        unchanged = _unchanged_source(draft.source, changed)
    # A text that was brought takes no line away.
    given_up = {} if draft.reading else draft.given_up
    found = await platform.in_thread(guard.objection, changed, given_up, rules, unchanged)
    if found:
        why = note(found.kind, *found.lines)
        return Verdict(problem=found.reason, notes=[why])
    whole = draft.with_earlier_parts(changed)
    author = draft.author
    try:
        await draft.memory.check(whole, author, memory.files, sources)
    except ValueError as error:
        kind = getattr(error, "kind", "") or "refused"
        why = note(kind)
        return Verdict(problem=str(error), notes=[why])
    return None


def _unchanged_source(source: Sequence[TextFile], changed: Sequence[Changed]) -> list[TextFile]:
    """The files of a source that have not changed."""
    changed_paths = {change.path for change in changed}
    unchanged = list[TextFile]()
    for path, text in source:
        if path and path not in changed_paths:
            unchanged.append((path, text))
    return unchanged
