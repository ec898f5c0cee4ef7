"""What a text says, as it is compared: its words with content, numbers among them, each with
whether it is negated there.

A word has content unless it is a common word, such as "the", or a name for the person who speaks. Of
each its stem is compared, which is what its forms have in common.
"""

# ruff: noqa: RUF001  # commas and conjunctions of all scripts are meant

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import regex

from lasting_memory import recall
from lasting_memory.vouching.negations import has_negation, negates, without_apostrophes
from lasting_memory.words import comparable, is_unspaced, pieces, spelled_words, words

# Where another clause begins, which may be negated where the one before is not.
_SEPARATOR = regex.compile(
    r"[,;:.!?…()\[\]—–\n，、。；：！？（）؛،؟।]|\s-\s|"
    r"\b(?:but|and|or|while|whereas|although|though|aber|sondern|und|oder|doch|während|obwohl|mais|et|ou|"
    r"pero|sino|y|però|mas|porém|maar|men|och|eller|og|но|а|и|или|але|та|або|"
    r"ale|lub|ama|fakat|ve|veya|αλλά|και|ή|لكن|و|أو|اما|یا|אבל|לכن|लेकिन|और|या|কিন্তু|এবং|nhưng|và|tapi)\b"
    r"|但是|但|而是|而|和|しかし|けど|그러나|하지만"
)
# Words that have no content elsewhere. Here they have: they say when or for what a line holds.
_QUALIFIERS = frozenset(
    """
    all only always every before after until till more less most least few if when first last over under against
    nur immer alle jeder jede jedes bis vor nach mehr weniger zuerst zuletzt wenn falls erst
    seulement toujours tous toutes chaque avant après jusque plus moins si quand
    solo sólo siempre todos todas cada antes después hasta más menos sempre tutti tutte ogni prima dopo fino più meno
    apenas todo toda depois até mais alleen altijd voor na tot meer minder bara alltid före efter tills mer mindre
    kun altid før indtil только всегда все каждый до после больше меньше если когда тільки завжди після
    """.split()  # noqa: SIM905  # so that one can read them
)
# How a line names the person, who says "I" of themselves.
_THE_PERSON = frozenset(
    """
    user users person i me my mine the der die das nutzer nutzerin benutzer benutzerin ich mein utilisateur utilisatrice
    usuario usuaria usuário usuária utente gebruiker användaren brugeren brukeren пользователь користувач kullanıcı
    użytkownik uživatel käyttäjä felhasználó
    """.split()  # noqa: SIM905
)
# Words of a clause that only says that something is not true: "that's not true".
_TRUTH = frozenset(
    """
    that this it is s was das es ist ce c est eso esto es questo è isso é dat det er это
    true right correct so case anymore wahr richtig stimmt vrai exact cierto verdad correcto vero verdade verdadeiro
    waar sant rätt sandt правда верно так prawda doğru
    """.split()  # noqa: SIM905
)
# "Not true: ..." says it of the clause behind it, too.
_BEFORE_WHAT_IS_DENIED = frozenset(":：—–")
_SUBJECT = regex.compile(
    r"^(?:用户|使用者|ユーザー(?:は|が)?|利用者(?:は|が)?|사용자(?:는|가)?|ผู้ใช้)"
)


class Word(NamedTuple):
    """A word with content: its stem, how it is spelled in lower case, whether its clause is negated,
    and whether it is a name, which has no other forms.
    """

    stem: str
    spelling: str
    is_negated: bool
    is_name: bool = False


class Statement(NamedTuple):
    """A text: the set of its words, and these in order; of writing without spaces its characters."""

    words: frozenset[Word]
    order: tuple[Word, ...]

    @property
    def stems(self) -> frozenset[str]:
        stems = {word.stem for word in self.words}
        return frozenset(stems)


class _Term(NamedTuple):
    """A word of a clause: one of its stems, and how it is spelled in lower case."""

    stem: str
    spelling: str


class _Clause(NamedTuple):
    """A part of a sentence: its words with content in order, and whether it is negated."""

    terms: Sequence[_Term]
    is_negated: bool


def statement_of(text: str, language: str) -> Statement:
    """What a text says, in a language. In linear time."""
    names = _names_in(text, language)
    all_words = set[Word]()
    order = list[Word]()
    for clause in _clauses_in(text, language):
        clause_words = _words_of(clause, names)
        all_words.update(clause_words)
        order += _with_characters(clause_words)
    return Statement(frozenset(all_words), tuple(order))


def _words_of(clause: _Clause, names: Collection[str]) -> list[Word]:
    """The words of a clause. `names` are those of its text, in lower case."""
    clause_words = list[Word]()
    is_negated = clause.is_negated
    for stem, spelling in clause.terms:
        is_name = spelling in names
        word = Word(stem, spelling, is_negated, is_name)
        clause_words.append(word)
    return clause_words


def _with_characters(clause_words: Sequence[Word]) -> list[Word]:
    """The words of a clause in order; of writing without spaces its characters, each as a word."""
    order = list[Word]()
    spelling_before = ""
    for word in clause_words:
        spelling = word.spelling
        if not is_unspaced(spelling):
            order.append(word)
        # Such a word stands here once for each pair of its characters, which are its stems.
        elif spelling != spelling_before:
            for character in pieces(spelling):
                part = Word(character, character, word.is_negated)
                order.append(part)
        spelling_before = spelling
    return order


def _clauses_in(text: str, language: str) -> list[_Clause]:
    """The clauses of a text that have words with content.

    A clause that only says that something is not true negates the clause before it, and before a
    colon or a dash the one after it, too.
    """
    clauses = list[_Clause]()
    denies_next = False
    for part, separator in _parts_of(text):
        clause = _clause_of(part, language)
        if _is_denial(clause):
            denies_next = separator in _BEFORE_WHAT_IS_DENIED
            if clauses:
                clause_before = clauses[-1]
                clauses[-1] = _Clause(clause_before.terms, is_negated=True)
        elif clause.terms:
            # What is negated itself and denied is said.
            is_negated = clause.is_negated != denies_next
            clauses.append(_Clause(clause.terms, is_negated))
            denies_next = False
    return clauses


def _parts_of(text: str) -> Iterator[tuple[str, str]]:
    """The parts of a text that may be clauses, each with what separates it from the next one."""
    start = 0
    for match in _SEPARATOR.finditer(text):
        end = match.start()
        part = text[start:end]
        yield part, match[0]
        start = match.end()
    yield text[start:], ""


def _is_denial(clause: _Clause) -> bool:
    """Whether a clause only says that something is not true. One that only negates does, too."""
    if not clause.is_negated:
        return False
    spelling = {term.spelling for term in clause.terms}
    return spelling <= _TRUTH


def _names_in(text: str, language: str) -> frozenset[str]:
    """The capitalised words of a text but its first, in lower case. None of German, which
    capitalises all nouns.
    """
    if language == "german":
        return frozenset()
    names = set[str]()
    for word in spelled_words(text)[1:]:
        initial = word[0]
        if initial.isupper():
            name = comparable(word)
            names.add(name)
    return frozenset(names)


def _clause_of(text: str, language: str) -> _Clause:
    """The clause that a part of a sentence is. Words that negate it are none of its terms."""
    text_without_apostrophes = without_apostrophes(text).strip()
    lowercase_text = _SUBJECT.sub("", text_without_apostrophes)
    is_negated = has_negation(lowercase_text)
    terms = list[_Term]()
    for word in words(lowercase_text):
        if negates(word, language):
            is_negated = True
        elif word in _QUALIFIERS:
            terms.append(_Term(word, word))
        elif word not in _THE_PERSON:
            for stem in recall.stems(word, language):
                term = _Term(stem, word)
                terms.append(term)
    return _Clause(terms, is_negated)


def stems_in(text: str, language: str) -> frozenset[str]:
    """The stems of the words with content in a text, wherever they stand. In linear time."""
    lowercase_text = without_apostrophes(text)
    stems = frozenset(recall.stems(lowercase_text, language))
    qualifiers = _QUALIFIERS.intersection(words(lowercase_text))
    return stems | qualifiers
