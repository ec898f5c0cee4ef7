"""What speaks for a line and what against it: the person's own messages, and the texts from
elsewhere that a run or a batch showed.
"""

# ruff: noqa: RUF001  # marks of other scripts are meant

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import regex

from lasting_memory import recall
from lasting_memory.deployment import Source
from lasting_memory.memory.sources import Vouch, entry_of, text_of
from lasting_memory.vouching.own_words import Parts, announces_a_text, parts_of
from lasting_memory.vouching.statements import Statement, Word, statement_of, stems_in

# A line of which so much stands in one passage of a text from elsewhere says what that text says,
# whatever else a model put around it.
_SHARE = 3 / 4
# Words of a line from which on a part of them tells something; and of a heading up to which it only
# names a subject.
_TELLING_WORDS = 3
_HEADING_WORDS = 2
# Words of a line that is found word after word.
_MOST_REPEATED = 200
# Characters of all texts from elsewhere that are looked at. Of more, nothing is confirmed.
_MOST_CHARS = 1_000_000
# Characters of a text that tell its language.
_SAMPLE_CHARS = 1_000
_PASSAGE = regex.compile(r".{1,400}?(?:[.!?。！？।]\s|\n\s*\n|\Z)|.{1,400}", regex.DOTALL)
# Endings of one verb that stemmers leave: German and Dutch `wohne` and `wohnt`.
_ENDINGS = frozenset({"t", "st", "en", "n", "e", "s", "et", "r"})
_FORM_CHARS = 4
# Beginnings of words that end in o or a for a man or a woman, which stemmers take for one word. Of
# verbs these are endings of one word.
_KIN = frozenset(
    """
    hij herman tí ti prim sobrin abuel niet espos novi amig suegr cuñad niñ chic gat perr vecin figli zi nonn cugin
    suocer filh irm net namorad sogr menin vizinh cachorr bisabuel padrastr hermanastr ahijad
    """.split()  # noqa: SIM905
)


class _Foreign(NamedTuple):
    """A text from elsewhere: the stems of the whole, and those of its passages."""

    stems: frozenset[str]
    passages: Sequence[frozenset[str]]


class _Texts(NamedTuple):
    """All texts, as they are compared in a language."""

    own: Sequence[Statement]
    foreign: Sequence[_Foreign]


@dataclass(frozen=True)
class Evidence:
    """The person's own messages, each as its sentences, and the texts from elsewhere.

    `own` are also lines of memory that the person confirmed, where a change merges them. With
    `is_partial` more was shown than is here. With `has_unread` something that is no text was shown,
    such as a picture of a page, which may use the person's words: they vouch word after word then.
    """

    own: Sequence[Sequence[str]] = ()
    foreign: Sequence[str] = ()
    is_partial: bool = False
    has_unread: bool = False

    def source_of(self, line: str, doubted: Sequence[frozenset[str]] = ()) -> Source:
        """Who vouches for a line. `doubted` are the words of lines of memory for which nobody does.
        Blocks: the first question reads all texts.
        """
        texts = self._texts
        text = entry_of(text_of(line)) or line.strip()
        statement = statement_of(text, self._language)
        stems = statement.stems
        is_heading = text.startswith("#") and len(stems) <= _HEADING_WORDS
        if not stems or is_heading:
            return Source.INFERRED
        if any(_says(foreign, stems) for foreign in texts.foreign):
            return Source.UNCONFIRMED
        is_doubted = any(_is_as_doubtful(stems, other) for other in doubted)
        needs_repetition = is_doubted or self.has_unread
        says = _repeats if needs_repetition else _vouches
        is_said = any(says(message, statement) for message in texts.own)
        if is_said:
            return Source.INFERRED if self._is_cut else Source.CONFIRMED
        return Source.UNCONFIRMED if is_doubted else Source.INFERRED

    def vouch(self, memory: Mapping[str, Source] = MappingProxyType({})) -> Vouch:
        """The `Vouch` of a write into a memory that has these entries. Blocks: it reads all texts.

        An entry that memory has, there or in another file, is confirmed if the person says it, and
        keeps its source otherwise.
        """
        doubtful = dict[str, frozenset[str]]()
        for entry, known in memory.items():
            if known is Source.UNCONFIRMED:
                doubtful[entry] = stems_in(text_of(entry), self._language)
        _ = self._own_stems
        answers = dict[str, Source]()

        def vouch(entry: str, known: Source | None) -> Source:
            before = memory.get(entry) if known is None else known
            if before is Source.CONFIRMED or (before and not self._may_say(entry)):
                return before
            if entry not in answers:
                # A line that is doubtful itself is raised if the person says it, word after word.
                answers[entry] = self.source_of(entry, [*doubtful.values()])
            if before is None or answers[entry] is Source.CONFIRMED:
                return answers[entry]
            return before

        return vouch

    def _may_say(self, entry: str) -> bool:
        """Whether the person's messages have all words of an entry. Quick."""
        return stems_in(text_of(entry), self._language) <= self._own_stems

    @classmethod
    def joined(cls, evidence: Iterable["Evidence"]) -> "Evidence":
        """The evidence of several conversations together."""
        own = list[Sequence[str]]()
        foreign = list[str]()
        is_partial = False
        has_unread = False
        for one in evidence:
            own += one.own
            foreign += one.foreign
            is_partial = is_partial or one.is_partial
            has_unread = has_unread or one.has_unread
        return cls(own, foreign, is_partial, has_unread)

    def with_own(self, *messages: Sequence[str]) -> "Evidence":
        """The same with further texts of the person's."""
        added = [message for message in messages if message]
        return replace(self, own=[*self.own, *added]) if added else self

    @property
    def _is_cut(self) -> bool:
        return self.is_partial or sum(map(len, self.foreign)) > _MOST_CHARS

    @cached_property
    def _language(self) -> str:
        """The language in which the person speaks, or else the texts."""
        spoken = " ".join(sentence for message in self.own for sentence in message)
        return recall.language(spoken or " ".join(text[:_SAMPLE_CHARS] for text in self.foreign))

    @cached_property
    def _texts(self) -> _Texts:
        own = [statement_of("\n".join(message), self._language) for message in self.own]
        return _Texts(own, _foreign_texts(self.foreign, self._language))

    @cached_property
    def _own_stems(self) -> frozenset[str]:
        return frozenset[str]().union(*(message.stems for message in self._texts.own))


def evidence_of(messages: Iterable[str], foreign: Iterable[str] = ()) -> Evidence:
    """The evidence of a person's messages, of which the own parts count, and of texts from
    elsewhere. Blocks.
    """
    own = list[Sequence[str]]()
    brought = [*foreign]
    is_announced = False
    for message in messages:
        parts = Parts([], [message]) if is_announced else parts_of(message)
        is_announced = announces_a_text(message)
        own.append(parts.own)
        brought += parts.foreign
    return Evidence(own, brought)


def _foreign_texts(texts: Sequence[str], language: str) -> list[_Foreign]:
    found = list[_Foreign]()
    room = _MOST_CHARS
    for text in reversed(texts):
        shown = text[: max(room, 0)]
        room -= len(shown)
        passages = [stems_in(passage, language) for passage in _PASSAGE.findall(shown)]
        found.append(_Foreign(frozenset[str]().union(*passages), passages))
    return found


def _says(text: _Foreign, stems: frozenset[str]) -> bool:
    """Whether a text from elsewhere says what a line says, or most of it in one passage."""
    if stems <= text.stems:
        return True
    return any(_is_most_of(stems, passage) for passage in text.passages)


def _is_most_of(stems: frozenset[str], passage: frozenset[str]) -> bool:
    """Whether most of a line's words stand in a passage; of few words all."""
    if len(stems) < _TELLING_WORDS:
        return stems <= passage
    return len(stems & passage) >= _SHARE * len(stems)


def _is_as_doubtful(stems: frozenset[str], doubted: frozenset[str]) -> bool:
    """Whether a line says more or less than a doubtful one, or merges it with others."""
    if stems <= doubted:
        return True
    return bool(doubted) and (_is_most_of(stems, doubted) or doubted <= stems)


def _vouches(message: Statement, statement: Statement) -> bool:
    """Whether all words of a line stand in a message, negated there where they are in the line."""
    return all(any(_is_same(word, said) for said in message.words) for word in statement.words)


def _repeats(message: Statement, statement: Statement) -> bool:
    """Whether the words of a line stand in a message one after the other: that a message has them
    somewhere says little of a line that was there before the message.
    """
    wanted = statement.order
    if not 0 < len(wanted) <= _MOST_REPEATED:
        return False
    said = message.order
    for start in range(len(said) - len(wanted) + 1):
        if all(_is_same(word, said[start + place]) for place, word in enumerate(wanted)):
            return True
    return False


def _is_same(word: Word, said: Word) -> bool:
    """Whether a line's word is one that was said, perhaps in another form."""
    if word.is_negated != said.is_negated:
        return False
    if word.is_name:
        return word.spelled == said.spelled
    if word.stem == said.stem:
        return not _tell_genders_apart(word.spelled, said.spelled)
    return _are_forms(word.stem, said.stem)


def _are_forms(one: str, other: str) -> bool:
    """Whether two stems are forms of one word of an alphabet: they differ in a short ending alone."""
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < _FORM_CHARS or not longer.startswith(shorter) or not longer.isalpha():
        return False
    return longer[len(shorter) :] in _ENDINGS


def _tell_genders_apart(one: str, other: str) -> bool:
    """Whether two words that a stemmer takes for one are a son and a daughter."""
    if {one[-1:], other[-1:]} == {"o", "a"} or {one[-2:], other[-2:]} == {"os", "as"}:
        return one.rstrip("s")[:-1] in _KIN
    return False
