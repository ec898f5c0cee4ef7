"""Judges what the model made of a draft.

The verdict says what may be committed, what is left out, and why nothing may be committed.
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
    failure = _why_no_answer(ending, verdict)
    if failure:
        return Verdict(failure=failure)
    return replace(verdict, waits=present.review or bool(draft.source))


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
    return "" if changes_something or says_something(ending.answer) else SILENT


async def _compared(draft: Draft) -> Verdict:
    """What the guard, the deployment and the present files leave of a draft's changes."""
    memory_of_copy = replace(draft.memory, store=draft.copy)
    edited = changes(draft.base, await memory_of_copy.read())
    returning = await _returning(draft, edited)
    invented = Findings()
    if draft.source:
        invented = await platform.in_thread(guard.invented, edited, draft.source, draft.rules)
    unfounded = {*returning, *invented}
    founded = await platform.in_thread(guard.without, edited, unfounded)
    changed, beyond = await platform.in_thread(within, founded, draft.rules.may)
    verdict = replace(_left_out(draft, returning, invented, beyond), changed=changed)
    objection = await _objection(draft, changed)
    if objection is None:
        return verdict
    return replace(verdict, problem=objection.problem, notes=objection.notes)


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
        taken_back = [told.rpartition(" (at ")[0] for told in returning.values()]
        notes.append(note("taken_back", *taken_back))
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
    """The first of these lines, as the model is told of them."""
    lines = list[str]()
    for (path, _), line in found.items():
        lines.append(f"{path}: {line[:_LINE_CHARS]}")
    return "; ".join(lines[:_LINES_TOLD])


async def _objection(draft: Draft, changed: Sequence[Changed]) -> Verdict | None:
    """Why none of the changes may be committed, if there is a reason."""
    rules = draft.rules
    others = list[tuple[str, str]]()
    if draft.source:
        # Each line that goes needs a reason.
        rules = replace(rules, removable_share=0)
        changed_paths = {change.path for change in changed}
        for path, text in draft.source:
            if path and path not in changed_paths:
                others.append((path, text))
    # A text that was brought takes no line away.
    given_up = {} if draft.reading else draft.given_up
    objection = await platform.in_thread(guard.objection, changed, given_up, rules, others)
    if objection:
        return Verdict(problem=objection.reason, notes=[note(objection.kind, *objection.lines)])
    try:
        await draft.memory.check(draft.with_earlier_parts(changed), draft.author)
    except ValueError as error:
        return Verdict(problem=str(error), notes=[note(getattr(error, "kind", "") or "refused")])
    return None
