"""What a person sees beside their files: what is known as facts, what changed, what was deleted;
who they are, the prompt, the rules, past conversations; and their controls.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated, NamedTuple
from uuid import UUID

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response
from langchain_core.messages import SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.store.base import Item
from langgraph_sdk import get_client
from pydantic import AwareDatetime, BaseModel, Field, StringConstraints
from starlette.exceptions import HTTPException

from lasting_memory import controls, journal, platform, recall
from lasting_memory.agent.checks import offered_tools
from lasting_memory.agent.file_sections import Block
from lasting_memory.agent.memory_search import DEFAULT_FOUND, MAX_FOUND, search_files
from lasting_memory.agent.models import takes_pictures
from lasting_memory.agent.prompt import PromptBlocks, memory_files
from lasting_memory.agent.shown_text import without_comments
from lasting_memory.agent.skills import skills
from lasting_memory.auth import interrupt_display, interrupts
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.files.facts import is_form, lines_said, said
from lasting_memory.http.requests import (
    IN_TURN,
    ROUTE,
    About,
    AboutQuery,
    Answer,
    Caller,
    MemoryQuery,
    OneMemory,
    Sent,
)
from lasting_memory.journal import NOTHING, Revision, cut, diff, lines_of, undone
from lasting_memory.people import identity, namespaces, scopes
from lasting_memory.stored_files import stored_file, text_of
from lasting_memory.validation import RefusedWrite, is_policy

router = APIRouter(tags=["Memory"], dependencies=[IN_TURN])
# Nobody looked before. Years near the first one would leave the calendar in another time zone.
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
# Entries of one answer, the newest ones.
_MOST = 200
# What is compared for one answer, as `journal.work` counts it: about a second.
_MOST_WORK = 1_500_000
# Of a turn of a conversation that a search found.
_EXCERPT_CHARS = 240
_FORGOTTEN = "You were forgotten meanwhile; call again."


@router.get("/memory/facts")
async def facts(caller: Caller, query: MemoryQuery) -> Response:
    """What is remembered of you, in lines under titles.

    `groups`, one a file: path, title, revision, bytes, modified_at and kind. "lines": `lines` are
    the file's own, each with its number (from 0) and text, without list marker, source and
    comments; a `heading` is a subtitle. A row of a table is a line in words, with the row itself as
    `raw`; its head, and the marks around code, are none. "profile": `fields` are name, description,
    value and JSON `schema`; it is there before its file is. "file": read it with `GET
    /memory/file`. A value that is no file has an `error`. `usage` is that of `GET /memory`.
    `shared`, one for each folder of a group of yours: path, claim, group, whether your agent
    `writes` there, and `groups` as above.
    """
    deployment, items = caller.deployment, await journal.all_items(caller.store, caller.namespace)
    shared = [
        (group, await journal.all_items(caller.store, namespace))
        for namespace, group in caller.groups
    ]

    def told() -> bytes:
        """Blocks: a full memory has 100,000 lines."""
        groups = [_group(deployment, item, ROUTE) for item in items]
        if deployment.profile and PROFILE_PATH not in {group["path"] for group in groups}:
            empty: Answer = {
                "path": PROFILE_PATH,
                "title": "Profile",
                "kind": "profile",
                "revision": 0,
                "bytes": 0,
            }
            groups.append({**empty, "modified_at": None, "fields": _fields(deployment.profile, "")})
        of_groups = list[Answer]()
        for about, theirs in shared:
            found = (_group(deployment, item, about["path"][:-1]) for item in theirs)
            of_groups.append({**about, "groups": sorted(found, key=_place)})
        usage = controls.usage_of(items, deployment.limits)
        return orjson.dumps(
            {"groups": sorted(groups, key=_place), "usage": usage, "shared": of_groups}
        )

    return Response(await platform.in_thread(told), media_type="application/json")


def _place(group: Answer) -> tuple[bool, bool, bool, str]:
    """Profile and preferences before topics; what has no lines last."""
    kind, path = group["kind"], group["path"]
    return kind == "file", kind != "profile", path.count("/") > ROUTE.count("/") + 1, path


def _group(deployment: Deployment, item: Item, route: str) -> Answer:
    path, name = f"{route}{item.key}", item.key.rpartition("/")[2]
    group: Answer = {"path": path, "title": name, "kind": "file"}
    try:
        file = stored_file(item)
    except RefusedWrite as error:
        return {**group, "error": str(error)}
    content = file["content"]
    group |= {
        "revision": item.value.get("revision"),
        "bytes": len(content.encode()),
        "modified_at": file.get("modified_at"),
    }
    if (
        file["encoding"] != "utf-8" or name == "index.md" or item.key.startswith("/skills/")
    ):  # no facts of a person
        return group
    if path == PROFILE_PATH and deployment.profile:
        with suppress(ValueError):  # not of this schema: a file
            group |= {
                "title": "Profile",
                "kind": "profile",
                "fields": _fields(deployment.profile, content),
            }
        return group
    if not name.endswith((".md", ".txt")):
        return group
    title, lines = "", list[Answer]()
    for line in lines_said(lines_of(without_comments(content, line_breaks=True))):
        if line.is_heading and not (title or lines):
            title = line.text
        elif line.is_heading:
            lines.append({"line": line.number, "heading": line.text})
        else:
            lines.append(
                {"line": line.number, "text": line.text, **({"raw": line.raw} if line.raw else {})}
            )
    stem = name.rpartition(".")[0].replace("-", " ").replace("_", " ")
    return {**group, "kind": "lines", "title": title or stem[:1].upper() + stem[1:], "lines": lines}


def _fields(profile: type[BaseModel], content: str) -> list[Answer]:
    """The profile's fields as its schema describes them, with what is known. Raises `ValueError`
    for another file's content.
    """
    known = profile.model_validate_json(content or "{}").model_dump(mode="json")
    shapes = profile.model_json_schema()["properties"]
    return [
        {
            "name": name,
            "description": about.description,
            "value": known[name],
            "schema": shapes.get(name, {}),
        }
        for name, about in profile.model_fields.items()
    ]


@router.get("/memory/changes")
async def changes(caller: Caller, query: MemoryQuery) -> Answer:
    """What changed since you last looked (`PUT /memory/seen`): at most 200 changes, the newest
    first.

    `changes`: path, revision (the newest one's number), at, author, deleted, diff, and `changes`:
    ids of the revisions that one run made one after the other; `POST /memory/undo` takes them back
    (null: what they changed is not kept any more). What was taken back since is left out (that it
    was is a change), and so is what a memory starts with. `more`: how many older changes were not
    looked at, because there are too many or comparing them takes long; `GET /memory/history` has
    them by file. `since` is when you last looked (null: never), `until` is now, for `PUT
    /memory/seen`.
    """
    until, since = (
        datetime.now(UTC).isoformat(),
        await controls.seen_until(caller.store, caller.actor),
    )
    known = await journal.histories(caller.store, caller.namespace, caller.deployment.limits)
    found, more = await platform.in_thread(_changes, known, since)
    return {"since": since or None, "until": until, "changes": found, "more": more}


def _newest(entries: list[Answer]) -> list[Answer]:
    return sorted(entries, key=lambda entry: str(entry["at"]), reverse=True)[:_MOST]


class _Change(NamedTuple):
    """What one run changed in a file: its revisions one after the other, newest first, each with
    the one before it.
    """

    path: str
    now: Revision
    made: list[tuple[Revision, Revision]]

    @property
    def work(self) -> int:
        """How much is compared to show this, as `journal.work` counts it."""
        newest, _ = self.made[0]
        _, first = self.made[-1]
        total = journal.work(first.content, newest.content)
        for revision, before in self.made:
            total += journal.work(before.content, revision.content)
            total += journal.work(revision.content, self.now.content)
        return total

    def shown(self) -> Answer | None:
        """The change for a person; None if it was taken back since."""
        newest, _ = self.made[0]
        oldest, before = self.made[-1]
        is_known = bool(before.number) or oldest.number == 1
        if is_known:
            content = self.now.content
            for revision, previous in self.made:
                content = undone(self.path, content, previous.content, revision.content)
            if content == self.now.content:
                return None
        changed = diff(before.content or "", newest.content or "")
        return {
            "path": f"{ROUTE}{self.path}", "revision": newest.number, "at": newest.at, "author": asdict(newest.author),
            "deleted": newest.content is None, "diff": cut(f"{changed}\n") if changed else "",
            "changes": [revision.id for revision, _ in self.made] if is_known else None,
        }  # fmt: skip


def _changes(known: Sequence[tuple[str, list[Revision]]], since: str) -> tuple[list[Answer], int]:
    """The changes since then in these histories, newest first, and how many older ones were not
    looked at. Blocks.
    """
    made = [change for path, past in known for change in _changes_of(path, past, since)]
    made.sort(key=lambda change: change.made[0][0].at, reverse=True)
    shown = list[Answer]()
    spent = 0
    for number, change in enumerate(made):
        spent += change.work
        if len(shown) == _MOST or (number and spent > _MOST_WORK):
            return shown, len(made) - number
        if entry := change.shown():
            shown.append(entry)
    return shown, 0


def _changes_of(path: str, past: Sequence[Revision], since: str) -> Iterator[_Change]:
    """The changes of a file since then, given its revisions, newest first. What a memory starts
    with is none.
    """
    new = [
        (each, before)
        for each, before in zip(past, [*past[1:], NOTHING], strict=True)
        if each.at > since
    ]
    for _, run in itertools.groupby(new, key=lambda pair: pair[0].author.run_id or pair[0].id):
        made = list(run)
        if made[0][0].author.kind != "seed":
            yield _Change(path, past[0], made)


class Seen(Sent):
    until: Annotated[
        AwareDatetime,
        Field(strict=False, ge=_EARLIEST, description="as `GET /memory/changes` said it"),
    ]


@router.put("/memory/seen")
async def seen(caller: Caller, query: AboutQuery, body: Seen) -> Answer:
    """Note that you have looked at what changed until then. A time to come counts as now; one
    before the last, as that.
    """
    caller.check_own()
    caller.check_not_shared()
    before, until = (
        await controls.seen_until(caller.store, caller.actor),
        min(body.until, datetime.now(UTC)),
    )
    since = max(until.astimezone(UTC).isoformat(), before)
    if not await controls.set_seen(caller.store, caller.actor, since, caller.began):
        raise HTTPException(409, _FORGOTTEN)
    return {"since": since}


@router.get("/memory/trash")
async def trash(caller: Caller, query: MemoryQuery) -> Answer:
    """What was deleted, as far as the histories go back: at most 200 of each, the newest first.

    `files`: path, at, author, and `changes`: what `POST /memory/undo` takes back then. `lines`, of
    files that are there: path, text, at, author.
    """
    known = await journal.histories(caller.store, caller.namespace, caller.deployment.limits)
    return await platform.in_thread(_deleted, known)


def _deleted(known: Sequence[tuple[str, list[Revision]]]) -> Answer:
    """The deleted files and lines in these histories. Blocks."""
    files, lines = list[Answer](), list[Answer]()
    for key, past in known:
        path = f"{ROUTE}{key}"
        if past and past[0].content is None:
            if len(past) > 1 and past[1].content is not None:
                files.append(
                    {
                        "path": path,
                        "changes": [past[0].id],
                        "at": past[0].at,
                        "author": asdict(past[0].author),
                    }
                )
        elif past and key.endswith((".md", ".txt")):
            gone = _taken_out(past)
            lines += [
                {"path": path, "text": text, "at": each.at, "author": asdict(each.author)}
                for text, each in gone
            ]
    return {"files": _newest(files), "lines": _newest(lines)}


def _taken_out(past: Sequence[Revision]) -> Iterator[tuple[str, Revision]]:
    """Lines that are not in the newest of these revisions, each once, with the revision that took
    it out last.
    """
    shown = {said(line) for line in lines_of(past[0].content or "")}
    for new, old in itertools.pairwise(past):
        there = set(lines_of(new.content or ""))
        for line in lines_of(without_comments(old.content or "", line_breaks=True)):
            text = said(line)
            is_known = line in there or text in shown
            if text and not (is_known or text.startswith("#") or is_form(line)):
                shown.add(text)
                yield text, new


@router.get("/memory/me")
async def me(caller: Caller, query: AboutQuery) -> Answer:
    """Who you are here, and how this deployment keeps memory.

    `routes`: by folder, whether it is `shared` with others, whether your agent `writes` there
    (allow, deny, interrupt: an operator approves), and the `namespace` in which you can read it
    over the store API (null: you cannot). `own_memory`: whether you have memory of your own; it is
    false where memory is shared, or there is none. `pictures`: whether the model looks at pictures;
    `temporary_hours`: how long a temporary conversation stays.
    """
    user, deployment, settings = caller.http.user, caller.deployment, caller.deployment.settings
    claims, routes = identity.claims_of(user), dict[str, Answer]()
    for path in deployment.routes:
        scope, namespace = deployment.scope(path), None
        with suppress(scopes.NotAMemberError):
            namespace = scope.namespace(caller.actor, caller.assistant, claims)
        readable = namespace is not None and scope.may_read(namespace, caller.actor, claims)
        writes = scope.rule(settings)
        routes[path] = {
            "shared": scope.is_shared,
            "writes": writes,
            "namespace": namespace if readable else None,
        }
    return {
        **asdict(caller.actor), "agents": deployment.agents, "memory_scope": settings.memory_scope, "routes": routes,
        "own_memory": deployment.has_own_memory, "memory_writes": settings.memory_writes, "sign_in": settings.sign_in,
        "pictures": await platform.in_thread(takes_pictures, settings.agent_model),
        "temporary_hours": deployment.limits.temporary_hours,
        "operator": identity.is_operator(user, settings), "writes_policies": identity.may_write_policies(user, settings),
    }  # fmt: skip


@router.get("/memory/prompt")
async def prompt(caller: Caller, query: MemoryQuery) -> Answer:
    """What the model is shown of you at your next turn.

    `blocks` of the system prompt: name (agent: its own; policies, memory, and skills where there
    are any), text, bytes, tokens (estimated), budget (null: none), `left_out`. `tools`: names of
    those that the first agent's model is offered; none where the server does not tell.
    """
    deployment, actor, assistant = caller.deployment, caller.actor, caller.assistant
    shown = [Block("agent", deployment.prompt("agent.md").strip(), 0)]
    shown += await PromptBlocks(deployment, memory_files(deployment)).read(
        caller.store, actor, assistant, preview=True
    )
    if listed := skills(deployment):
        shown.append(await listed.preview(caller.store, actor, assistant))
    blocks = list[Answer]()
    for each in shown:
        size, tokens = (
            len(each.text.encode(errors="replace")),
            count_tokens_approximately([SystemMessage(each.text)]),
        )
        blocks.append(
            {**asdict(each), "bytes": size, "tokens": tokens, "budget": each.budget or None}
        )
    async with platform.graph_to_read(deployment.agents[0], caller.store) as graph:
        tools = offered_tools(graph) if graph else []
    return {"blocks": blocks, "tools": tools}


@router.get("/memory/policies")
async def policies(caller: Caller, query: AboutQuery) -> Answer:
    """The rules of your organization.

    `files`: path, key, content (null where it is not text), bytes, in_prompt. The store API (PUT
    /store/items) changes them in `namespace`; `writable`: whether you may.
    """
    namespace, files = namespaces.policies(caller.actor.org_id), list[Answer]()
    for item in await journal.all_items(caller.store, namespace):
        content = text_of(item)
        told = {
            "path": f"/policies{item.key}",
            "key": item.key,
            "content": content,
            "bytes": len((content or "").encode()),
        }
        files.append({**told, "in_prompt": is_policy(item.key)})
    writable = identity.may_write_policies(caller.http.user, caller.deployment.settings)
    return {"namespace": namespace, "writable": writable, "files": files}


class Search(About):
    q: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]
    limit: Annotated[int, Field(ge=1, le=20)] = 10


@router.get("/memory/search")
async def search(caller: Caller, query: Annotated[Search, Query()]) -> Answer:
    """Search your past conversations, as the agent does with its tool.

    `conversations`, best first: thread_id, updated_at (when something was said in it last), the
    best turns; `searched`: in how many; `outstanding`: how many older ones are not indexed yet, so
    search again.
    """
    d = caller.deployment
    zone = await recall.zone_of_person(caller.store, d, caller.actor, d.default_assistant)
    async with get_client() as client:
        results = await recall.search(
            caller.store, client.threads, caller.actor, query.q, query.limit, agents=d.agents, began=caller.began,
            routes=d.routes, zone=zone,
        )  # fmt: skip

    def shown() -> list[Answer]:
        found = [
            (match.conversation, recall.excerpts(query.q, match, _EXCERPT_CHARS))
            for match in results.matches
        ]
        return [
            {"thread_id": talk.thread_id, "updated_at": talk.last_said_at, "turns": turns}
            for talk, turns in found
        ]

    return {
        "conversations": await platform.in_thread(shown),
        "searched": results.searched,
        "outstanding": results.outstanding,
    }


class OneThread(About):
    thread_id: UUID


@router.get("/memory/interrupts")
async def pending_interrupts(caller: Caller, query: Annotated[OneThread, Query()]) -> Answer:
    """What waits for an answer in one of your conversations (`interrupt()` of a tool, or a write
    that an operator approves).

    `interrupts`: id; `answered_by`, "person" for what is yours to answer, else "operator"; `kind`
    of the answer, "decisions" to langchain's `HITLRequest`, "response" or "responses" to one or
    several of its `HumanInterrupt`, else "value"; `requests`, the actions that it is about: name,
    args (JSON), description, and the types of answers that it `may` have; `text` of any other
    question, and the `choices` that its schema gives. Texts are cut to what a page shows; an edit
    is not among `may` where args were cut. Answer with a run: `command: {"resume": {"<id>":
    <answer>}}`. Operators ask about anybody's conversation. 404: it is no conversation of yours.
    """
    thread_id = str(query.thread_id)
    sees_all = (
        identity.is_operator(caller.http.user, caller.deployment.settings) and query.user_id is None
    )
    owner = None if sees_all else asdict(caller.actor)
    async with get_client() as client:
        found = await client.threads.search(
            ids=[thread_id], metadata=owner, limit=1, select=["thread_id"]
        )
    if not found:
        raise HTTPException(404, "There is no such conversation.")
    _, waiting = await interrupts.pending(thread_id)

    def shown() -> list[Answer]:
        return [interrupt_display.shown(interrupt) for interrupt in waiting]

    return {"interrupts": await platform.in_thread(shown)}


class Find(OneMemory):
    q: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = DEFAULT_FOUND


@router.get("/memory/find")
async def find(caller: Caller, query: Annotated[Find, Query()]) -> Answer:
    """Search what is remembered of you, by words, and by meaning where the store has an index, as
    the agent does with its tool.

    `found`, the best file first: path, text (the passage that matches best), and `lines`: those of
    the file's facts that have words of yours, the best first, each with its number (from 0) and
    text as `GET /memory/facts` has them.
    """
    found = await search_files(
        caller.store, caller.namespace, query.q, caller.deployment, query.limit
    )
    answer = list[Answer]()
    for file in found:
        lines = [{"line": number, "text": said(text)} for number, text in file.lines]
        answer.append({"path": file.path, "text": file.text, "lines": lines})
    return {"found": answer}


class Switches(Sent):
    paused: bool = False
    review: bool = False
    review_agent: bool = False


@router.get("/memory/controls")
async def read_controls(caller: Caller, query: AboutQuery) -> Answer:
    """Whether remembering is paused, and whether changes are proposed to you first: `paused` and
    `review`.

    `review_agent` is there where it is on.
    """
    caller.check_not_shared()
    return (await controls.controls(caller.store, caller.actor, caller.deployment)).told()


@router.put("/memory/controls")
async def write_controls(caller: Caller, query: AboutQuery, body: Switches) -> Answer:
    """Pause or resume remembering; turn the review of changes on or off.

    Paused: nothing new is remembered, at once, and what is said meanwhile is never consolidated;
    what you change yourself counts. With `review` changes of consolidation become proposals, with
    `review_agent` what the agent would write during a conversation. A field that is left out stays
    as it is.
    """
    caller.check_own()
    caller.check_not_shared()
    switched = body.model_dump(exclude_unset=True)
    before = await controls.controls(caller.store, caller.actor, caller.deployment)
    if not await controls.set_controls(caller.store, caller.actor, switched, caller.began):
        raise HTTPException(409, _FORGOTTEN)
    return replace(before, **switched).told()  # nothing that may fail comes after the change
