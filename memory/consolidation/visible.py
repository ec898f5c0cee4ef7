"""The parts of a Markdown text that a reader sees as plain text, by an allow-list.

Visible: text, emphasis, lists, tables, inline code, and elements that only format. Hidden: other elements and all with
attributes, to their end; code blocks; front matter; link targets and definitions. Closed comments are left out, as in a prompt;
an open one hides the rest. Outside of backticks, `<` and a letter begin an element, whether or not it exists.
"""

import re
import unicodedata
from collections.abc import Iterator

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\n(?s:.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
# No alternative goes beyond its line, so that no text takes longer than its length.
_MARKUP = re.compile(
    r"""
      ^[ \t>*+-]* (?P<fence> `{3,}(?=[^`\n]*$) | ~{3,} ) [^\n]*
    | ^[ \t>*+-]* \[ [^\[\]\n]* \]: [^\n]*
    | (?P<code> `(?![^`\n]*<!--)[^`\n]*` )
    | (?: !\[ [^\[\]\n]* )? \]\( [^()\n]* \)
    | (?P<endless> <!-- | <[!?] )
    | < (?P<end>/?) (?P<name>[a-z][a-z0-9-]*) (?=[\s/>]) (?P<attributes>[^<>\n]*) (?P<whole>>?)
    """,
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
# In a code block nothing else is markup, but for comments.
_IN_FENCE = re.compile(r"^[ \t>*+-]*(?P<fence>`{3,}|~{3,})[ \t]*$|(?P<endless><!--)", re.MULTILINE)
_FORMATTING = frozenset({
    "b", "blockquote", "code", "dd", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "i", "ins", "kbd", "li",
    "mark", "ol", "p", "s", "small", "span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "ul",
})  # fmt: skip
_VOID = frozenset({"br", "hr", "img", "wbr"})
# Joiners and marks that Persian, Hindi, Hebrew and emoji need, and the soft hyphen.
_JOINERS = dict.fromkeys(map(ord, "\u00ad\u061c\u200c\u200d\u200e\u200f\ufe0e\ufe0f"))


def texts(text: str) -> tuple[str, str]:
    """The visible text, with line ends in place of hidden parts; and the whole text without comments and tags."""
    parts = [*_parts(text)]
    return "".join(part if seen else "\n" * part.count("\n") for part, seen in parts), "".join(part for part, _ in parts)


def normal(line: str) -> str:
    """A line in normalized characters and lower case, without joiners and separators."""
    return unicodedata.normalize("NFKC", line.translate(_JOINERS)).casefold()


def is_printable(line: str) -> bool:
    """Whether a line has no invisible characters, and none that change its direction."""
    return line.isprintable() or normal(line).replace("\t", " ").isprintable()


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    at, reader = 0, _Reader()
    if front := _FRONT_MATTER.match(text):
        at = front.end()
        yield front[0], False
    while markup := (_IN_FENCE if reader.fence else _MARKUP).search(text, at):
        yield text[at : markup.start()], reader.sees
        at = markup.end()
        if markup["endless"] == "<!--" and (closing := text.find("-->", markup.start())) >= 0:
            at = closing + len("-->")
        elif markup["endless"] == "<!--" or (markup["endless"] and reader.sees):
            yield text[at:], False
            return
        elif not markup["endless"]:
            yield reader.read(markup)
    yield text[at:], reader.sees


class _Reader:
    """Follows markup, and says whether the text after it is visible."""

    def __init__(self) -> None:
        self.fence = self._element = ""
        self._depth = 0

    @property
    def sees(self) -> bool:
        return not self.fence and not self._element

    def read(self, markup: re.Match[str]) -> tuple[str, bool]:
        """The text of a piece of markup, and whether it is visible."""
        if self.fence:
            self.fence = "" if markup["fence"].startswith(self.fence) else self.fence
            return markup[0], False
        name = (markup["name"] or "").lower()
        if self._element:
            self._depth += (-1 if markup["end"] else 1) if name == self._element else 0
            self._element = self._element if self._depth else ""
            return "" if name else markup[0], False
        if markup["fence"]:
            self.fence = markup["fence"]
        elif name and not markup["end"] and not _formats(name, markup):
            self._element, self._depth = name, 1
        return ("", True) if name else (markup[0], bool(markup["code"]))


def _formats(name: str, markup: re.Match[str]) -> bool:
    return name in _VOID or (name in _FORMATTING and bool(markup["whole"]) and not markup["attributes"].strip(" /"))
