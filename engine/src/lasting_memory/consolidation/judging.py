"""Judges what the model made of a draft: what may be committed, what is left out of it, and why
nothing may be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lasting_memory import platform
from lasting_memory.agent.answers import CUT, SILENT, says_something
from lasting_memory.consolidation import guard
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.editor import Ending
from lasting_memory.consolidation.facts import Findings
from lasting_memory.consolidation.kinds import Beyond, listed, within
from lasting_memory.consolidation.no_batch import FORGOTTEN, NothingToDoError
from lasting_memory.consolidation.record import Note, note
from lasting_memory.consolidation.taken_back import returning as lines_returning
from lasting_memory.memory import journal
from lasting_memory.memory.controls import PAUSED
from lasting_memory.memory.proposals import Changed, changes, files_in, proposals_in, texts
from lasting_memory.people import namespaces

RETURNS = (
    "The person took this back, and has not said it again since: {}. What was said earlier does not count, however it is "
    "worded; leave it out."
)
INVENTED = (
    "This says what stands nowhere in what you were given: {}. Leave it out, or use its words."
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
    waits: bool = False  # whether the person sees and decides it first
    left_out: str = ""  # what is left out of the draft, and why, as the model is told
    problem: str = ""  # why nothing may be committed, as the model is told
    notes: Sequence[Note] = ()  # why something is left out, or nothing may be committed, for people
    failure: str = ""  # why the model's last answer is none
    is_stopped: bool = (
        False  # whether nothing is tried again, nor planned, whatever the model would do
    )

    @property
    def objection(self) -> str:
        """What the model is told in another attempt; "" where there is no reason for one."""
        if self.is_stopped or self.failure:
            return ""
        return self.problem or self.left_out


async def judge(draft: Draft, ending: Ending) -> Verdict:
    """What becomes of a draft, once the model has ended. Raises `NothingToDoError` if its person
    was forgotten.
    """
    since, present = await draft.since_it_began()
    if since.all_of_it or since.conversation:
        raise NothingToDoError(FORGOTTEN)
    if present.paused:
        return Verdict(problem=f"{PAUSED}.", notes=[note("paused")], is_stopped=True)
    if ending.too_long:
        return Verdict(problem=ending.too_long, notes=[note("too_long")], is_stopped=True)
    if ending.failure:
        return Verdict(failure=ending.failure)
    verdict = await _compared(draft)
    if failure := _why_no_answer(ending, verdict):
        return Verdict(failure=failure)
    return replace(verdict, waits=present.review or bool(draft.source))


def _why_no_answer(ending: Ending, verdict: Verdict) -> str:
    """Why the model's last answer is none; "" if it ended as whole answers end, and said or changed
    something.
    """
    if ending.answer is None:
        return SILENT
    if cut := str(ending.answer.response_metadata.get(CUT, "")):
        return cut
    changes_something = verdict.changed or verdict.left_out or verdict.problem
    return "" if changes_something or says_something(ending.answer) else SILENT


async def _compared(draft: Draft) -> Verdict:
    """What the guard, the deployment and the present files leave of a draft's changes."""
    edited = await replace(draft.memory, store=draft.copy).read()
    changed = changes(draft.base, edited)
    returning = await _returning(draft, changed)
    invented = Findings()
    if draft.source:
        invented = await platform.in_thread(guard.invented, changed, draft.source, draft.rules)
    changed = await platform.in_thread(guard.without, changed, {*returning, *invented})
    changed, beyond = await platform.in_thread(within, changed, draft.rules.may)
    left_out = _left_out(draft, returning, invented, beyond)
    if objection := await _objection(draft, changed):
        return replace(left_out, changed=changed, problem=objection.problem, notes=objection.notes)
    return replace(left_out, changed=changed)


async def _returning(draft: Draft, changed: Sequence[Changed]) -> Findings:
    """The new lines that bring back what the person took back, also since the run began."""
    if not changed:
        return {}
    memory = draft.memory
    files, revisions, proposals = await journal.all_items_of(
        memory.store,
        [memory.files, namespaces.journals(memory.files), namespaces.proposals(memory.actor)],
    )
    own_proposals = memory.own_proposals(await proposals_in(proposals))
    taken = await draft.taken_back(own_proposals, revisions)
    if not taken:
        return {}
    present = texts(await platform.in_thread(files_in, files))
    return await platform.in_thread(
        lines_returning, changed, present, taken, draft.said, draft.rules
    )


def _left_out(
    draft: Draft, returning: Findings, invented: Findings, beyond: Sequence[Beyond]
) -> Verdict:
    """What is left out of a draft, and why, for the model and for people. A reading notes it, too."""
    reasons = list[str]()
    notes = list[Note]()
    if returning:
        reasons.append(RETURNS.format(_told(returning)))
        notes.append(
            note("taken_back", *(told.rpartition(" (at ")[0] for told in returning.values()))
        )
    if invented:
        reasons.append(INVENTED.format(_told(invented)))
        notes.append(note("not_given", *invented.values()))
    kinds = listed(draft.rules.may)
    lines = [str(change) for change in beyond]
    named = "; ".join(lines[:_LINES_TOLD])
    if beyond:
        reasons.append(BEYOND.format(kinds, named))
        notes.append(note("not_allowed", *lines))
    if draft.reading:
        draft.reading.returning = {key: " ".join(key) for _, key in returning}
        draft.reading.invented = [*invented.values()]
        draft.reading.beyond = NOT_DONE.format(kinds, named) if beyond else ""
    return Verdict(left_out=" ".join(reasons), notes=notes)


def _told(found: Findings) -> str:
    first = [*found.items()][:_LINES_TOLD]
    return "; ".join(f"{path}: {line[:_LINE_CHARS]}" for (path, _), line in first)


async def _objection(draft: Draft, changed: Sequence[Changed]) -> Verdict | None:
    """Why none of the changes may be committed, if there is a reason."""
    rules = draft.rules
    others = list[tuple[str, str]]()
    if draft.source:  # each line that goes needs a reason
        rules = replace(rules, removable_share=0)
        paths = {change.path for change in changed}
        others = [(path, text) for path, text in draft.source if path and path not in paths]
    given_up = {} if draft.reading else draft.given_up  # a text that was brought takes no line away
    if found := await platform.in_thread(guard.objection, changed, given_up, rules, others):
        return Verdict(problem=found.reason, notes=[note(found.kind, *found.lines)])
    try:
        await draft.memory.check(draft.with_earlier_parts(changed), draft.author)
    except ValueError as error:
        return Verdict(problem=str(error), notes=[note(getattr(error, "kind", "") or "refused")])
    return None
