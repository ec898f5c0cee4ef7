"""The entries of an HTML page, and of Gemini's activity as a page (Google's "My Activity")."""

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from lasting_memory.consolidation.brought.characters import BREAKS, TAG
from lasting_memory.consolidation.brought.entries import Brought, Entry
from lasting_memory.consolidation.brought.exports import PROMPTED
from lasting_memory.consolidation.brought.markdown import entries_of_text
from lasting_memory.consolidation.brought.messages import entries_of_message

# Elements that a page does not show.
_HIDDEN_ELEMENTS = frozenset({"script", "style", "head", "title", "svg", "template"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_COMMENT_BEGINS = "<!--"
_COMMENT_ENDS = "-->"
# The time of an activity, in any language.
_AT = re.compile(r"(?:19|20)\d\d.{0,20}\d:\d\d")


def without_tags(page: str) -> str:
    """The text that a page shows, with its headings and lists as Markdown. In linear time."""
    texts = list[str]()
    position = 0
    hidden_element = ""  # the element or comment that is not shown, in which the position is
    for tag in TAG.finditer(page):
        name = (tag[2] or "").lower()
        is_closing = tag[1] == "/"
        if not hidden_element:
            text = page[position : tag.start()]
            texts.append(text.replace("\n", " "))
        position = tag.end()
        if hidden_element == _COMMENT_BEGINS:
            if tag[0] == _COMMENT_ENDS:
                hidden_element = ""
        elif hidden_element:
            if is_closing and name == hidden_element:
                hidden_element = ""
        elif tag[0] == _COMMENT_BEGINS:
            hidden_element = _COMMENT_BEGINS
        elif name in _HIDDEN_ELEMENTS and not is_closing:
            hidden_element = name
        else:
            replacement = _in_place_of(name, is_closing=is_closing)
            texts.append(replacement)
    if not hidden_element:
        rest = page[position:]
        texts.append(rest.replace("\n", " "))
    page_text = "".join(texts)
    return html.unescape(page_text)


def _in_place_of(name: str, *, is_closing: bool) -> str:
    """What stands in a text in place of a tag."""
    if name == "li":
        return "\n" if is_closing else "\n- "
    if name in _HEADINGS:
        return "\n" if is_closing else "\n# "
    if name in BREAKS:
        return "\n"
    if name in {"td", "th"}:
        return " "
    return ""


def entries_of_page(text: str, brought_entries: Brought) -> Iterator[Entry]:
    """The entries of a text that a page shows. Of Gemini's activity these are the questions that the
    person asked; each begins with "Prompted", and ends where a line has its time.
    """
    is_activity = "\nPrompted\xa0" in f"\n{text}"
    if not is_activity:
        yield from entries_of_text(text, brought_entries=brought_entries)
        return
    question: list[str] | None = None  # its lines; None between questions
    for line in text.split("\n"):
        prompt_match = PROMPTED.fullmatch(line.lstrip(" "))
        if prompt_match and "\xa0" in line:
            question = [prompt_match[1]]
            continue
        if question is None:
            continue
        if not _AT.search(line):
            question.append(line)
            continue
        day = _day_written(line)
        yield from entries_of_message("\n".join(question), day, title="")
        question = None


def _day_written(line: str) -> str:
    """The day of a time such as "Mar 3, 2025, 10:11:12 AM CET", in ISO format.

    "" for another form.
    """
    try:
        month_and_day, year, *_ = line.strip().split(",")
        date_text = f"{month_and_day},{year}"
        time = datetime.strptime(date_text, "%b %d, %Y").replace(tzinfo=UTC)
    except ValueError:
        return ""
    return time.date().isoformat()
