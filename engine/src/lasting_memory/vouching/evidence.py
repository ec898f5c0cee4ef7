"""What speaks for a line of memory and what against it: the person's own messages, and the texts from
elsewhere that a run or a batch showed.

A text from elsewhere is a foreign text: a page, a tool's result, what a person quotes or pastes. A line
is doubted if memory says that nobody vouches for it. Lines and texts are compared by the stems of
their words: a stem is what the forms of a word have in common.
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
from lasting_memory.memory.entries import entry_of, text_of
from lasting_memory.memory.vouches import Vouch
from lasting_memory.vouching.handing_over import announces_a_text
from lasting_memory.vouching.own_words import parts_of
from lasting_memory.vouching.statements import Statement, Word, statement_of, stems_in

# A line of which so much stands in one passage of a text from elsewhere says what that text says,
# whatever else a model put around it.
_SHARE = 3 / 4
# Of a line with fewer words, all must stand in the passage.
_TELLING_WORDS = 3
# A heading with no more words only names a subject.
_HEADING_WORDS = 2
# A line with more words is never found word after word: looking for it would take long.
_MOST_WORDS_IN_ORDER = 200
# Characters of all texts from elsewhere that are looked at. If there are more, nothing is confirmed.
_MOST_CHARS = 1_000_000
# Characters of a text that tell its language.
_SAMPLE_CHARS = 1_000
_PASSAGE = regex.compile(r".{1,400}?(?:[.!?。！？।]\s|\n\s*\n|\Z)|.{1,400}", regex.DOTALL)
# Endings of one verb that stemmers leave: German and Dutch `wohne` and `wohnt`.
_ENDINGS = frozenset({"t", "st", "en", "n", "e", "s", "et", "r"})
_FORM_CHARS = 4
_GENDER_ENDINGS = ({"o", "a"}, {"os", "as"})
# Beginnings of words that end in o or a for a man or a woman, which stemmers take for one word. Other
# words with these endings, such as verbs, are forms of one word.
_KIN = frozenset(
    """
    hij herman tí ti prim sobrin abuel niet espos novi amig suegr cuñad niñ chic gat perr vecin figli zi nonn cugin
    suocer filh irm net namorad sogr menin vizinh cachorr bisabuel padrastr hermanastr ahijad
    """.split()  # noqa: SIM905
)


class _ForeignText(NamedTuple):
    """A text from elsewhere: the stems of the whole, and those of each passage."""

    stems: frozenset[str]
    passages: Sequence[frozenset[str]]


@dataclass(frozen=True)
class Evidence:
    """The person's own messages, each as a list of sentences, and the texts from elsewhere.

    `own_messages` are also lines of memory that the person confirmed, where a change merges them.
    With `is_partial` more was shown than is here. With `has_unread` something was shown that is no
    text, such as a picture of a page. A model may have a line from there in the person's words, so
    they vouch word after word then.
    """

    own_messages: Sequence[Sequence[str]] = ()
    foreign_texts: Sequence[str] = ()
    is_partial: bool = False
    has_unread: bool = False

    def source_of(self, line: str, doubted_lines: Sequence[frozenset[str]] = ()) -> Source:
        """Who vouches for a line. Blocks: the first question reads all texts.

        UNCONFIRMED if a text from elsewhere says it, or if it takes up a doubted line and the person
        does not say it word after word. CONFIRMED if a message of the person's says it, and nothing
        more was shown than is looked at. Otherwise INFERRED. `doubted_lines` are the stems of the
        doubted lines of memory.
        """
        line_text = text_of(line)
        text = entry_of(line_text) or line.strip()
        statement = statement_of(text, self._language)
        stems = statement.stems
        if not stems or _is_short_heading(text, stems):
            return Source.INFERRED
        if self._is_in_foreign_text(stems):
            return Source.UNCONFIRMED
        is_doubted = _takes_up_any(stems, doubted_lines)
        is_in_order = is_doubted or self.has_unread
        if self._is_said(statement, is_in_order=is_in_order):
            # A text that was not looked at may say it, too.
            return Source.INFERRED if self._is_cut else Source.CONFIRMED
        return Source.UNCONFIRMED if is_doubted else Source.INFERRED

    def _is_in_foreign_text(self, stems: frozenset[str]) -> bool:
        """Whether a text from elsewhere says what a line with these stems says."""
        return any(_says(text, stems) for text in self._compared_texts)

    def _is_said(self, statement: Statement, *, is_in_order: bool) -> bool:
        """Whether one message of the person's has all words of a line, with `is_in_order` one after
        the other.
        """
        has_words = _has_in_order if is_in_order else _has_all_words
        return any(has_words(message, statement) for message in self._own_statements)

    def vouch(self, memory: Mapping[str, Source] = MappingProxyType({})) -> Vouch:
        """The `Vouch` of a write into a memory that has these entries. Blocks: it reads all texts.

        An entry that memory has, there or in another file, is confirmed if the person says it, and
        keeps its source otherwise.
        """
        doubted_lines = list[frozenset[str]]()
        for entry, source in memory.items():
            if source is Source.UNCONFIRMED:
                stems = self._stems_of(entry)
                doubted_lines.append(stems)
        _ = self._own_stems, self._compared_texts  # read here, where it may block
        answers = dict[str, Source]()

        def vouch(entry: str, source_in_file: Source | None) -> Source:
            source_before = source_in_file or memory.get(entry)
            if source_before is Source.CONFIRMED:
                return source_before
            if source_before and not self._may_say(entry):
                return source_before
            answer = answers.get(entry)
            if answer is None:
                answer = self.source_of(entry, doubted_lines)
                answers[entry] = answer
            # A line that is doubted itself is raised if the person says it, word after word.
            if source_before is None or answer is Source.CONFIRMED:
                return answer
            return source_before

        return vouch

    def _may_say(self, entry: str) -> bool:
        """Whether the person's messages have all words of an entry. Quick."""
        return self._stems_of(entry) <= self._own_stems

    def _stems_of(self, entry: str) -> frozenset[str]:
        text = text_of(entry)
        return stems_in(text, self._language)

    @classmethod
    def joined(cls, evidence: Iterable["Evidence"]) -> "Evidence":
        """The evidence of several conversations together."""
        own_messages = list[Sequence[str]]()
        foreign_texts = list[str]()
        is_partial = False
        has_unread = False
        for part in evidence:
            own_messages += part.own_messages
            foreign_texts += part.foreign_texts
            is_partial = is_partial or part.is_partial
            has_unread = has_unread or part.has_unread
        return cls(own_messages, foreign_texts, is_partial, has_unread)

    def with_own(self, *messages: Sequence[str]) -> "Evidence":
        """The same with further messages of the person's. Those without sentences are left out."""
        further_messages = [message for message in messages if message]
        if not further_messages:
            return self
        own_messages = [*self.own_messages, *further_messages]
        return replace(self, own_messages=own_messages)

    @property
    def _is_cut(self) -> bool:
        """Whether more was shown than is looked at."""
        chars = 0
        for text in self.foreign_texts:
            chars += len(text)
        return self.is_partial or chars > _MOST_CHARS

    @cached_property
    def _language(self) -> str:
        """The language in which the person speaks, or else that of the texts."""
        sentences = list[str]()
        for message in self.own_messages:
            sentences += message
        sample = " ".join(sentences)
        if not sample:
            beginnings = [text[:_SAMPLE_CHARS] for text in self.foreign_texts]
            sample = " ".join(beginnings)
        return recall.language(sample)

    @cached_property
    def _own_statements(self) -> Sequence[Statement]:
        """What the person's messages say."""
        statements = list[Statement]()
        for sentences in self.own_messages:
            text = "\n".join(sentences)
            statement = statement_of(text, self._language)
            statements.append(statement)
        return statements

    @cached_property
    def _compared_texts(self) -> Sequence[_ForeignText]:
        """The texts from elsewhere, the last one first, up to `_MOST_CHARS` of all."""
        compared_texts = list[_ForeignText]()
        room = _MOST_CHARS
        for text in reversed(self.foreign_texts):
            beginning = text[:room]
            room -= len(beginning)
            passages = _passages_in(beginning, self._language)
            stems = frozenset[str]().union(*passages)
            foreign_text = _ForeignText(stems, passages)
            compared_texts.append(foreign_text)
        return compared_texts

    @cached_property
    def _own_stems(self) -> frozenset[str]:
        """The stems of all messages of the person's."""
        stems = set[str]()
        for message in self._own_statements:
            stems |= message.stems
        return frozenset(stems)


def evidence_of(messages: Iterable[str], foreign_texts: Iterable[str] = ()) -> Evidence:
    """The evidence of a person's messages, and of texts from elsewhere. Blocks.

    What a message quotes or pastes counts as text from elsewhere.
    """
    own_messages = list[Sequence[str]]()
    all_foreign_texts = list(foreign_texts)
    is_announced = False  # the message before says that this one is somebody else's text
    for message in messages:
        if is_announced:
            own_messages.append([])
            all_foreign_texts.append(message)
        else:
            parts = parts_of(message)
            own_messages.append(parts.own_sentences)
            all_foreign_texts += parts.foreign_texts
        is_announced = announces_a_text(message)
    return Evidence(own_messages, all_foreign_texts)


def _passages_in(text: str, language: str) -> list[frozenset[str]]:
    """The stems of each passage of a text. A passage is a sentence, or a part of a long one."""
    passages = list[frozenset[str]]()
    for passage in _PASSAGE.findall(text):
        stems = stems_in(passage, language)
        passages.append(stems)
    return passages


def _is_short_heading(text: str, stems: frozenset[str]) -> bool:
    is_heading = text.startswith("#")
    return is_heading and len(stems) <= _HEADING_WORDS


def _says(text: _ForeignText, stems: frozenset[str]) -> bool:
    """Whether a text from elsewhere says what a line says, or most of it in one passage."""
    if stems <= text.stems:
        return True
    return any(_has_most(passage, stems) for passage in text.passages)


def _has_most(passage: frozenset[str], stems: frozenset[str]) -> bool:
    """Whether most of a line's stems are in a passage. If they are few, all must be."""
    if len(stems) < _TELLING_WORDS:
        return stems <= passage
    common_stems = stems & passage
    least_common = _SHARE * len(stems)
    return len(common_stems) >= least_common


def _takes_up_any(stems: frozenset[str], doubted_lines: Sequence[frozenset[str]]) -> bool:
    """Whether a line says more or less than a doubted one, or merges it with others."""
    for doubted_stems in doubted_lines:
        # A doubted line without stems says nothing, and is in every line.
        if doubted_stems and doubted_stems <= stems:
            return True
        if _has_most(doubted_stems, stems):
            return True
    return False


def _has_all_words(message: Statement, line: Statement) -> bool:
    """Whether all words of a line stand in a message, negated there where they are in the line."""
    for word in line.words:
        is_said = any(_is_same(word, message_word) for message_word in message.words)
        if not is_said:
            return False
    return True


def _has_in_order(message: Statement, line: Statement) -> bool:
    """Whether the words of a line stand in a message one after the other.

    A line that memory had before the message needs that: by chance many messages have its words
    somewhere.
    """
    line_words = line.order
    count = len(line_words)
    if count == 0 or count > _MOST_WORDS_IN_ORDER:
        return False
    last_start = len(message.order) - count
    for start in range(last_start + 1):
        end = start + count
        part = message.order[start:end]
        if all(map(_is_same, line_words, part)):
            return True
    return False


def _is_same(word: Word, message_word: Word) -> bool:
    """Whether a line's word is a word of a message, perhaps in another form."""
    if word.is_negated != message_word.is_negated:
        return False
    if word.is_name:
        return word.spelling == message_word.spelling
    if word.stem == message_word.stem:
        return not _tell_genders_apart(word.spelling, message_word.spelling)
    return _are_forms(word.stem, message_word.stem)


def _are_forms(stem: str, other_stem: str) -> bool:
    """Whether two stems are forms of one word of an alphabet: they differ in a short ending alone."""
    shorter_stem = stem
    longer_stem = other_stem
    if len(other_stem) < len(stem):
        shorter_stem = other_stem
        longer_stem = stem
    if len(shorter_stem) < _FORM_CHARS:
        return False
    if not longer_stem.startswith(shorter_stem):
        return False
    ending = longer_stem.removeprefix(shorter_stem)
    return longer_stem.isalpha() and ending in _ENDINGS


def _tell_genders_apart(spelling: str, other_spelling: str) -> bool:
    """Whether two words that a stemmer takes for one are as a son and a daughter: `hijo`, `hija`."""
    endings = {spelling[-1:], other_spelling[-1:]}
    if endings == {"s"}:  # of the plural
        endings = {spelling[-2:], other_spelling[-2:]}
    if endings not in _GENDER_ENDINGS:
        return False
    beginning = spelling.rstrip("s")[:-1]
    return beginning in _KIN
