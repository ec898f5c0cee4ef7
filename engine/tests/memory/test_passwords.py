"""Passwords in words: sentences that say one, and what else is said about passwords."""

from pathlib import Path

import pytest
import yaml

from lasting_memory.credentials import PASSWORD, find_credential
from lasting_memory.memory.validation import MAX_FILE_BYTES
from lasting_memory.passwords import says_password

TEXTS: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("passwords.yaml").read_text("utf-8")
)


@pytest.mark.parametrize("text", TEXTS["says"])
def test_a_sentence_that_says_a_password_holds_one(text: str) -> None:
    for around in (
        "{}",
        "# Notes\n\n- Likes leek\n- {}\n- Likes dill\n",
        "I like leek. {}\nI like dill.",
    ):
        assert find_credential(around.format(text)) == PASSWORD


@pytest.mark.parametrize("text", TEXTS["ordinary"])
def test_sentences_about_passwords_hold_no_password(text: str) -> None:
    for around in (
        "{}",
        "# Notes\n\n- Likes leek\n- {}\n- Likes dill\n",
        "I like leek. {}\nI like dill.",
    ):
        assert find_credential(around.format(text)) is None


def test_no_prompt_and_no_document_of_the_engine_says_a_password() -> None:
    engine = Path(__file__).parents[2]
    texts = {
        path: path.read_text("utf-8")
        for folder in ("src", "docs")
        for path in (engine / folder).rglob("*.md")
    }
    assert [path for path, text in texts.items() if says_password(text)] == []
    assert len(texts) > 20


@pytest.mark.proof
@pytest.mark.parametrize(
    "part",
    [
        "password ",
        "password for a ",
        "my ",
        "password: ",
        "a password ",
        "x is my ",
        "a" * 99 + " is password ",
        "pin",
        "'`* ",
    ],
)
def test_the_search_for_passwords_takes_a_time_that_grows_with_the_text(part: str) -> None:
    """A search that looks again from every beginning in such a text takes minutes, and this test
    with it.
    """
    assert not says_password(part * (MAX_FILE_BYTES // len(part)))
