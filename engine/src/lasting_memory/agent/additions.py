"""What is added at the end of a file: only what it lacks, so that adding twice is adding once."""

from collections.abc import Sequence

from lasting_memory.memory.facts import is_form
from lasting_memory.plain_text import compared, plain


def with_addition(before: str, addition: str) -> str:
    """A text with an addition behind it, in lines of its own; "" adds nothing."""
    if not addition or not before:
        return before + addition
    if before.endswith("\n"):
        return before + addition
    return f"{before}\n{addition}"


def lacking(before: str, text: str) -> str:
    """What is to be added to a file so that it has a text: whole lines, or "".

    A line that stands in the file word for word is not added again. A text with titles, nested
    items, code or a table is added whole, or not at all: its lines mean something together.
    """
    text = plain(text).rstrip().strip("\n")
    lines = text.split("\n")
    lines_before = [compared(line) for line in before.split("\n")]
    if any(map(_needs_its_context, lines)):
        is_present = _contains(lines_before, lines)
        return "" if is_present else f"{text}\n"
    facts_before = {line.strip() for line in lines_before}
    new_lines = list[str]()
    for line in lines:
        fact = compared(line).strip()
        is_empty = not line.strip()
        if is_empty or fact not in facts_before:
            new_lines.append(line)
    addition = "\n".join(new_lines)
    addition = addition.strip("\n")
    if not addition.strip():
        return ""
    return f"{addition}\n"


def _contains(lines_before: Sequence[str], lines: Sequence[str]) -> bool:
    """Whether these lines stand in a file, one after the other.

    `lines_before` are the file's lines as `compared` spells them.
    """
    compared_lines = [compared(line) for line in lines]
    text = "\n".join(compared_lines)
    text_before = "\n".join(lines_before)
    return f"\n{text}\n" in f"\n{text_before}\n"


def _needs_its_context(line: str) -> bool:
    """Whether a line means something by those around it: a title, an indented line, code, a table."""
    if line.startswith(("#", "|", " ", "\t")):
        return True
    return is_form(line)
