"""Graph 2, which reads from top to bottom: one run is one person, one batch of what is new in their
conversations, one commit.

The run ignores a client's messages, and shows the model a batch as the answer to a tool call. A
draft that is refused is tried once more; refused again it has changed nothing, and its
conversations stay due. If more is due, the next run is queued. A dry run ends before the commit. An
operator's run that names nobody, such as the cron's, starts everyone's who is due.

A dream builds memory anew: its runs read all conversations again, into a draft of their own in the
store, and the last one proposes what would change (`dreaming.py`).

A batch may also be all of memory, to be tidied, or a text that the person brought. Its changes are
always proposed, and say nothing that stands neither in it nor in memory.
"""

import json
import logging
from typing import Annotated, Any, NotRequired

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.config import get_config, get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation import dream_progress, dreaming
from lasting_memory.consolidation.committing import commit
from lasting_memory.consolidation.drafts import CURRENT_DRAFT, Draft
from lasting_memory.consolidation.dream_start import go_on_with_all
from lasting_memory.consolidation.editor import Editor, build_editor, edit, last_answer
from lasting_memory.consolidation.judging import Verdict, judge
from lasting_memory.consolidation.no_batch import SHARED, NothingToDoError
from lasting_memory.consolidation.old_conversations import delete_old
from lasting_memory.consolidation.reading import read
from lasting_memory.consolidation.record import Record
from lasting_memory.consolidation.record_keeping import failure_recorded
from lasting_memory.consolidation.run_beginning import begin, slot_held
from lasting_memory.consolidation.schedule import start
from lasting_memory.consolidation.sweeping import sweep_counted
from lasting_memory.conversations.retention import delete_temporary
from lasting_memory.deployment import Deployment
from lasting_memory.memory.new_memory import load_starting_memory
from lasting_memory.people import identity
from lasting_memory.people.identity import Context
from lasting_memory.platform import get_client
from lasting_memory.recall import catch_up
from lasting_memory.settings import SettingsError

logger = logging.getLogger(__name__)

# A draft that is refused is tried once more.
_ATTEMPTS = 2
# Steps of the graph, its start included.
_STEPS = 2


# What a run changes of its state, which is its messages.
_StateUpdate = dict[str, list[BaseMessage]]


class State(MessagesState):
    """A client's messages, of which only a text that was brought is read; at the end the run's
    answer in their place.
    """

    # Clients may send files to any graph. Nobody reads them here.
    files: NotRequired[Annotated[dict[str, object], UntrackedValue(dict, guard=False)]]


# `Any`: projects name the type of their graphs so, in which `State` is no name of theirs.
def build_consolidation_agent(
    d: Deployment, model: BaseChatModel | None = None
) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The consolidation agent, with `model` or the one that the settings name.

    Raises `SettingsError` as `build_model`, and for a deployment without consolidation.
    """
    if d.consolidation is None:
        raise SettingsError(
            "The deployment has consolidation=None; leave consolidation_agent out of langgraph.json."
        )
    load_starting_memory(d)
    d.load_prompts()
    editor = build_editor(d, model)

    async def consolidate(state: State, runtime: Runtime[Context]) -> _StateUpdate:
        """One run: of a script, of an operator for everybody who is due, or of one person. Returns
        the state with the run's answer.
        """
        _check_limit()
        if not identity.on_server(runtime):
            return await _edit_for_script(editor, state["messages"])
        client = get_client()
        try:
            if identity.names_nobody(d.settings, runtime):
                answer = await _start_everybody(d, runtime, client)
                return _answer(answer)
            draft = await begin(d, runtime, client)
            async with slot_held(draft, client), dream_progress.failures_counted(draft, client):
                async with failure_recorded(draft):
                    await read(draft, state["messages"], client)
                    verdict = await _edit_and_judge(editor, draft)
                # Whoever cancels the run now cancels neither the commit nor its record.
                record = await platform.to_the_end(_commit(draft, verdict, client))
                await _index_for_recall(draft, record, client)
                await _plan_next(draft, verdict, client)
        except NothingToDoError as error:
            return _answer(str(error))
        return _answer(draft.answer(record))

    graph = StateGraph(State, context_schema=Context, output_schema=MessagesState)
    graph.add_node("consolidate", consolidate)
    graph.add_edge(START, "consolidate")
    compiled_graph = graph.compile(name="consolidation_agent")
    return compiled_graph.with_config(
        {"metadata": {"memory_scope": d.settings.memory_scope, "consolidation": True}}
    )


def _check_limit() -> None:
    """Raises `RuntimeError` where langgraph would fail the run at its end, when all is done: whoever
    began it allows too few steps.
    """
    limit = get_config().get("recursion_limit")  # absent where it is langgraph's own
    if limit is not None and limit < _STEPS:
        raise RuntimeError(
            f"recursion_limit is below {_STEPS}; a consolidation takes {_STEPS} steps: "
            "send more, or leave it out."
        )


def _answer(text: str) -> _StateUpdate:
    """The run's answer, in place of all messages of its thread: a thread is used for years."""
    removal = RemoveMessage(id=REMOVE_ALL_MESSAGES)
    answer = AIMessage(text)
    return {"messages": [removal, answer]}


async def _edit_for_script(editor: Editor, messages: list[AnyMessage]) -> _StateUpdate:
    """Have the editor answer a script's messages. Returns the state with its answer.

    A script has no conversations on a server. It changes memory itself, without a draft.
    """
    CURRENT_DRAFT.set(None)
    answer = await last_answer(editor, messages)
    return {"messages": [answer]}


async def _start_everybody(
    d: Deployment, runtime: Runtime[Context], client: LangGraphClient
) -> str:
    """Start runs for all who are due, after deleting conversations whose time is over. Returns the
    run's answer.
    """
    if identity.run_context(runtime).dry_run:
        return "A dry run is for one person: name them in its context (user_id, org_id)."
    await delete_temporary(client, d.limits.temporary_hours)
    await delete_old(d, client, get_store())
    if d.memory.is_shared:
        return SHARED
    counts = await sweep_counted(d, client, get_store())
    if d.has_dream:
        await go_on_with_all(client, get_store())
    log_entry = {
        "status": "swept",
        "run_id": identity.current_run_id(),
        "people": counts["started"],
        "due": counts["due"],
        "planned": counts["planned"],
    }
    logger.info("consolidation %s", json.dumps(log_entry))
    sentence_about_planned = (
        f"{counts['due']} were due, for {counts['planned']} of whom a run was planned already."
    )
    return f"Consolidation was started for {counts['started']} people. {sentence_about_planned}"


async def _edit_and_judge(editor: Editor, draft: Draft) -> Verdict:
    """Have the model edit the draft, and once more, with the reason, if what it did is refused.

    Returns the verdict on the last attempt.
    """
    reason = ""
    for _ in range(_ATTEMPTS):
        ending = await edit(editor, draft, reason)
        verdict = await judge(draft, ending)
        reason = verdict.retry_reason
        if not reason:
            break
    return verdict


async def _commit(draft: Draft, verdict: Verdict, client: LangGraphClient) -> Record:
    """Commit a batch to memory, or to the draft of its dream. Returns the run's record."""
    async with failure_recorded(draft):
        if draft.dream:
            return await dreaming.keep_batch(draft, verdict, client)
        return await commit(draft, verdict, client)


async def _index_for_recall(draft: Draft, record: Record, client: LangGraphClient) -> None:
    """Bring the index of the person's conversations up to date, so that the next search need not."""
    if draft.record.dry_run or draft.dream:
        return
    is_committed = record.status in {"done", "proposed"}
    if not is_committed:
        return
    memory = draft.memory
    d = memory.deployment
    try:
        await catch_up(memory.store, client.threads, memory.actor, agents=d.agents, routes=d.routes)
    # Whatever it is, memory is consolidated, and the next search indexes them.
    except Exception as error:
        logger.warning("Conversations were not indexed for recall: %r.", error, exc_info=True)


async def _plan_next(draft: Draft, verdict: Verdict, client: LangGraphClient) -> None:
    """Queue the next run if more is due, or a dream is not at its end."""
    if draft.dream:
        await dream_progress.plan_next(draft, client)
    if not draft.is_more_due:
        return
    if draft.record.dry_run or verdict.is_stopped or verdict.failure:
        return
    memory = draft.memory
    await start(draft.owner, client, is_from_run=True, store=memory.store, writer=memory.writer)
