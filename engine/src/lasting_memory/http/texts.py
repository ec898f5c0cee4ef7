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
    texts_by_language: dict[str, Texts] = {}
    for source in (OWN, folder):
        for path in sorted(source.glob("[!.]*.json")):
            tag = path.stem
            language = tag.lower()
            if not _LANGUAGE.fullmatch(tag):
                raise SettingsError(
                    f"{path} is named after no language; name it by a tag such as fr.json or pt-BR.json."
                )
            texts = _read(path)
            _check(path, texts, english)
            earlier_texts = texts_by_language.get(language, english)
            texts_by_language[language] = {**earlier_texts, **texts}
    return texts_by_language


def _read(path: Path) -> dict[str, Text]:
    """The texts of a file, unchecked. Raises `SettingsError` for one that is no object of JSON."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SettingsError(
                f"{path} has more than {MAX_FILE_BYTES} bytes; it may hold the page's texts and nothing else."
            )
        content = path.read_text("utf-8")
        texts = json.loads(content, object_pairs_hook=_without_duplicates)
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
        reason = str(error).splitlines()[0]
        raise SettingsError(f"{path} is not JSON: {reason}; mend it.") from None
    if not isinstance(texts, dict):
        raise SettingsError(
            f"{path} is no object; use keys and texts, e.g. " + '{"chat.send": "Send"}.'
        )
    return texts


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON, made of its members. Raises `ValueError` for a name that is there twice."""
    counts = Counter(name for name, _ in pairs)
    for name, count in counts.items():
        if count > 1:
            raise ValueError(f"{name!r:.80} is there twice")
    return dict(pairs)


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
    needed_names = _placeholders(english)
    if isinstance(text, str):
        return _placeholder_fault(_placeholders(text), needed_names)
    kind_fault = "is neither a text nor an object of plural forms; use one of them"
    if not isinstance(text, dict):
        return kind_fault
    are_texts = all(isinstance(form, str) for form in text.values())
    if not are_texts:
        return kind_fault
    if not isinstance(english, dict):
        return "has plural forms, but counts nothing; use one text"
    return _plural_fault(text, needed_names)


def _plural_fault(forms: Mapping[str, str], needed_names: set[str]) -> str:
    """What is wrong with the plural forms of a text; "" if nothing is.

    `needed_names` are the placeholders of the English text.
    """
    unknown_forms = sorted(forms.keys() - PLURALS)
    if unknown_forms:
        known_forms = ", ".join(sorted(PLURALS))
        return f"has the plural form {unknown_forms[0]!r:.40}; use {known_forms}"
    if "other" not in forms:
        return 'lacks the plural form "other"; add it'
    # A form of one number may say it in a word, or not at all.
    for form in forms.values():
        names = _placeholders(form) | {"count"}
        fault = _placeholder_fault(names, needed_names)
        if fault:
            return fault
    return _placeholder_fault(_placeholders(forms["other"]), needed_names)


def _placeholder_fault(names: set[str], needed_names: set[str]) -> str:
    """What is wrong with the placeholders of a text; "" if they are those of the English one."""
    if names == needed_names:
        return ""
    placeholders = [f"{{{name}}}" for name in sorted(needed_names)]
    listed_placeholders = ", ".join(placeholders) or "none"
    return f"has other placeholders than the engine's; use {listed_placeholders}"


def _placeholders(text: Text) -> set[str]:
    """The names of the placeholders in a text; of one that counts, in its form "other"."""
    if not isinstance(text, str):
        text = text["other"]
    names = _PLACEHOLDER.findall(text)
    return set(names)


def chosen(header: str, languages: Mapping[str, Texts]) -> str:
    """The language for an `Accept-Language` header: the one that a person likes best, of those that
    are there.

    A tag also stands for those that begin with fewer parts ("de-AT" for "de"), as RFC 4647 looks
    languages up; `*` is any.
    """
    for tag in _ranges(header):
        if tag == "*":
            return FIRST
        parts = tag.split("-")
        for length in range(len(parts), 0, -1):
            language = "-".join(parts[:length])
            if language in languages:
                return language
    return FIRST


def _ranges(header: str) -> list[str]:
    """The tags of the header in lower case, what is liked best first, without what is refused (q=0)
    or makes no sense.
    """
    weighted_tags = list[tuple[float, str]]()
    for entry in header.split(",")[:MAX_RANGES]:
        tag, _, parameter = entry.partition(";")
        tag = tag.strip().lower()
        name, _, value = parameter.partition("=")
        is_weight = name.strip().lower() == "q"
        try:
            weight = float(value) if is_weight else 1.0
        except ValueError:
            continue
        if tag and weight > 0:
            weighted_tags.append((weight, tag))
    weighted_tags.sort(key=lambda weighted: -weighted[0])  # stable: of equal ones the first
    return [tag for _, tag in weighted_tags]
