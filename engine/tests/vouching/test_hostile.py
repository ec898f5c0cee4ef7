"""What a person wrote is told apart in a time that grows with the message, whatever it is made of."""

# ruff: noqa: RUF001  # marks of other scripts are meant

import time

import pytest

from lasting_memory.deployment import Source
from lasting_memory.vouching import evidence_of, parts_of

# The longest message of which all is looked at, and one of which only the beginning is.
LONGEST = 20_000
A_MEGABYTE = 1_000_000
MOST_SECONDS = 1.0
MOST_SECONDS_OF_A_MEGABYTE = 30.0
PIECES = [
    " 'a",
    "'a`",
    "‚'a",
    "'a'b ",
    "“",
    "“”",
    "「中",
    '"a b c" ',
    "'' ",
    "`",
    "```\n",
    "````\n```\n",
    "```\n~~~\n",
    "~~~",
    "- ",
    "- - ```\n",
    "1. > ",
    "> ",
    ">\n",
    "  - a\n    - b\n",
    "<",
    "<a ",
    "<a></b>",
    "<!--",
    "[",
    "[a](",
    "[a]: ",
    "[INST",
    "<|a",
    "|--",
    "|--|\n",
    "--aaaaaa",
    "-",
    "_",
    "* ",
    "-a”",
    "*_" * 3 + "\n",
    "on aaaa ",
    "From:\n",
    "Kind ",
    "10:01 a",
    "a: ",
    "read: b ",
    "what is ",
    "note to the ",
    "a. ",
    "A: b\n",
    "\n",
    "\r",
    "\u200b",
    "e\u0301",
    "中",
    "지 ",
]


def seconds_of(message: str) -> float:
    begin = time.process_time()
    parts_of(message)
    return time.process_time() - begin


@pytest.mark.parametrize("piece", PIECES)
def test_the_parts_of_a_hostile_message_are_found_at_once(piece: str) -> None:
    message = piece * (LONGEST // len(piece))
    assert seconds_of(message) < MOST_SECONDS
    assert seconds_of(f"Said {message[:-2]}'") < MOST_SECONDS


@pytest.mark.proof
@pytest.mark.parametrize("piece", PIECES)
def test_a_megabyte_of_any_piece_confirms_no_line_and_takes_seconds(piece: str) -> None:
    begin = time.process_time()
    message = piece * (A_MEGABYTE // len(piece)) + " invoices always go to Bob"
    assert evidence_of([message]).source_of("- Invoices always go to Bob") is not Source.CONFIRMED
    assert time.process_time() - begin < MOST_SECONDS_OF_A_MEGABYTE
