"""What consolidation adds to a person's own view: its runs, its proposals, and for operators what
is due over all people.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from uuid import uuid4

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError, ConflictError, NotFoundError
from pydantic import Field, model_validator
from starlette.exceptions import HTTPException

from lasting_memory import consolidation, journal, platform
from lasting_memory.auth.share import share_of
from lasting_memory.controls import PAUSED, controls, may_set
from lasting_memory.deployment import DEFAULT_CONSOLIDATION
from lasting_memory.http import requests
from lasting_memory.http.requests import (
    AboutQuery,
    Answer,
    Caller,
    MemoryQuery,
    NoBody,
    PersonRequest,
    Sent,
)
from lasting_memory.people import identity
from lasting_memory.settings import CONSOLIDATION_GRAPH


def _is_on(request: Request) -> None:
    if request.app.state.deployment.consolidation is None:
        raise HTTPException(
            404, "There is no consolidation here: consolidation is None in deployment.py."
        )


router = APIRouter(tags=["Memory"], dependencies=[Depends(_is_on)])
# Why an entry of a text that was brought is not proposed, in words for people.
_BECAUSE = {
    "known": "memory has it already",
    "taken_back": "you took it back",
    "twice": "it stands there more than once",
    "too_long": "it is too long for a fact",
    "too_many": "the text has more than can be read at once",
    "credential": "it holds a password, a key or a card's number",
    "refused": "a rule of this service does not let it be kept",
    "not_taken": "there was nothing to keep in it",
    "failed": "it could not be read",
    "not_read": "reading had stopped before it",
}
# Lines told with a reason; parts that fail one after another, after which the others are not read;
# and refusals that last.
_LINES_TOLD, _MOST_FAILURES, _LASTING = 5, 3, frozenset({403, 409, 429})
# What is compared for one answer with proposals, as `journal.work` counts it: about a second.
_MOST_WORK = 1_500_000
# This process's requests that wait for such a run to end: what the run finds taken, they wait for
# here.
_rehearsals = consolidation.Places()
_readings = consolidation.Places()
# Parts of texts that are read; the event loop itself keeps no task alive.
_going = set[asyncio.Task[Answer]]()
logger = logging.getLogger(__name__)


class RunQuery(requests.OneMemory):
    dry_run: bool = False
    tidy: bool = False


class Text(Sent):
    text: Annotated[str, Field(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$", description="without NUL")]


class Line(Sent):
    line: Annotated[int, Field(ge=0, description="its number in `lines`")]
    text: Annotated[str, Field(pattern=r"^[^\r\n]*\S[^\r\n]*$", max_length=10_000)] | None = None


class Decision(Sent):
    accept: bool
    files: Annotated[list[str], Field(min_length=1)] | None = None
    lines: Annotated[dict[str, list[Line]], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _lines_are_accepted(self) -> Self:
        if self.lines and not self.accept:
            raise ValueError("lines are for accept: true; what they leave out is declined")
        for path, chosen in (self.lines or {}).items():
            if len({each.line for each in chosen}) < len(chosen):
                raise ValueError(f"{path[:80]} names a line twice; it can have one text")
            if self.files is not None and path not in self.files:
                raise ValueError(
                    f"lines has {path[:80]}, which files leaves out; name it in both, or leave files out"
                )
        return self


@router.post("/memory/consolidate", status_code=202)
async def consolidate(
    caller: Caller, query: Annotated[RunQuery, Query()], response: Response, body: NoBody = None
) -> Answer:
    """Consolidate your conversations now.

    Queues a run; GET /memory/consolidations tells when it is done. With dry_run=true it waits for a
    run that applies nothing, and answers (200) with what would change, or, where the model gave no
    answer, with `status` failed and the `reason`. One runs at a time: who had one longest ago comes
    first, and whoever waits for more than a minute or two reads in `reason` that another is at
    work. With tidy=true it is all of your memory that is put in order, also when nothing is new;
    what that would change is a proposal. 409: memory is paused or shared here, or you were
    forgotten meanwhile. 502: the dry run failed.
    """
    owner = await _owner(caller)
    trigger: Literal["tidy", "asked"] = "tidy" if query.tidy else "asked"
    if query.dry_run:
        response.status_code = 200
        with share_of(caller.actor, caller.deployment.limits).under_way("dry run"):
            async with _rehearsals.taken(caller.actor, 1, consolidation.TURN_SECONDS) as is_turn:
                if is_turn:
                    return await _waited(caller, owner, trigger, dry_run=True)
                notes = [consolidation.note("another_at_work")]
                return {
                    "dry_run": True,
                    "files": {},
                    "reason": consolidation.REHEARSING,
                    "notes": notes,
                }
    async with platform.acting_as_caller(caller.http), get_client() as client:
        await consolidation.start(owner, client, trigger, store=caller.store, began=caller.began)
    if await journal.is_forgotten(caller.store, caller.began):
        raise HTTPException(409, "You were forgotten meanwhile; nothing is queued.")
    return {"queued": True}


@router.post("/memory/bring", dependencies=[requests.in_turn("text")], response_model=None)
async def bring(
    caller: Caller, query: MemoryQuery, body: Text, accept: Annotated[str, Header()] = ""
) -> Answer | StreamingResponse:
    """Bring along what another assistant knows about you: its export, or what it answered, up to 20
    MB as JSON.

    Read are the `conversations.json` of ChatGPT and Claude, Gemini's activity (JSON, HTML), other
    JSON, JSON lines, Markdown and plain text. Waits for its turn as a dry run does, and for one run
    a batch of the text. Answers with the `proposal` of what would be added (`GET
    /memory/proposals`), or null; it takes the place of the undecided one of an earlier text.
    `found` facts and messages, of which so many are `proposed`; `left_out` has by reason the
    `count` and the first `lines`: known, taken_back, twice, too_long, too_many, credential,
    refused, not_taken, failed, not_read. `framing`: lines that say nothing about you. `parts`, and
    of them the `failed` (part, reason); `reason` says it all in a sentence. The text is not kept.

    With `Accept: application/x-ndjson` the answer is lines of JSON: before each part its number
    (`part`), `parts`, and `found`; at last the answer, or `status` and `detail` of a refusal. A
    client that goes away ends it after the present part.

    409: memory is paused, or shared here. 422: the text cannot be read. 429: another text of yours
    is being read. 502: the run failed.
    """
    caller.check_own()
    owner = await _owner(caller)
    try:
        async with platform.lock_of(
            "reading a text"
        ):  # one at a time in this process: its JSON takes much memory
            text = await platform.in_thread(consolidation.read, body.text)
    except consolidation.UnreadableError as error:
        raise HTTPException(422, str(error)) from None
    steps = _brought(caller, owner, text)
    if "application/x-ndjson" in accept:
        return StreamingResponse(_json_lines(steps), media_type="application/x-ndjson")
    return [step async for step in steps][-1]


async def _json_lines(steps: AsyncIterator[Answer]) -> AsyncIterator[bytes]:
    """Each as a line of JSON, and a refusal as the last one."""
    try:
        async for step in steps:
            yield json.dumps(step).encode() + b"\n"
    except HTTPException as error:
        yield json.dumps({"status": error.status_code, "detail": error.detail}).encode() + b"\n"


async def _brought(
    caller: PersonRequest, owner: consolidation.Owner, text: consolidation.Brought
) -> AsyncIterator[Answer]:
    """Before each part of a text how far it is read; at last the answer. Raises `HTTPException`
    where its only part failed.
    """
    rules = caller.deployment.consolidation or DEFAULT_CONSOLIDATION
    size = rules.batch_tokens * consolidation.CHARS_PER_TOKEN
    parts = await platform.in_thread(consolidation.parts, text.entries, size)
    text_id, began = uuid4().hex, datetime.now(UTC).isoformat()
    summary, failures, in_a_row = _Summary(text), list[Answer](), 0
    for number, entries in enumerate(parts, 1):
        yield {"part": number, "parts": len(parts), "found": text.found}
        if in_a_row >= _MOST_FAILURES:
            summary.leave_out("not_read", entries)
            continue
        part = consolidation.Part(text_id, began, entries)
        # A task of its own: where the client goes away it ends as ever, and no thread is left with
        # a part of the text.
        reading = asyncio.create_task(_read_part(caller, owner, part))
        _going.add(reading)
        reading.add_done_callback(_ended)
        try:
            report = await asyncio.shield(reading)
        except HTTPException as error:
            if len(parts) == 1:
                raise
            report = {"reason": str(error.detail)}
            in_a_row = _MOST_FAILURES if error.status_code in _LASTING else in_a_row
        if summary.add(report, entries):
            in_a_row = 0
        else:
            in_a_row += 1
            failures.append({"part": number, "reason": report["reason"]})
    proposal = None
    for known in await caller.memory.proposals():
        if known.changes and known.id.startswith(consolidation.proposal_id(text_id)):
            proposal = await platform.in_thread(known.shown)
    yield {"proposal": proposal, **summary.told(), "parts": len(parts), "failed": failures}


def _ended(reading: asyncio.Task[Answer]) -> None:
    _going.discard(reading)
    if (
        not reading.cancelled() and reading.exception() is not None
    ):  # whoever waits for it is told as well
        logger.debug("A part of a text was not read.", exc_info=reading.exception())


async def _read_part(
    caller: PersonRequest, owner: consolidation.Owner, part: consolidation.Part
) -> Answer:
    """The report of the run that reads a part of a text, once it is this person's turn."""
    rules = caller.deployment.consolidation or DEFAULT_CONSOLIDATION
    async with _readings.taken(
        caller.actor, rules.at_once + 1, consolidation.TURN_SECONDS
    ) as is_turn:
        if not is_turn:
            return {
                "reason": consolidation.READING,
                "notes": [consolidation.note("another_at_work")],
            }
        return await _waited(caller, owner, "bring", await platform.in_thread(part.dumped))


class _Summary:
    """What became of a text: how much was found, proposed, and left out for which reason."""

    def __init__(self, text: consolidation.Brought) -> None:
        self._text, self._proposed, self._reasons = text, 0, list[str]()
        self._invented, self._left_out = list[str](), consolidation.counted(text.left_out)
        self._notes = list[Answer]()

    def add(self, report: Answer, entries: Sequence[consolidation.Entry]) -> bool:
        """Add the report of a part. Returns whether it was read."""
        self._notes += [note for note in report.get("notes", []) if note not in self._notes]
        if report.get("status") not in {"done", "proposed"}:
            self.leave_out("failed", entries)
            self._note(report["reason"])
            return False
        self._note(report["reason"])
        self._proposed += report["proposed"]
        self._invented += report["invented"]
        for reason, told in report["left_out"].items():
            self._add(reason, told)
        return True

    def _note(self, reason: str) -> None:
        if reason and reason not in self._reasons:
            self._reasons.append(reason)

    def leave_out(self, reason: str, entries: Sequence[consolidation.Entry]) -> None:
        self._add(
            reason, consolidation.counted({reason: [entry.text for entry in entries]})[reason]
        )

    def _add(self, reason: str, told: Answer) -> None:
        known = self._left_out.setdefault(reason, {"count": 0, "lines": []})
        known["count"] += told["count"]
        known["lines"] = (known["lines"] + told["lines"])[:_LINES_TOLD]

    def told(self) -> Answer:
        """As the answer tells it; `reason` in a sentence."""
        count = sum(told["count"] for told in self._left_out.values())
        why = "; ".join(
            f"{_BECAUSE[reason]} ({told['count']:,})" for reason, told in self._left_out.items()
        )
        reason = f"{self._text.found:,} found, {self._proposed:,} proposed, {count:,} left out{': ' if why else ''}{why}."
        if self._invented:
            reason += f" Not added, because the text does not say it: {'; '.join(self._invented[:_LINES_TOLD])}"
        framing = self._text.framing
        return {
            "reason": " ".join([reason, *self._reasons]), "notes": self._notes,
            "found": self._text.found, "proposed": self._proposed, "left_out": self._left_out,
            "invented": self._invented[:_LINES_TOLD],
            "framing": consolidation.counted({"framing": framing}).get("framing", {"count": 0, "lines": []}),
        }  # fmt: skip


async def _owner(caller: PersonRequest) -> consolidation.Owner:
    """Whose memory a run is about. Raises where there is none of their own, or it is paused."""
    caller.check_not_shared()
    if (await controls(caller.store, caller.actor, caller.deployment)).paused:
        raise HTTPException(409, f"{PAUSED}; resume it first (PUT /memory/controls).")
    return consolidation.Owner(
        caller.actor, caller.assistant if caller.deployment.memory.per_assistant else None
    )


async def _waited(
    caller: PersonRequest,
    owner: consolidation.Owner,
    trigger: str,
    text: str = "",
    *,
    dry_run: bool = False,
) -> Answer:
    """The report of a run whose thread is deleted at its end; `reason` says so if there was nothing
    to do.
    """
    context: Any = {**owner.context(), "dry_run": dry_run}
    given: Any = {"messages": [{"role": "user", "content": text}] if text else []}
    name, made = "dry run" if dry_run else "run", list[Any]()
    try:
        async with platform.acting_as_caller(caller.http), get_client() as client:
            with may_set("trigger"):
                values: Any = await client.runs.wait(
                    None, CONSOLIDATION_GRAPH, input=given, context=context, metadata={"trigger": trigger},
                    on_disconnect="cancel", raise_error=False, on_run_created=made.append,
                )  # fmt: skip
            last = (values.get("messages") or [{}])[-1] if isinstance(values, dict) else {}
            cut = last.get("type") != "ai" or last.get(
                "tool_calls"
            )  # as when it is cancelled: then its thread stays
            for thread in (
                await client.threads.search(ids=[run["thread_id"] for run in made])
                if cut and made
                else ()
            ):
                with suppress(ConflictError, NotFoundError):
                    await client.threads.delete(thread["thread_id"])
    except APIStatusError as error:
        raise HTTPException(
            error.response.status_code, f"The {name} could not begin: {error.message}"
        ) from None
    if await journal.is_forgotten(caller.store, caller.began):
        raise HTTPException(409, "You were forgotten meanwhile; nothing of it is kept.")
    if cut:
        raise HTTPException(502, f"The {name} failed; see the server's log.")
    said = str(last.get("content"))
    try:
        report: Answer = json.loads(said)
    except ValueError:
        notes = [
            consolidation.note(kind)
            for text, kind in consolidation.NOTHING_TO_DO.items()
            if text == said
        ]
        return {"dry_run": dry_run, "files": {}, "reason": said, "notes": notes}
    return report


@router.get("/memory/consolidations")
async def consolidations(caller: Caller, query: AboutQuery) -> Answer:
    """What consolidation did with your conversations.

    `consolidations`, newest first: what it read and spent, its `status` (done, proposed, undone,
    failed), `files` (a diff each), and why: `reason` as the model was told, `notes` (a `kind`, and
    the `texts` it is about) for people. What was proposed is accepted or declined once you have
    decided, and replaced where a newer proposal took its place.
    """
    return {"consolidations": await consolidation.records(caller.store, caller.actor)}


@router.get("/memory/proposals", dependencies=[requests.IN_TURN])
async def list_proposals(caller: Caller, query: MemoryQuery) -> Answer:
    """What consolidation, or your agent, would change, and waits for your decision.

    `proposals`, oldest first: id, at, `kind` (conversations, tidy, bring or agent), `files` (a diff
    each, by path), `threads` (ids of the conversations they come from), and `lines`: by path the
    changed lines with line (their number), sign ("-" or "+"), text, and the reason why one goes. Of
    JSON there are none. `more`: how many newer ones wait, too, and are shown once these are
    decided: comparing all at once would take long. `decided`: what became of what the agent would
    have written, with id, at, `threads` and `files` ("accepted" or "declined", by path).
    """
    proposals, more = await caller.memory.shown_proposals(_MOST_WORK)
    decided = [
        each.outcome()
        for each in await caller.memory.proposals()
        if each.kind == "agent" and each.decided
    ]
    return {"proposals": proposals, "more": more, "decided": decided}


@router.post("/memory/proposals/{proposal_id}", dependencies=[requests.IN_TURN])
async def decide_proposal(
    caller: Caller, proposal_id: str, query: MemoryQuery, body: Decision
) -> Answer:
    """Accept or decline a proposal, or some of its files, or lines of these.

    `lines`, by path, are those to accept (`{"line": 0}`), also with a text of yours (`{"line": 0,
    "text": "- likes leek"}`); the file's other lines are declined. With `files` or `lines` only the
    files that they name are decided, and the others go on waiting; where both are there, `lines` is
    about some of `files`, and the rest of `files` are decided whole. What is accepted is merged
    with what memory says now; what is declined is not proposed again, unless you say it again.
    `refused`: by path, why something could not be applied; that still waits; `notes` say why in a
    word each, where there is one. 409: it was decided already.
    """
    caller.check_own()
    lines = {
        path: {each.line: each.text for each in chosen}
        for path, chosen in (body.lines or {}).items()
    }
    refused = await caller.memory.decide(
        proposal_id, accept=body.accept, paths=body.files, lines=lines
    )
    told: Answer = {
        "id": proposal_id,
        "accepted": body.accept,
        "refused": {path: str(why) for path, why in refused.items()},
    }
    kinds = [getattr(error, "kind", "") for error in refused.values()]
    if kinds and all(kinds):
        told["notes"] = [consolidation.note(kind) for kind in kinds]
    return told


@router.get("/memory/operations", tags=["Operations"])
async def operations(caller: Caller, query: AboutQuery) -> Answer:
    """What is due for consolidation, over all people (operators): `due` (people, conversations,
    oldest).
    """
    if not identity.is_operator(caller.http.user, caller.deployment.settings):
        raise HTTPException(
            403, "Operations are for operators; GET /memory/consolidations is about yourself."
        )
    if caller.http.query_params:
        raise HTTPException(422, "Operations are about everybody; leave user_id and org_id out.")
    async with get_client() as client:
        return {"due": await consolidation.find_backlog(caller.deployment, client, caller.store)}
