"""What speaks for a line and what against it: the person's own messages, and the texts from
elsewhere that a run or a batch showed.
"""

# ruff: noqa: RUF001  # marks of other scripts are meant

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import regex

from lasting_memory import recall
from lasting_memory.deployment import Source
from lasting_memory.memory.sources import Vouch, entry_of, text_of
from lasting_memory.vouching.own_words import parts_of
from lasting_memory.vouching.statements import Statement, Word, statement_of, stems_in

# A line of which so much stands in one passage of a text from elsewhere says what that text says,
# whatever else a model put around it.
_SHARE = 3 / 4
# Words of a line from which on a part of them tells something; and of a heading up to which it only
# names a subject.
_TELLING_WORDS = 3
_HEADING_WORDS = 2
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

    def own_say(self, statement: Statement) -> bool:
        """Whether a message of the person's says a line."""
        return any(_vouches(message, statement) for message in self.own)

    def foreign_say(self, stems: frozenset[str]) -> bool:
        """Whether a text from elsewhere says a line of these stems."""
        return any(_says(text, stems) for text in self.foreign)


@dataclass(frozen=True)
class Evidence:
    """The person's own messages, each as its sentences, and the texts from elsewhere.

    `own` are also lines of memory that the person confirmed, where a change merges them. With
    `is_partial` more was shown than is here.
    """

    own: Sequence[Sequence[str]] = ()
    foreign: Sequence[str] = ()
    is_partial: bool = False

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
        if texts.foreign_say(stems):
            return Source.UNCONFIRMED
        is_doubted = any(stems <= other for other in doubted)
        if not is_doubted and texts.own_say(statement):
            return Source.INFERRED if self._is_cut else Source.CONFIRMED
        # What merges a doubtful line with others is as doubtful.
        for other in doubted:
            if _merges(stems, other):
                return Source.UNCONFIRMED
        return Source.INFERRED

    def vouch(self, memory: Mapping[str, Source] = MappingProxyType({})) -> Vouch:
        """The `Vouch` of a write into a memory that has these entries. Blocks: it reads all texts.

        An entry that memory has, there or in another file, is confirmed if the person says it, and
        keeps its source otherwise.
        """
        doubtful = self._doubtful(memory)
        _ = self._own_stems
        answers = dict[str, Source]()

        def answer(entry: str) -> Source:
            if entry not in answers:
                # A line does not stand in its own way once the person says it.
                others = [doubtful[other] for other in doubtful if other != entry]
                answers[entry] = self.source_of(entry, others)
            return answers[entry]

        def vouch(entry: str, known: Source | None) -> Source:
            before = known
            if before is None:
                before = memory.get(entry)
            if before is None:
                return answer(entry)
            may_change = before is not Source.CONFIRMED and self._may_say(entry)
            if may_change and answer(entry) is Source.CONFIRMED:
                return Source.CONFIRMED
            return before

        return vouch

    def _doubtful(self, memory: Mapping[str, Source]) -> dict[str, frozenset[str]]:
        """The stems of the entries of a memory for which nobody vouches."""
        doubtful = dict[str, frozenset[str]]()
        for entry, source in memory.items():
            if source is Source.UNCONFIRMED:
                doubtful[entry] = self._stems_of(entry)
        return doubtful

    def _stems_of(self, entry: str) -> frozenset[str]:
        """The stems of an entry of memory."""
        text = text_of(entry)
        return stems_in(text, self._language)

    def _may_say(self, entry: str) -> bool:
        """Whether the person's messages have all words of an entry. Quick."""
        stems = self._stems_of(entry)
        return stems <= self._own_stems

    @classmethod
    def joined(cls, evidence: Iterable["Evidence"]) -> "Evidence":
        """The evidence of several conversations together."""
        own = list[Sequence[str]]()
        foreign = list[str]()
        is_partial = False
        for one in evidence:
            own += one.own
            foreign += one.foreign
            is_partial = is_partial or one.is_partial
        return cls(own, foreign, is_partial)

    def with_own(self, *messages: Sequence[str]) -> "Evidence":
        """The same with further texts of the person's."""
        added = [message for message in messages if message]
        if not added:
            return self
        own = [*self.own, *added]
        return Evidence(own, self.foreign, self.is_partial)

    @property
    def _is_cut(self) -> bool:
        chars = sum(map(len, self.foreign))
        return self.is_partial or chars > _MOST_CHARS

    @cached_property
    def _language(self) -> str:
        """The language in which the person speaks, or else the texts."""
        spoken = list[str]()
        for message in self.own:
            spoken += message
        samples = list[str]()
        for text in self.foreign:
            samples.append(text[:_SAMPLE_CHARS])
        own_text = " ".join(spoken)
        return recall.language(own_text or " ".join(samples))

    @cached_property
    def _texts(self) -> _Texts:
        own = list[Statement]()
        for message in self.own:
            text = "\n".join(message)
            own.append(statement_of(text, self._language))
        foreign = _foreign_texts(self.foreign, self._language)
        return _Texts(own, foreign)

    @cached_property
    def _own_stems(self) -> frozenset[str]:
        stems = set[str]()
        for message in self._texts.own:
            stems |= message.stems
        return frozenset(stems)


def evidence_of(messages: Iterable[str], foreign: Iterable[str] = ()) -> Evidence:
    """The evidence of a person's messages, of which the own parts count, and of texts from
    elsewhere. Blocks.
    """
    own = list[Sequence[str]]()
    brought = [*foreign]
    for message in messages:
        parts = parts_of(message)
        own.append(parts.own)
        brought += parts.foreign
    return Evidence(own, brought)


def _foreign_texts(texts: Sequence[str], language: str) -> list[_Foreign]:
    found = list[_Foreign]()
    room = _MOST_CHARS
    for text in reversed(texts):
        shown = text[:room]
        room -= len(shown)
        stems = set[str]()
        passages = list[frozenset[str]]()
        for passage in _PASSAGE.findall(shown):
            passage_stems = stems_in(passage, language)
            passages.append(passage_stems)
            stems |= passage_stems
        found.append(_Foreign(frozenset(stems), passages))
    return found


def _merges(stems: frozenset[str], other: frozenset[str]) -> bool:
    """Whether a line says most of another one, or all of it and more."""
    if _is_most_of(stems, other):
        return True
    return bool(other) and other <= stems


def _says(text: _Foreign, stems: frozenset[str]) -> bool:
    """Whether a text from elsewhere says what a line says, or most of it in one passage."""
    if stems <= text.stems:
        return True
    return any(_is_most_of(stems, passage) for passage in text.passages)


def _is_most_of(stems: frozenset[str], passage: frozenset[str]) -> bool:
    """Whether most of a line's words stand in a passage; of few words all."""
    if len(stems) < _TELLING_WORDS:
        return stems <= passage
    shared = stems & passage
    least = _SHARE * len(stems)
    return len(shared) >= least


def _vouches(message: Statement, statement: Statement) -> bool:
    """Whether all words of a line stand in a message, negated there where they are in the line."""
    return all(_has(message, word) for word in statement.words)


def _has(message: Statement, word: Word) -> bool:
    """Whether a line's word stands in a message, perhaps in another form."""
    return any(_is_same(word, said) for said in message.words)


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
    ending = longer.removeprefix(shorter)
    if ending not in _ENDINGS:
        return False
    return len(shorter) >= _FORM_CHARS and longer.isalpha()


def _tell_genders_apart(one: str, other: str) -> bool:
    """Whether two words that a stemmer takes for one are a son and a daughter."""
    endings = {one[-1:], other[-1:]}
    plural_endings = {one[-2:], other[-2:]}
    if endings == {"o", "a"} or plural_endings == {"os", "as"}:
        singular = one.rstrip("s")
        beginning = singular[:-1]
        return beginning in _KIN
    return False
