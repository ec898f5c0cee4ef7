"""The platform's thread search without a platform."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from memory import identity
from memory.recall import owned_by


class Threads:
    """Threads of one or more people. `asked` counts searches, `messages` the messages in their results."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self._order: list[str] | None = None
        self.asked = self.messages = 0
        # Whether results are parsed from JSON, as in the platform's client.
        self.as_json = False

    def put(self, actor: identity.Actor, thread_id: str, updated_at: str, messages: Sequence[dict[str, Any]]) -> None:
        """A thread as the platform gives it."""
        self.kept[thread_id] = {
            "thread_id": thread_id,
            "created_at": self.kept.get(thread_id, {}).get("created_at", updated_at),
            "updated_at": updated_at,
            "metadata": owned_by(actor)[0],
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
        """The platform's search, with the options in use here."""
        self.asked += 1
        if ids is not None:
            threads: Iterable[dict[str, Any]] = [self.kept[thread_id] for thread_id in ids if thread_id in self.kept]
        else:
            if self._order is None:
                self._order = sorted(self.kept, key=lambda key: str(self.kept[key][sort_by]), reverse=sort_order == "desc")
            # Lazily, so that the first page does not cost a scan, as in a database with an index.
            threads = (self.kept[thread_id] for thread_id in self._order)
        owned = (thread for thread in threads if metadata.items() <= thread["metadata"].items())
        page = list(islice(owned, offset, offset + limit))
        if not select or "values" in select:
            self.messages += sum(len(thread["values"]["messages"]) for thread in page)
        chosen = [{name: thread[name] for name in select or thread} for thread in page]
        return json.loads(json.dumps(chosen)) if self.as_json else chosen
