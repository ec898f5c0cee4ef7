"""The characters of a text: line ends, tags and escapes, and what no store or memory may hold."""

import html
import re
import unicodedata

from lasting_memory.consolidation.facts import JOINERS, is_plain

TITLE_CHARS = 120
# A tag, with "/" as its first group if it closes and its name as the second; or one end of a comment.
TAG = re.compile(
    r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,20})(?:[\s/][^<>]{0,4000})?>|<!--|-->|<![a-zA-Z][^<>]{0,200}>"
)
# Elements between which a line breaks, and those within a line.
BREAKS = frozenset({
    "p", "div", "br", "ul", "ol", "tr", "table", "section", "article", "pre", "blockquote", "dl", "dt", "dd", "hr",
})  # fmt: skip
_INLINE = frozenset({
    "a", "abbr", "b", "body", "code", "del", "em", "font", "html", "i", "img", "ins", "kbd", "label", "li", "mark", "s",
    "small", "span",
    "strong", "sub", "summary", "details", "sup", "td", "th", "tbody", "thead", "u", "h1", "h2", "h3", "h4", "h5", "h6",
})  # fmt: skip
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BEGINS_BLOCK = re.compile(r"^(?:[\s>*+-]*(?:`{3,}|~{3,}))+\s*")
_OPENS_TAG = re.compile(r"<(?=[a-zA-Z!?/])")


def with_newlines(text: str) -> str:
    """A text whose lines all end with a line feed."""
    return _LINE_ENDS.sub("\n", text)


def title_of(value: object) -> str:
    """A title as one line; "" for what is no text."""
    if not isinstance(value, str):
        return ""
    title = one_line(value)
    return title[:TITLE_CHARS]


def one_line(text: str) -> str:
    """A text as one line that memory may hold.

    It has no HTML, escapes, invisible characters or characters that no store keeps.
    """
    if "<" in text or "&" in text:
        text_without_tags = TAG.sub(_in_place_of, text)
        text = html.unescape(text_without_tags)
    if not text.isprintable():
        characters = map(_printable, text)
        text = "".join(characters)
    words = text.split()
    one_line = " ".join(words)
    text = _BEGINS_BLOCK.sub("", one_line)
    if is_plain(f"- {text}"):
        return text
    # What still is markup gets a space, with which it is none.
    text_without_tags = _OPENS_TAG.sub("< ", text)
    return text_without_tags.replace("![", "! [")


def _in_place_of(tag: re.Match[str]) -> str:
    """What stands for a tag in a line. A tag that HTML does not have is text, and stays."""
    name = (tag[2] or "").lower()
    if name in BREAKS:
        return " "
    if name in _INLINE:
        return ""
    return tag[0]


def _printable(char: str) -> str:
    """A character, if it can be printed; else a space for one that separates words, or nothing."""
    if char.isprintable():
        return char
    if char in JOINERS:
        return char
    normal_form = unicodedata.normalize("NFKC", char)
    is_separator = char.isspace() or normal_form.isspace()
    return " " if is_separator else ""
