"""Turns of two people on a fake platform, and the runs that they plan."""

from __future__ import annotations

from datetime import datetime, timedelta

from langgraph.store.base import BaseStore

from memory.consolidation.begins import Begins
from memory.consolidation.trigger import Owner, plan
from memory.identity import Actor
from testing.fake_platform import FakePlatform

ALICE, BOB = (Owner(Actor(name, "acme")) for name in ("alice", "bob"))
AFTER = 300


async def turn(platform: FakePlatform, store: BaseStore, after: float = 0, owner: Owner = ALICE) -> None:
    """A turn of the owner's that ends `after` seconds from now."""
    platform.now += timedelta(seconds=after)
    await plan(owner, AFTER, platform.client, store, Begins(platform.clock))


def begins(platform: FakePlatform) -> list[float]:
    """Seconds from now at which each pending run begins."""
    return [(datetime.fromisoformat(run["created_at"]) - platform.now).total_seconds() for run in platform.all_runs("pending")]
