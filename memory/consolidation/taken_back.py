"""What people took back, so that consolidation does not bring it back.

A line that the person, or an agent during a conversation, removed or changed, and a line of a proposal that they declined, may
return only if the person says it again later. What was said before does not count, whichever conversation it stands in and
however a model words it. Nothing is kept for this but declined lines: the journal knows who removed what and when, and the
platform's runs know when the person said what. A line that fell out of its file's history is no longer known as taken back.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from langgraph_sdk.client import RunsClient
from langgraph_sdk.errors import NotFoundError

from memory.consolidation.facts import Fact, Key, Standing, facts_of, language_of, weights_of, words_of
from memory.consolidation.guard import Changed
from memory.journal import Revision, edits, lines_of
from memory.recall import message_text
from memory.validation import PROFILE_PATH

# Authors who act at the person's word. Consolidation merges and shortens, seeds and scripts know nothing of the person.
_AT_THEIR_WORD = frozenset({"person", "operator", "agent", "subagent"})
# The newest lines that the model is shown, and characters of each.
_SHOWN, _SHOWN_CHARS = 50, 200
# Runs of a conversation that are read at once, and in all.
_PAGE, _MAX_RUNS = 100, 1_000
_UUID7 = 7


class TakenBack(NamedTuple):
    """A line that was taken back, and the ISO time in UTC."""

    line: str
    at: str


class Said(NamedTuple):
    """What the person said, and the ISO time in UTC."""

    text: str
    at: str


@dataclass(frozen=True, slots=True)
class Declined:
    """The lines that a declined change would have added, and the ISO time in UTC of the decision."""

    at: str
    lines: list[str]


def taken_back(histories: Sequence[tuple[str, Sequence[Revision]]], declined: Sequence[Declined]) -> dict[Key, TakenBack]:
    """What was taken back and not written again since, the oldest first. Blocks.

    Args:
        histories: keys of files, and their revisions, newest first.
        declined: what the person declined.
    """
    events = [event for key, revisions in histories for event in _events(f"/memories{key}", revisions)]
    events += [(each.at, facts_of([("", "\n".join(each.lines))]), dict[Key, Fact]()) for each in declined]
    taken = dict[Key, TakenBack]()
    for at, removed, added in sorted(events, key=lambda event: event[0]):
        for key in (*removed, *added):
            taken.pop(key, None)
        taken |= {key: TakenBack(fact.line, at) for key, fact in removed.items() if key not in added}
    return taken


def _events(path: str, revisions: Sequence[Revision]) -> Iterator[tuple[str, dict[Key, Fact], dict[Key, Fact]]]:
    """The time of each change of a file, and the facts that it took back and added."""
    older = [revision.content or "" for revision in revisions[1:]]
    if revisions and revisions[-1].number == 1:
        older.append("")  # otherwise nobody knows what the oldest one changed
    for revision, before in zip(revisions, older, strict=False):
        if revision.encoding == "utf-8":
            removed, added = _differences(path, before, revision.content or "")
            yield revision.at, removed if revision.author.kind in _AT_THEIR_WORD else {}, added


def _differences(path: str, before: str, after: str) -> tuple[dict[Key, Fact], dict[Key, Fact]]:
    """The facts that only the first text has, and those that only the second has."""
    if path != PROFILE_PATH:
        old, new = lines_of(before), lines_of(after)
        changed = edits(old, new)
        before = "\n".join(line for _, i, i_end, _, _ in changed for line in old[i:i_end])
        after = "\n".join(line for _, _, _, j, j_end in changed for line in new[j:j_end])
    removed, added = facts_of([(path, before)]), facts_of([(path, after)])
    return {key: removed[key] for key in removed.keys() - added.keys()}, {
        key: added[key] for key in added.keys() - removed.keys()
    }


def added_lines(change: Changed) -> list[str]:
    """The facts that a change adds, as lines. Blocks."""
    return [fact.line for fact in _differences(change.path, change.before, change.after)[1].values()]


def returning(
    changes: Sequence[Changed],
    now: Sequence[tuple[str, str]],
    taken: Mapping[Key, TakenBack],
    said: Sequence[Said],
    talk: Iterable[str] = (),
) -> dict[str, dict[Key, TakenBack]]:
    """By path, the new lines that bring back what was taken back, although the person did not say it again later. Blocks.

    Args:
        changes: of the batch.
        now: path and text of the present files.
        taken: from `taken_back`.
        said: what the person said since the first of these was taken back.
        talk: all that was said in the batch.
    """
    present = facts_of(now)
    gone = {key: each for key, each in taken.items() if key not in present}
    new = {change.path: _differences(change.path, change.before, change.after)[1] for change in changes}
    if not gone or not any(new.values()):
        return {}
    judge = _Judge(gone, present, said, talk)
    found = {path: dict(judge.returning(lines)) for path, lines in new.items()}
    return {path: lines for path, lines in found.items() if lines}


class _Judge:
    """Tells which lines bring back what was taken back, by the words of lines, weighted by how rare they are in memory."""

    def __init__(
        self, gone: Mapping[Key, TakenBack], present: Mapping[Key, Fact], said: Sequence[Said], talk: Iterable[str]
    ) -> None:
        self._gone = gone
        self._language = language_of({**present, **{key: Fact(each.line, seen=True) for key, each in gone.items()}})
        self._words = {key: words_of(key, each.line, self._language) for key, each in gone.items()}
        self._present = self._stems(present)
        self._weights = weights_of([*self._words.values(), *self._present.values()])
        again, self._said_at = dict[Key, Fact](), dict[Key, str]()
        for text, at in said:
            sentences = _sentences(text)
            again |= sentences
            self._said_at |= {key: max(at, self._said_at.get(key, "")) for key in sentences}
        spoken = {key: fact for text in talk for key, fact in _sentences(text).items()}
        self._again, self._spoken = self._stems(again), self._stems(spoken)
        self._in_memory, self._in_said, self._in_talk = (Standing(of, self._language) for of in (present, again, spoken))

    def _stems(self, facts: Mapping[Key, Fact]) -> dict[Key, frozenset[str]]:
        return {key: words_of(key, fact.line, self._language) for key, fact in facts.items()}

    def returning(self, lines: Mapping[Key, Fact]) -> Iterator[tuple[Key, TakenBack]]:
        """The lines that bring something back, and what."""
        written, stems = Standing(lines, self._language), self._stems(lines)
        for key, each in self._gone.items():
            for line in written.keeping(self._words[key], self._weights):
                says = stems[line]
                follows = line != key and self._follows_memory(key, says)
                if not follows and not self._is_said_again(key, says) and not self._is_another_fact(key, says):
                    yield line, each

    def _follows_memory(self, key: Key, says: frozenset[str]) -> bool:
        """Whether a line says what memory says instead (`green tea` for `tea`), or more, without a word that was taken out."""
        gone = self._words[key]
        instead = (self._present[other] for other in self._in_memory.keeping(gone, self._weights))
        return any(other - gone <= says and not (gone - other) & says for other in instead)

    def _is_said_again(self, key: Key, says: frozenset[str]) -> bool:
        """Whether the person said the fact, the line, or what it adds to the fact, later."""
        gone, adds = self._words[key], says - self._words[key]
        repeats = {*self._in_said.keeping(gone, self._weights), *self._in_said.keeping(says, self._weights)}
        repeats |= {sentence for sentence, words in self._again.items() if adds and gone - says and adds <= words}
        return any(self._said_at[sentence] > self._gone[key].at for sentence in repeats)

    def _is_another_fact(self, key: Key, says: frozenset[str]) -> bool:
        """Whether a line of the same form is about another sentence (`likes coffee` for `likes tea`, where both were said)."""
        lacks, adds = self._words[key] - says, says - self._words[key]
        if not lacks or not adds or not any(lacks <= words for words in self._spoken.values()):
            return False
        repeated = set(self._in_talk.keeping(self._words[key], self._weights))
        return any(adds <= words and (sentence not in repeated or lacks <= words) for sentence, words in self._spoken.items())


def _sentences(text: str) -> dict[Key, Fact]:
    """A message as sentences, each on a line of its own."""
    for end in ".!?;":
        text = text.replace(f"{end} ", f"{end}\n")
    return facts_of([("", text)])


def without(changes: Sequence[Changed], brought: Mapping[str, Collection[Key]]) -> list[Changed]:
    """The changes without these new lines, by path. What such a line replaced stays; of a profile nothing changes. Blocks."""
    kept = []
    for change in changes:
        if not (lines := brought.get(change.path)):
            kept.append(change)
        elif change.path != PROFILE_PATH and (after := _without(change, lines)) != change.before:
            kept.append(replace(change, after=after, deleted=False))
    return kept


def _without(change: Changed, brought: Collection[Key]) -> str:
    old, new = change.before.split("\n"), change.after.split("\n")
    result, at = list[str](), 0
    for _, i, i_end, j, j_end in edits(old, new):
        result += old[at:i]
        lines = [line for line in new[j:j_end] if not facts_of([(change.path, line)]).keys() & brought]
        if len(lines) < j_end - j:
            result += [line for line in old[i:i_end] if line not in lines]
        result, at = [*result, *lines], i_end
    text = "\n".join([*result, *old[at:]])
    return text if facts_of([(change.path, text)]) or change.before else ""


def shown_lines(taken: Mapping[Key, TakenBack], said: Sequence[Said]) -> str:
    """For the model: the newest of these lines, and what the person said since, each with its time."""
    text = "\n".join(_dated((each.at, each.line) for each in taken.values()))
    since = "\n".join(_dated((each.at, each.text) for each in said))
    return f"{text}\n\nSaid since:\n\n{since}" if since else text


def _dated(texts: Iterable[tuple[str, str]]) -> list[str]:
    newest = sorted(texts, reverse=True)[:_SHOWN]
    return [f"- {_minute(at)}: {' '.join(text.split())[:_SHOWN_CHARS]}" for at, text in newest]


def objection(brought: Mapping[str, Mapping[Key, TakenBack]]) -> str:
    """The reason to refuse these lines."""
    named = {
        f"{path}: {each.line[:80]} (at {_minute(each.at)})": None for path, lines in brought.items() for each in lines.values()
    }
    return (
        f"The person took this back, and has not said it again since: {'; '.join([*named][:5])}. What was said earlier does "
        "not count, however it is worded; leave it out."
    )


async def said_since(runs: RunsClient, thread_ids: Sequence[str], since: str) -> list[Said]:
    """What the person said in these conversations after a time: the last of their messages in each run's input.

    Some clients send all earlier messages again, so only the last one is new.
    """
    said = list[Said]()
    for thread_id in thread_ids:
        with suppress(NotFoundError):  # it was deleted meanwhile
            for offset in range(0, _MAX_RUNS, _PAGE):
                page: Any = await runs.list(thread_id, limit=_PAGE, offset=offset, select=["run_id", "created_at", "kwargs"])
                new = [(run, at) for run in page if (at := _created(run)) > since]
                said += [Said(text, at) for run, at in new if (text := _last_words(run))]
                if len(new) < _PAGE:
                    break
    return said


def _created(run: Mapping[str, Any]) -> str:
    """When a run was asked for, in ISO. Its id is a UUIDv7; the platform adds `after_seconds` to `created_at`."""
    run_id = UUID(str(run["run_id"]))
    if run_id.version != _UUID7:
        return datetime.fromisoformat(str(run["created_at"])).astimezone(UTC).isoformat()
    return datetime.fromtimestamp((run_id.int >> 80) / 1000, UTC).isoformat()


def _last_words(run: Mapping[str, Any]) -> str:
    given = (run.get("kwargs") or {}).get("input")
    messages = given.get("messages") if isinstance(given, Mapping) else None
    listed = messages if isinstance(messages, list) else [messages]
    return next((text for message in reversed(listed) if (text := _words(message))), "")


def _words(message: object) -> str:
    """The text of a message in any form that langchain takes, if it is the person's."""
    if isinstance(message, str):
        return message
    if isinstance(message, list) and len(message) == 2:  # noqa: PLR2004  # a role and a text
        message = {"role": message[0], "content": message[1]}
    if not isinstance(message, Mapping) or not {"user", "human"} & {str(message.get("role")), str(message.get("type"))}:
        return ""
    return message_text(message.get("content"))


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")
