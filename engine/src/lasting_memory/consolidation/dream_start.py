"""Beginning a dream, and going on with one that waits or whose process died."""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation import dreams
from lasting_memory.consolidation.dream_result import kept_by_hand
from lasting_memory.consolidation.dreams import Dream, Estimate
from lasting_memory.consolidation.kept_out import kept_out_in
from lasting_memory.consolidation.owners import Owner
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
    return await dreams.estimate(deployment, client.threads, owner, kept_out)


async def start_dream(memory: Memory, client: LangGraphClient, owner: Owner, cap: int) -> bool:
    """Begin a dream of at most so many tokens, with a draft that has what the person wrote by hand.

    Returns whether it did. It does not for who was forgotten since the request came.
    """
    d = memory.deployment
    places = [memory.files, namespaces.journals(memory.files)]
    files, revisions = await journal.all_items_of(memory.store, places)
    present = await platform.in_thread(files_in, files)
    histories = await platform.in_thread(journal.histories_in, revisions, d.limits)
    there = await dreams.readable(d, client.threads, owner)
    draft = await platform.in_thread(kept_by_hand, present, dict(histories), there)
    dream = Dream(
        id=uuid4().hex,
        began=datetime.now(UTC).isoformat(),
        memory=memory.files[-1],
        cap=cap,
        assistant_id=owner.assistant_id or "",
        conversations=len(there),
    )
    has_begun = await dreams.begin(memory.store, memory.actor, dream, draft, memory.began)
    if not has_begun:
        return False
    await _plan(memory.store, client, owner, memory.began)
    return True


async def go_on_with_dream(
    memory: Memory, client: LangGraphClient, owner: Owner, dream: Dream
) -> bool:
    """Go on with a dream that waits for its person, or whose run died. Returns whether it did: it
    does not where a run of it is planned or at work.
    """
    if dream.status != "reading":
        going = replace(dream, status="reading", reason="", failures=0)
        puts = dreams.ops(memory.actor, going)
        goes_on = await dreams.put(memory.store, memory.actor, dream, puts, memory.began)
        if not goes_on:
            return False
    return await _plan(memory.store, client, owner, memory.began)


async def go_on_with_all(client: LangGraphClient, store: BaseStore) -> int:
    """Plan a run for each dream that has none, as where a process died. Returns how many."""
    planned = 0
    found = await store.asearch(namespaces.DREAMS, filter={"status": "reading"}, limit=_SWEPT)
    for item in found:
        assistant_id = str(item.value.get("assistant_id") or "")
        try:
            actor = namespaces.dreamer(item.namespace)
            owner = Owner(actor, assistant_id or None)
            planned += await _plan(store, client, owner, journal.Began(actor))
        # One person's failure is not everybody's.
        except Exception as error:
            logger.warning("A dream was not gone on with: %r.", error, exc_info=True)
    return planned


async def _plan(
    store: BaseStore, client: LangGraphClient, owner: Owner, began: journal.Began | None
) -> bool:
    return await start(owner, client, Trigger.DREAM, store=store, began=began)
