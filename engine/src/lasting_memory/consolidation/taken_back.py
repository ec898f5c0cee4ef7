"""What people took back, so that consolidation does not bring it back.

A line that the person, or an agent in a conversation, removed or changed, and a declined line, may return only if the person
says it again later. The journal knows who removed what and when, the platform's runs when the person said what; nothing else is
kept for this. A line that fell out of its file's history is no longer known as taken back.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from langchain_core.messages import HumanMessage, convert_to_messages
from langgraph_sdk.client import RunsClient
from langgraph_sdk.errors import NotFoundError

from lasting_memory import journal
from lasting_memory.consolidation.guard import Key, Standing, added_facts, differences, facts_of, weights_of
from lasting_memory.files.proposals import Changed, Dated
from lasting_memory.journal import Revision, edits
from lasting_memory.limits import DEFAULT_CONSOLIDATION, Consolidation

# Authors who act at the person's word. Consolidation merges and shortens, seeds and scripts know nothing of the person.
_AT_THEIR_WORD = frozenset({"person", "operator", "agent", "subagent"})
# The newest lines that the model is shown, and characters of each.
_SHOWN, _SHOWN_CHARS = 50, 200
# The newest runs of a conversation, in which its person may have said something again.
_RUNS = 100


def taken_back(histories: Sequence[tuple[str, Sequence[Revision]]], declined: Iterable[Dated]) -> dict[Key, Dated]:
    """What was taken back and not written again since, by the files' histories and the declined lines. Blocks."""
    events = [event for key, revisions in histories for event in _events(f"/memories{key}", revisions)]
    events += [(at, facts_of([("", line)]), dict[Key, str]()) for line, at in declined]
    taken = dict[Key, Dated]()
    for at, removed, added in sorted(events, key=lambda event: event[0]):
        for key in (*removed, *added):
            taken.pop(key, None)
        taken |= {key: Dated(line, at) for key, line in removed.items() if key not in added}
    return taken


def _events(path: str, revisions: Sequence[Revision]) -> Iterator[tuple[str, dict[Key, str], dict[Key, str]]]:
    """The time of each change of a file, and the facts that it took back and added."""
    older = [revision.content or "" for revision in revisions[1:]]
    if revisions and revisions[-1].number == 1:
        older.append("")  # otherwise nobody knows what the oldest one changed
    for revision, before in zip(revisions, older, strict=False):
        if revision.encoding == "utf-8":
            removed, added = differences(path, before, revision.content or "")
            yield revision.at, removed if revision.author.kind in _AT_THEIR_WORD else {}, added


def returning(
    changes: Sequence[Changed],
    now: Mapping[str, str],
    taken: Mapping[Key, Dated],
    said: Sequence[Dated],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> dict[str, dict[Key, str]]:
    """By path, the new lines that bring back what was taken back, which they name, and was not said again later. Blocks.

    `now` has the texts of the present files, by key; `said` what the person said since.
    """
    present = facts_of((f"/memories{key}", text) for key, text in now.items())
    gone = {key: each.text for key, each in taken.items() if key not in present}
    new = {change.path: lines for change in changes if (lines := added_facts(change))}
    if not gone or not new:
        return {}
    language = Standing({**present, **gone}).language
    facts, memory = Standing(gone, language, rules).words, Standing(present, language, rules)
    weights = weights_of([*facts.values(), *memory.words.values()])

    @cache
    def said_after(at: str) -> Standing:
        return Standing(_sentences(each.text for each in said if each.at > at), language, rules)

    def is_back(key: Key, says: frozenset[str], *, as_it_was: bool) -> bool:
        fact = facts[key]
        instead = (memory.words[line] for line in memory.keeping(fact, weights))
        if not as_it_was and any(line - fact <= says and not (fact - line) & says for line in instead):
            return False  # it says what memory says instead (`green tea` for `tea`), or more
        again, adds = said_after(taken[key].at), says - fact
        if any(again.keeping(fact, weights)) or any(again.keeping(says, weights)):
            return False
        return not (adds and fact - says and any(adds <= sentence for sentence in again.words.values()))

    found = dict[str, dict[Key, str]]()
    for path, lines in new.items():
        written = Standing(lines, language, rules)
        for key in gone:
            for line in written.keeping(facts[key], weights):
                if is_back(key, written.words[line], as_it_was=line == key):
                    found.setdefault(path, {})[line] = f"{taken[key].text[:80]} (at {_minute(taken[key].at)})"
    return found


def _sentences(texts: Iterable[str]) -> dict[Key, str]:
    """Messages as sentences, each on a line of its own."""
    return facts_of(("", re.sub(r"([.!?;]) ", r"\1\n", text)) for text in texts)


def without(changes: Sequence[Changed], brought: Mapping[str, Collection[Key]]) -> list[Changed]:
    """The changes without these lines, by path. What such a line replaced stays; of a JSON file nothing changes. Blocks."""
    cleaned = list[Changed]()
    for change in changes:
        if change.path not in brought:
            cleaned.append(change)
        elif not change.path.endswith(".json") and (after := _without(change, brought[change.path])) != change.before:
            cleaned.append(replace(change, after=after, deleted=False))
    return cleaned


def _without(change: Changed, brought: Collection[Key]) -> str:
    old, new, result, at = change.before.split("\n"), change.after.split("\n"), list[str](), 0
    for i, i_end, j, j_end in edits(old, new):
        lines = [line for line in new[j:j_end] if not facts_of([(change.path, line)]).keys() & brought]
        replaced = old[i:i_end] if len(lines) < j_end - j else []
        result += [*old[at:i], *(line for line in replaced if line not in lines), *lines]
        at = i_end
    text = "\n".join([*result, *old[at:]])
    return text if facts_of([(change.path, text)]) or change.before else ""


def shown_lines(taken: Iterable[Dated], said: Iterable[Dated]) -> str:
    """For the model: the newest of these lines, and what the person said since, each with its time."""
    lists = [
        "\n".join(f"- {_minute(at)}: {' '.join(text.split())[:_SHOWN_CHARS]}" for text, at in newest[:_SHOWN])
        for newest in (sorted(of, key=lambda each: each.at, reverse=True) for of in (taken, said))
    ]
    return "\n\nSaid since:\n\n".join(filter(None, lists))


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


async def said_since(runs: RunsClient, thread_ids: Sequence[str], since: str) -> list[Dated]:
    """What the person said in these conversations after a time: the last message of each run's input."""
    said = list[Dated]()
    for thread_id in thread_ids:
        with suppress(NotFoundError):  # it was deleted meanwhile
            found: Any = await runs.list(thread_id, limit=_RUNS, select=["run_id", "kwargs"])
            new = [(run, at) for run in found if (at := journal.time_of_run(str(run["run_id"]))) > since]
            said += [Dated(text, at) for run, at in new if (text := _last_words(run))]
    return said


def _last_words(run: Mapping[str, Any]) -> str:
    given = (run.get("kwargs") or {}).get("input")
    messages: Any = given.get("messages") if isinstance(given, Mapping) else None
    try:
        listed = convert_to_messages(messages if isinstance(messages, list) else [messages])
    except (NotImplementedError, ValueError):  # what the graph itself refused
        return ""
    return next((message.text for message in reversed(listed) if isinstance(message, HumanMessage)), "")
