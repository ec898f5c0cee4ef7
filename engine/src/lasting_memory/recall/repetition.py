"""Which messages of a thread repeat memory or past conversations, and which only ask for them.

A tool that looks something up gives it back as it was: its call and its result are no turns.
Otherwise each question about a fact would be found in place of the fact, and what was said in a
deleted conversation would stay in all that looked it up. The question and the answer are turns: the
person may have said something new beside the question. They count less.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lasting_memory.people.scopes import OFFLOADED, ROUTES

# They show past conversations and memory.
_RECALL_TOOLS = frozenset({"search_past_conversations", "read_conversation", "search_memories"})
# They show files. These are memory, or what is shared, where one of these arguments leads there.
_READING_TOOLS: Mapping[str, tuple[str, ...]] = {
    "ls": ("path",),
    "read_file": ("file_path",),
    "glob": ("path", "pattern"),
    "grep": ("path",),
}
# A subagent has the same tools, and its report does not say what it has looked up.
_REPORTING_TOOLS = frozenset({"task"})
# They write memory: their person said something that is new. The others do, where their path leads
# there.
_MEMORY_WRITERS = frozenset({"append_memory", "save_profile"})
_FILE_WRITERS = frozenset({"write_file", "edit_file"})
# Instructions, not what is known of somebody.
_INSTRUCTIONS = ("/skills/", "/policies/", "/memories/skills/")

# ruff: noqa: RUF001  # marks of other scripts are meant
# Marks of a question, in any script. One within an address is none.
_MARKS = "?？﹖؟՞\u037e⸮⁇⁈⁉‽፧⳺꛷᥅"
_QUESTION = re.compile(rf"[{_MARKS}](?![\w=&/%])")
# A sentence ends with a line, with a mark that a space follows, or with one of a script that puts
# no space there.
_SENTENCE = re.compile(rf".+?(?:[.!…{_MARKS}](?=\s|$)|[。！？｡।॥۔։።]|\n|$)\s*", re.DOTALL)


def repeats(call: Mapping[str, Any], routes: Collection[str] = tuple(ROUTES)) -> bool:
    """Whether a tool call looks up memory, past conversations, or shared files.

    `call` has a name and args. `routes` are the deployment's folders of such files.
    """
    if _name(call) in _RECALL_TOOLS:
        return True
    folders = _read_folders(call)
    return any(_touches(folder, routes) for folder in folders)


def result_repeats(call: Mapping[str, Any], routes: Collection[str] = tuple(ROUTES)) -> bool:
    """Whether the result of a tool call may be memory, past conversations, or shared files."""
    if _name(call) in _REPORTING_TOOLS:
        return True
    return repeats(call, routes)


def asks(call: Mapping[str, Any], routes: Collection[str] = tuple(ROUTES)) -> bool:
    """Whether a tool call looks up what is known of the person: memory and past conversations, not
    instructions.
    """
    if _name(call) in _RECALL_TOOLS:
        return True
    folders = _read_folders(call)
    return any(_is_known_there(folder, routes) for folder in folders)


def writes(call: Mapping[str, Any], routes: Collection[str] = tuple(ROUTES)) -> bool:
    """Whether a tool call writes memory."""
    name = _name(call)
    if name in _MEMORY_WRITERS:
        return True
    if name not in _FILE_WRITERS:
        return False
    file_path = _arguments(call).get("file_path")
    path = _plain(file_path)
    return _is_known_there(path, routes)


def sentences(text: str) -> Iterator[tuple[str, bool]]:
    """The sentences of a text, in order, and whether each is a question."""
    for match in _SENTENCE.finditer(text):
        sentence = match[0]
        mark = _QUESTION.search(sentence)
        yield sentence, mark is not None


def _name(call: Mapping[str, Any]) -> str:
    """The name of the tool; "" for what is none, as a client may have put it there."""
    name = call.get("name")
    return name if isinstance(name, str) else ""


def _arguments(call: Mapping[str, Any]) -> Mapping[str, Any]:
    given = call.get("args")
    return given if isinstance(given, Mapping) else {}


def _read_folders(call: Mapping[str, Any]) -> list[str]:
    """The folders or files that a reading call names; all, where it names none; none of another
    call.
    """
    name = _name(call)
    if name not in _READING_TOOLS:
        return []
    arguments = _arguments(call)
    named = list[str]()
    for argument in _READING_TOOLS[name]:
        value = arguments.get(argument)
        if not isinstance(value, str):
            continue
        if argument != "pattern":
            named.append(_plain(value))
        elif value.startswith("/") or ".." in value:
            fixed_part = re.split(r"[*?\[{]", value)[0]
            folder = posixpath.dirname(fixed_part)
            named.append(_plain(folder))
    return named or ["/"]


def _plain(path: object) -> str:
    """A path in its shortest spelling, with a slash at its end; "/" for what is none."""
    if not isinstance(path, str):
        return "/"
    normal = posixpath.normpath(f"/{path}")
    short = normal.strip("/")
    return f"/{short}/" if short else "/"


def _touches(folder: str, routes: Collection[str]) -> bool:
    """Whether a folder has files of a route, or lies in it."""
    all_routes = (*routes, *OFFLOADED)
    return any(folder.startswith(route) or route.startswith(folder) for route in all_routes)


def _is_known_there(folder: str, routes: Collection[str]) -> bool:
    """Whether a folder, or file, is in a route that holds what is known of people."""
    if folder.startswith(_INSTRUCTIONS):
        return False
    return folder.startswith(tuple(routes))
