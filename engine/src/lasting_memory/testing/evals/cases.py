"""The cases of `cases.yaml` and `searches.yaml`, and what it means that one is met. No model, no server.

A case has conversations, and expectations (`Check`) about the files of memory afterwards. Files are
texts by path. A place is a path, a folder (with a slash at its end), or what the agent did: `answer`
or `searches`. Patterns are regular expressions, in which `{today}` and `{thread:0}` stand for the
day and the thread ids of a run. Lines are those of files without headings and comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from lasting_memory.agent.shown_text import prompt_text

Category = Literal[
    "keep",
    "update",
    "drop",
    "never_store",
    "taken_back",
    "search",
    "search_several",
    "search_hop",
    "search_order",
    "search_count",
    "tidy",
    "imported",
    "in_turn",
]
_HERE = Path(__file__).parent
_OURS = (_HERE / "cases.yaml", _HERE / "searches.yaml")
# A message as the platform takes it: `role` and `content`.
Message = dict[str, str]
Turns = list[dict[Literal["user", "assistant"], str]]
# Text by path as the agent sees it.
Files = Mapping[str, str]
# What a line says that keeps how it was before.
_PAST = (
    r"\b(was|were|until|before|former|formerly|previously|earlier|used to|no longer|moved|changed|replaced|cut|stopped|instead"
    r"|bis|früher|vorher|nicht mehr|statt|avant|auparavant|antes)\b"
)


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation as it was stored: its id and ISO day."""

    thread_id: str
    day: str


def filled(text: str, threads: Sequence[Thread]) -> str:
    """A text with the day and the thread ids of a run in place of `{today}` and `{thread:0}`."""
    today = ""
    for number, thread in enumerate(threads):
        place = f"{{thread:{number}}}"
        text = text.replace(place, thread.thread_id)
        today = thread.day
    return text.replace("{today}", today)


def _kinds_of(model: BaseModel, *kinds: str) -> list[str]:
    """Those of these fields that have a value."""
    present = list[str]()
    for kind in kinds:
        if getattr(model, kind) is not None:
            present.append(kind)
    return present


class Check(BaseModel):
    """One expectation about a place. It has exactly one kind:

    - `has`: a line matches this pattern; `lacks`: none does; `once`: exactly one does.
    - `replaced`: no line matches this pattern, but as the past, and one matches the pattern `by`.
    - `field`: a field of the profile matches the pattern `is`.
    - `same`: it says what it said before; `gone`: it says nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    place: Annotated[str, Field(alias="in", pattern=r"^(/memories/|answer$|searches$)")]
    has: str | None = None
    lacks: str | None = None
    once: str | None = None
    replaced: str | None = None
    by: str = ""
    field: str | None = None
    value: Annotated[str, Field(alias="is")] = ""
    same: Literal[True] | None = None
    gone: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Check:
        kinds = _kinds_of(self, "has", "lacks", "once", "replaced", "field", "same", "gone")
        replaces = bool(self.replaced)
        names_field = bool(self.field)
        has_by = bool(self.by)
        has_value = bool(self.value)
        is_complete = replaces == has_by and names_field == has_value
        if len(kinds) != 1 or not is_complete:
            raise ValueError(
                f"an expectation about {self.place} has {kinds or 'no kind'}; give one, with `by` or `is` if it needs it"
            )
        for name in ("has", "lacks", "once", "replaced", "by", "value"):
            pattern = getattr(self, name)
            re.compile(pattern or "")
        return self

    def problem(self, start: Files, now: Files, threads: Sequence[Thread]) -> str | None:
        """What is wrong with the files, or None.

        Args:
            start: the files before.
            now: the files after.
            threads: the conversations, for `{today}` and `{thread:0}` in patterns.
        """
        wrong = self._wrong_lines(now, threads)
        if not wrong:
            wrong = self._wrong_file(start, now)
        if not wrong:
            return None
        return f"{self.place}: {wrong}"

    def _wrong_lines(self, now: Files, threads: Sequence[Thread]) -> str:
        """What is wrong with the lines that match a pattern; "" if nothing is."""
        lines = _lines(now, self.place)
        if self.has is not None:
            matches = _matching(self.has, lines, threads)
            if not matches:
                return f"nothing matches {self.has!r}"
        if self.lacks is not None:
            # The names of files tell something, too.
            names = [path for path in now if path.startswith(self.place)]
            lines_and_names = lines + names
            matches = _matching(self.lacks, lines_and_names, threads)
            if matches:
                return f"{matches[0]!r} matches {self.lacks!r}"
        if self.once is not None:
            matches = _matching(self.once, lines, threads)
            count = len(matches)
            if count != 1:
                return f"{count} lines match {self.once!r}, not one"
        if self.replaced is not None:
            return self._still_held(self.replaced, lines, threads)
        return ""

    def _wrong_file(self, start: Files, now: Files) -> str:
        """What is wrong with a field, or a file as a whole; "" if nothing is."""
        lines = _lines(now, self.place)
        if self.field is not None:
            profile = _profile(now)
            known = profile.get(self.field, "")
            match = re.fullmatch(self.value, known, re.IGNORECASE)
            if match is None:
                return f"{self.field} is {known!r}, not {self.value!r}"
        if self.gone and lines:
            return f"{lines[0]!r} is still there"
        if self.same:
            earlier_lines = _lines(start, self.place)
            if sorted(lines) != sorted(earlier_lines):
                return f"it says {lines}"
        return ""

    def _still_held(self, replaced: str, lines: list[str], threads: Sequence[Thread]) -> str:
        """What is wrong with the lines if what matches `replaced` should have been replaced by what
        matches `by`; "" if nothing is.
        """
        new_lines = _matching(self.by, lines, threads)
        for line in _matching(replaced, lines, threads):
            if line in new_lines:
                continue
            past_word = re.search(_PAST, line, re.IGNORECASE)
            if past_word is None:
                return f"{line!r} stands as if it still held"
        if not new_lines:
            return f"nothing matches {self.by!r}"
        return ""


class Act(BaseModel):
    """What the person does, or lets happen, once `after` conversations have ended. It has exactly
    one kind:

    - `write` a file with `text`, `undo` its last change, or `delete` it, each by its path.
    - `propose`: consolidation proposes its changes; `decline`: the person declines these.
    - `say`: these turns, in the conversation number `thread`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: Annotated[int, Field(ge=0)]
    write: Annotated[str | None, Field(pattern=r"^/memories/")] = None
    text: str = ""
    undo: Annotated[str | None, Field(pattern=r"^/memories/")] = None
    delete: Annotated[str | None, Field(pattern=r"^/memories/")] = None
    propose: Literal[True] | None = None
    decline: Literal[True] | None = None
    say: Turns | None = None
    thread: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _one_kind(self) -> Act:
        kinds = _kinds_of(self, "write", "undo", "delete", "propose", "decline", "say")
        writes = bool(self.write)
        has_text = bool(self.text)
        if len(kinds) != 1 or writes != has_text:
            raise ValueError(
                f"what a person does after {self.after} conversations is {kinds or 'nothing'}; give one kind"
            )
        return self


class Case(BaseModel):
    """Conversations, and what should be remembered afterwards.

    `memory` has the files before, `person` what the person does meanwhile, `right` the files that a
    good answer changes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    category: Category
    conversations: list[Turns] = []
    memory: dict[str, str] = {}
    person: list[Act] = []
    policies: str | None = None
    brought: str = ""
    question: str = ""
    expect: Annotated[list[Check], Field(min_length=1)]
    right: dict[str, str] = {}

    @model_validator(mode="after")
    def _has_an_answer_if_it_asks(self) -> Case:
        places = {check.place for check in self.expect}
        expects_answer = "answer" in places or "searches" in places
        if expects_answer and not self.question:
            raise ValueError(f"{self.name} expects an answer; give it a question")
        is_imported = self.category == "imported"
        has_brought = bool(self.brought)
        if has_brought != is_imported:
            raise ValueError(
                f"{self.name} is of the category {self.category}; give `brought` to the category imported alone"
            )
        if self.category == "in_turn" and not self.question:
            raise ValueError(f"{self.name} is of the category in_turn; give it a question")
        needs_conversations = self.category not in ("tidy", "imported", "in_turn")
        if needs_conversations and not self.conversations:
            raise ValueError(
                f"{self.name} has no conversations; give it some, or the category tidy, imported or in_turn"
            )
        return self

    def problems(self, now: Files, threads: Sequence[Thread]) -> list[str]:
        """Every expectation that the files do not meet."""
        start = self.start()
        problems = list[str]()
        for check in self.expect:
            problem = check.problem(start, now, threads)
            if problem:
                problems.append(problem)
        return problems

    def start(self) -> dict[str, str]:
        """The files that consolidation finds: `memory` after what the person did to it.

        A file without text is deleted. To undo twice is to do it again.
        """
        files = dict(self.memory)
        earlier_texts = dict[str, str]()
        for act in self.person:
            path = act.write or act.undo or act.delete
            if not path:
                continue
            text = ""
            if act.write:
                text = act.text
            elif act.undo:
                text = earlier_texts.get(path, "")
            earlier_texts[path] = files.get(path, "")
            files[path] = text
        return _with_text(files)

    def answer(self, threads: Sequence[Thread]) -> dict[str, str]:
        """The files as a good answer leaves them."""
        files = self.start()
        for path, text in self.right.items():
            files[path] = filled(text, threads)
        return _with_text(files)

    def messages(self) -> list[list[Message]]:
        """The conversations as the platform takes messages."""
        return [messages(turns) for turns in self.conversations]


def _with_text(files: Files) -> dict[str, str]:
    """The files that have a text."""
    present = dict[str, str]()
    for path, text in files.items():
        if text:
            present[path] = text
    return present


def messages(turns: Turns) -> list[Message]:
    """Turns as the platform takes messages."""
    listed = list[Message]()
    for turn in turns:
        for role, text in turn.items():
            message = {"role": role, "content": text}
            listed.append(message)
    return listed


def load_cases(*paths: Path) -> list[Case]:
    """All cases of these files: the engine's own, if none is named.

    Raises:
        ValidationError: one is not well-formed.
    """
    adapter = TypeAdapter(list[Case])
    cases = list[Case]()
    for path in paths or _OURS:
        entries = yaml.safe_load(path.read_text("utf-8"))
        cases += adapter.validate_python(entries)
    return cases


def _matching(pattern: str, lines: Sequence[str], threads: Sequence[Thread]) -> list[str]:
    """The lines in which a pattern is found, in either case of letters."""
    whole_pattern = filled(pattern, threads)
    expression = re.compile(whole_pattern, re.IGNORECASE)
    matching = list[str]()
    for line in lines:
        if expression.search(line):
            matching.append(line)
    return matching


def _lines(files: Files, place: str) -> list[str]:
    """The lines of the file at a place, or of all files of a folder."""
    lines = list[str]()
    is_folder = place.endswith("/")
    for path, text in sorted(files.items()):
        is_within = is_folder and path.startswith(place)
        if path != place and not is_within:
            continue
        for whole_line in prompt_text(text).splitlines():
            line = whole_line.strip()
            if line and not line.startswith("#"):
                lines.append(line)
    return lines


def _profile(files: Files) -> dict[str, str]:
    """The fields of the profile as texts; none if there is no profile, or it cannot be read."""
    text = files.get("/memories/profile.json") or "{}"
    try:
        profile = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(profile, dict):
        return {}
    fields = dict[str, str]()
    for name, value in profile.items():
        fields[name] = str(value)
    return fields
