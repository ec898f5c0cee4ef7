"""Deletes old conversations, if the deployment says so. `memory/controls/marks.py` deletes temporary ones."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient

import settings
from memory import identity
from memory.consolidation.positions import drop_positions
from memory.controls import delete_idle
from memory.recall import drop


async def delete_old(client: LangGraphClient, store: BaseStore, now: datetime | None = None, days: int | None = None) -> int:
    """Delete conversations `CONVERSATION_DAYS` after their last turn, with index and positions. Returns their number.

    Memory files stay. A crash leaves index entries and positions of missing threads, which are dropped on their next use.
    """
    if (days := days or settings.CONVERSATION_DAYS) is None:
        return 0
    before = (now or datetime.now(UTC)) - timedelta(days=days)
    deleted = [each for graph in settings.agent_graphs() for each in await delete_idle(client, {"graph_id": graph}, before)]
    owners = defaultdict[identity.Actor, list[str]](list)
    for thread in deleted:
        stamped = thread["metadata"] or {}
        owners[identity.Actor(str(stamped.get("user_id")), str(stamped.get("org_id")))].append(str(thread["thread_id"]))
    for actor, thread_ids in owners.items():
        with suppress(identity.IdentityError):  # without an owner, and so without an index
            identity.check_person(actor)
            await drop(store, actor, thread_ids)
            await drop_positions(store, actor, thread_ids)
    return len(deleted)
