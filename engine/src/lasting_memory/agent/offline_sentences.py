"""Sentences as the offline model hears them: the patterns of `offline.yaml`, and what a person told in a text."""

import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml

# Characters of a message that are matched: a pattern's time grows with them.
MAX_CHARS = 4_000
DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("offline.yaml").read_text("utf-8"))
TEXTS, FACTS = DATA["answers"], DATA["facts"]
_SENTENCE = re.compile(r"(?<=[.!?])(?<!\b\d\.)(?<!\b\d\d\.)(?<!\b[DMS][rt]\.)(?<!\bMrs\.)(?<!\bz\.B\.)(?<!\be\.g\.)\s+|\n+")
END = ".!?\u2026 "

Patterns = dict[str, list[tuple[str, re.Pattern[str]]]]


def _compiled(pattern: str) -> re.Pattern[str]:
    slots = re.sub(r"\{([A-Za-z]+)\}", lambda slot: f"(?P<{slot[1].lower()}>{DATA['slots'][slot[1]]})", pattern)
    return re.compile(slots.replace("'", "['\u2019]"), re.IGNORECASE)


def _patterns(of: dict[str, Any], key: str = "") -> Patterns:
    listed = {name: {lang: of[name][lang].get(key, []) if key else of[name][lang] for lang in ("en", "de")} for name in of}
    return {name: [(lang, _compiled(one)) for lang in each for one in each[lang]] for name, each in listed.items()}


INTENTS, SAID, TOPIC, ASKED = _patterns(DATA["intents"]), *(_patterns(FACTS, key) for key in ("said", "topic", "ask"))
RULES = {name: _compiled(DATA[name]) for name in DATA if isinstance(DATA[name], str)}


class Heard(NamedTuple):
    """What a pattern made of a sentence: the name of the intent or fact, the language, and the slots."""

    name: str
    lang: str
    slots: dict[str, str]

    @property
    def key(self) -> tuple[str, str]:
        """What there is one fact of at a time."""
        return self.name, plain(self.slots["said"] if FACTS[self.name].get("many") else self.slots.get("thing", ""))

    @property
    def field(self) -> str:
        """The fact's field in the profile, or ""."""
        return str(FACTS[self.name].get("field", ""))

    def text(self, what: str, lang: str = "") -> str:
        """An answer. Names of things fit their own language only."""
        return str(FACTS[self.name][lang if lang and "thing" not in self.slots else self.lang][what]).format_map(self.slots)


def told_in(said: Iterable[tuple[str, str]], *, everything: bool = False) -> dict[Any, tuple[str, str]]:
    """What a person told in these texts, each with its date: facts and statements not taken back, the last of each."""
    told = dict[Any, tuple[str, str]]()
    for date, sentence in ((date, one) for date, text in said if len(text) <= MAX_CHARS for one in sentences_of(text)):
        heard = first(INTENTS, sentence)
        what = restored(heard.slots.get("what", "")) if heard else ""
        if heard and heard.name == "forget":
            topic = first(TOPIC, what)
            told = {k: (on, of) for k, (on, of) in told.items() if not (has(of, what) or (topic and topic.key == k))}
        elif (heard and heard.name not in {"remember", "stated", "passing"}) or sentence.endswith("?"):
            continue
        for clause in [what] if what else RULES["clauses"].split(sentence):
            fact, stated = first(SAID, clause) or first(SAID, turned(clause)), first(INTENTS, turned(clause))
            if heard and heard.name == "forget":
                break
            if what or fact or everything or (stated and stated.name == "stated"):
                text = (what or turned(clause)).rstrip(END)
                told[fact.key if fact else plain(text)] = date, text
    return told


def sentences_of(text: str) -> list[str]:
    parts = (" ".join(part.split()) for part in _SENTENCE.split(RULES["greeted"].sub(r"\1, ", text.strip())))
    return [part for part in (re.sub(r"^[-*\u2022] ", "", part) for part in parts) if re.search(r"\w", part)]


def turned(sentence: str) -> str:
    """A sentence without what leads to it, its subject first ("Jetzt wohne ich in Rom")."""
    return RULES["inverted"].sub(r"ich \1 \2", RULES["lead"].sub("", RULES["corrected"].sub("", sentence)))


def restored(what: str) -> str:
    """The order of a German main clause in place of a "dass"."""
    match = RULES["verb_last"].fullmatch(what.rstrip(END))
    return f"{match[1]} {match[3]} {match[2]}" if match else re.sub(r"^(?:that|dass) ", "", what.rstrip(END))


def first(patterns: Patterns, sentence: str) -> Heard | None:
    """The first pattern that the whole sentence matches, as it is or without what leads to it."""
    bare = RULES["lead"].sub("", RULES["corrected"].sub("", sentence))
    forms = dict.fromkeys((sentence.rstrip(END), bare.rstrip(END)))
    for name, form in product(patterns, forms):
        for lang, pattern in patterns[name]:
            if match := pattern.fullmatch(form):
                return Heard(name, lang, {"said": form, **{slot: text for slot, text in match.groupdict().items() if text}})
    return None


def content(text: str) -> list[str]:
    """The words that a text is about, by their beginnings."""
    return [word[:5] for word in plain(text).split() if word not in _STOP and len(word) > 1]


def has(line: str, words: str) -> bool:
    return f" {plain(words)} " in f" {plain(line)} "


def plain(text: str) -> str:
    return " ".join(DATA["same"].get(word, word) for word in re.findall(r"\w+", text.lower()))


_STOP = {*plain(DATA["stop"][0]).split()}
