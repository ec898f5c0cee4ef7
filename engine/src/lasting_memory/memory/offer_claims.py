"""Claims of offers: who decides about one, or withdraws it, alone among all processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from langgraph.store.base import BaseStore, PutOp

from lasting_memory.memory import journal
from lasting_memory.memory.proposals import DecidedError
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of

# For how long a claim keeps others from an offer: the process that put it may have died.
_CLAIMED = timedelta(minutes=1)
# Claims of one offer that are looked at.
_CLAIMS = 100


@asynccontextmanager
async def deciding(store: BaseStore, place: Namespace, offer_id: str) -> AsyncIterator[None]:
    """Decides about an open offer, or withdraws it, alone among all processes. `place` is the
    namespace of what is offered to its group.

    Each process puts a claim, which is an item beside the offers, then looks for others' claims. Of
    two at least one sees the other. Raises `DecidedError` where somebody else's is there.
    """
    async with lock_of("offer", offer_id):
        claim_key = f"{offer_id} {uuid4().hex}"
        present_time = datetime.now(UTC)
        claim = {"claims": offer_id, "at": journal.iso_time(present_time)}
        try:
            await store.aput(place, claim_key, claim, index=False)
            is_alone = await _drop_old_claims(store, place, offer_id, claim_key, present_time)
            if not is_alone:
                start = offer_id[:40]
                raise DecidedError(
                    f"Somebody else decides about the offer {start!r} at this moment; look again."
                )
            yield
        finally:
            deletion = store.adelete(place, claim_key)
            await asyncio.shield(deletion)


async def _drop_old_claims(
    store: BaseStore, place: Namespace, offer_id: str, claim_key: str, present_time: datetime
) -> bool:
    """Delete the claims of an offer that hold no more. Returns whether none but the one with this
    key is left.
    """
    holds_since = journal.iso_time(present_time - _CLAIMED)
    filters = {"claims": offer_id}
    is_alone = True
    deletions = list[PutOp]()
    for item in await store.asearch(place, filter=filters, limit=_CLAIMS):
        if item.key == claim_key:
            continue
        put_at = str(item.value.get("at", ""))
        if put_at < holds_since:
            deletions.append(PutOp(place, item.key, None))
        else:
            is_alone = False
    await store.abatch(deletions)
    return is_alone
