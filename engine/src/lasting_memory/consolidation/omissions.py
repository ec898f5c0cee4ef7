"""What is left out of a draft, line by line, and what the model and the person are told of it.

Left out are lines that bring back what the person took back (*returning*), that say what stands
nowhere in the texts that a draft may use (*invented*), that the deployment does not permit
(*forbidden*), and for which nobody vouches (*doubtful*).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lasting_memory.consolidation.bringing import Reading
from lasting_memory.consolidation.change_kinds import ForbiddenChange, verbs
from lasting_memory.consolidation.facts import Findings, LineWords
from lasting_memory.consolidation.record import Note, note
from lasting_memory.deployment import Kind as ChangeKind

RETURNING = (
    "The person took this back, and has not said it again since: {lines}. What was said earlier does not count, however it is "
    "worded; leave it out."
)
INVENTED = (
    "This says what stands nowhere in what you were given: {lines}. Leave it out, or use its words."
)
DOUBTFUL = (
    "A text from elsewhere says this, and the person did not say it: {lines}. Leave it out, however it is "
    "worded."
)
FORBIDDEN = "Consolidation may only {verbs} lines and fields here. Leave this out: {lines}."
# As the person reads it.
NOT_DONE = "Not done, because consolidation may only {verbs} here: {lines}."
# Lines left out for one reason that the model is told of, and characters of each.
_LINES_TOLD = 5
_LINE_CHARS = 120


class _Reason(NamedTuple):
    """Why lines are left out: the word of the person's note, and the sentence for the model."""

    note_kind: str
    sentence: str
    lines_for_model: Sequence[str]
    lines_for_person: Sequence[str]


class Explanation(NamedTuple):
    """Why lines are left out, as the model is told, and as notes for the person."""

    sentences: str
    notes: Sequence[Note]


@dataclass(slots=True)
class Omissions:
    """What is left out of a draft. The module's docstring defines the four words."""

    returning_lines: Findings = field(default_factory=Findings)
    invented_lines: Findings = field(default_factory=Findings)
    forbidden_changes: Sequence[ForbiddenChange] = ()
    doubtful_lines: Findings = field(default_factory=Findings)

    def explanation(self, permitted_kinds: Collection[ChangeKind]) -> Explanation:
        """Why it is left out. `permitted_kinds` are the kinds of change that are permitted."""
        permitted_verbs = verbs(permitted_kinds)
        sentences = list[str]()
        notes = list[Note]()
        for reason in self._reasons():
            if not reason.lines_for_model:
                continue
            lines = _first(reason.lines_for_model)
            sentence = reason.sentence.format(lines=lines, verbs=permitted_verbs)
            sentences.append(sentence)
            note_for_person = note(reason.note_kind, *reason.lines_for_person)
            notes.append(note_for_person)
        text = " ".join(sentences)
        return Explanation(text, notes)

    def _reasons(self) -> list[_Reason]:
        """The four reasons to leave lines out, each with its lines, which may be none."""
        forbidden_changes = _as_texts(self.forbidden_changes)
        return [
            _Reason(
                note_kind="taken_back",
                sentence=RETURNING,
                lines_for_model=_with_paths(self.returning_lines),
                lines_for_person=_without_times(self.returning_lines),
            ),
            _Reason(
                note_kind="not_given",
                sentence=INVENTED,
                lines_for_model=_with_paths(self.invented_lines),
                lines_for_person=list(self.invented_lines.values()),
            ),
            _Reason(
                note_kind="not_allowed",
                sentence=FORBIDDEN,
                lines_for_model=forbidden_changes,
                lines_for_person=forbidden_changes,
            ),
            _Reason(
                note_kind="unconfirmed",
                sentence=DOUBTFUL,
                lines_for_model=_with_paths(self.doubtful_lines),
                lines_for_person=list(self.doubtful_lines.values()),
            ),
        ]

    def note_for_reading(self, reading: Reading, permitted_kinds: Collection[ChangeKind]) -> None:
        """Note what the person who brought a text is told of this attempt, in place of what was
        noted of the one before.
        """
        returning_lines = dict[LineWords, str]()
        for _, line_words in self.returning_lines:
            returning_lines[line_words] = " ".join(line_words)
        reading.returning_lines = returning_lines
        reading.invented_lines = list(self.invented_lines.values())
        forbidden_changes = _as_texts(self.forbidden_changes)
        if not forbidden_changes:
            reading.forbidden_sentence = ""
            return
        lines = _first(forbidden_changes)
        reading.forbidden_sentence = NOT_DONE.format(lines=lines, verbs=verbs(permitted_kinds))


def _with_paths(findings: Findings) -> list[str]:
    """The lines of findings behind their files' paths, as the model is told."""
    lines = list[str]()
    for (path, _), line in findings.items():
        start = line[:_LINE_CHARS]
        lines.append(f"{path}: {start}")
    return lines


def _without_times(returning_lines: Findings) -> list[str]:
    """What was taken back, without the time that `returning_lines` say behind it."""
    lines = list[str]()
    for finding in returning_lines.values():
        line, _, _ = finding.rpartition(" (at ")
        lines.append(line)
    return lines


def _as_texts(forbidden_changes: Sequence[ForbiddenChange]) -> list[str]:
    """Forbidden changes as the model and the person are told of them."""
    return [str(change) for change in forbidden_changes]


def _first(lines: Sequence[str]) -> str:
    """The first of these lines, as the model and the person are told."""
    first_lines = lines[:_LINES_TOLD]
    return "; ".join(first_lines)
