"""What a text says, as it is compared: its words with content, numbers among them, each with
whether it is negated there.
"""

# ruff: noqa: RUF001  # commas and conjunctions of all scripts are meant

from collections.abc import Iterator
from typing import NamedTuple

import regex

from lasting_memory import recall
from lasting_memory.vouching.negations import has_negation, negates, without_apostrophes
from lasting_memory.words import comparable, is_unspaced, pieces, spelled_words, words

# Where another clause begins, which may be negated where the one before is not.
_CLAUSE = regex.compile(
    r"[,;:.!?…()\[\]—–\n，、。；：！？（）؛،؟।]|\s-\s|"
    r"\b(?:but|and|or|while|whereas|although|though|aber|sondern|und|oder|doch|während|obwohl|mais|et|ou|"
    r"pero|sino|y|però|mas|porém|maar|men|och|eller|og|но|а|и|или|але|та|або|"
    r"ale|lub|ama|fakat|ve|veya|αλλά|και|ή|لكن|و|أو|اما|یا|אבל|לכن|लेकिन|और|या|কিন্তু|এবং|nhưng|và|tapi)\b"
    r"|但是|但|而是|而|和|しかし|けど|그러나|하지만"
)
# Words that are no content in general, and say here for what a line holds.
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
# What a line calls the person, where they say I.
_THE_PERSON = frozenset(
    """
    user users person i me my mine the der die das nutzer nutzerin benutzer benutzerin ich mein utilisateur utilisatrice
    usuario usuaria usuário usuária utente gebruiker användaren brugeren brukeren пользователь користувач kullanıcı
    użytkownik uživatel käyttäjä felhasználó
    """.split()  # noqa: SIM905
)
# What is said of what stands before it: "that's not true".
_TRUTH = frozenset(
    """
    that this it is s was das es ist ce c est eso esto es questo è isso é dat det er это
    true right correct so case anymore wahr richtig stimmt vrai exact cierto verdad correcto vero verdade verdadeiro
    waar sant rätt sandt правда верно так prawda doğru
    """.split()  # noqa: SIM905
)
# "Not true: ..." says it of what stands behind it.
_BEFORE_WHAT_IS_DENIED = frozenset(":：—–")
_SUBJECT = regex.compile(
    r"^(?:用户|使用者|ユーザー(?:は|が)?|利用者(?:は|が)?|사용자(?:는|가)?|ผู้ใช้)"
)


class Word(NamedTuple):
    """A word with content: its stem, how it is spelled in lower case, whether its clause is negated,
    and whether it is a name, which has no other forms.
    """

    stem: str
    spelled: str
    is_negated: bool
    is_name: bool = False


class Statement(NamedTuple):
    """A text: the set of its words, and these in order; of writing without spaces its characters."""

    words: frozenset[Word]
    order: tuple[Word, ...]

    @property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)


def statement_of(text: str, language: str) -> Statement:
    """What a text says, in a language. In linear time."""
    clauses = list[tuple[list[tuple[str, str]], bool]]()
    denies_next = False
    for clause, separator in _clauses(text):
        content, is_negated = _clause(clause, language)
        if is_negated and all(spelled in _TRUTH for _, spelled in content):
            denies_next = separator in _BEFORE_WHAT_IS_DENIED
            if clauses:
                clauses[-1] = (clauses[-1][0], True)
            continue
        if content:
            clauses.append((content, is_negated != denies_next))
            denies_next = False
    names = _names_in(text, language)
    order = list[Word]()
    found = set[Word]()
    for content, is_negated in clauses:
        before = ""
        for stem, spelled in content:
            found.add(Word(stem, spelled, is_negated, spelled in names))
            parts = _characters(spelled)
            if not parts:
                order.append(Word(stem, spelled, is_negated, spelled in names))
            elif spelled != before:  # its stems are pairs of its characters
                order += [Word(part, part, is_negated) for part in parts]
            before = spelled
    return Statement(frozenset(found), tuple(order))


def _characters(word: str) -> list[str]:
    """The characters of a word of writing without spaces; of others none."""
    return pieces(word) if is_unspaced(word) else []


def _clauses(text: str) -> Iterator[tuple[str, str]]:
    """The clauses of a text, each with what separates it from the next one."""
    start = 0
    for match in _CLAUSE.finditer(text):
        yield text[start : match.start()], match[0]
        start = match.end()
    yield text[start:], ""


def _names_in(text: str, language: str) -> frozenset[str]:
    """The capitalised words of a line but its first; none of German, which capitalises all nouns."""
    if language == "german":
        return frozenset()
    capitals = [word for word in spelled_words(text)[1:] if word[0].isupper()]
    return frozenset(comparable(word) for word in capitals)


def _clause(clause: str, language: str) -> tuple[list[tuple[str, str]], bool]:
    """The words with content of a clause, as stem and spelling, and whether it is negated."""
    low = _SUBJECT.sub("", without_apostrophes(clause).strip())
    present = words(low)
    negating = {word for word in present if negates(word, language)}
    is_negated = bool(negating) or has_negation(low)
    content = list[tuple[str, str]]()
    kept = [word for word in present if word not in negating and word not in _THE_PERSON]
    for word in kept:
        if word in _QUALIFIERS:
            content.append((word, word))
            continue
        content += [(stem, word) for stem in recall.stems(word, language)]
    return content, is_negated


def stems_in(text: str, language: str) -> frozenset[str]:
    """The stems of the words with content in a text, wherever they stand. In linear time."""
    low = without_apostrophes(text)
    return frozenset(recall.stems(low, language)) | _QUALIFIERS.intersection(words(low))
