"""The page's own texts, in one file a language: the engine's, and a fork's over them.

A file `<language>.json` is an object of keys and texts. A text is plain, with `{names}` for what
the page puts in; one that counts is an object of plural forms by the categories of
`Intl.PluralRules`, of which `other` is one. English has every key.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lasting_memory.settings import ENGINE, SettingsError

FIRST = "en"  # the language of people whose own is not there
OWN = ENGINE / "http" / "static" / "texts"
PLURALS = frozenset({"zero", "one", "two", "few", "many", "other"})
MAX_FILE_BYTES = 1_000_000
MAX_RANGES = 50

Text = str | dict[str, str]
Texts = Mapping[str, Text]

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def load(folder: Path) -> dict[str, Texts]:
    """The texts by language: the engine's, those in `folder` over them, and English where a
    language lacks one.

    Raises `SettingsError` for a file that cannot be used, with its path and the key.
    """
    english = _read(OWN / f"{FIRST}.json")
    found: dict[str, Texts] = {}
    for own in (OWN, folder):
        for path in sorted(own.glob("[!.]*.json")):
            language = path.stem.lower()
            if not _LANGUAGE.fullmatch(path.stem):
                raise SettingsError(
                    f"{path} is named after no language; name it by a tag such as fr.json or pt-BR.json."
                )
            texts = _read(path)
            _check(path, texts, english)
            found[language] = {**found.get(language, english), **texts}
    return found


def _read(path: Path) -> dict[str, Text]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SettingsError(
                f"{path} has more than {MAX_FILE_BYTES} bytes; it may hold the page's texts and nothing else."
            )
        texts = json.loads(path.read_text("utf-8"), object_pairs_hook=_no_doubles)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read ({error.strerror}); make it readable, or take it away."
        ) from None
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8."
        ) from None
    except RecursionError:
        raise SettingsError(
            f"{path} is nested too deeply; use an object of keys and texts."
        ) from None
    except ValueError as error:
        raise SettingsError(f"{path} is not JSON: {str(error).splitlines()[0]}; mend it.") from None
    if not isinstance(texts, dict):
        raise SettingsError(
            f"{path} is no object; use keys and texts, e.g. " + '{"chat.send": "Send"}.'
        )
    return texts


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    counts = Counter(name for name, _ in pairs)
    twice = [name for name in members if counts[name] > 1]
    raise ValueError(f"{twice[0]!r:.80} is there twice")


def _check(path: Path, texts: Mapping[str, object], english: Texts) -> None:
    """Raise `SettingsError` for the first text that the page could not show as it is."""
    for key, text in texts.items():
        if key not in english:
            raise SettingsError(
                f"{path}: {key!r:.80} is no key of the page; see {FIRST}.json of the engine for all of them."
            )
        fault = _fault(text, english[key])
        if fault:
            raise SettingsError(f"{path}: {key!r} {fault}.")


def _fault(text: object, english: Text) -> str:
    """What is wrong with a text; empty if nothing is."""
    wanted = _placeholders(english)
    if isinstance(text, str):
        return _differing(_placeholders(text), wanted)
    neither = "is neither a text nor an object of plural forms; use one of them"
    if not isinstance(text, dict):
        return neither
    are_texts = all(isinstance(form, str) for form in text.values())
    if not are_texts:
        return neither
    if not isinstance(english, dict):
        return "has plural forms, but counts nothing; use one text"
    return _plural_fault(text, wanted)


def _plural_fault(forms: Mapping[str, str], wanted: set[str]) -> str:
    unknown = sorted(forms.keys() - PLURALS)
    if unknown:
        return f"has the plural form {unknown[0]!r:.40}; use {', '.join(sorted(PLURALS))}"
    if "other" not in forms:
        return 'lacks the plural form "other"; add it'
    # A form of one number may say it in a word, or not at all.
    for form in forms.values():
        names = _placeholders(form) | {"count"}
        fault = _differing(names, wanted)
        if fault:
            return fault
    return _differing(_placeholders(forms["other"]), wanted)


def _differing(names: set[str], wanted: set[str]) -> str:
    if names == wanted:
        return ""
    shown = [f"{{{name}}}" for name in sorted(wanted)]
    needed = ", ".join(shown) or "none"
    return f"has other placeholders than the engine's; use {needed}"


def _placeholders(text: Text) -> set[str]:
    whole = text if isinstance(text, str) else text["other"]
    return set(_PLACEHOLDER.findall(whole))


def chosen(accept: str, languages: Mapping[str, Texts]) -> str:
    """The language for an `Accept-Language` header: the one that a person likes best, of those that
    are there.

    A tag also stands for those that begin with fewer parts ("de-AT" for "de"), as RFC 4647 looks
    languages up; `*` is any.
    """
    for tag in _ranges(accept):
        if tag == "*":
            return FIRST
        parts = tag.split("-")
        for length in range(len(parts), 0, -1):
            language = "-".join(parts[:length])
            if language in languages:
                return language
    return FIRST


def _ranges(accept: str) -> list[str]:
    """The tags of the header in lower case, what is liked best first, without what is refused (q=0)
    or makes no sense.
    """
    liked = list[tuple[float, str]]()
    for part in accept.split(",")[:MAX_RANGES]:
        tag, _, weight = part.partition(";")
        tag = tag.strip().lower()
        name, _, value = weight.partition("=")
        is_weight = name.strip().lower() == "q"
        try:
            quality = float(value) if is_weight else 1.0
        except ValueError:
            continue
        if tag and quality > 0:
            liked.append((quality, tag))
    liked.sort(key=lambda entry: -entry[0])  # stable: what is named first comes first
    return [tag for _, tag in liked]
