"""The characters of a text: line ends, tags and escapes, and what no store or memory may hold."""

import html
import re
import unicodedata

from lasting_memory.consolidation.facts import JOINERS, is_plain

TITLE_CHARS = 120
TAG = re.compile(
    r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,20})(?:[\s/][^<>]{0,4000})?>|<!--|-->|<![a-zA-Z][^<>]{0,200}>"
)
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
        without_tags = TAG.sub(_without_known, text)
        text = html.unescape(without_tags)
    if not text.isprintable():
        text = "".join(map(_printable, text))
    words = text.split()
    text = _BEGINS_BLOCK.sub("", " ".join(words))
    if not is_plain(f"- {text}"):
        without_tags = _OPENS_TAG.sub("< ", text)
        text = without_tags.replace("![", "! [")
    return text


def _without_known(tag: re.Match[str]) -> str:
    """What stands for a tag in a line: a tag that HTML does not have is text."""
    name = (tag[2] or "").lower()
    if name in BREAKS:
        return " "
    if name in _INLINE:
        return ""
    return tag[0]


def _printable(char: str) -> str:
    """A character; of one that cannot be printed a space if it separates, else nothing."""
    if char.isprintable() or char in JOINERS:
        return char
    normal = unicodedata.normalize("NFKC", char)
    separates = char.isspace() or normal.isspace()
    return " " if separates else ""
