"""Public sets of long conversations, read into one person's threads each: their questions, and
which turns answer them.

None of the data is part of the project. A person has threads as the platform gives them, and
questions with the ids of the turns that hold the answer (`evidence`). What a file misspells is left
out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from lasting_memory.people import identity
from lasting_memory.testing.platform import Platform

_LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
_REALTALK_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "commonsense"}
# Kinds of question that no conversation answers, or all do.
_BEAM_LEFT_OUT = ("abstention", "summarization")
_TIMES = (
    "%I:%M %p on %d %B, %Y",
    "%d.%m.%Y, %H:%M:%S",
    "%d.%m.%Y, %H:%M",
    "%B-%d-%Y",
    "%b-%d-%Y",
    "%Y-%m-%d",
)


@dataclass(frozen=True)
class Question:
    """What is asked; `id` is `<conversation, from 1>-<index in its list, from 0>`."""

    id: str
    text: str
    kind: str
    evidence: tuple[str, ...]


@dataclass
class Person:
    """A conversation of a set as one user's threads. `turns` gives the thread and the text of each
    turn's id.
    """

    actor: identity.Actor
    threads: Platform = field(default_factory=Platform)
    turns: dict[str, tuple[str, str]] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    last: date = date.min

    def put(self, name: str, moment: datetime, said: Iterable[tuple[str, str, str, str]]) -> None:
        """A thread of turns: id, role, the speaker's name, text."""
        thread_id, messages = str(uuid5(NAMESPACE_URL, f"{self.actor.user_id}/{name}")), []
        for turn_id, role, speaker, text in said:
            self.turns[turn_id] = (thread_id, " ".join(text.split()))
            messages.append({"type": role, "id": turn_id, "name": speaker, "content": text})
        self.threads.put(self.actor, thread_id, moment.isoformat(), messages)
        self.last = max(self.last, moment.date())

    def ask(self, question_id: str, text: str, kind: str, evidence: Iterable[str]) -> None:
        """A question, unless none of its evidence exists."""
        if there := sorted({turn for turn in evidence if turn in self.turns}):
            self.questions.append(Question(question_id, text, kind, tuple(there)))


def _moment(text: object, otherwise: datetime) -> datetime:
    for pattern in _TIMES:
        try:
            return datetime.strptime(str(text).strip(), pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
    return otherwise


_START = datetime(2020, 1, 1, tzinfo=UTC)


def _sessions(name: str, said: dict[str, Any], speakers: list[str], text: str) -> Person:
    """The sessions of LoCoMo's format, of which REALTALK's is a relative. The first speaker is the
    user.
    """
    person, moment = Person(identity.Actor(name, "recall")), _START
    numbers = sorted(
        int(key.removeprefix("session_")) for key in said if re.fullmatch(r"session_\d+", key)
    )
    for number in numbers:
        turns = [turn for turn in said[f"session_{number}"] or [] if turn.get("dia_id")]
        moment = _moment(said.get(f"session_{number}_date_time"), moment + timedelta(days=1))
        messages = []
        for turn in turns:
            caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            role = "human" if turn.get("speaker") == speakers[0] else "ai"
            words = turn.get(text) or turn.get("text") or ""
            messages.append(
                (str(turn["dia_id"]), role, str(turn.get("speaker", "")), f"{words}{caption}")
            )
        person.put(str(number), moment, messages)
    return person


def _dialog_ids(given: object) -> list[str]:
    """Ids of turns; some entries hold two, or are misspelt."""
    return [
        f"D{int(session)}:{int(turn)}"
        for session, turn in re.findall(r"D:?(\d+)[:;](\d+)", json.dumps(given or []))
    ]


def locomo(path: Path, only: range | None) -> Iterator[Person]:
    """`locomo10.json` (Maharana and others, "Evaluating Very Long-Term Conversational Memory of LLM
    Agents", ACL 2024).
    """
    for number, sample in enumerate(json.loads(path.read_text("utf-8")), 1):
        if only is not None and number not in only:
            continue
        said = sample["conversation"]
        person = _sessions(f"locomo-{number}", said, [said["speaker_a"], said["speaker_b"]], "text")
        for index, asked in enumerate(sample["qa"]):
            if kind := _LOCOMO_CATEGORIES.get(asked["category"]):
                person.ask(
                    f"{number}-{index}",
                    str(asked["question"]),
                    kind,
                    _dialog_ids(asked.get("evidence")),
                )
        yield person


def realtalk(path: Path, only: range | None) -> Iterator[Person]:
    """The folder `data` of REALTALK (Lee and others, 2025): `Chat_<number>_<names>.json` in it, and
    nothing below.
    """
    for file, number in _numbered(path.glob("Chat_*.json"), r"^Chat_(\d+)_", only):
        said = json.loads(file.read_text("utf-8"))
        person = _sessions(f"realtalk-{number}", said, list(said["name"].values()), "clean_text")
        for index, asked in enumerate(said.get("qa") or []):
            kind = _REALTALK_CATEGORIES.get(asked.get("category"), "other")
            person.ask(
                f"{number}-{index}",
                str(asked["question"]),
                kind,
                _dialog_ids(asked.get("evidence")),
            )
        yield person


def beam(path: Path, only: range | None) -> Iterator[Person]:
    """A size of BEAM (Tavakoli and others, 2025), such as `chats/100K`: a folder for each chat. A
    turn group is a thread.
    """
    for folder, number in _numbered(path.iterdir(), r"^(\d+)$", only):
        person, moment = Person(identity.Actor(f"beam-{number}", "recall")), _START
        for place, group in enumerate(
            _groups(json.loads((folder / "chat.json").read_text("utf-8")))
        ):
            anchors = [message["time_anchor"] for message in group if message.get("time_anchor")]
            day = _moment(anchors[0] if anchors else "", moment)
            moment = day.replace(hour=0, minute=0, second=0) + timedelta(seconds=10 * place)
            person.put(str(place), moment, [_beam_turn(message) for message in group])
        index = 0
        asked = json.loads(
            (folder / "probing_questions" / "probing_questions.json").read_text("utf-8")
        )
        for kind, questions in asked.items():
            for question in questions:
                if kind not in _BEAM_LEFT_OUT:
                    evidence = map(str, _numbers(question.get("source_chat_ids")))
                    person.ask(
                        f"{number}-{index}",
                        str(question["question"]),
                        kind.replace("_", " "),
                        evidence,
                    )
                index += 1
        yield person


def _beam_turn(message: dict[str, Any]) -> tuple[str, str, str, str]:
    # A user's message ends with a mark of the plan that it was made from.
    text = re.sub(r"\s*->->[\s\d.,]*$", "", str(message["content"]))
    return str(message["id"]), "human" if message["role"] == "user" else "ai", "", text


def _groups(part: object) -> Iterator[list[dict[str, Any]]]:
    """Lists of messages, however deep the file has them."""
    if isinstance(part, dict):
        for value in part.values():
            yield from _groups(value)
    elif isinstance(part, list):
        if messages := [
            item
            for item in part
            if isinstance(item, dict) and {"role", "content", "id"} <= item.keys()
        ]:
            yield messages
        else:
            for item in part:
                yield from _groups(item)


def _numbers(part: object) -> Iterator[int]:
    if isinstance(part, bool) or part is None:
        return
    if isinstance(part, int):
        yield part
    elif isinstance(part, str):
        yield from map(int, re.findall(r"\d+", part))
    else:
        for item in (
            part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        ):
            yield from _numbers(item)


def _numbered(paths: Iterable[Path], pattern: str, only: range | None) -> list[tuple[Path, int]]:
    numbered = [(path, int(match[1])) for path in paths if (match := re.search(pattern, path.name))]
    return sorted(
        ((path, number) for path, number in numbered if only is None or number in only),
        key=lambda pair: pair[1],
    )


def realmem(path: Path, only: range | None) -> Iterator[Person]:
    """A folder with files of RealMemBench (2026), a person with an assistant in each. A question is
    a turn of the user that needs memory, asked over the sessions before its own; so each session
    with such turns is a `Person` of its own.

    `only` counts the files, in the order of their names, from 1.
    """
    for number, file in enumerate(sorted(path.glob("*.json")), 1):
        if only is not None and number not in only:
            continue
        sessions = json.loads(file.read_text("utf-8"))["dialogues"]
        for place in range(1, len(sessions)):
            person = _before(f"realmem-{number}-{place}", sessions[:place])
            _ask_realmem(person, f"{number}-{place}", sessions)
            if person.questions:
                yield person


def _before(name: str, sessions: list[dict[str, Any]]) -> Person:
    """One who has had these sessions."""
    person = Person(identity.Actor(name, "recall"))
    for place, session in enumerate(sessions):
        day = _moment(str(session["current_time"]).partition(" ")[0], _START)
        turns = list[tuple[str, str, str, str]]()
        for index, turn in enumerate(session["dialogue_turns"]):
            role = "human" if turn["speaker"] == "User" else "ai"
            turns.append((f"{session['session_uuid']}:{index}", role, "", str(turn["content"])))
        person.put(str(session["session_uuid"]), day + timedelta(seconds=10 * place), turns)
    return person


def _ask_realmem(person: Person, name: str, sessions: list[dict[str, Any]]) -> None:
    """The questions of the session behind those that the person has had. Evidence is the turn that
    a remembered thing came from; where none says so, the first one of its session.
    """
    place = len(person.threads.kept)
    turn_of = dict[tuple[str, str], str]()
    for session in sessions[:place]:
        for memory in session["extracted_memory"] or []:
            uuid = str(session["session_uuid"])
            turn_of[uuid, str(memory["content"])] = f"{uuid}:{memory.get('source_turn')}"
    turns = sessions[place]["dialogue_turns"]
    for index, turn in enumerate(turns[:-1]):
        if str(turn.get("is_query")) != "True":
            continue
        answer = turns[index + 1]
        evidence = set[str]()
        for memory in answer.get("memory_used") or []:
            uuid = str(memory["session_uuid"])
            evidence.add(turn_of.get((uuid, str(memory["content"])), f"{uuid}:0"))
        for uuid in answer.get("memory_session_uuids") or []:
            if not any(known.startswith(f"{uuid}:") for known in evidence):
                evidence.add(f"{uuid}:0")
        known_evidence = [turn if turn in person.turns else f"{turn[:-2]}:0" for turn in evidence]
        kind = str(turn.get("category_name") or "other")
        person.ask(f"{name}-{index}", str(turn["content"]), kind, known_evidence)


SETS: dict[str, Callable[[Path, range | None], Iterator[Person]]] = {
    "locomo": locomo,
    "realtalk": realtalk,
    "beam": beam,
    "realmem": realmem,
}


def together(people: Iterable[Person]) -> Person:
    """All of these people's threads as one person's, without questions."""
    everybody = Person(identity.Actor("everybody", "recall"))
    for person in people:
        for thread in person.threads.kept.values():
            messages = thread["values"]["messages"]
            everybody.threads.put(
                everybody.actor, thread["thread_id"], thread["updated_at"], messages
            )
        everybody.last = max(everybody.last, person.last)
    return everybody
