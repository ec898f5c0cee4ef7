"""The platform's thread search without a platform, for tests and benchmarks of what is made of threads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from memory import scopes
from memory.conversations import owned_by


class Threads:
    """Threads of one or more people. `asked` counts the calls, `messages` those that were handed out."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self._order: list[str] | None = None
        self.asked = self.messages = 0
        # Whether what is handed out is read from JSON, as the platform's client does.
        self.as_json = False

    def put(self, actor: scopes.Actor, thread_id: str, updated_at: str, messages: Sequence[dict[str, Any]]) -> None:
        """A thread as the platform gives it."""
        self.kept[thread_id] = {
            "thread_id": thread_id,
            "created_at": self.kept.get(thread_id, {}).get("created_at", updated_at),
            "updated_at": updated_at,
            "metadata": owned_by(actor),
            "values": {"messages": list(messages)},
        }
        self._order = None

    def delete(self, thread_id: str) -> None:
        """As if its owner had deleted it."""
        del self.kept[thread_id]
        self._order = None

    async def search(
        self,
        *,
        metadata: dict[str, str],
        ids: Sequence[str] | None = None,
        limit: int = 10,
        offset: int = 0,
        sort_by: str = "updated_at",
        sort_order: str = "desc",
        select: Sequence[str] = (),
    ) -> list[dict[str, Any]]:
        """The platform's, as far as it is used."""
        self.asked += 1
        if ids is not None:
            found: Iterable[dict[str, Any]] = [self.kept[thread_id] for thread_id in ids if thread_id in self.kept]
        else:
            if self._order is None:
                self._order = sorted(self.kept, key=lambda key: str(self.kept[key][sort_by]), reverse=sort_order == "desc")
            # One by one, so that the first few do not cost a look at all, as in a database with an index.
            found = (self.kept[thread_id] for thread_id in self._order)
        owned = (thread for thread in found if metadata.items() <= thread["metadata"].items())
        page = list(islice(owned, offset, offset + limit))
        if not select or "values" in select:
            self.messages += sum(len(thread["values"]["messages"]) for thread in page)
        chosen = [{name: thread[name] for name in select or thread} for thread in page]
        return json.loads(json.dumps(chosen)) if self.as_json else chosen
