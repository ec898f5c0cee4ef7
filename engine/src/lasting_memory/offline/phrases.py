"""What a sentence of a person asks for, by the patterns of `phrases.yaml`."""

import re
from pathlib import Path
from typing import Any, NamedTuple

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


class Act(NamedTuple):
    """What a sentence asks for, such as "remember", and what it is about."""

    kind: str
    about: str = ""


def _with_apostrophes(pattern: str) -> re.Pattern[str]:
    """A pattern in which ' is either apostrophe, in either case of letters."""
    either = pattern.replace("'", "['\u2019]")
    return re.compile(either, re.IGNORECASE)


_PHRASES: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("phrases.yaml").read_text("utf-8")
)
_LEAD = re.compile(_PHRASES["lead"], re.IGNORECASE)
_GERMAN = re.compile(_PHRASES["german"], re.IGNORECASE)
_STOP_WORDS = frozenset(_PHRASES["stop"].split())
_FRAMING = [_with_apostrophes(pattern) for pattern in _PHRASES["framing"]]


def _patterns_by_act() -> dict[str, list[re.Pattern[str]]]:
    slots = _PHRASES["slots"]
    by_act = dict[str, list[re.Pattern[str]]]()
    for kind, patterns in _PHRASES["hear"].items():
        compiled = list[re.Pattern[str]]()
        for pattern in patterns:
            filled = pattern.format(**slots)
            compiled.append(_with_apostrophes(filled))
        by_act[kind] = compiled
    return by_act


_PATTERNS = _patterns_by_act()


def language_of(text: str) -> str:
    """ "de" for a text with German words, else "en"."""
    beginning = text[:MAX_CHARS]
    return "de" if _GERMAN.search(beginning) else "en"


def reply(name: str, language: str, about: str = "", date: str = "") -> str:
    """The answer of this name in `phrases.yaml`, with its places filled."""
    answers = _PHRASES["answers"][name]
    answer = str(answers[language])
    return answer.format(said=about, date=date)


def acts_of(text: str) -> list[Act]:
    """What each sentence of a message asks for, in order."""
    if len(text) > MAX_CHARS:
        return [Act("too_long")]
    sentence_a_line = _SENTENCE_END.sub("\n", text)
    acts = [_act_of(sentence) for sentence in lines_of(sentence_a_line)]
    return acts or [Act("not_understood")]


def _act_of(sentence: str) -> Act:
    bare = sentence.rstrip(".!?\u2026 ")
    without_lead = _LEAD.sub("", bare)
    forms = dict.fromkeys((bare, without_lead, sentence))
    for kind, patterns in _PATTERNS.items():
        for pattern in patterns:
            for form in forms:
                match = pattern.fullmatch(form)
                if match:
                    groups = match.groupdict()
                    return Act(kind, groups.get("what", form))
    return Act("not_understood", bare)


def name_in(sentence: str) -> str:
    """The name that a sentence of the kind "name" tells. Raises `ValueError` for another one."""
    for pattern in _PATTERNS["name"]:
        match = pattern.fullmatch(sentence)
        if match:
            return match["name"]
    raise ValueError(f"{sentence!r} tells no name.")


def is_framing(line: str) -> bool:
    """Whether a line is what an assistant says around facts that it lists, such as a greeting."""
    bare = line.strip(" *_")
    return any(pattern.fullmatch(bare) for pattern in _FRAMING)


def lines_of(text: str) -> list[str]:
    """The lines of a text without bullets and headings, with single spaces."""
    lines = list[str]()
    for match in LINE.finditer(text):
        parts = match[1].split()
        lines.append(" ".join(parts))
    return lines


def plain(text: str) -> str:
    """A text's words, between spaces: a text within another has its words in this order."""
    in_order = " ".join(words(text))
    return f" {in_order} "


def subject_words(text: str) -> set[str]:
    """The words that a text is about, by their beginnings."""
    stems = set[str]()
    for word in plain(text).split():
        if len(word) > 1 and word not in _STOP_WORDS:
            stem = word[:_STEM_CHARS]
            stems.add(stem)
    return stems
