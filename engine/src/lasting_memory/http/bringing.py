"""What another assistant knows about a person, which they bring along as a text.

A text has entries, such as lines; a part of it is what one run reads. A report is what a run answers
about its part. What is not proposed of a text is left out, for a reason (`_BECAUSE`).
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

from fastapi import Header
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from lasting_memory import consolidation, platform
from lasting_memory.consolidation import Trigger
from lasting_memory.deployment import DEFAULT_CONSOLIDATION
from lasting_memory.http import requests
from lasting_memory.http.consolidation_runs import IS_ON, nothing_to_do, owner_of, run_and_wait
from lasting_memory.http.models.base import Note
from lasting_memory.http.models.bringing import (
    Brought,
    FailedPart,
    LateRefusal,
    LeftOut,
    PartBegins,
)
from lasting_memory.http.models.consolidation import NothingToDo
from lasting_memory.http.models.proposals import Proposal
from lasting_memory.http.requests import Caller, MemoryQuery, PersonRequest, Sent, json_response

router = requests.memory_router(IS_ON)
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
# Lines told with a reason.
_LINES_TOLD = 5
# After so many parts that fail one after another, the others are not read.
_MOST_FAILURES = 3
# Refusals after which a further part would be refused as well.
_LASTING = frozenset({403, 409, 429})
_JSON_LINES = "application/x-ndjson"
# Of this process: each person waits here for their turn to have a text read.
_readings = consolidation.Places()
logger = logging.getLogger(__name__)


class _Report(BaseModel):
    """What a run answers about its part of a text, as far as it is told."""

    reason: str
    status: str = ""  # "" of a run that did not begin, or failed
    notes: list[Note] = []
    proposed: int = 0
    left_out: dict[str, LeftOut] = {}
    invented: list[str] = []


# Parts of texts that are read; the event loop itself keeps no task alive.
_tasks = set[asyncio.Task[_Report]]()


class TextToBring(Sent):
    text: Annotated[str, Field(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$", description="without NUL")]


# A line of the answer is one of these; FastAPI describes the last, which is the answer itself.
_LINE = {
    "anyOf": [
        PartBegins.model_json_schema(),
        LateRefusal.model_json_schema(),
        {"$ref": "#/components/schemas/Brought"},
    ]
}


@router.post(
    "/memory/bring",
    dependencies=[requests.in_turn("text")],
    response_model=Brought,
    responses={200: {"content": {_JSON_LINES: {"schema": _LINE}}}},
)
async def bring(
    caller: Caller, query: MemoryQuery, body: TextToBring, accept: Annotated[str, Header()] = ""
) -> Response:
    """Bring along what another assistant knows about you, up to 20 MB as JSON.

    It may be the assistant's export, or what it answered. It reads the `conversations.json` of
    ChatGPT and Claude, Gemini's activity (JSON, HTML), other JSON, JSON lines, Markdown and plain
    text. It waits until a place is free, then a run reads each part of the text. What would be
    added is a proposal (`GET /memory/proposals`); it takes the place of the undecided one of an
    earlier text. The text is not kept.

    With `Accept: application/x-ndjson` the answer is lines of JSON: one before each part of the
    text, and at last the answer, or `status` and `detail` of a refusal. If the
    client disconnects, the present part is read to its end, and no other.

    409: memory is paused, or shared here. 422: the text cannot be read. 429: another text of yours
    is being read. 502: the run failed.
    """
    caller.check_own()
    owner = await owner_of(caller)
    try:
        # One at a time in this process: its JSON takes much memory.
        async with platform.lock_of("reading a text"):
            text = await platform.in_thread(consolidation.read, body.text)
    except consolidation.UnreadableError as error:
        raise HTTPException(422, str(error)) from None
    steps = _read_text(caller, owner, text)
    if _JSON_LINES in accept:
        return StreamingResponse(_json_lines(steps), media_type=_JSON_LINES)
    async for step in steps:
        last_step = step
    return json_response(last_step)


async def _json_lines(steps: AsyncIterator[PartBegins | Brought]) -> AsyncIterator[bytes]:
    """Each step as a line of JSON, and a refusal as the last one."""
    try:
        async for step in steps:
            yield _json_line(step.model_dump())
    except HTTPException as error:
        refusal = LateRefusal(status=error.status_code, detail=error.detail)
        yield _json_line(refusal.model_dump())


def _json_line(value: Mapping[str, object]) -> bytes:
    """A value as a line of JSON."""
    line = json.dumps(value)
    return f"{line}\n".encode()


async def _read_text(
    caller: PersonRequest, owner: consolidation.Owner, text: consolidation.Brought
) -> AsyncIterator[PartBegins | Brought]:
    """Yields before each part of a text how far it is read, and at last the answer.

    Raises `HTTPException` where its only part failed.
    """
    rules = caller.deployment.consolidation or DEFAULT_CONSOLIDATION
    size = rules.batch_tokens * consolidation.CHARS_PER_TOKEN
    parts = await platform.in_thread(consolidation.parts, text.entries, size)
    text_id = uuid4().hex
    began = datetime.now(UTC).isoformat()
    summary = _Summary(text)
    failures = list[FailedPart]()
    failures_in_a_row = 0
    for number, entries in enumerate(parts, 1):
        yield PartBegins(part=number, parts=len(parts), found=text.found)
        if failures_in_a_row >= _MOST_FAILURES:
            summary.leave_out("not_read", entries)
            continue
        part = consolidation.Part(text_id, began, entries)
        try:
            report = await _in_own_task(caller, owner, part)
        except HTTPException as error:
            if len(parts) == 1:
                raise
            report = _Report(reason=str(error.detail))
            if error.status_code in _LASTING:
                failures_in_a_row = _MOST_FAILURES
        was_read = summary.add(report, entries)
        if was_read:
            failures_in_a_row = 0
        else:
            failures_in_a_row += 1
            failure = FailedPart(part=number, reason=report.reason)
            failures.append(failure)
    proposal = await _proposal_of(caller, text_id)
    yield summary.answer(proposal, len(parts), failures)


async def _proposal_of(caller: PersonRequest, text_id: str) -> Proposal | None:
    """What a text would add; None if nothing."""
    prefix = consolidation.proposal_id(text_id)
    shown_proposal = None
    for proposal in await caller.memory.proposals():
        if proposal.changes and proposal.id.startswith(prefix):
            shown_proposal = await platform.in_thread(proposal.shown)
    if not shown_proposal:
        return None
    return Proposal.model_validate(shown_proposal)


async def _in_own_task(
    caller: PersonRequest, owner: consolidation.Owner, part: consolidation.Part
) -> _Report:
    """The report of the run that reads a part, in a task that goes on even if the client goes away.

    So no thread is left with a part of the text. Raises `HTTPException` as `run_and_wait`.
    """
    task = asyncio.create_task(_read_part(caller, owner, part))
    _tasks.add(task)
    task.add_done_callback(_forget_task)
    return await asyncio.shield(task)


def _forget_task(task: asyncio.Task[_Report]) -> None:
    """Let go of a task that has ended, and log its error."""
    _tasks.discard(task)
    if task.cancelled():
        return
    error = task.exception()
    if error is not None:  # whoever waits for the task gets it, too
        logger.debug("A part of a text was not read.", exc_info=error)


async def _read_part(
    caller: PersonRequest, owner: consolidation.Owner, part: consolidation.Part
) -> _Report:
    """The report of the run that reads a part of a text, once it is this person's turn."""
    rules = caller.deployment.consolidation or DEFAULT_CONSOLIDATION
    at_once = rules.at_once + 1
    seconds = consolidation.TURN_SECONDS
    async with _readings.taken(caller.actor, at_once, seconds) as is_turn:
        if is_turn:
            text = await platform.in_thread(part.dumped)
            answer = await run_and_wait(caller, owner, Trigger.BRING, text)
        else:
            answer = nothing_to_do(consolidation.READING, dry_run=False)
    if isinstance(answer, NothingToDo):
        return _Report(reason=answer.reason, notes=answer.notes)
    return _Report.model_validate(answer)


def _counted(texts: Mapping[str, Sequence[str]]) -> dict[str, LeftOut]:
    """What is left out, by reason, as a person is told of it. `texts` are by reason."""
    counts = dict[str, LeftOut]()
    for reason, count in consolidation.counted(texts).items():
        counts[reason] = LeftOut.model_validate(count)
    return counts


class _Summary:
    """What became of a text: how much was found, proposed, and left out for which reason."""

    def __init__(self, text: consolidation.Brought) -> None:
        self._text = text
        self._proposed = 0
        self._reasons = list[str]()
        self._invented = list[str]()
        self._left_out = _counted(text.left_out)
        self._notes = list[Note]()

    def add(self, report: _Report, entries: Sequence[consolidation.Entry]) -> bool:
        """Add the report of a part. Returns whether it was read."""
        for note in report.notes:
            if note not in self._notes:
                self._notes.append(note)
        reason = report.reason
        if reason and reason not in self._reasons:
            self._reasons.append(reason)
        if report.status not in {"done", "proposed"}:
            self.leave_out("failed", entries)
            return False
        self._proposed += report.proposed
        self._invented += report.invented
        for left_out_because, left_out in report.left_out.items():
            self._add_left_out(left_out_because, left_out)
        return True

    def leave_out(self, reason: str, entries: Sequence[consolidation.Entry]) -> None:
        """Count entries as left out for this reason."""
        texts = [entry.text for entry in entries]
        counts = _counted({reason: texts})
        self._add_left_out(reason, counts[reason])

    def _add_left_out(self, reason: str, left_out: LeftOut) -> None:
        """Add to what is left out for this reason: how many entries, and the first of their lines."""
        earlier = self._left_out.get(reason, LeftOut(count=0, lines=[]))
        count = earlier.count + left_out.count
        lines = [*earlier.lines, *left_out.lines]
        self._left_out[reason] = LeftOut(count=count, lines=lines[:_LINES_TOLD])

    def answer(self, proposal: Proposal | None, parts: int, failures: list[FailedPart]) -> Brought:
        """The answer about the whole text, which has so many parts."""
        framing = _counted({"framing": self._text.framing})
        sentences = [self._sentence(), *self._reasons]
        return Brought(
            proposal=proposal,
            reason=" ".join(sentences),
            notes=self._notes,
            found=self._text.found,
            proposed=self._proposed,
            left_out=self._left_out,
            invented=self._invented[:_LINES_TOLD],
            framing=framing.get("framing", LeftOut(count=0, lines=[])),
            parts=parts,
            failed=failures,
        )

    def _sentence(self) -> str:
        """How much was found, proposed and left out, and why."""
        total = 0
        reasons = list[str]()
        for reason, left_out in self._left_out.items():
            total += left_out.count
            reasons.append(f"{_BECAUSE[reason]} ({left_out.count:,})")
        sentence = f"{self._text.found:,} found, {self._proposed:,} proposed, {total:,} left out"
        if reasons:
            listed_reasons = "; ".join(reasons)
            sentence += f": {listed_reasons}"
        sentence += "."
        if self._invented:
            invented = "; ".join(self._invented[:_LINES_TOLD])
            sentence += f" Not added, because the text does not say it: {invented}"
        return sentence
