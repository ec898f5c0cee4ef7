"""What of a Markdown text a reader sees as plain text, by a list of what may be in it. All else hides what it holds.

Seen are text, emphasis, lists, tables, code within a line, and elements that do nothing but format. Hidden are other elements
and all that have attributes, to their end; code blocks; front matter; link targets and definitions. Comments are left out
where they end, as in a prompt; one that does not end hides the rest. What begins with `<` and a letter counts as an
element, whether or not it is one, but not within backticks.
"""

from __future__ import annotations

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
    """What a reader sees of a text, with line ends for what is hidden; and the whole, but for comments and tags."""
    parts = [*_parts(text)]
    return "".join(part if seen else "\n" * part.count("\n") for part, seen in parts), "".join(part for part, _ in parts)


def normal(line: str) -> str:
    """A line in compatible characters and lower case, without marks that only join or separate."""
    return unicodedata.normalize("NFKC", line.translate(_JOINERS)).casefold()


def is_printable(line: str) -> bool:
    """Whether nothing in a line is invisible or turns its direction."""
    return line.isprintable() or normal(line).replace("\t", " ").isprintable()


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    at, reader = 0, _Reader()
    if front := _FRONT_MATTER.match(text):
        at = front.end()
        yield front[0], False
    while found := (_IN_FENCE if reader.fence else _MARKUP).search(text, at):
        yield text[at : found.start()], reader.sees
        at = found.end()
        if found["endless"] == "<!--" and (closing := text.find("-->", found.start())) >= 0:
            at = closing + len("-->")
        elif found["endless"] == "<!--" or (found["endless"] and reader.sees):
            yield text[at:], False
            return
        elif not found["endless"]:
            yield reader.read(found)
    yield text[at:], reader.sees


class _Reader:
    """Whether what comes next is seen, after each piece of markup."""

    def __init__(self) -> None:
        self.fence = self._element = ""
        self._depth = 0

    @property
    def sees(self) -> bool:
        return not self.fence and not self._element

    def read(self, found: re.Match[str]) -> tuple[str, bool]:
        """What there is to read of a piece of markup, and whether it is seen."""
        if self.fence:
            self.fence = "" if found["fence"].startswith(self.fence) else self.fence
            return found[0], False
        name = (found["name"] or "").lower()
        if self._element:
            self._depth += (-1 if found["end"] else 1) if name == self._element else 0
            self._element = self._element if self._depth else ""
            return "" if name else found[0], False
        if found["fence"]:
            self.fence = found["fence"]
        elif name and not found["end"] and not _formats(name, found):
            self._element, self._depth = name, 1
        return ("", True) if name else (found[0], bool(found["code"]))


def _formats(name: str, found: re.Match[str]) -> bool:
    return name in _VOID or (name in _FORMATTING and bool(found["whole"]) and not found["attributes"].strip(" /"))
