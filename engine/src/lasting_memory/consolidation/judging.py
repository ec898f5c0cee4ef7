"""Judges what the model made of a draft.

The verdict says what may be committed, what is left out, and why nothing may be committed. Single
lines are left out: those that bring back what the person took back (*returning*), that say what
stands nowhere in the texts that a draft may use (*invented*; `Draft.usable_texts`), that the
deployment does not permit (*forbidden*), and, where it refuses such lines, for which nobody vouches
(*doubtful*). All changes are refused if together they lose too many facts, or memory cannot take
them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from deepagents.backends.protocol import FileData

from lasting_memory import platform
from lasting_memory.agent.answer_endings import CUT, SILENT
from lasting_memory.agent.visible_content import says_something
from lasting_memory.consolidation import guard
from lasting_memory.consolidation.changed_ends import DatedWords, ends_returning
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.editor import Ending
from lasting_memory.consolidation.facts import Findings, LineWords, TextFile
from lasting_memory.consolidation.no_batch import FORGOTTEN, NothingToDoError
from lasting_memory.consolidation.omissions import Omissions
from lasting_memory.consolidation.permitted_changes import permitted_part
from lasting_memory.consolidation.record import Note, note
from lasting_memory.consolidation.returning_lines import returning as lines_returning
from lasting_memory.consolidation.sources import sources_now, sources_of_changes, unconfirmed
from lasting_memory.consolidation.stored_memory import read_stored_memory
from lasting_memory.consolidation.taken_back import DatedText, still_gone
from lasting_memory.deployment import Source
from lasting_memory.memory.controls import PAUSED, Controls
from lasting_memory.memory.folder import sources_of_files
from lasting_memory.memory.proposals import Changed, Sources, changes, files_in, rules_of, texts


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a draft."""

    changes: Sequence[Changed] = ()  # what may be committed
    # Who vouches for what that adds, by path and entry.
    sources: Sources = field(default_factory=dict)
    waits: bool = False  # whether the person sees and decides it first
    omission_sentences: str = ""  # what is left out of the draft, and why, as the model is told
    problem: str = ""  # why nothing may be committed, as the model is told
    notes: Sequence[Note] = ()  # why something is left out, or nothing may be committed, for people
    failure: str = ""  # why the model's last answer is none
    # Whether nothing is tried again, nor planned, whatever the model would do.
    is_stopped: bool = False

    @property
    def retry_reason(self) -> str:
        """What the model is told in another attempt; "" where there is no reason for one."""
        if self.is_stopped or self.failure:
            return ""
        return self.problem or self.omission_sentences


class _PresentMemory(NamedTuple):
    """The person's files as they are now, and what the person has taken back up to now.

    `sources` say who vouches for the files' entries, and for what is proposed.
    """

    files: Mapping[str, FileData]
    taken_lines: Mapping[LineWords, DatedText]
    taken_ends: Mapping[DatedWords, DatedText]
    sources: Mapping[str, Source]


class _Refusal(NamedTuple):
    """Why nothing of a draft may be committed, as the model and as the person is told."""

    problem: str
    note: Note


async def judge(draft: Draft, ending: Ending) -> Verdict:
    """What becomes of a draft, once the model has ended.

    Raises `NothingToDoError` if its person was forgotten.
    """
    deletions, controls = await draft.since_it_began()
    is_forgotten = deletions.everything or deletions.conversation
    if is_forgotten:
        raise NothingToDoError(FORGOTTEN)
    if controls.paused:
        return _stopped(f"{PAUSED}.", "paused")
    if ending.step_limit_sentence:
        return _stopped(ending.step_limit_sentence, "too_long")
    if ending.failure:
        return Verdict(failure=ending.failure)
    verdict = await _judge_changes(draft)
    failure = _why_no_answer(ending, verdict)
    if failure:
        return Verdict(failure=failure)
    waits = await _waits(draft, verdict, controls)
    return replace(verdict, waits=waits)


def _stopped(problem: str, note_kind: str) -> Verdict:
    """A verdict that nothing may be committed, nor tried again."""
    note_for_person = note(note_kind)
    return Verdict(problem=problem, notes=[note_for_person], is_stopped=True)


async def _waits(draft: Draft, verdict: Verdict, controls: Controls) -> bool:
    """Whether the person decides about the changes before they are made.

    All of them wait if the person wishes that, if changes of this kind always wait, or if nobody
    vouches for one of their lines and the deployment proposes such lines (`unconfirmed`).
    """
    if controls.review or rules_of(draft.record.kind).always_waits:
        return True
    if draft.deployment.unconfirmed != "propose":
        return False
    doubtful_lines = await platform.in_thread(unconfirmed, verdict.changes, verdict.sources)
    return bool(doubtful_lines)


def _why_no_answer(ending: Ending, verdict: Verdict) -> str:
    """Why the model's last answer is none.

    "" if it ended as whole answers end, and said or changed something.
    """
    answer = ending.answer
    if answer is None:
        return SILENT
    cut_reason = str(answer.response_metadata.get(CUT, ""))
    if cut_reason:
        return cut_reason
    if verdict.changes or verdict.omission_sentences or verdict.problem:
        return ""
    if says_something(answer):
        return ""
    return SILENT


async def _judge_changes(draft: Draft) -> Verdict:
    """What the guard, the deployment and the present files leave of a draft's changes."""
    memory_of_copy = replace(draft.memory, store=draft.copy)
    edited_files = await memory_of_copy.read()
    batch_changes = await platform.in_thread(_changes_of, draft, edited_files)
    if not batch_changes:
        return _verdict(draft, Omissions())
    memory = await _present_memory(draft)
    verdict = await platform.in_thread(_judge_lines, draft, batch_changes, memory)
    if verdict.problem:
        return verdict
    refusal = await _refusal_of_memory(draft, verdict, memory)
    return _refused(verdict, refusal)


def _changes_of(draft: Draft, edited_files: Mapping[str, FileData]) -> list[Changed]:
    """What a draft changes of the files that it copied. Blocks.

    A tidy that may remove something takes expired lines out, and notes them in `draft.given_up_lines`.
    Other runs leave them where they are.
    """
    may_remove = "remove" in draft.rules.may
    takes_out_over = rules_of(draft.record.kind).takes_out_over and may_remove
    if takes_out_over:
        batch_changes, reasons = draft.expired_lines.changes_without(draft.base, edited_files)
        for path, lines in reasons.items():
            given_up_lines = draft.given_up_lines[path]
            given_up_lines.update(lines)
        return batch_changes
    batch_changes = changes(draft.base, edited_files)
    return draft.expired_lines.put_back(batch_changes, draft.contradicted_lines)


async def _present_memory(draft: Draft) -> _PresentMemory:
    """Memory as it is now; for a dream, which changes its own draft, the files of that."""
    memory = await read_stored_memory(draft.memory)
    files: Mapping[str, FileData] = await platform.in_thread(files_in, memory.files)
    sources_in_files = await platform.in_thread(sources_of_files, memory.files)
    sources = sources_now(sources_in_files, memory.proposals)
    taken_lines = await draft.taken_back(memory)
    taken_ends = await draft.ends_taken_back(memory)
    if draft.dream:
        present_texts = texts(files)
        taken_lines = await platform.in_thread(still_gone, taken_lines, present_texts)
        dream_sources = draft.dream.sources()
        sources.update(dream_sources)
        files = draft.base
    return _PresentMemory(files, taken_lines, taken_ends, sources)


def _judge_lines(draft: Draft, batch_changes: Sequence[Changed], memory: _PresentMemory) -> Verdict:
    """A verdict on the changes without the lines that are left out: all of it but whether memory
    can take them. Blocks.
    """
    omissions = Omissions()
    omissions.returning_lines = _returning(draft, batch_changes, memory)
    omissions.invented_lines = _invented(draft, batch_changes)
    unwanted_lines = {*omissions.returning_lines, *omissions.invented_lines}
    remaining_changes = guard.without(batch_changes, unwanted_lines)
    permitted_changes, forbidden_changes = permitted_part(remaining_changes, draft.rules.may)
    omissions.forbidden_changes = forbidden_changes
    sources = sources_of_changes(draft, permitted_changes, memory.sources)
    refuses_doubtful = draft.deployment.unconfirmed == "refuse"
    # What a person brings is their own decision: it waits for them, and is marked.
    is_brought = draft.reading is not None
    if refuses_doubtful and not is_brought:
        omissions.doubtful_lines = unconfirmed(permitted_changes, sources)
        permitted_changes = guard.without(permitted_changes, omissions.doubtful_lines)
    verdict = _verdict(draft, omissions)
    verdict = replace(verdict, changes=permitted_changes, sources=sources)
    refusal = _refusal_of_guard(draft, permitted_changes)
    return _refused(verdict, refusal)


def _returning(draft: Draft, batch_changes: Sequence[Changed], memory: _PresentMemory) -> Findings:
    """The new lines that bring back what the person took back, also since the run began. Blocks."""
    present_texts = texts(memory.files)
    returning_lines = lines_returning(
        batch_changes,
        present_texts,
        taken_lines=memory.taken_lines,
        messages=draft.messages_since,
        rules=draft.rules,
    )
    returning_ends = ends_returning(
        batch_changes,
        present_texts,
        taken_lines=memory.taken_ends,
        messages=draft.messages_since,
        rules=draft.rules,
    )
    return {**returning_ends, **returning_lines}


def _invented(draft: Draft, batch_changes: Sequence[Changed]) -> Findings:
    """The new lines that say what is not in the draft's usable texts; {} where anything is usable.
    Blocks.
    """
    if not draft.usable_texts:
        return {}
    return guard.invented(batch_changes, draft.usable_texts, draft.rules)


def _verdict(draft: Draft, omissions: Omissions) -> Verdict:
    """A verdict that says what is left out, and why, and nothing else. The reading of a text that
    was brought notes it, too.
    """
    explanation = omissions.explanation(draft.rules.may)
    if draft.reading:
        omissions.note_for_reading(draft.reading, draft.rules.may)
    return Verdict(omission_sentences=explanation.sentences, notes=explanation.notes)


def _refused(verdict: Verdict, refusal: _Refusal | None) -> Verdict:
    """A verdict that says why nothing may be committed; the same one where nothing is refused."""
    if refusal is None:
        return verdict
    return replace(verdict, problem=refusal.problem, notes=[refusal.note])


def _refusal_of_guard(draft: Draft, batch_changes: Sequence[Changed]) -> _Refusal | None:
    """Why the changes would lose too much; None if they do not. Blocks."""
    rules = draft.rules
    unchanged_files: Sequence[TextFile] = ()
    if draft.usable_texts:
        rules = replace(rules, removable_share=0)  # each line that goes needs a reason
        unchanged_files = _unchanged_files(draft.usable_texts, batch_changes)
    # A text that was brought takes no line away.
    given_up_lines = {} if draft.reading else draft.given_up_lines
    objection = guard.objection(
        batch_changes, given_up_lines, rules, unchanged_files=unchanged_files
    )
    if objection is None:
        return None
    note_for_person = note(objection.note_kind, *objection.lines)
    return _Refusal(objection.reason, note_for_person)


async def _refusal_of_memory(
    draft: Draft, verdict: Verdict, memory: _PresentMemory
) -> _Refusal | None:
    """Why memory cannot take the changes of a verdict; None if it can."""
    batch_changes = draft.with_earlier_parts(verdict.changes)
    try:
        await draft.memory.check(
            batch_changes, draft.author, files=memory.files, sources=verdict.sources
        )
    except ValueError as error:
        note_kind = getattr(error, "kind", "") or "refused"
        note_for_person = note(note_kind)
        return _Refusal(str(error), note_for_person)
    return None


def _unchanged_files(
    usable_texts: Sequence[TextFile], batch_changes: Sequence[Changed]
) -> list[TextFile]:
    """The files among a draft's usable texts that have not changed. A text of no file has the path
    "".
    """
    changed_paths = {change.path for change in batch_changes}
    unchanged_files = list[TextFile]()
    for path, text in usable_texts:
        is_file = bool(path)
        if is_file and path not in changed_paths:
            unchanged_files.append((path, text))
    return unchanged_files
