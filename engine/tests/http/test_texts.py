"""The page's own texts: one file a language, chosen by what a browser asks for; a fork adds a
language or replaces texts.
"""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from lasting_memory.deployment import Profile
from lasting_memory.http import texts
from lasting_memory.http.app import FOLDER, build_http
from lasting_memory.settings import SettingsError
from lasting_memory.testing.deployed import deployed

ENGINE = Path(__file__).parents[2]
OWN = {path.stem: json.loads(path.read_text("utf-8")) for path in texts.OWN.glob("*.json")}
CODE = [path for path in FOLDER.rglob("*.js") if path.parent.name != "lib"]
# A text is named as it stands, so that this test finds it; of two the page may choose in the call.
CALL = re.compile(r"\b(?:t|filled)\(\s*([^,)]*)")
LITERAL = re.compile(r'"([^"]*)"')
BEFORE_SCRIPTS = {"page.title", "page.noscript"}


def test_every_text_that_the_page_names_is_there_and_every_text_is_named() -> None:
    named = set(BEFORE_SCRIPTS)
    for path in CODE:
        if path.name == "texts.js":
            continue
        for argument in CALL.findall(path.read_text("utf-8")):
            keys = [key for key in LITERAL.findall(argument) if "." in key]
            assert keys, f"{path.name}: {argument} names no text that can be found"
            named.update(keys)
    assert named == OWN[texts.FIRST].keys()


def test_a_profile_s_fields_are_described_in_every_language_of_the_page() -> None:
    words = (FOLDER / "words.js").read_text("utf-8")
    for name, field in Profile.model_fields.items():
        assert OWN["en"][f"profile.about_{name}"] == field.description
        assert f'{json.dumps(field.description)}: t("profile.about_{name}")' in words
        assert f'{name}: t("profile.{name}")' in words


DOCUMENT = re.compile(r"[\w./-]*\w\.md\b")


def test_a_document_that_the_page_names_is_where_it_says() -> None:
    said = [
        text
        for texts_of_one in OWN.values()
        for text in texts_of_one.values()
        if isinstance(text, str)
    ]
    named = {path for text in said for path in DOCUMENT.findall(text) if "/" in path}
    assert named
    assert [path for path in named if not (ENGINE.parent / path).is_file()] == []


@pytest.mark.parametrize("language", sorted(OWN))
def test_every_language_of_the_engine_has_every_text(language: str) -> None:
    assert list(OWN[language]) == sorted(OWN[texts.FIRST]), "each key once, in order"
    assert texts.load(Path("/nowhere"))[language] == OWN[language]


@pytest.mark.parametrize(
    ("accept", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,en;q=0.5", "de"),
        ("DE", "de"),
        ("fr", "en"),
        ("fr, de;q=0.3", "de"),
        ("de;q=0.4, en-GB;q=0.8", "en"),
        ("de;q=0, en", "en"),
        ("fr;q=0.9, *;q=0.5, de;q=0.1", "en"),
        ("de;q=much, ;;, en;q=0.1", "en"),
        ("," * 9_000 + "de", "en"),
    ],
)
def test_the_language_is_the_one_that_somebody_likes_best(accept: str, language: str) -> None:
    assert texts.chosen(accept, texts.load(Path("/nowhere"))) == language


@pytest.fixture
async def fork(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The page of a fork with a language of its own, and another name in English."""
    write(tmp_path, "fr", {"chat.send": "Envoyer"})
    write(tmp_path, "en", {"page.title": "Acme <remembers>"})
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app_of(tmp_path)), base_url="http://test"
    ) as client:
        yield client


def write(folder: Path, language: str, content: Any) -> Path:
    path = folder / "texts" / f"{language}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def app_of(folder: Path) -> Any:
    (folder / "langgraph.json").write_text('{"graphs": {"agent": "./agent.py:agent"}}')
    return build_http(replace(deployed(), folder=folder, consolidation=None))


async def test_a_fork_adds_a_language_and_replaces_single_texts(fork: httpx.AsyncClient) -> None:
    told = {}
    for language in ("fr", "de", "en"):
        answer = await fork.get("/app/texts", headers={"accept-language": language})
        assert (answer.headers["vary"], answer.headers["content-language"]) == (
            "accept-language",
            language,
        )
        assert answer.json()["language"] == language
        told[language] = answer.json()["texts"]
    assert told["fr"] == {**OWN["en"], "chat.send": "Envoyer"}, "what a language lacks is English"
    assert told["de"] == OWN["de"]
    assert told["en"] == {**OWN["en"], "page.title": "Acme <remembers>"}
    for language in ("fr", "en"):
        page = await fork.get("/app", headers={"accept-language": language})
        assert page.headers["vary"] == "accept-language"
        assert f'<html lang="{language}">' in page.text
    assert "<title>Acme &lt;remembers&gt;</title>" in page.text


ENGLISH = OWN["en"]
MORE = next(key for key, text in ENGLISH.items() if isinstance(text, dict))
BAD = [
    (b"\xff{}", "is not UTF-8"),
    (b"{", "is not JSON"),
    (b"[" * 100_000, "fr.json is "),
    ([], "is no object"),
    (b" " * 1_000_001, "more than 1000000 bytes"),
    (b'{"chat.send": "a", "chat.send": "b"}', "'chat.send' is there twice"),
    ({"chat.sent": "Envoyer"}, "'chat.sent' is no key of the page"),
    ({"chat.send": 5}, "'chat.send' is neither a text nor an object of plural forms"),
    ({"chat.send": ["Envoyer"]}, "'chat.send' is neither a text nor"),
    ({"chat.send": {"other": "Envoyer"}}, "'chat.send' has plural forms, but counts nothing"),
    (
        {"chat.send": "Envoyer {name}"},
        "'chat.send' has other placeholders than the engine's; use none.",
    ),
    ({MORE: {"one": "{count}"}}, f'{MORE!r} lacks the plural form "other"'),
    ({MORE: {"many": 5, "other": "{count}"}}, f"{MORE!r} is neither a text nor"),
    ({MORE: {"several": "{count}", "other": "{count}"}}, f"{MORE!r} has the plural form 'several'"),
    ({MORE: {"one": "{name}", "other": "{count}"}}, f"{MORE!r} has other placeholders"),
    (
        {MORE: {"other": "many"}},
        f"{MORE!r} has other placeholders than the engine's; use {{count}}",
    ),
]


@pytest.mark.parametrize(("content", "said"), BAD)
def test_texts_that_cannot_be_used_stop_the_start_in_one_line(
    content: Any, said: str, tmp_path: Path
) -> None:
    path = write(tmp_path, "fr", content)
    with pytest.raises(SettingsError) as refused:
        app_of(tmp_path)
    assert str(path) in str(refused.value)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_is_named_after_a_language(tmp_path: Path) -> None:
    write(tmp_path, "Français", {})
    with pytest.raises(SettingsError, match="is named after no language"):
        app_of(tmp_path)


def test_a_form_of_one_need_not_say_the_number_and_a_language_may_have_no_plural(
    tmp_path: Path,
) -> None:
    write(tmp_path, "fr", {MORE: {"one": "une seule", "other": "{count} en tout"}})
    write(tmp_path, "ja", {MORE: "{count}"})
    loaded = texts.load(tmp_path / "texts")
    assert loaded["ja"][MORE] == "{count}"
    assert loaded["fr"][MORE] == {"one": "une seule", "other": "{count} en tout"}
