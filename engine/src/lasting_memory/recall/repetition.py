"""Which messages of a thread repeat memory or past conversations, and which only ask for them.

A tool that looks something up gives it back as it was: its call and its result are no turns.
Otherwise each question about a fact would be found in place of the fact, and what was said in a
deleted conversation would stay in all that looked it up. The question and the answer are turns: the
person may have said something new beside the question. They count less.

A tool call has a name and arguments (`args`), as a client may have put them there. A route is a
folder of the deployment that holds memory, or files that are shared; paths and folders are compared
with a slash at their end.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping

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


def repeats(call: Mapping[str, object], routes: Collection[str] = tuple(ROUTES)) -> bool:
    """Whether a tool call looks up memory, past conversations, or shared files.

    `routes` are the deployment's folders of such files.
    """
    if _name(call) in _RECALL_TOOLS:
        return True
    folders = _read_folders(call)
    return any(_overlaps_routes(folder, routes) for folder in folders)


def result_repeats(call: Mapping[str, object], routes: Collection[str] = tuple(ROUTES)) -> bool:
    """Whether the result of a tool call may be memory, past conversations, or shared files.

    It may be of `repeats`, or a report of a subagent.
    """
    if _name(call) in _REPORTING_TOOLS:
        return True
    return repeats(call, routes)


def asks(call: Mapping[str, object], routes: Collection[str] = tuple(ROUTES)) -> bool:
    """Whether a tool call looks up what is known of the person: memory and past conversations, not
    instructions.
    """
    if _name(call) in _RECALL_TOOLS:
        return True
    folders = _read_folders(call)
    return any(_holds_knowledge(folder, routes) for folder in folders)


def writes_knowledge(call: Mapping[str, object], routes: Collection[str] = tuple(ROUTES)) -> bool:
    """Whether a tool call writes what is known of people: to memory, or to another route's files but
    skills and policies, which are instructions.
    """
    name = _name(call)
    if name in _MEMORY_WRITERS:
        return True
    if name not in _FILE_WRITERS:
        return False
    arguments = _arguments(call)
    path = _normal_path(arguments.get("file_path"))
    return _holds_knowledge(path, routes)


def sentences(text: str) -> Iterator[tuple[str, bool]]:
    """The sentences of a text, in order, each with whether it is a question.

    Together they are the text, with all of its spaces.
    """
    for match in _SENTENCE.finditer(text):
        sentence = match[0]
        question_mark = _QUESTION.search(sentence)
        yield sentence, question_mark is not None


def _name(call: Mapping[str, object]) -> str:
    """The name of the tool; "" for any value that is no text."""
    name = call.get("name")
    return name if isinstance(name, str) else ""


def _arguments(call: Mapping[str, object]) -> Mapping[str, object]:
    """The arguments of a call; none for any value that is no mapping."""
    arguments = call.get("args")
    return arguments if isinstance(arguments, Mapping) else {}


def _read_folders(call: Mapping[str, object]) -> list[str]:
    """The folders or files that a call reads.

    It is the root if the call of a reading tool names none. The list is empty for any other tool.
    """
    name = _name(call)
    if name not in _READING_TOOLS:
        return []
    arguments = _arguments(call)
    folders = list[str]()
    for argument in _READING_TOOLS[name]:
        value = arguments.get(argument)
        if not isinstance(value, str):
            continue
        if argument == "pattern":
            leads_elsewhere = value.startswith("/") or ".." in value
            if not leads_elsewhere:
                continue
            fixed_part, *_ = re.split(r"[*?\[{]", value)
            value = posixpath.dirname(fixed_part)
        folder = _normal_path(value)
        folders.append(folder)
    return folders or ["/"]


def _normal_path(path: object) -> str:
    """A path in its shortest spelling, with a slash at its end; "/" for any value that is no text."""
    if not isinstance(path, str):
        return "/"
    normal = posixpath.normpath(f"/{path}")
    short = normal.strip("/")
    if not short:
        return "/"
    return f"/{short}/"


def _overlaps_routes(folder: str, routes: Collection[str]) -> bool:
    """Whether a folder lies in one of the routes, or one of the routes in it."""
    all_routes = (*routes, *OFFLOADED)
    if folder.startswith(all_routes):
        return True
    return any(route.startswith(folder) for route in all_routes)


def _holds_knowledge(folder: str, routes: Collection[str]) -> bool:
    """Whether a folder, or file, lies in a route and holds what is known of people, which
    instructions are not.
    """
    if folder.startswith(_INSTRUCTIONS):
        return False
    return folder.startswith(tuple(routes))
