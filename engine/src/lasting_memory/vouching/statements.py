"""What a text says, as it is compared: its words with content, numbers among them, each with
whether it is negated there.
"""

# ruff: noqa: RUF001  # commas and conjunctions of all scripts are meant

from typing import NamedTuple

import regex

from lasting_memory import recall
from lasting_memory.vouching.negations import has_negation, negates, without_apostrophes
from lasting_memory.words import comparable, spelled_words, words

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
    """A text, as the set of its words."""

    words: frozenset[Word]

    @property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)


class _Clause(NamedTuple):
    """A clause of a text: its words with content, as stem and spelling, and whether it is negated."""

    content: list[tuple[str, str]]
    is_negated: bool


def statement_of(text: str, language: str) -> Statement:
    """What a text says, in a language. In linear time."""
    clauses = list[_Clause]()
    for part in _CLAUSE.split(text):
        clause = _clause(part, language)
        if clauses and clause.is_negated and _is_of_truth(clause):
            clauses[-1] = clauses[-1]._replace(is_negated=True)
        elif clause.content:
            clauses.append(clause)
    names = _names_in(text, language)
    found = set[Word]()
    for clause in clauses:
        for stem, spelled in clause.content:
            is_name = spelled in names
            found.add(Word(stem, spelled, clause.is_negated, is_name))
    return Statement(frozenset(found))


def _is_of_truth(clause: _Clause) -> bool:
    """Whether a clause only says of the one before it that it is true, or is not."""
    return all(spelled in _TRUTH for _, spelled in clause.content)


def _names_in(text: str, language: str) -> frozenset[str]:
    """The capitalised words of a line but its first; none of German, which capitalises all nouns."""
    names = set[str]()
    if language == "german":
        return frozenset(names)
    others = spelled_words(text)[1:]
    for word in others:
        if word[0].isupper():
            names.add(comparable(word))
    return frozenset(names)


def _clause(clause: str, language: str) -> _Clause:
    """A clause of a text, as it is compared."""
    low = without_apostrophes(clause).strip()
    without_subject = _SUBJECT.sub("", low)
    is_negated = has_negation(without_subject)
    content = list[tuple[str, str]]()
    for word in words(without_subject):
        if negates(word, language):
            is_negated = True
            continue
        if word in _THE_PERSON:
            continue
        stems = [word] if word in _QUALIFIERS else recall.stems(word, language)
        for stem in stems:
            content.append((stem, word))
    return _Clause(content, is_negated)


def stems_in(text: str, language: str) -> frozenset[str]:
    """The stems of the words with content in a text, wherever they stand. In linear time."""
    low = without_apostrophes(text)
    stems = frozenset(recall.stems(low, language))
    qualifiers = _QUALIFIERS.intersection(words(low))
    return stems | qualifiers
