"""Graph 2 and its middleware: one run is one person, one batch of what is new in their conversations, one commit.

The run ignores a client's messages, and shows the model a batch as the answer to a tool call. A draft that is refused is tried
once more; refused again it has changed nothing, and its conversations stay due. If more is due, the next run is
queued. A dry run ends before the commit. An operator's run that names nobody, such as the cron's, starts everyone's who is due.

A batch may also be all of memory, to be tidied, or a text that the person brought. Its changes are always proposed, and say
nothing that stands neither in it nor in memory.
"""

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from deepagents import CompiledSubAgent, create_deep_agent
from deepagents.backends.protocol import FileData
from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langchain_core.runnables import RunnableLambda
from langgraph.config import get_config, get_store
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph_sdk import get_client
from pydantic import ValidationError

from lasting_memory import journal, platform
from lasting_memory.agent.answers import CUT, NO_ANSWER, SILENT, says_something
from lasting_memory.agent.models import build_model, whole_answers
from lasting_memory.agent.prompt import PromptBlocks, memory_files, sections
from lasting_memory.agent.tools import append_memory_tool
from lasting_memory.agent.usage import Bounds
from lasting_memory.consolidation import drafts, guard, planning
from lasting_memory.consolidation.brought import Entry, Part, proposal_id, shown
from lasting_memory.consolidation.drafts import Draft, Reading, note
from lasting_memory.consolidation.kinds import within
from lasting_memory.consolidation.positions import Position, positions_of
from lasting_memory.controls import PAUSED, controls, delete_temporary, in_temporary_conversation
from lasting_memory.credentials import find_credential_in_json
from lasting_memory.deployment import KINDS, Deployment, Kind
from lasting_memory.files.backends import build_backend, build_permissions, starting_files
from lasting_memory.files.proposals import MAX_PROPOSALS, Changed, Memory, Proposal, changes, diffs, texts
from lasting_memory.files.seeded import load_starting_memory
from lasting_memory.people import identity, namespaces
from lasting_memory.people.identity import Context
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.recall import catch_up, owned_by, threads_by_id
from lasting_memory.settings import SettingsError
from lasting_memory.validation import RefusedWrite, before_write

logger = logging.getLogger(__name__)

# Every call pays for the description of every tool. `ls` and `grep` find as much as `glob`.
_NOT_OFFERED = {"task", "glob"}
# In place of deepagents' own subagent, whose calls would be neither counted nor bounded.
_REFUSED = {"messages": [AIMessage("Error: consolidation is not delegated; do it yourself.")]}
_NOBODY = CompiledSubAgent(name="general-purpose", description="Does nothing.", runnable=RunnableLambda(lambda _: _REFUSED))
# Of the file for which it is checked whether what is brought may be written.
_BROUGHT = "/memories/topics/brought.md"
UNDECIDED = "The person has too many undecided proposals; new conversations wait until they decide."
SHARED = "Nothing is consolidated under MEMORY_SCOPE=assistant: private conversations stay private."
FORGOTTEN = "The person was forgotten; nothing is kept."
GONE = "One of its conversations was deleted meanwhile; the others stay due."
ERASED = "A fact was deleted for good meanwhile; what is new stays due."


RETURNS = (
    "The person took this back, and has not said it again since: {}. What was said earlier does not count, however it is "
    "worded; leave it out."
)
BEYOND = "Consolidation may only {} lines and fields here. Leave this out: {}."
NOT_DONE = "Not done, because consolidation may only {} here: {}."  # as the person reads it
INVENTED = "This says what stands nowhere in what you were given: {}. Leave it out, or use its words."


# What a person may be answered when they ask for a run, with the kind of its note.
NOTHING_NEW = "Nothing is new since the last consolidation."
NOTHING_TO_TIDY = "Nothing is remembered that could be tidied."
INTERRUPTED = "This was interrupted; send the text again."
NOTHING_TO_DO = {
    UNDECIDED: "undecided", FORGOTTEN: "forgotten", NOTHING_NEW: "nothing_new", NOTHING_TO_TIDY: "nothing_remembered",
    INTERRUPTED: "interrupted", drafts.REHEARSING: "another_at_work", drafts.READING: "another_at_work",
}  # fmt: skip


class NothingToDoError(Exception):
    """The run has no batch. The message is its answer."""


class ConsolidationRun(AgentMiddleware[Any, Any, Any]):
    """Gives the model its batch, and commits or refuses its changes, in the draft that this graph's backend writes to."""

    trace_policy = SPANS_WITHOUT_PAYLOAD

    def __init__(self, deployment: Deployment) -> None:
        super().__init__()
        if deployment.consolidation is None:
            raise SettingsError("The deployment has consolidation=None; leave consolidation_agent out of langgraph.json.")
        self._deployment, self._rules = deployment, deployment.consolidation
        self.tools = [drafts.search_recent_conversations, drafts.forget_lines]

    # --- Read

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin the batch, or end."""
        if not identity.on_server(runtime) or drafts.current_draft():
            return None  # a script has no conversations on a server, and brings its own messages
        try:
            return _only(state, *await self._begin(runtime, state["messages"]))
        except NothingToDoError as answer:
            return {**_only(state, AIMessage(str(answer))), "jump_to": "end"}

    async def _begin(self, runtime: Runtime[Any], messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Read the batch of the run, and return the messages that the model begins with."""
        dry = identity.run_context(runtime).dry_run
        if identity.names_nobody(self._deployment.settings, runtime):
            raise NothingToDoError(await self._for_everybody(dry=dry))
        if self._deployment.memory.is_shared:
            raise NothingToDoError(SHARED)
        planned: Any = (get_config().get("metadata") or {}).get("trigger")  # auth.py lets only this server set it
        kind = planned if planned in {"tidy", "bring"} else "conversations"
        report = drafts.Record(identity.current_run_id() or "", drafts.now(), dry_run=dry, kind=kind)
        owner = planning.current_owner(self._deployment, runtime)
        assistant = owner.assistant_id or self._deployment.default_assistant
        files = self._deployment.memory.namespace(owner.actor, assistant)
        memory = Memory(get_store(), owner.actor, files, self._deployment, journal.began(owner.actor))
        draft = Draft(owner, report, memory)
        await self._take_slot(draft, planned)
        known = [each for each in await memory.proposals() if each.changes]
        if kind == "bring":
            part = await _part_of(messages)
            await starting_files(memory.store, memory.actor, assistant, self._deployment, write=True)  # they may have none yet
            draft.reading = await _begin_reading(memory, part, known)
            earlier = draft.reading.earlier
            draft.base = await _with_proposals(memory, draft.reading.base, [earlier] if earlier else [])
        else:
            _check_room(known)
            draft.base = await _with_proposals(memory, await memory.read(), known)
        taken = await _taken_back(draft)
        talk = await self._talk(draft, taken)
        await platform.in_thread(draft.show, talk, [*taken.values()])
        return await draft.begin()

    async def _talk(self, draft: Draft, taken: Mapping[guard.Key, guard.Dated]) -> str:
        """What the model is to read. Raises `NothingToDoError` where there is nothing."""
        source = [(f"/memories{key}", text) for key, text in texts(draft.base).items()]
        if draft.reading:
            await platform.in_thread(_sort_out, draft, draft.reading, source, taken)
            if not draft.reading.entries:
                nothing = draft.report.ended("done", found=len(draft.reading.part.entries))
                raise NothingToDoError(json.dumps(draft.reading.told(nothing)))
            text = await platform.in_thread(shown, draft.reading.entries)
            draft.source = [*source, ("", text)]
            return f"# What the person brought\n\n{text}"
        if draft.report.kind == "tidy":
            if not guard.facts_of(source):
                raise NothingToDoError(NOTHING_TO_TIDY)
            draft.source = source
            own = [(path, text) for path, text in source if not path.startswith("/memories/skills/")]
            talk, _ = await platform.in_thread(sections, own, self._rules.batch_tokens * planning.CHARS_PER_TOKEN)
            return talk
        return await _read_conversations(draft, min((each.at for each in taken.values()), default=None))

    async def _take_slot(self, draft: Draft, planned: Any) -> None:
        """Raise `NothingToDoError` where the run may not read conversations now; it may have to wait for a slot."""
        memory, dry = draft.memory, draft.report.dry_run
        if await journal.is_forgotten(memory.store, memory.began):
            raise NothingToDoError(FORGOTTEN)
        if not dry and await journal.is_erased(memory.store, memory.began):  # it was planned before, and could write nothing
            await self._again(draft, planned, 0)
            raise NothingToDoError(f"{ERASED} Another run is planned.")
        if planned:  # an owner's thread is used for years
            await platform.drop_checkpoints()
        if in_temporary_conversation():
            raise NothingToDoError("Nothing is consolidated in a temporary conversation.")
        if (await controls(memory.store, memory.actor, self._deployment)).paused:
            raise NothingToDoError(f"{PAUSED}: nothing is consolidated.")
        asked = planned in {None, "asked", "bring"}
        if await drafts.take_slot(draft, asked=asked, seconds=drafts.TURN_SECONDS if asked or dry else 0):
            return
        if dry or planned == "bring":
            raise NothingToDoError(drafts.REHEARSING if dry else drafts.READING)
        least = 30 if planned in {"idle", "sweep"} else 3
        later = random.randint(least, 3 * least)  # noqa: S311  # so that they do not all come back at once
        await self._again(draft, planned, later)
        raise NothingToDoError(f"{self._rules.at_once} consolidations are at work; another run is planned.")

    async def _again(self, draft: Draft, planned: Any, seconds: int) -> None:
        """Plan another run in place of this one. Nobody waits for it: of a text that was brought there is none."""
        if planned == "bring":
            raise NothingToDoError(f"{ERASED} Send the text again.")
        memory = draft.memory
        await planning.start(
            draft.owner, get_client(), planned or "asked", seconds, inside=True, store=memory.store, began=memory.began
        )

    async def _for_everybody(self, *, dry: bool) -> str:
        """Start runs for all who are due, after deleting conversations whose time is over. Returns the run's answer."""
        if dry:
            return "A dry run is for one person: name them in its context (user_id, org_id)."
        await delete_temporary(get_client(), self._deployment.limits.temporary_hours)
        await planning.delete_old(self._deployment, get_client(), get_store())
        if self._deployment.memory.is_shared:
            return SHARED
        swept = await planning.sweep_counted(self._deployment, get_client(), get_store())
        counts = {"people": swept["started"], "due": swept["due"], "planned": swept["planned"]}
        logger.info("consolidation %s", json.dumps({"status": "swept", "run_id": identity.current_run_id(), **counts}))
        others = f"{swept['due']} were due, for {swept['planned']} of whom a run was planned already."
        return f"Consolidation was started for {swept['started']} people. {others}"

    # --- Change

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Call the model, and count the call."""
        request = request.override(tools=[tool for tool in request.tools if getattr(tool, "name", None) not in _NOT_OFFERED])
        draft = drafts.current_draft()
        if draft is None and not identity.on_server(request.runtime):
            return await handler(request)
        if draft:
            draft.steps += 1
        if draft is None or draft.steps > self._rules.max_steps:
            return ModelResponse([AIMessage("")])  # `aafter_agent` begins again, or refuses the batch
        draft.report.model_calls += 1
        try:
            response = await handler(request)
        except NO_ANSWER as error:
            draft.failure = str(error)
            return ModelResponse([AIMessage("")])  # the run ends, and `aafter_agent` leaves the batch as it was
        for message in response.result:
            usage = getattr(message, "usage_metadata", None) or {}
            draft.report.input_tokens += usage.get("input_tokens", 0)
            draft.report.output_tokens += usage.get("output_tokens", 0)
        return response

    # --- Check and commit

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Commit or refuse the batch, or have the model try once more."""
        draft = drafts.current_draft()
        if draft is None:  # the run has ended, or came from another process, where its draft is, and begins again
            return {"jump_to": "model"} if identity.on_server(runtime) and len(state["messages"]) > 1 else None
        store, actor, dry = draft.memory.store, draft.memory.actor, draft.report.dry_run
        if await journal.is_forgotten(store, draft.memory.began):
            return _only(state, AIMessage(FORGOTTEN))
        present = await controls(store, actor, self._deployment)
        stopped = f"{PAUSED}." if present.paused else ""
        changed, left_out, problem, why = await _judged(draft)
        if stopped:
            why = [note("paused")]
        elif draft.steps > self._rules.max_steps:
            stopped, why = f"It took more than {self._rules.max_steps} steps.", [note("too_long")]
        failure = _failure(draft, state["messages"][-1], changes_something=bool(changed or left_out or problem))
        if failure and not stopped:
            return await _end_failed(draft, state, failure)
        if (problem or left_out) and not stopped and not draft.refused:
            return {**_only(state, *await draft.begin(problem or left_out)), "jump_to": "model"}
        commit = _commit(draft, changed, stopped or problem, left_out, why, review=present.review or bool(draft.source))
        report = await asyncio.shield(commit)  # whoever cancels the run now cancels neither the commit nor the record
        if not dry and report.status in {"done", "proposed"}:
            try:
                await catch_up(
                    store, get_client().threads, actor, agents=self._deployment.agents, routes=self._deployment.routes
                )
            except Exception as error:  # whatever it is, memory is consolidated, and the next search does it
                logger.warning("Conversations were not indexed for recall: %r.", error, exc_info=True)
        if draft.more and not stopped and not dry:
            await planning.start(draft.owner, get_client(), inside=True, store=store, began=draft.memory.began)
        return _answer(state, draft, report, f"{report.conversations} conversations were consolidated.")


def _answer(state: Any, draft: Draft, report: drafts.Record, text: str) -> dict[str, Any]:
    """The run's last message: the report where a request waits for it, else the text."""
    if draft.reading:
        text = json.dumps(draft.reading.told(report))
    elif report.dry_run:
        text = json.dumps(asdict(report))
    return _only(state, AIMessage(text))


def _failure(draft: Draft, last: AnyMessage, *, changes_something: bool) -> str:
    """Why the model's last answer is none; "" if it ended as whole answers end, and said or changed something."""
    if draft.failure:
        return draft.failure
    cut = str(last.response_metadata.get(CUT, ""))
    if cut or changes_something or says_something(last):
        return cut
    return SILENT


async def _end_failed(draft: Draft, state: Any, failure: str) -> dict[str, Any]:
    """Keep the record of a batch to which the model gave no answer, and end the run. Nothing changes, and all stays due."""
    logger.warning("Consolidation %s failed: %s", draft.report.run_id, failure)
    counts = {"conversations": len(draft.shown), "messages": _count_messages(draft)}
    counts["found"] = len(draft.reading.part.entries) if draft.reading else 0
    failed = draft.report.ended("failed", failure, notes=[note("no_answer")], **counts)
    await asyncio.shield(_keep_failed(draft, failed))
    return _answer(state, draft, failed, f"Nothing was consolidated: {failure}")


async def _keep_failed(draft: Draft, failed: drafts.Record) -> None:
    positions = dict[str, Position]()
    ids = [item.conversation.thread_id for item in draft.shown]
    now = await positions_of(draft.memory.store, [(draft.memory.actor, thread_id) for thread_id in ids])
    for item, position in zip(draft.shown, now, strict=True):
        if position == item.position:  # another run of this person may have been faster
            positions[item.conversation.thread_id] = replace(position, failed=position.failed + 1)
    await draft.keep(failed, positions)


def _count_messages(draft: Draft) -> int:
    return sum(len(item.conversation.turns) for item in draft.shown)


async def _read_conversations(draft: Draft, taken_since: str | None) -> str:
    """The batch as text: what is new in the oldest conversations that fit, which are then the draft's."""
    client, rules = get_client(), draft.rules
    memory = draft.memory
    due = await planning.find_due(memory.deployment, client.threads, memory.store, draft.owner, memory.began, runs=client.runs)
    draft.shown = await platform.in_thread(planning.batch, due, rules.batch_tokens)
    if not draft.shown:
        raise NothingToDoError(NOTHING_NEW)
    draft.more = sum(not item.position.undone for item in due) > sum(item.whole for item in draft.shown)
    if taken_since:
        ids = [item.conversation.thread_id for item in draft.shown]
        owned = owned_by(draft.owner.actor, draft.memory.deployment.agents)
        draft.said = await guard.said_since(client, ids, owned, taken_since)
    return "\n\n".join([await platform.in_thread(item.transcript, rules) for item in draft.shown])


async def _judged(draft: Draft) -> tuple[list[Changed], str, str, list[drafts.Note]]:
    """The draft's changes without lines that may not be there, why these may not, why nothing may be changed, or "", and the
    reasons for people.
    """
    changed, rules = changes(draft.base, await replace(draft.memory, store=draft.copy).read()), draft.rules
    brought, unsaid, others = guard.Found(), guard.Found(), list[tuple[str, str]]()
    if changed and (taken := await _taken_back(draft)):  # also since the run began
        present = texts(await draft.memory.read())
        brought = await platform.in_thread(guard.returning, changed, present, taken, draft.said, rules)
    if draft.source:
        unsaid = await platform.in_thread(guard.invented, changed, draft.source, rules)
    if draft.reading:
        draft.reading.returning = {key: " ".join(key) for _, key in brought}
        draft.reading.invented = [*unsaid.values()]
    changed = await platform.in_thread(guard.without, changed, {*brought, *unsaid})
    changed, beyond = await platform.in_thread(within, changed, rules.may)
    left_out = [
        reason.format("; ".join(f"{path}: {line[:120]}" for (path, _), line in [*found.items()][:5]))
        for reason, found in ((RETURNS, brought), (INVENTED, unsaid))
        if found
    ]
    why = _reasons(brought, unsaid)
    if beyond:
        named = "; ".join(map(str, beyond[:5]))
        left_out.append(BEYOND.format(_listed(rules.may), named))
        why.append(note("not_allowed", *map(str, beyond)))
        if draft.reading:
            draft.reading.beyond = NOT_DONE.format(_listed(rules.may), named)
    if draft.source:  # each line that goes needs a reason; a text that was brought takes none away
        rules = replace(rules, removable_share=0)
        others = [(path, text) for path, text in draft.source if path and path not in {change.path for change in changed}]
    given_up = {} if draft.report.kind == "bring" else draft.given_up
    objection = await platform.in_thread(guard.objection, changed, given_up, rules, others)
    problem = objection.reason if objection else ""
    if objection:
        why = [note(objection.kind, *objection.lines)]
    try:
        await draft.memory.check(_of_all_parts(draft, changed), draft.author)
    except ValueError as error:
        if not problem:
            problem, why = str(error), [note(getattr(error, "kind", "") or "refused")]
    return changed, " ".join(left_out), problem, why


def _reasons(brought: guard.Found, unsaid: guard.Found) -> list[drafts.Note]:
    """Why lines are left out, for people."""
    notes = list[drafts.Note]()
    if brought:
        notes.append(note("taken_back", *(told.rpartition(" (at ")[0] for told in brought.values())))
    if unsaid:
        notes.append(note("not_given", *unsaid.values()))
    return notes


async def _record(draft: Draft, changed: list[Changed], problem: str, left_out: str, why: list[drafts.Note]) -> drafts.Record:
    """The record of a run that has ended well. `why` says for people what `problem` or `left_out` say for the model."""
    done = draft.report.ended(
        "done",
        f"Left out: {left_out}" if left_out else "",
        notes=why,
        conversations=len(draft.shown),
        messages=_count_messages(draft),
        files=await platform.in_thread(diffs, _of_all_parts(draft, changed)),
    )
    if draft.reading:
        done.reason, done.found = "", len(draft.reading.part.entries)  # nothing is kept of a text but what is proposed
        if not problem:
            done.proposed = await platform.in_thread(_count_proposed, draft, draft.reading, changed)
    return done


async def _commit(
    draft: Draft, changed: list[Changed], problem: str, left_out: str, why: list[drafts.Note], *, review: bool
) -> drafts.Record:
    """Apply the draft, propose it, or leave its conversations due. Of a batch with a deleted conversation, or that may have
    read a fact that was deleted for good, nothing is kept.
    """
    memory, report, proposal = draft.memory, draft.report, None
    if gone := await _why_gone(draft):
        return await _dropped(draft, gone)
    known = {item.conversation.thread_id: item.position for item in draft.shown}
    positions = {item.conversation.thread_id: item.advanced() for item in draft.shown}
    done = await _record(draft, changed, problem, left_out, why)
    now = await positions_of(memory.store, [(memory.actor, thread_id) for thread_id in known])
    if not problem and not report.dry_run and now != [*known.values()]:
        problem, why = "Another consolidation of this person was faster; its work stands.", [note("overtaken")]
    if problem:
        done = report.ended("undone", problem, notes=why, found=done.found)
        positions = {key: replace(at, undone=at.undone + 1) for key, at in known.items()}
    elif report.dry_run:
        pass
    elif changed and review:
        proposal = Proposal(
            f"{report.run_id}-{drafts.now()}", drafts.now(), memory.files[-1], draft.author, _of_all_parts(draft, changed),
            [*known], kind=report.kind, reasons=dict(draft.given_up),
        )  # fmt: skip
        done = await _proposed(draft, proposal, done)
    elif refused := await memory.apply(changed, draft.author):
        reason = "; ".join(f"{path}: {why}" for path, why in refused.items())
        shown = {path: text for path, text in done.files.items() if path not in refused}
        notes = [note(getattr(why, "kind", "") or "refused") for why in refused.values()]
        done = done.ended("undone", f"Not applied: {reason}", files=shown, notes=notes)
    if gone := await _why_gone(draft):  # as above, for what was deleted since
        if proposal:
            await memory.store.adelete(namespaces.proposals(memory.actor), proposal.id)
        for change in () if report.dry_run else changed:
            await journal.take_back(memory.store, memory.files, change.key, report.run_id)
        return await _dropped(draft, gone)
    await draft.keep(done, positions)
    return done


async def _proposed(draft: Draft, proposal: Proposal, done: drafts.Record) -> drafts.Record:
    """Propose a batch. Returns its record."""
    try:
        await _propose(draft, proposal)
    except RefusedWrite as error:  # a fact was deleted for good just now, or the person forgotten
        return done.ended("undone", str(error), proposed=0)
    done.status = "proposed"
    return done


# --- A text that the person brought


async def _part_of(messages: Sequence[AnyMessage]) -> Part:
    """The part of a text that is the run's input. Raises `NothingToDoError` where it is not there any more."""
    with suppress(ValidationError):  # a run that began before has left other messages
        if len(messages) == 1:
            return await platform.in_thread(Part.loaded, str(messages[0].text))
    raise NothingToDoError(INTERRUPTED)


async def _begin_reading(memory: Memory, part: Part, known: Sequence[Proposal]) -> Reading:
    """The reading of a part, beside the person's undecided proposals. Those of other texts count no more."""
    own_id = proposal_id(part.text_id)
    own = [each for each in known if each.id.startswith(own_id)]
    older = [each for each in known if each.kind == "bring" and each not in own]
    others = [each for each in known if each not in own and each not in older]
    _check_room(others)
    below = [*others, *own[:-1]]  # of a text there are several where the person decided while it was read
    base = await _with_proposals(memory, await memory.read(), below)
    return Reading(part, base, own[-1] if own else None, [each.id for each in older])


def _check_room(known: Sequence[Proposal]) -> None:
    if len(known) >= MAX_PROPOSALS:
        raise NothingToDoError(UNDECIDED)


async def _with_proposals(memory: Memory, files: Mapping[str, FileData], known: Sequence[Proposal]) -> Mapping[str, FileData]:
    """The files as they are once these proposals are accepted."""
    for each in known:
        files = await platform.in_thread(memory.applied, files, each.changes, each.author, skip=True)
    return files


def _sort_out(
    draft: Draft, reading: Reading, source: Sequence[tuple[str, str]], taken: Mapping[guard.Key, guard.Dated]
) -> None:
    """Choose what the model reads: nothing that memory has, that was taken back or that may not be written. Blocks."""
    known, entries = guard.facts_of(source), list[Entry]()
    for entry in reading.part.entries:
        reason = ""
        if entry.key in known:
            reason = "known"
        elif entry.key in taken:
            reason = "taken_back"
        elif find_credential_in_json(entry.fact):
            reason = "credential"
        else:
            try:
                before_write(draft.memory.deployment, _BROUGHT, f"- {entry.fact}\n", draft.author)
            except RefusedWrite:
                reason = "refused"
        if reason:
            reading.left_out[reason].append(entry.text)
        else:
            entries.append(entry)
    reading.entries = entries


def _of_all_parts(draft: Draft, changed: list[Changed]) -> list[Changed]:
    """What a proposal changes: of a text that was brought also what its earlier parts change."""
    if draft.reading is None:
        return changed
    before = texts(draft.reading.base)
    earlier = draft.reading.earlier.changes if draft.reading.earlier else []
    new = {change.key: replace(change, before=before.get(change.key, "")) for change in changed}
    return [*({change.key: change for change in earlier} | new).values()]


def _count_proposed(draft: Draft, reading: Reading, changed: Sequence[Changed]) -> int:
    """The number of entries that the changes say; why the others are left out is noted. Blocks."""
    left, lines = {entry.key: entry.text for entry in reading.entries}, dict[guard.Key, str]()
    for change in changed:
        lines |= guard.differences(change)[1]
    proposed = guard.covered(left, lines, draft.rules)
    memory = guard.facts_of((path, text) for path, text in draft.source or () if path)
    left = {key: text for key, text in left.items() if key not in proposed}
    for reason, why in (("taken_back", reading.returning), ("known", memory)):
        of_reason = guard.covered(left, why, draft.rules)
        reading.left_out[reason] += [text for key, text in left.items() if key in of_reason]
        left = {key: text for key, text in left.items() if key not in of_reason}
    reading.left_out["not_taken"] += left.values()
    return len(proposed)


async def _propose(draft: Draft, proposal: Proposal) -> None:
    """Keep a proposal; of a text that was brought with what was proposed of its earlier parts, in place of other texts'."""
    reading = draft.reading
    if reading is None:
        await draft.memory.propose(proposal)
        return
    if reading.earlier:
        proposal = replace(reading.earlier, changes=proposal.changes, author=proposal.author)
    else:
        proposal = replace(proposal, id=proposal_id(reading.part.text_id))
    await draft.memory.propose_instead(proposal, reading.older, reading.earlier)


async def _why_gone(draft: Draft) -> str:
    """Why nothing of the batch may be kept, or "": a fact was deleted for good since the run began, or a conversation of the
    batch since it was read, also where another one has its id now.
    """
    if not draft.report.dry_run and await journal.is_erased(draft.memory.store, draft.memory.began):
        return ERASED
    read = {item.conversation.thread_id: item.conversation.created_at for item in draft.shown}
    if not read:
        return ""
    owned = owned_by(draft.owner.actor, draft.memory.deployment.agents)
    found = await threads_by_id(get_client().threads, [*read], owned, ["thread_id", "created_at"])
    return GONE if {str(thread["thread_id"]): str(thread["created_at"]) for thread in found} != read else ""


async def _dropped(draft: Draft, why: str) -> drafts.Record:
    """Leave everything as it was; the next run reads the conversations that are left."""
    draft.more = True
    done = draft.report.ended("undone", why, notes=[note("fact_deleted" if why == ERASED else "conversation_deleted")])
    await draft.keep(done, quotes_facts=False)
    return done


async def _taken_back(draft: Draft) -> dict[guard.Key, guard.Dated]:
    declined = [each for one in await draft.memory.proposals() for each in one.declined]
    known = await journal.histories(draft.memory.store, draft.memory.files, draft.memory.deployment.limits)
    return await platform.in_thread(guard.taken_back, known, declined)


# --- The thread


def _only(state: Any, *messages: AnyMessage) -> dict[str, Any]:
    """These messages in place of all earlier ones, without a summary that would hide them, and without summarized messages.

    So the thread keeps nothing of the conversations when a run has ended with its answer.
    """
    gone: dict[str, Any] = dict.fromkeys(("_summarization_event", "_summarization_session_id"))
    files = dict.fromkeys(state.get("files") or {})
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages], "files": files, **gone}


# --- Graph 2


def _system_prompt(d: Deployment) -> str:
    """What consolidation is told to do, and which kinds of change it may make, where it may not make all."""
    may = d.consolidation.may if d.consolidation else frozenset(KINDS)
    if not (not_may := {*KINDS} - may):
        return d.prompt("consolidation.md")
    told = d.prompt("consolidation_may.md").replace("{may}", _listed(may)).replace("{may_not}", _listed(not_may, "or"))
    return f"{d.prompt('consolidation.md').rstrip()}\n\n{told}"


def _listed(some: Collection[Kind], word: str = "and") -> str:
    """Kinds of change as a list of verbs: "add", "add and update"."""
    return f" {word} ".join(kind for kind in KINDS if kind in some)


def build_consolidation_agent(d: Deployment, model: BaseChatModel | None = None) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The consolidation agent, with `model` or the one that the settings name. Raises `SettingsError` as `build_model`."""
    load_starting_memory(d)
    d.load_prompts()
    backend = build_backend(d, drafts.draft_store)
    graph = create_deep_agent(
        model=whole_answers(model or build_model(d, consolidating=True), d.limits),
        name="consolidation_agent",
        system_prompt=_system_prompt(d),
        tools=[append_memory_tool(backend)],
        backend=backend,
        permissions=build_permissions(d, consolidating=True),
        memory=memory_files(d),
        subagents=[_NOBODY],
        # `ConsolidationRun` drops the batch if a later middleware raises.
        middleware=[
            ConsolidationRun(d),
            PromptBlocks(d, memory_files(d), drafts.draft_store),
            Bounds(d, d.limits.max_run_seconds, consolidating=True),
        ],
        context_schema=Context,
    )
    return drafts.EndedGraph(**vars(graph)).with_config(
        {"metadata": {"memory_scope": d.settings.memory_scope, "consolidation": True}}
    )
