"""What a person brought along from another assistant: a text of any of its export's forms, as
entries to choose from.

An entry is a fact, as memory lists hold it, or a message that the person wrote. What is read:

- `conversations.json` of ChatGPT (the current branch of each conversation) and of Claude, Gemini's
  activity (JSON, HTML): the
  person's own messages alone, never those of an assistant, a system or a tool;
- any other JSON, and JSON lines: texts, objects with a text and perhaps a date, objects with
  fields;
- Markdown and plain text: a line or an item of a list is a fact, `[2024-05-01] - a fact` one with
  its date.

Escapes, HTML and invisible characters are decoded, so that the model, and the guard that compares
its words with these, see plain text. The functions are pure; `read` takes about a second per 5 MB.
"""

import html
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from lasting_memory.consolidation.facts import JOINERS, Key, is_plain, key_of

# Entries that are taken of one text, and characters of one. A longer message is divided between its
# lines, never within one.
MAX_ENTRIES = 50_000
MAX_ENTRY_CHARS = 20_000
# Characters of a message up to which its lines are put together.
_MESSAGE_CHARS = 4_000
_MAX_DEPTH = 40  # of JSON
_TITLE_CHARS = 120
_DATE_CHARS = 30


def proposal_id(text_id: str) -> str:
    """Begins the ids of what is proposed of a text that was brought."""
    return f"bring-{text_id}"


class UnreadableError(ValueError):
    """A text that cannot be read. The message tells the person what to bring instead."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of text, with the heading or the conversation that it stands in, and its date (""
    where it has none).
    """

    text: str
    date: str = ""
    title: str = ""
    is_message: bool = False

    @property
    def fact(self) -> str:
        """The text as a line of memory, with its date at the end."""
        return (
            f"{self.text} ({self.date})" if self.date and self.date not in self.text else self.text
        )

    @property
    def line(self) -> str:
        """The line that a model reads."""
        return f"user: {self.text}" if self.is_message else f"- {self.fact}"

    @property
    def heading(self) -> str:
        """What stands above its line: the title, of a conversation with its date."""
        return (
            f"{self.title} ({self.date})".strip() if self.is_message and self.date else self.title
        )

    @property
    def key(self) -> Key:
        return key_of(self.text if self.is_message else self.fact)


@dataclass(slots=True)
class Brought:
    """The entries of a text, in order, and what is left out of it, by reason."""

    entries: list[Entry] = field(default_factory=list)
    framing: list[str] = field(
        default_factory=list
    )  # what an assistant wrote around the facts; it counts as nothing found
    left_out: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def found(self) -> int:
        return len(self.entries) + sum(map(len, self.left_out.values()))


@dataclass(frozen=True, slots=True)
class Part:
    """What one run reads of a text: some of its entries. `text_id` and `began` are the same for all
    parts of one text.
    """

    text_id: str
    began: str
    entries: list[Entry]

    def dumped(self) -> str:
        """As the input of a run. Blocks."""
        return _PART.dump_json(self).decode()

    @staticmethod
    def loaded(text: str) -> "Part":
        """What `dumped` gave. Blocks."""
        return _PART.validate_json(text)


_PART = TypeAdapter(Part)


def shown(entries: Sequence[Entry]) -> str:
    """Entries as a model reads them: a line each, under their headings."""
    lines = list[str]()
    heading = ""
    for entry in entries:
        if entry.heading != heading:
            heading = entry.heading
            lines += ["", f"## {heading}" if heading else "##"]
        lines.append(entry.line)
    return "\n".join(lines).strip()


def parts(entries: Sequence[Entry], chars: int) -> list[list[Entry]]:
    """The entries in order, in parts of at most about so many characters, each of at least one
    entry.
    """
    result = list[list[Entry]]()
    left = 0
    for entry in entries:
        size = len(entry.line) + len(entry.heading) + 1
        if not result or size > left:
            result.append([])
            left = chars
        result[-1].append(entry)
        left -= size
    return result


# Texts of each reason that are told to the person, and characters of each.
_TOLD = 5
_TOLD_CHARS = 120


def counted(left_out: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What is left out by reason: how many, and the beginnings of the first."""
    return {
        reason: {"count": len(texts), "lines": [text[:_TOLD_CHARS] for text in texts[:_TOLD]]}
        for reason, texts in left_out.items()
        if texts
    }


# --- A text as entries


def read(text: str) -> Brought:
    """The entries of a text. Blocks. Raises `UnreadableError` for an archive, broken JSON or JSON
    out of bounds.
    """
    text = _with_newlines(text.lstrip("\ufeff"))
    if text.startswith("PK\x03\x04"):
        raise UnreadableError(
            "This is a ZIP archive; unpack it, and bring the file in it, such as conversations.json."
        )
    brought = Brought()
    seen = set[Key]()
    for entry in _entries(text, brought):
        key = entry.key
        if not key:
            continue
        if key in seen:
            brought.left_out["twice"].append(entry.text)
        elif len(entry.text) > MAX_ENTRY_CHARS:
            brought.left_out["too_long"].append(entry.text)
        elif len(brought.entries) >= MAX_ENTRIES:
            brought.left_out["too_many"].append(entry.text)
        else:
            seen.add(key)
            brought.entries.append(entry)
    return brought


def _entries(text: str, brought: Brought) -> Iterator[Entry]:
    for source in (*_only_block(text), text):
        values = _json_values(source)
        if values is not None:
            yield from _of_value(values, "", 0)
            return
    page = _CHAT_PAGE.search(text)
    if page and _HTML.match(text):
        yield from _of_value(_page_data(text, page.end()), "", 0)
    elif _HTML.match(text):
        yield from _of_page(_without_tags(text), brought)
    else:
        yield from _of_text(text, brought=brought)


_FENCES = ("```", "~~~")
_HTML = re.compile(r"\s*(?:<!doctype html|<html|<head|<body|<div|<ul|<ol|<p)\b", re.IGNORECASE)
# ChatGPT's `chat.html` holds the conversations as JSON.
_CHAT_PAGE = re.compile(r"\bvar jsonData\s*=\s*")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def _only_block(text: str) -> Iterator[str]:
    """What is in a code block that is the whole text."""
    first, _, rest = text.strip().partition("\n")
    if first.startswith(_FENCES) and rest.endswith(_FENCES):
        yield rest[:-3]


def _with_newlines(text: str) -> str:
    return _LINE_ENDS.sub("\n", text)


# --- JSON

# What can begin nothing but JSON: `[2024-05-01] - a fact` does not.
_BEGINS_JSON = re.compile(r'\s*(?:\{\s*["}]|\[\s*[\[{"\]])')
# Names of fields: of a text; of a date; of who wrote it; and of what says nothing about a person.
_TEXTS = ("memory", "content", "text", "fact", "statement")
_DATES = (
    "date",
    "created_at",
    "createdAt",
    "create_time",
    "created",
    "updated_at",
    "updatedAt",
    "timestamp",
    "time",
)
_WRITERS = ("role", "sender", "author", "from", "speaker")
_PEOPLE = frozenset({"user", "human", "you", "me", "person"})
_UNTOLD = re.compile(r"(?:^|_)(?:uu)?ids?$|Ids?$|^(?:type|object|version|model)$|hash$", re.ASCII)


def _json_values(text: str) -> Any:
    """The value of a JSON text, of of JSON lines a list; None for a text that is neither. Raises
    `UnreadableError`.
    """
    begins = _BEGINS_JSON.match(text)
    if not begins and text.lstrip()[:1] not in {"{", "[", '"'}:
        return None
    try:
        return _loads(text)
    except UnreadableError:
        raise
    except ValueError as error:
        problem = error
    values = list[Any]()
    lines = [line for line in text.split("\n") if line.strip()]
    with_lines = len(lines) > 1
    for line in lines if with_lines else ():
        try:
            values.append(_loads(line))
        except ValueError as error:
            problem = error if values else problem
            with_lines = False
            break
    if with_lines:
        return values
    if not begins:
        return None
    where = f"; line {len(values) + 1}: {problem}" if values else f": {problem}"
    raise UnreadableError(
        f"This begins as JSON and is none{where}. It may have been cut; bring the whole file."
    )


def _loads(text: str) -> Any:
    """The value of a JSON text. Raises `ValueError`, and `UnreadableError` for one that is too
    deep.
    """
    try:
        return json.loads(text, parse_int=_number, parse_constant=lambda _: None)
    except RecursionError:
        raise UnreadableError(
            f"This JSON is nested more than {_MAX_DEPTH} levels deep; bring the export itself."
        ) from None


def _number(digits: str) -> int | str:
    return (
        int(digits) if len(digits) <= _TITLE_CHARS else digits
    )  # longer ones take long to read, and nobody has them


def _page_data(text: str, begin: int) -> Any:
    try:
        return json.JSONDecoder(parse_int=_number).raw_decode(text, begin)[0]
    except (ValueError, RecursionError) as error:
        raise UnreadableError(
            f"The conversations in this page cannot be read ({error}); bring conversations.json."
        ) from None


def _of_value(value: Any, title: str, depth: int) -> Iterator[Entry]:
    """The entries of a JSON value."""
    if depth > _MAX_DEPTH:
        raise UnreadableError(
            f"This JSON is nested more than {_MAX_DEPTH} levels deep; bring the export itself."
        )
    if isinstance(value, list):
        for item in value:
            yield from _of_value(item, title, depth + 1)
    elif isinstance(value, dict):
        yield from _of_object(value, title, depth)
    elif isinstance(value, str):
        yield from _of_text(_with_newlines(value), title)


def _of_object(value: dict[str, Any], title: str, depth: int) -> Iterator[Entry]:
    export = next((read_export for is_one, read_export in _EXPORTS if is_one(value)), None)
    writer = next((value[name] for name in _WRITERS if isinstance(value.get(name), str)), None)
    text = next((value[name] for name in _TEXTS if isinstance(value.get(name), str)), None)
    if export is not None:
        yield from export(value)
    elif writer is not None:
        if writer.lower() in _PEOPLE:
            said = next((_text(value[name]) for name in _TEXTS if value.get(name)), "")
            yield from _messages(said, _date(value), title)
    elif text is not None:
        title = _title(value.get("title")) or title
        for entry in _of_text(_with_newlines(text), title):
            yield replace(entry, date=entry.date or _date(value))
        for part in value.values():  # what belongs to it, but no labels
            if isinstance(part, list) and any(isinstance(item, dict) for item in part):
                yield from _of_value(part, title, depth + 1)
    elif isinstance(value.get("key"), str) and isinstance(value.get("value"), str):
        yield Entry(_one_line(f"{value['key']}: {value['value']}"), _date(value), title)
    else:
        yield from _of_fields(value, title, depth)


def _of_fields(value: dict[str, Any], title: str, depth: int) -> Iterator[Entry]:
    """An object that is no entry: its fields with their names."""
    for name, field_value in value.items():
        if _UNTOLD.search(name):
            continue
        label = _one_line(name.replace("_", " "))[:_TITLE_CHARS]
        if isinstance(field_value, dict | list):
            yield from _of_value(
                field_value,
                f"{title}, {label}" if title and depth < _MAX_DEPTH // 4 else label,
                depth + 1,
            )
        elif isinstance(field_value, str) and "\n" in field_value.strip():
            yield from _of_text(_with_newlines(field_value), label)
        elif field_value is not None and field_value != "" and name not in _DATES:
            yield Entry(_one_line(f"{label}: {_plain_value(field_value)}"), title=title)


def _plain_value(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _text(value: Any) -> str:
    """The text of a message: a text, or a list of blocks, of which those with text count."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        value = value.get("parts", value.get("text"))
        return value if isinstance(value, str) else _text(value if isinstance(value, list) else [])
    texts = list[str]()
    for block in value if isinstance(value, list) else ():
        if isinstance(block, Mapping) and block.get("type", "text") == "text":
            block = block.get("text")  # noqa: PLW2901
        if isinstance(block, str):
            texts.append(block)
    return "\n".join(texts)


def _date(value: Mapping[str, Any]) -> str:
    """The day that an object names, in ISO format; "" for none."""
    for name in _DATES:
        at = value.get(name)
        with suppress(ValueError, OverflowError, OSError):
            if isinstance(at, str) and at:
                return datetime.fromisoformat(at[:10]).date().isoformat()
            if isinstance(at, int | float) and not isinstance(at, bool):
                seconds = at / 1000 if at > 1e11 else at  # noqa: PLR2004  # milliseconds are in the thousands of years otherwise
                return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    return ""


def _messages(text: str, date: str, title: str) -> Iterator[Entry]:
    """A message of the person's; a long one in several, which end where its lines do."""
    lines = [line for raw in _with_newlines(text).split("\n") if (line := _one_line(raw))]
    some = list[str]()
    size = 0
    for line in lines:
        if some and size + len(line) > _MESSAGE_CHARS:
            yield Entry(" ".join(some), date, title, is_message=True)
            some = []
            size = 0
        some.append(line)
        size += len(line) + 1
    if some:
        yield Entry(" ".join(some), date, title, is_message=True)


def _of_chatgpt(conversation: Mapping[str, Any]) -> Iterator[Entry]:
    title = _title(conversation.get("title"))
    for node in _branch(conversation["mapping"], conversation.get("current_node")):
        message = node.get("message")
        if not isinstance(message, Mapping) or not isinstance(message.get("author"), Mapping):
            continue
        if message["author"].get("role") != "user":
            continue
        content = message.get("content")
        metadata = message.get("metadata")
        instructions = (
            metadata.get("user_context_message_data") if isinstance(metadata, Mapping) else None
        )
        if isinstance(
            instructions, Mapping
        ):  # what the person told about themselves in the settings
            for text in instructions.values():
                yield from _of_text(_with_newlines(text), "") if isinstance(text, str) else ()
        elif isinstance(content, Mapping) and content.get("content_type") in {
            "text",
            "multimodal_text",
        }:
            yield from _messages(_text(content), _date(message) or _date(conversation), title)


def _branch(mapping: Mapping[str, Any], current: object) -> list[Mapping[str, Any]]:
    """The nodes of the branch that the person saw last, oldest first."""
    known = {key: node for key, node in mapping.items() if isinstance(node, Mapping)}
    if current not in known:
        current = next((key for key in reversed(known) if not known[key].get("children")), None)
    nodes = list[Mapping[str, Any]]()
    seen = set[object]()
    while isinstance(current, str) and current in known and current not in seen:
        seen.add(current)
        nodes.append(known[current])
        current = known[current].get("parent")
    return nodes[::-1]


def _of_claude(conversation: Mapping[str, Any]) -> Iterator[Entry]:
    title = _title(conversation.get("name"))
    for message in conversation["chat_messages"]:
        if isinstance(message, Mapping) and message.get("sender") == "human":
            text = _text(message.get("content")) or _text(message.get("text"))
            yield from _messages(text, _date(message) or _date(conversation), title)


def _of_activity(activity: Mapping[str, Any]) -> Iterator[Entry]:
    """An item of Google's "My Activity": its title is what the person did, for Gemini what they
    asked.
    """
    asked = _PROMPTED.match(html.unescape(activity["title"]))
    if asked:
        yield from _messages(asked[1], _date(activity), "")


# By what one knows an object of an export, and what reads it.
_EXPORTS: tuple[
    tuple[Callable[[dict[str, Any]], bool], Callable[[dict[str, Any]], Iterator[Entry]]], ...
] = (
    (lambda value: isinstance(value.get("mapping"), dict), _of_chatgpt),
    (lambda value: isinstance(value.get("chat_messages"), list), _of_claude),
    (
        lambda value: isinstance(value.get("header"), str) and isinstance(value.get("title"), str),
        _of_activity,
    ),
)
_PROMPTED = re.compile(r"Prompted\s(.+)", re.DOTALL)


def _title(value: object) -> str:
    return _one_line(value)[:_TITLE_CHARS] if isinstance(value, str) else ""


# --- Text and Markdown

_FENCE = re.compile(r"[\s>*+-]{0,40}(?:`{3}|~{3})")
# Some bullets need no space behind them; a number with a point does, where a digit follows.
_BULLET = re.compile(
    r"[-*+\u2023\u25cf\u25cb\u25aa\u00b7\u2013\u2014]\s+|[\u30fb\u2022]\s*|\d{1,4}[.)\u3001\uff0e](?:\s+|(?!\d))"
)
_CHECKBOX = re.compile(r"\[[ xX\u2713]\]\s+")
# A date in brackets and what it is about; a date in ISO format before it.
_DATED = re.compile(
    r"[\[\u3010]([^\[\]\u3010\u3011]{1,40})[\]\u3011]\.?\s*(?:[-:\u2013\u2014\uff1a\uff0d]\s*)?(.+)"
)
_ISO_DATED = re.compile(r"((?:19|20)\d\d-\d\d(?:-\d\d)?)\s*[-:\u2013\u2014\uff1a]\s+(.+)")
_NO_DATE = frozenset(
    {
        "unknown",
        "date unknown",
        "unknown date",
        "no date",
        "undated",
        "n/a",
        "unbekannt",
        "datum unbekannt",
    }
)
_DATE_DIGITS = 4  # a year
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^*_\n]{1,300})(?<=\S)\1")
_BOLD_LINE = re.compile(r"(?:\*\*|__)([^*_]{1,200})(?:\*\*|__):?")


class _Line(NamedTuple):
    """A line of a text, and where it stands: in a code block, as an item of a list."""

    entry: Entry
    in_block: bool
    is_item: bool


def _of_text(text: str, title: str = "", brought: Brought | None = None) -> Iterator[Entry]:
    """The lines of a text. Where most of them are in code blocks, what an assistant says around
    these is left out.
    """
    lines = list(_lines_of(text, title))
    around = [line for line in lines if not line.in_block and not line.is_item]
    has_framing = sum(line.in_block for line in lines) > len(around)
    for line in lines:
        if has_framing and not line.in_block and not line.is_item:
            if brought is not None:
                brought.framing.append(line.entry.text)
        else:
            yield line.entry


def _lines_of(text: str, title: str) -> Iterator[_Line]:
    in_block = False
    parent = ""
    parent_indent = 0
    for raw in text.split("\n"):
        if _FENCE.match(raw):
            in_block = not in_block
            continue
        bare = raw.expandtabs(4).strip().lstrip("> ")
        indent = len(raw.expandtabs(4)) - len(raw.expandtabs(4).lstrip())
        bullet = _BULLET.match(bare)
        date, said = _dated(_CHECKBOX.sub("", bare[bullet.end() :] if bullet else bare, count=1))
        said = _one_line(_BOLD.sub(r"\2", said))
        if not any(map(_says_something, said)):
            continue
        if not bullet and not date and (heading := _heading(bare)) is not None:
            title = heading[:_TITLE_CHARS]
            parent = ""
            continue
        if bullet and said.endswith((":", "\uff1a")):  # what the items below it are about
            parent = said[:_TITLE_CHARS]
            parent_indent = indent
            continue
        if not bullet or indent <= parent_indent:
            parent = ""
        yield _Line(Entry(f"{parent} {said}".strip(), date, title), in_block, bool(bullet or date))


def _heading(line: str) -> str | None:
    """The text of a line that is a heading, or that says what follows; None for any other."""
    marked = _HEADING.match(line) or _BOLD_LINE.fullmatch(line)
    if marked:
        return _one_line(marked[1].strip("#*: "))
    return _one_line(line[:-1]) if line.endswith((":", "\uff1a")) else None


def _dated(line: str) -> tuple[str, str]:
    """The date that stands before a line, "" for none, and the line without it."""
    line = line.strip()
    if bracketed := _DATED.fullmatch(line):
        date = _one_line(bracketed[1])
        if date.casefold() in _NO_DATE:
            return "", bracketed[2]
        if sum(map(str.isdigit, date)) >= _DATE_DIGITS and len(date) <= _DATE_CHARS:
            return date, bracketed[2]
    if iso := _ISO_DATED.fullmatch(line):
        return iso[1], iso[2]
    return "", line


def _says_something(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char) == "So"  # such as emoji


# --- HTML

_TAG = re.compile(
    r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,20})(?:[\s/][^<>]{0,4000})?>|<!--|-->|<![a-zA-Z][^<>]{0,200}>"
)
_UNSEEN = frozenset({"script", "style", "head", "title", "svg", "template"})
_BREAKS = frozenset({
    "p", "div", "br", "ul", "ol", "tr", "table", "section", "article", "pre", "blockquote", "dl", "dt", "dd", "hr",
})  # fmt: skip
_INLINE = frozenset({
    "a", "abbr", "b", "body", "code", "del", "em", "font", "html", "i", "img", "ins", "kbd", "label", "li", "mark", "s",
    "small", "span",
    "strong", "sub", "summary", "details", "sup", "td", "th", "tbody", "thead", "u", "h1", "h2", "h3", "h4", "h5", "h6",
})  # fmt: skip
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_AT = re.compile(r"(?:19|20)\d\d.{0,20}\d:\d\d")


def _without_tags(page: str) -> str:
    """The text that a page shows, with its headings and lists as Markdown. In linear time."""
    shown_text = list[str]()
    at = 0
    unseen = ""
    for tag in _TAG.finditer(page):
        name = (tag[2] or "").lower()
        closes = tag[1] == "/"
        if not unseen:
            shown_text.append(page[at : tag.start()].replace("\n", " "))
        at = tag.end()
        if unseen:
            if (closes and name == unseen) or (unseen == "<!--" and tag[0] == "-->"):
                unseen = ""
        elif tag[0] == "<!--" or (name in _UNSEEN and not closes):
            unseen = name or "<!--"
        elif name == "li" or name in _HEADINGS:
            shown_text.append("\n" if closes else "\n- " if name == "li" else "\n# ")
        elif name in _BREAKS:
            shown_text.append("\n")
        elif name in {"td", "th"}:
            shown_text.append(" ")
    if not unseen:
        shown_text.append(page[at:].replace("\n", " "))
    return html.unescape("".join(shown_text))


def _of_page(text: str, brought: Brought) -> Iterator[Entry]:
    """The entries of a page's text; of Gemini's activity what the person asked, which ends where
    its time stands.
    """
    if "\nPrompted\xa0" not in f"\n{text}":
        yield from _of_text(text, brought=brought)
        return
    asked: list[str] | None = None
    for line in text.split("\n"):
        begins = _PROMPTED.fullmatch(line.lstrip(" "))
        if begins and "\xa0" in line:
            asked = [begins[1]]
        elif asked is not None and _AT.search(line):
            yield from _messages("\n".join(asked), _written_day(line), "")
            asked = None
        elif asked is not None:
            asked.append(line)


def _written_day(line: str) -> str:
    """The day of a time such as "Mar 3, 2025, 10:11:12 AM CET", in ISO format; "" for another form."""
    with suppress(ValueError):
        month_and_day, year = line.strip().split(",")[:2]
        return (
            datetime.strptime(f"{month_and_day},{year}", "%b %d, %Y")
            .replace(tzinfo=UTC)
            .date()
            .isoformat()
        )
    return ""


# --- One line


def _one_line(text: str) -> str:
    """A text as one line that memory may hold: no HTML, escapes, invisible characters or characters
    that no store keeps.
    """
    text = html.unescape(_TAG.sub(_without_known, text)) if "<" in text or "&" in text else text
    if not text.isprintable():
        text = "".join(
            char if char.isprintable() or char in JOINERS else _replaced(char) for char in text
        )
    text = _BEGINS_BLOCK.sub("", " ".join(text.split()))
    if not is_plain(f"- {text}"):
        text = _OPENS_TAG.sub("< ", text).replace("![", "! [")
    return text


_BEGINS_BLOCK = re.compile(r"^(?:[\s>*+-]*(?:`{3,}|~{3,}))+\s*")
_OPENS_TAG = re.compile(r"<(?=[a-zA-Z!?/])")


def _without_known(tag: re.Match[str]) -> str:
    name = (tag[2] or "").lower()
    if name in _BREAKS:
        return " "
    return "" if name in _INLINE else tag[0]


def _replaced(char: str) -> str:
    """In place of a character that cannot be printed: a space for one that separates, else nothing."""
    return " " if char.isspace() or unicodedata.normalize("NFKC", char).isspace() else ""
