"""The tools by which other programs of a person's read and change their memory.

A program acts through the same gate, pause and review as an agent, as an author of its own kind,
`client`. Nothing that it does takes more than one line away, and each change can be taken back on
the page. Where a person reviews changes, a change waits for their yes there. A key names a file
within the person's memory, such as /topics/food.md.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field, StringConstraints

from lasting_memory import platform, recall
from lasting_memory.agent.additions import lacking, with_addition
from lasting_memory.agent.memory_block import memory_files
from lasting_memory.agent.memory_lines import MemoryLine, line_named, memory_lines, with_line
from lasting_memory.agent.memory_search import MAX_FOUND, search_files
from lasting_memory.agent.omissions import INDEX_PATH
from lasting_memory.agent.scoped_files import WAITS, ScopedFiles
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.http.requests import ROUTE, PersonRequest
from lasting_memory.memory.controls import PAUSED
from lasting_memory.memory.ends import current_text, present_day
from lasting_memory.memory.stored_files import text_of
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people.identity import ClientAuthor
from lasting_memory.platform import get_client
from lasting_memory.words import words

# Characters of one answer.
_MAX_ANSWER_CHARS = 24_000
# The file of facts without a topic, and the longest name of a topic's file.
_NO_TOPIC = "/preferences.md"
_MAX_TOPIC_CHARS = 60
# Conversations of one answer, and characters of a turn.
_MAX_CONVERSATIONS = 8
_MAX_TURN_CHARS = 400

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]
_Path = Annotated[
    str | None, Field(description="the file, such as /memories/preferences.md, if you know it")
]


class _Arguments(BaseModel, extra="forbid"):
    pass


class _Nothing(_Arguments):
    pass


class _Fact(_Arguments):
    fact: Annotated[_Text, Field(description="one fact or wish of the person's, in one sentence")]
    topic: Annotated[
        str | None,
        Field(max_length=100, description="its subject in a word or two; none: how to answer them"),
    ] = None


class _Correction(_Arguments):
    line: Annotated[_Text, Field(description="the line as it is now, whole, or a part of it")]
    correct: Annotated[_Text, Field(description="what it should say")]
    path: _Path = None


class _OneLine(_Arguments):
    line: Annotated[_Text, Field(description="the line as it is now, whole, or a part of it")]
    path: _Path = None


class _Query(_Arguments):
    query: Annotated[_Text, Field(description="what to look for, in plain words")]


class _ClientFiles(ScopedFiles):
    """The person's files, for what a program writes: it stops at a pause, and waits for a review."""

    def __init__(self, caller: PersonRequest, client: str) -> None:
        namespace = caller.namespace
        author = ClientAuthor("client", caller.actor.user_id, client=client)
        super().__init__(
            caller.deployment,
            lambda _: namespace,
            route=ROUTE,
            author=author,
            writer=caller.writer,
            store=caller.store,
        )
        self._person = caller

    async def change(self, key: str, make: Callable[[str], str]) -> bool:
        """Change a text, which is "" where there is no file. Returns whether it waits for the
        person's yes.

        Raises `RefusedWrite` where memory is paused, and as `Folder.change`.
        """
        caller = self._person
        controls = await caller.controls()
        if controls.paused:
            raise RefusedWrite(f"{PAUSED}: nothing is remembered until they resume it.")

        def changed(file: FileData | None) -> FileData | None:
            if file and file["encoding"] != "utf-8":
                raise RefusedWrite(f"{ROUTE}{key} is not text; choose another file.")
            text = make(file["content"] if file else "")
            return FileData(content=text, encoding="utf-8")

        vouched_change = self._unless_refused(key, changed, None)
        is_reviewed = controls.review or controls.review_agent
        if is_reviewed or caller.deployment.unconfirmed == "propose":
            folder = self._folder()
            gated_change = folder.gated(key, vouched_change)
            await caller.memory.propose_write(key, gated_change, folder.author)
            return True
        await self._put(key, vouched_change)
        return False


class MemoryTools:
    """The tools for one request of a program. Their methods return what the program is told, and
    raise `ValueError`, with the reason, for what is refused.
    """

    def __init__(self, caller: PersonRequest, client: str) -> None:
        self._caller = caller
        self._files = _ClientFiles(caller, client)

    async def what_do_you_know(self, _: _Nothing) -> str:
        """Everything that is remembered of the person, by file."""
        items = await self._items()
        lines = await platform.in_thread(_current_lines, self._caller.deployment, items)
        return _by_file(lines) or "Nothing is remembered of this person yet."

    async def remember(self, fact: _Fact) -> str:
        """Remember one fact or wish of the person's, in their memory for all conversations."""
        text = _one_line(fact.fact)
        topic = fact.topic or ""
        line = f"- {text}"
        if not topic.strip():
            waits = await self._append(_NO_TOPIC, line)
            return _answer_of_change(waits, f"Remembered in {ROUTE}{_NO_TOPIC}.")
        key = _topic_key(topic)
        line_waits = await self._append(key, line)
        topic_waits = await self._list_topic(key, _one_line(topic))
        return _answer_of_change(line_waits or topic_waits, f"Remembered in {ROUTE}{key}.")

    async def correct(self, correction: _Correction) -> str:
        """Replace one line of what is remembered. The person can take it back."""
        line = await self._line(correction.line, correction.path)
        text = _one_line(correction.correct)
        waits = await self._replace(line, text)
        return _answer_of_change(
            waits, f"Corrected in {ROUTE}{line.key}. The page takes it back, if need be."
        )

    async def forget(self, named_line: _OneLine) -> str:
        """Take one line out of what is remembered. The person can take it back."""
        line = await self._line(named_line.line, named_line.path)
        waits = await self._replace(line, None)
        shown_text = line.text[:200]
        return _answer_of_change(
            waits,
            f"Taken out of {ROUTE}{line.key}: {shown_text!r}. The page puts it back, or "
            "deletes it for good.",
        )

    async def search_memory(self, search: _Query) -> str:
        """Search what is remembered of the person, by words, and by meaning where that is on."""
        caller = self._caller
        matches = await search_files(
            caller.store, caller.namespace, search.query, caller.deployment, MAX_FOUND
        )
        if not matches:
            return f"Nothing that is remembered matches {search.query[:100]!r}."
        parts = [f"{match.path}\n{match.text}" for match in matches]
        return "\n\n".join(parts)

    async def search_past_conversations(self, search: _Query) -> str:
        """Search what the person and their agent said in past conversations."""
        caller = self._caller
        deployment = self._caller.deployment
        zone = await recall.zone_of_person(
            caller.store, deployment, caller.actor, deployment.default_assistant
        )
        async with get_client() as client:
            results = await recall.search(
                caller.store,
                client.threads,
                caller.actor,
                search.query,
                _MAX_CONVERSATIONS,
                agents=deployment.agents,
                writer=caller.writer,
                routes=deployment.routes,
                zone=zone,
            )
        answer = await platform.in_thread(_quoted, search.query, results.matches)
        return answer or f"Nothing was found in {results.searched} conversations."

    async def _items(self) -> list[Item]:
        return await self._caller.items()

    async def _texts(self) -> dict[str, str]:
        return _texts_of(await self._items())

    async def _line(self, text: str, path: str | None) -> MemoryLine:
        """The line that is named. Raises `RefusedWrite` if it is not exactly one."""
        texts = await self._texts()
        lines = await platform.in_thread(memory_lines, texts)
        if path is not None:
            lines = [line for line in lines if f"{ROUTE}{line.key}" == path]
        return await platform.in_thread(line_named, text, lines)

    async def _replace(self, line: MemoryLine, text: str | None) -> bool:
        """Put a text in place of a line, or take the line out (None). Returns whether that waits for
        the person's yes.
        """

        def replaced(text_before: str) -> str:
            return with_line(text_before, line, text)

        return await self._files.change(line.key, replaced)

    async def _append(self, key: str, line: str) -> bool:
        """Add a line to a file, unless it has the line. Returns whether that waits for the person's
        yes.
        """

        def appended(text_before: str) -> str:
            addition = lacking(text_before, line)
            return with_addition(text_before, addition)

        return await self._files.change(key, appended)

    async def _list_topic(self, key: str, topic: str) -> bool:
        """Name a topic's file in the index of topics, which is what prompts show of them.

        Returns whether that waits for the person's yes; False, too, if there is nothing to do: no
        prompt shows the index, or it names the file already.
        """
        if INDEX_PATH not in memory_files(self._caller.deployment):
            return False
        index_key = INDEX_PATH.removeprefix(ROUTE)
        path = f"{ROUTE}{key}"
        texts = await self._texts()
        index = texts.get(index_key, "")
        if path in index:
            return False
        return await self._append(index_key, f"- {topic}: {path}")


def _texts_of(items: list[Item]) -> dict[str, str]:
    """The texts of files, by key; "" for a file that is no text."""
    texts = dict[str, str]()
    for item in items:
        texts[item.key] = text_of(item) or ""
    return texts


def _current_lines(deployment: Deployment, items: list[Item]) -> list[MemoryLine]:
    """The lines of these files that are not over. Blocks."""
    texts = _texts_of(items)
    profile_key = PROFILE_PATH.removeprefix(ROUTE)
    day = present_day(deployment, texts.get(profile_key))
    current_texts = dict[str, str]()
    for item in items:
        current_texts[item.key] = current_text(item, texts[item.key], day)
    return memory_lines(current_texts)


def _answer_of_change(waits: bool, answer: str) -> str:
    """What a program is told after a change: that it waits for the person's yes, or this answer."""
    if waits:
        return f"It {WAITS}, until they accept it on the page."
    return answer


def _one_line(text: str) -> str:
    """A text in one line, its words with one space between them."""
    parts = text.split()
    return " ".join(parts)


def _topic_key(topic: str) -> str:
    """The key of a topic's file, of the words of its name in any script.

    Raises `RefusedWrite` for a name without a word.
    """
    name = "-".join(words(topic))
    stem = name[:_MAX_TOPIC_CHARS].strip("-")
    if not stem:
        raise RefusedWrite(f"topic is {topic[:60]!r}, which has no word; name the subject.")
    return f"/topics/{stem}.md"


def _by_file(lines: list[MemoryLine]) -> str:
    """The lines under the path of their file, as far as an answer has room."""
    parts = list[str]()
    room = _MAX_ANSWER_CHARS
    key = ""
    for number, line in enumerate(lines):
        part = f"- {line.text}"
        if line.key != key:  # the first of a file
            part = f"{ROUTE}{line.key}\n{part}"
        room -= len(part) + 1
        if room < 0:
            left_out = len(lines) - number
            parts.append(f"{left_out} more lines are left out; use search_memory.")
            break
        parts.append(part)
        key = line.key
    return "\n".join(parts)


def _quoted(query: str, matches: list[recall.Match]) -> str:
    """The best turns of the conversations, with the day of each. Blocks."""
    parts = list[str]()
    for match in matches:
        turns = recall.excerpts(query, match, _MAX_TURN_CHARS)
        lines = [f"{turn['speaker']}: {turn['text']}" for turn in turns]
        quoted_turns = "\n".join(lines)
        day = match.conversation.last_said_at[:10]
        parts.append(f"{day}\n{quoted_turns}")
    answer = "\n\n".join(parts)
    return answer[:_MAX_ANSWER_CHARS]


_Checked = TypeVar("_Checked", bound=_Arguments)


@dataclass(frozen=True, slots=True)
class _Tool(Generic[_Checked]):
    """A tool: its method, the arguments that this takes, and whether it only reads, and takes
    something away.
    """

    method: Callable[[MemoryTools, _Checked], Awaitable[str]]
    arguments: type[_Checked]
    annotations: ToolAnnotations

    @property
    def description(self) -> str:
        """What it does, as a program is told, in one line."""
        return _one_line(self.method.__doc__ or "")

    def with_arguments(
        self, values: Mapping[str, object]
    ) -> Callable[[MemoryTools], Awaitable[str]]:
        """The method with the arguments that a program sent. Raises `ValidationError`."""
        arguments = self.arguments.model_validate(values)

        def called(tools: MemoryTools) -> Awaitable[str]:
            return self.method(tools, arguments)

        return called


AnyTool = _Tool[_Nothing] | _Tool[_Fact] | _Tool[_Correction] | _Tool[_OneLine] | _Tool[_Query]
TOOLS: Mapping[str, AnyTool] = {
    "what_do_you_know": _Tool(
        MemoryTools.what_do_you_know,
        _Nothing,
        ToolAnnotations(read_only_hint=True),
    ),
    "remember": _Tool(MemoryTools.remember, _Fact, ToolAnnotations(destructive_hint=False)),
    "correct": _Tool(MemoryTools.correct, _Correction, ToolAnnotations(destructive_hint=True)),
    "forget": _Tool(MemoryTools.forget, _OneLine, ToolAnnotations(destructive_hint=True)),
    "search_memory": _Tool(MemoryTools.search_memory, _Query, ToolAnnotations(read_only_hint=True)),
}
CONVERSATION_TOOLS: Mapping[str, AnyTool] = {
    "search_past_conversations": _Tool(
        MemoryTools.search_past_conversations,
        _Query,
        ToolAnnotations(read_only_hint=True),
    ),
}
