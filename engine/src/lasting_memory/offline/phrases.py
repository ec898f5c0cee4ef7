"""What a sentence of a person asks for, by the patterns of `phrases.yaml`; and the replies in it.

An act is what a sentence asks for. Its kind is a name in `phrases.yaml`, such as "remember", or one
of "too_long" and "not_understood". The lead of a sentence is a beginning such as "please".
"""

import re
from pathlib import Path
from typing import NamedTuple, TypedDict

import yaml

from lasting_memory.words import words

# Characters of a message that are matched (phrases.yaml says so, too): a pattern's time grows with
# them.
MAX_CHARS = 4_000
# Words are compared by their beginnings, of so many letters.
_STEM_CHARS = 5
# A line, but a heading or what says what is left out: with the end of the line before it, and
# without its bullet.
LINE = re.compile(r"(?:^|\n)(?![#\[])(?:[^\S\n]*(?:[-*+]|\d+\.) )?(.*\w.*)")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\b\d\.)\s+")


_PatternsByKind = dict[str, list[re.Pattern[str]]]


class _Phrases(TypedDict):
    """What `phrases.yaml` has. It says there what each part is for."""

    lead: str
    german: str
    stop: str
    framing: list[str]
    slots: dict[str, str]
    hear: dict[str, list[str]]
    answers: dict[str, dict[str, str]]


class Act(NamedTuple):
    """What a sentence asks for, such as "remember", and what it is about."""

    kind: str
    about: str = ""


def _with_apostrophes(pattern: str) -> re.Pattern[str]:
    """A pattern in which ' is either apostrophe, in either case of letters."""
    pattern_of_both = pattern.replace("'", "['\u2019]")
    return re.compile(pattern_of_both, re.IGNORECASE)


_PHRASES: _Phrases = yaml.safe_load(Path(__file__).with_name("phrases.yaml").read_text("utf-8"))
_LEAD = re.compile(_PHRASES["lead"], re.IGNORECASE)
_GERMAN = re.compile(_PHRASES["german"], re.IGNORECASE)
_STOP_WORDS = frozenset(_PHRASES["stop"].split())
_FRAMING = [_with_apostrophes(pattern) for pattern in _PHRASES["framing"]]


def _patterns_by_kind() -> _PatternsByKind:
    """The patterns of sentences, by the kind of their act, in the order in which they are tried."""
    slots = _PHRASES["slots"]
    patterns_of_kinds = _PHRASES["hear"]
    patterns_by_kind = _PatternsByKind()
    for kind, patterns in patterns_of_kinds.items():
        patterns_by_kind[kind] = []
        for pattern in patterns:
            filled_pattern = pattern.format(**slots)
            compiled_pattern = _with_apostrophes(filled_pattern)
            patterns_by_kind[kind].append(compiled_pattern)
    return patterns_by_kind


_PATTERNS = _patterns_by_kind()


def language_of(text: str) -> str:
    """The language of a reply to a text: "de" for a text with German words, else "en"."""
    beginning = text[:MAX_CHARS]
    if _GERMAN.search(beginning):
        return "de"
    return "en"


def reply(name: str, language: str, about: str = "", date: str = "") -> str:
    """The reply of this name in `phrases.yaml`, in a language ("de" or "en"), with its places filled
    in.
    """
    answers = _PHRASES["answers"]
    answers_by_language = answers[name]
    answer = str(answers_by_language[language])
    return answer.format(said=about, date=date)


def acts_of(text: str) -> list[Act]:
    """What each sentence of a message asks for, in order. It is one act at least."""
    if len(text) > MAX_CHARS:
        return [Act("too_long")]
    sentence_a_line = _SENTENCE_END.sub("\n", text)
    acts = list[Act]()
    for sentence in lines_of(sentence_a_line):
        act = _act_of(sentence)
        acts.append(act)
    return acts or [Act("not_understood")]


def _act_of(sentence: str) -> Act:
    """What a sentence asks for: the first kind of which a pattern matches the sentence without its
    end, the same without its lead, or the whole sentence.
    """
    bare_sentence = sentence.rstrip(".!?\u2026 ")
    sentence_without_lead = _LEAD.sub("", bare_sentence)
    forms = dict.fromkeys((bare_sentence, sentence_without_lead, sentence))
    for kind, patterns in _PATTERNS.items():
        for pattern in patterns:
            for form in forms:
                match = pattern.fullmatch(form)
                if match:
                    groups = match.groupdict()
                    return Act(kind, groups.get("what", form))
    return Act("not_understood", bare_sentence)


def name_in(sentence: str) -> str:
    """The name that a sentence of the kind "name" tells. Raises `ValueError` for any other
    sentence.
    """
    for pattern in _PATTERNS["name"]:
        match = pattern.fullmatch(sentence)
        if match:
            return match["name"]
    raise ValueError(f"{sentence!r} tells no name.")


def is_framing(line: str) -> bool:
    """Whether a line is what an assistant says around facts that it lists, such as a greeting."""
    bare_line = line.strip(" *_")
    return any(pattern.fullmatch(bare_line) for pattern in _FRAMING)


def lines_of(text: str) -> list[str]:
    """The lines of a text without bullets and headings, with single spaces."""
    lines = list[str]()
    for match in LINE.finditer(text):
        parts = match[1].split()
        lines.append(" ".join(parts))
    return lines


def plain(text: str) -> str:
    """A text's words, between spaces: a text within another has its words in this order."""
    joined_words = " ".join(words(text))
    return f" {joined_words} "


def subject_words(text: str) -> set[str]:
    """The words that a text is about, by their beginnings."""
    stems = set[str]()
    for word in words(text):
        is_letter = len(word) == 1
        if is_letter or word in _STOP_WORDS:
            continue
        stem = word[:_STEM_CHARS]
        stems.add(stem)
    return stems
