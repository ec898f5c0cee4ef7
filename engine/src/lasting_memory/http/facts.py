"""What is known about a person, as facts instead of files; what changed since they last looked; and what was deleted."""

import asyncio
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

from langgraph.store.base import Item
from pydantic import AwareDatetime, BaseModel, Field

from lasting_memory.agent.blocks import without_comments
from lasting_memory.controls import seen_until, set_seen, usage_of
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.http.requests import ROUTE, AboutQuery, Answer, Caller, MemoryQuery, Sent, memory_router
from lasting_memory.journal import Revision, all_items, cut, diff, histories, lines_of
from lasting_memory.validation import NotAFileError, stored_file

router = memory_router()
# Entries of one answer, the newest ones.
_MOST = 200
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+")
_SOURCE = re.compile(r"\bthread [0-9a-f]{8}-")


@router.get("/memory/facts")
async def facts(caller: Caller, query: MemoryQuery) -> Answer:
    """What is remembered of you, in lines under titles.

    `groups`, one a file: path, title, revision, bytes, modified_at and kind. "lines": `lines` are the file's own, each with its
    number (from 0) and text, without list marker, source and comments; a `heading` is a subtitle. "profile": `fields` are name,
    description, value and JSON `schema`; it is there before its file is. "file": read it with `GET /memory/file`. A value that
    is no file has an `error`. `usage` is that of `GET /memory`. `shared`, one for each folder of a group of yours: path, claim,
    group, whether your agent `writes` there, and `groups` as above.
    """
    items = await all_items(caller.store, caller.namespace)
    groups = await asyncio.to_thread(_groups, caller.deployment, items)
    if caller.deployment.profile and PROFILE_PATH not in {group["path"] for group in groups}:
        empty = {"path": PROFILE_PATH, "title": "Profile", "kind": "profile", "revision": 0, "bytes": 0, "modified_at": None}
        groups.append({**empty, "fields": _fields(caller.deployment.profile, "")})
    shared = []
    for route, namespace in caller.groups.items():
        theirs = await asyncio.to_thread(_groups, caller.deployment, await all_items(caller.store, namespace), route[:-1])
        shared.append({**caller.about_group(route), "groups": theirs})
    return {"groups": sorted(groups, key=_place), "usage": usage_of(items, caller.deployment.limits), "shared": shared}


def _groups(deployment: Deployment, items: Sequence[Item], route: str = ROUTE) -> list[Answer]:
    return sorted((_group(deployment, item, route) for item in items), key=_place)


def _place(group: Answer) -> tuple[bool, bool, bool, str]:
    """Profile and preferences before topics; what has no lines last."""
    kind, path = group["kind"], group["path"]
    return kind == "file", kind != "profile", path.count("/") > ROUTE.count("/") + 1, path


def _group(deployment: Deployment, item: Item, route: str) -> Answer:
    path, name = f"{route}{item.key}", item.key.rpartition("/")[2]
    group: Answer = {"path": path, "title": name, "kind": "file"}
    try:
        file = stored_file(item)
    except NotAFileError as error:
        return {**group, "error": str(error)}
    content = file["content"]
    group |= {"revision": item.value.get("revision"), "bytes": len(content.encode()), "modified_at": file.get("modified_at")}
    if file["encoding"] != "utf-8" or name == "index.md" or item.key.startswith("/skills/"):  # no facts of a person
        return group
    if path == PROFILE_PATH and deployment.profile:
        with suppress(ValueError):  # not of this schema: a file
            group |= {"title": "Profile", "kind": "profile", "fields": _fields(deployment.profile, content)}
        return group
    if not name.endswith((".md", ".txt")):
        return group
    title, lines = "", list[Answer]()
    for number, line in enumerate(lines_of(without_comments(content, line_breaks=True))):
        if text := line.strip():
            heading = text.lstrip("#").strip() if text.startswith("#") else ""
            if heading and not (title or lines):
                title = heading
            else:
                lines.append({"line": number, "heading": heading} if heading else {"line": number, "text": _said(text)})
    stem = name.rpartition(".")[0].replace("-", " ").replace("_", " ")
    return {**group, "kind": "lines", "title": title or stem[:1].upper() + stem[1:], "lines": lines}


def _said(line: str) -> str:
    """A line without its list marker, and without the source that consolidation notes at its end."""
    text = _MARKER.sub("", line, count=1) if _MARKER.match(line) else line
    said, opened, source = text.rpartition("(")
    return said.rstrip() if opened and said.strip() and source.endswith(")") and _SOURCE.search(source) else text


def _fields(profile: type[BaseModel], content: str) -> list[Answer]:
    """The profile's fields as its schema describes them, with what is known. Raises `ValueError` for another file's content."""
    known = profile.model_validate_json(content or "{}").model_dump(mode="json")
    shapes = profile.model_json_schema()["properties"]
    return [
        {"name": name, "description": about.description, "value": known[name], "schema": shapes.get(name, {})}
        for name, about in profile.model_fields.items()
    ]


@router.get("/memory/changes")
async def changes(caller: Caller, query: MemoryQuery) -> Answer:
    """What changed since you last looked (`PUT /memory/seen`): at most 200 files, the newest first.

    `changes`: path, revision (its number), at, author, deleted, diff, and `before`: the revision to undo it to, 0 for no file,
    null for one that is not kept any more. `since` is when you last looked (null: never), `until` is now, for `PUT
    /memory/seen`. With what a new memory starts, nothing changed.
    """
    until, since = datetime.now(UTC).isoformat(), await seen_until(caller.store, caller.actor)
    known = await histories(caller.store, caller.namespace, caller.deployment.limits)
    found = await asyncio.to_thread(lambda: [change for path, past in known if (change := _change(path, past, since))])
    found.sort(key=lambda change: str(change["at"]), reverse=True)
    return {"since": since or None, "until": until, "changes": found[:_MOST]}


def _change(path: str, past: Sequence[Revision], since: str) -> Answer | None:
    """What became of a file since then, given its revisions, newest first; None for nothing. Blocks."""
    new = [revision for revision in past if revision.at > since]
    if not new or all(revision.author.kind == "seed" for revision in new):
        return None
    before = past[len(new)] if len(new) < len(past) else None
    # A change of a starting file is compared with the file, also at the first look.
    while before is None and len(new) > 1 and new[-1].author.kind == "seed":
        before = new.pop()
    newest, is_known = new[0], before is not None or new[-1].number == 1
    if newest.content is None and (before is None or before.content is None):  # it came and went since then
        before = next((revision for revision in new if revision.content is not None), before)
    changed = diff((before and before.content) or "", newest.content or "")
    if not changed and (before is None or before.content is None) == (newest.content is None):
        return None
    number = (before.number if before.content is not None else 0) if before else 0
    return {
        "path": f"{ROUTE}{path}", "revision": newest.number, "before": number if is_known else None, "at": newest.at,
        "author": asdict(newest.author), "deleted": newest.content is None, "diff": cut(f"{changed}\n") if changed else "",
    }  # fmt: skip


class Seen(Sent):
    until: Annotated[AwareDatetime, Field(strict=False, description="as `GET /memory/changes` said it")]


@router.put("/memory/seen")
async def seen(caller: Caller, query: AboutQuery, body: Seen) -> Answer:
    """Note that you have looked at what changed until then. A time to come counts as now."""
    caller.check_own()
    caller.check_not_shared()
    until = min(body.until, datetime.now(UTC)).astimezone(UTC).isoformat()
    await set_seen(caller.store, caller.actor, until)
    return {"since": until}


@router.get("/memory/trash")
async def trash(caller: Caller, query: MemoryQuery) -> Answer:
    """What was deleted, as far as the histories go back: at most 200 of each, the newest first.

    `files`: path, at, author, and the `revision` to undo the deletion to. `lines`, of files that are there: path, text, at,
    author.
    """
    known = await histories(caller.store, caller.namespace, caller.deployment.limits)
    files, lines = await asyncio.to_thread(_deleted, known)
    return {"files": files, "lines": lines}


def _deleted(known: Sequence[tuple[str, list[Revision]]]) -> tuple[list[Answer], list[Answer]]:
    """The deleted files and lines in these histories. Blocks."""
    files, lines = list[Answer](), list[Answer]()
    for key, past in known:
        path, last = f"{ROUTE}{key}", next((each for each in past if each.content is not None), None)
        if past and past[0].content is None and last:
            files.append({"path": path, "revision": last.number, **_by(past[0])})
        elif past and key.endswith((".md", ".txt")):
            lines += [{"path": path, "text": text, **_by(revision)} for text, revision in _taken_out(past)]
    newest = [sorted(each, key=lambda entry: str(entry["at"]), reverse=True)[:_MOST] for each in (files, lines)]
    return newest[0], newest[1]


def _taken_out(past: Sequence[Revision]) -> Iterator[tuple[str, Revision]]:
    """Lines that are not in the newest of these revisions, each once, with the revision that took it out last."""
    shown = {_said(line.strip()) for line in lines_of(past[0].content or "")}
    for new, old in itertools.pairwise(past):
        there = set(lines_of(new.content or ""))
        for line in lines_of(without_comments(old.content or "", line_breaks=True)):
            text = _said(line.strip())
            if line not in there and text and not text.startswith("#") and text not in shown:
                shown.add(text)
                yield text, new


def _by(revision: Revision) -> Answer:
    return {"at": revision.at, "author": asdict(revision.author)}
