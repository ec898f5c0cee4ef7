"""Begins a dream (`dreams.py`), and goes on with one that waits for its person, or whose process
died.
"""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation.dream_store import DreamStore
from lasting_memory.consolidation.dream_threads import Estimate, estimate, readable
from lasting_memory.consolidation.dreams import Dream, DreamUpdate
from lasting_memory.consolidation.kept_out import kept_out_in
from lasting_memory.consolidation.owners import Owner
from lasting_memory.consolidation.rebuilt_lines import first_files
from lasting_memory.consolidation.schedule import Trigger, start
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Memory, files_in
from lasting_memory.people import namespaces

logger = logging.getLogger(__name__)

# Dreams that a sweep looks at.
_SWEPT = 1_000


async def estimate_dream(
    deployment: Deployment, client: LangGraphClient, store: BaseStore, owner: Owner
) -> Estimate:
    """What it would take to read all of the owner's conversations again."""
    place = namespaces.kept_out(owner.actor)
    items = await journal.all_items(store, place)
    kept_out = await kept_out_in(items, client.runs)
    return await estimate(deployment, client.threads, owner, kept_out)


async def start_dream(memory: Memory, client: LangGraphClient, owner: Owner, cap: int) -> bool:
    """Begin a dream of at most `cap` tokens with what the person wrote by hand, and plan its first
    run.

    Returns whether it did. It does not for who was forgotten since the request came.
    """
    deployment = memory.deployment
    places = [memory.files, namespaces.journals(memory.files)]
    file_items, revisions = await journal.all_items_of(memory.store, places)
    files = await platform.in_thread(files_in, file_items)
    histories = await platform.in_thread(journal.histories_in, revisions, deployment.limits)
    changed_at = await readable(deployment, client.threads, owner)
    files_at_first = await platform.in_thread(first_files, files, dict(histories), changed_at)
    now = datetime.now(UTC)
    dream = Dream(
        id=uuid4().hex,
        began=now.isoformat(),
        memory=memory.files[-1],
        cap=cap,
        assistant_id=owner.assistant_id or "",
        conversations=len(changed_at),
    )
    dreams = DreamStore(memory.store, memory.actor, memory.writer)
    has_begun = await dreams.begin(dream, files_at_first)
    if not has_begun:
        return False
    await _plan(dreams, client, owner)
    return True


async def go_on_with_dream(
    memory: Memory, client: LangGraphClient, owner: Owner, dream: Dream
) -> bool:
    """Go on with a dream that waits for its person, or whose run died. Returns whether a run was
    planned: none is where the dream is over by now, or a run of it is planned or at work.
    """
    dreams = DreamStore(memory.store, memory.actor, memory.writer)
    if dream.status != "reading":
        resumed_dream = replace(dream, status="reading", reason="", failures=0)
        no_update = DreamUpdate()
        is_put = await dreams.put_progress(resumed_dream, no_update)
        if not is_put:
            return False
    return await _plan(dreams, client, owner)


async def go_on_with_all(client: LangGraphClient, store: BaseStore) -> int:
    """Plan a run for each dream that has none, as where a process died. Returns how many."""
    number_planned = 0
    items = await store.asearch(namespaces.DREAMS, filter={"status": "reading"}, limit=_SWEPT)
    for item in items:
        assistant_id = str(item.value.get("assistant_id") or "")
        try:
            actor = namespaces.dreamer(item.namespace)
            writer = journal.Writer(actor)
            dreams = DreamStore(store, actor, writer)
            owner = Owner(actor, assistant_id or None)
            is_planned = await _plan(dreams, client, owner)
        # One person's failure is not everybody's.
        except Exception as error:
            logger.warning("A dream was not gone on with: %r.", error, exc_info=True)
            continue
        if is_planned:
            number_planned += 1
    return number_planned


async def _plan(dreams: DreamStore, client: LangGraphClient, owner: Owner) -> bool:
    """Plan a run of the owner's dream. Returns whether it did, as `schedule.start`."""
    return await start(owner, client, Trigger.DREAM, store=dreams.store, writer=dreams.writer)
