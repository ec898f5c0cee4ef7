"""The person whom a request to /memory is about: their namespaces, and writes to their files.

Outside of runs nothing is scoped: the client sees everybody's threads, and the store everything.
"""

from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from fastapi import Request
from langgraph.store.base import BaseStore
from starlette.exceptions import HTTPException

from memory import identity, journal, namespaces
from memory.files import ScopedFiles
from memory.journal import Change, Revision
from memory.namespaces import Namespace, memories
from memory.validation import RefusedWriteError
from settings import Settings

ROUTE = "/memories"
# Assistants with which one person has memory (`MEMORY_SCOPE=user+assistant`) before requests can begin no other.
MAX_ASSISTANTS = 20


@dataclass(frozen=True, slots=True)
class PersonRequest:
    """A request by a caller who may make it. Its methods raise `HTTPException`."""

    http: Request
    settings: Settings
    actor: identity.Actor  # the person whose memory it is about
    author: identity.Author  # of its writes
    store: BaseStore
    began: journal.Began

    @property
    def key(self) -> tuple[str, str]:
        """The person, for limits of `access.admission`."""
        return self.actor.org_id, self.actor.user_id

    @property
    def namespace(self) -> Namespace:
        """Namespace of the person's files. Raises where memory is shared."""
        self.check_not_shared()
        return memories(self.actor, self.assistant, self.settings)

    def check_not_shared(self) -> None:
        if self.settings.memory_scope == "assistant":
            detail = "MEMORY_SCOPE=assistant: memory is shared by all users here, and nobody has files of their own."
            raise HTTPException(409, detail)

    def check_own(self) -> None:
        """Raise for an operator's request about another person: it may read, and decide nothing."""
        if self.author.kind == "operator":
            raise HTTPException(403, "Only the person decides this; with user_id and org_id an operator can read it.")

    @property
    def assistant(self) -> str:
        """The assistant whose memory it is about."""
        given = self.http.query_params.get("assistant_id")
        if given is None:
            return identity.DEFAULT_AGENT_ASSISTANT
        if self.settings.memory_scope != "user+assistant":
            raise HTTPException(400, "assistant_id is for MEMORY_SCOPE=user+assistant; leave it out.")
        try:
            return str(UUID(given))
        except ValueError:
            raise HTTPException(400, f"assistant_id is {given[:80]!r}; use an assistant's UUID.") from None

    @property
    def files(self) -> ScopedFiles:
        """The person's files, for writing. MEMORY_WRITES limits agents, not the person."""
        namespace, author = self.namespace, self.author
        return ScopedFiles(
            namespace=lambda _: namespace,
            route=ROUTE,
            author=lambda: author,
            began=lambda: self.began,
            store=self.store,
        )

    async def revise(self, key: str, change: Change, wanted: str | None = None) -> Revision:
        """Change a file, provided that it still is at the wanted revision; 0 is that of no file."""
        await self.check_assistant()
        try:
            expect = None if wanted is None else await self._expected(key, wanted.strip('"'))
            return await self.files.arevise(key, change, expect)
        except journal.MovedError:
            raise HTTPException(412, f"{ROUTE}{key} is not at revision {wanted!s:.20} any more; read it again.") from None
        except ValueError as error:
            raise HTTPException(422, str(error)) from None

    async def _expected(self, key: str, wanted: str) -> str:
        """The id of the newest revision, which must have the wanted number."""
        known = await journal.history(self.store, self.namespace, key)
        now = known[0].number if known and known[0].content is not None else 0
        if wanted != str(now):
            raise HTTPException(412, f"{ROUTE}{key} is at revision {now}, not {wanted[:20]}; read it again.")
        return known[0].id if known else ""

    async def check_assistant(self) -> None:
        """Raise if a write would begin memory with more than `MAX_ASSISTANTS`."""
        if "assistant_id" not in self.http.query_params or await self.store.asearch(self.namespace, limit=1):
            return
        known = await memory_namespaces(self.store, self.actor, self.settings)
        if self.namespace not in known and len(known) >= MAX_ASSISTANTS:
            limit = f"{MAX_ASSISTANTS} is the limit for beginning another."
            raise RefusedWriteError(f"You have memory with {len(known)} assistants, and {limit}")


async def memory_namespaces(store: BaseStore, actor: identity.Actor, settings: Settings) -> list[Namespace]:
    """Namespaces of a person's memory files, also of deleted ones: one per assistant under `user+assistant`, none if shared."""
    if settings.memory_scope == "assistant":
        return []
    if settings.memory_scope == "user":
        return [memories(actor, identity.DEFAULT_AGENT_ASSISTANT, settings)]
    noted = await journal.all_items(store, namespaces.assistants(actor))
    return [memories(actor, identity.part_of(item.key), settings) for item in noted]


def revision_summary(revision: Revision) -> dict[str, Any]:
    """A revision for HTTP, without its content."""
    return {
        "revision": revision.number,
        "id": revision.id,
        "at": revision.at,
        "author": asdict(revision.author),
        "deleted": revision.content is None,
        "bytes": len((revision.content or "").encode(errors="replace")),
    }


def diff(before: str | None, after: str | None) -> str:
    """A unified diff, cut where it is long. Blocks."""
    changed = journal.diff(before or "", after or "")
    return journal.cut(f"{changed}\n") if changed else ""
