"""The agent's filesystem: the owner of each path, who may write there, and with which files a new memory starts.

Every rule is checked at the backend. deepagents' `permissions` repeat the rules: they refuse earlier, with a clearer message.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deepagents import FilesystemPermission
from deepagents.backends import CompositeBackend
from deepagents.backends.protocol import BackendProtocol
from deepagents.backends.utils import create_file_data
from langchain.agents.middleware import InterruptOnConfig
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.base import BaseStore, SearchOp
from langgraph.store.memory import InMemoryStore

from lasting_memory import journal
from lasting_memory.controls import PAUSED, controls, in_temporary_conversation
from lasting_memory.deployment import Deployment
from lasting_memory.files.backends import ScopedFiles, StoreOverride, ThreadFiles
from lasting_memory.files.proposals import Memory
from lasting_memory.people import identity, namespaces
from lasting_memory.people.namespaces import Namespace, NotAMemberError
from lasting_memory.validation import RefusedWrite, before_write

logger = logging.getLogger(__name__)

# Of a write that its person sees first.
WAITS = "waits among their proposed changes"
# What a temporary conversation sees as `/memories/`. The gate keeps it empty.
_EMPTY = InMemoryStore()
# Where nothing ever is: no route's namespace begins so.
_NOBODYS = ("nobody",)


class RouteFiles(ScopedFiles):
    """The files of a route in a run: whose they are, whether it may write them, and whether that waits for its person.

    With `drafts` it is a run of consolidation, whose memory files are in the store that this gives.
    """

    def __init__(self, deployment: Deployment, path: str, drafts: StoreOverride | None) -> None:
        super().__init__(deployment, self._place, route=path.rstrip("/"))
        self._scope, self._is_memory, self._drafts = deployment.scope(path), path == "/memories/", drafts

    def _actor(self) -> identity.Actor:
        return identity.current_actor(self._deployment.settings)

    def _place(self, run: Runtime[Any]) -> Namespace:
        actor = identity.current_actor(self._deployment.settings, run)
        assistant = identity.current_assistant(self._deployment.default_assistant, run)
        return self._scope.namespace(actor, assistant, identity.claims_of(identity.run_user(run)))

    def _get_namespace(self) -> Namespace:
        """Where this run reads: who has no such folder sees an empty one. `_check` comes before every write."""
        try:
            return super()._get_namespace()
        except NotAMemberError:
            return _NOBODYS

    def _get_store(self) -> BaseStore:
        if self._is_memory and in_temporary_conversation():
            return _EMPTY
        return (self._drafts() if self._is_memory and self._drafts else None) or super()._get_store()

    def _writer(self) -> tuple[identity.Author, journal.Began | None]:
        author = identity.current_author(self._deployment.settings, consolidating=self._drafts is not None)
        return author, journal.began(self._actor())

    async def _check(self, path: str) -> None:
        if self._get_namespace() == _NOBODYS:
            raise RefusedWrite(f"{self._route}/ is not available: this person's token has no claim {self._scope.claim!r}.")
        await super()._check(path)
        if reason := await self._refusal():
            raise RefusedWrite(f"Permission denied for '{path}': {reason}")

    async def _refusal(self) -> str | None:
        """Why this run may not write here; None if it may."""
        if self._scope.remembers and in_temporary_conversation():
            return "this is a temporary conversation, of which nothing is remembered."
        if self._scope.remembers and (await controls(self._get_store(), self._actor(), self._deployment)).paused:
            return f"{PAUSED}: nothing is remembered until they resume it. Tell them so."
        writes = self._scope.rule(self._deployment.settings, consolidating=self._drafts is not None)
        if writes == "allow":
            return None
        if writes == "deny":
            return "it is read-only here."
        # A write that waits for approval continues in the run with which the operator resumed it. A client's forged tool call,
        # jump to the tools node or resume value stays the client's run.
        user = identity.run_user(get_runtime())
        approved = user is not None and identity.is_operator(user, self._deployment.settings)
        return None if approved else "an operator has to approve writing here."

    async def _waits(self, path: str, change: journal.Change) -> str | None:
        if not self._is_memory or self._drafts:
            return None
        store, actor, (author, began) = self._get_store(), self._actor(), self._writer()
        if not (await controls(store, actor, self._deployment)).review_agent:
            return None
        await self._check(path)
        memory = Memory(store, actor, self._get_namespace(), self._deployment, began)
        await memory.propose_write(path, self._checked(path, change, author), author)
        return f"/memories{path} was not changed: yours {WAITS} until they accept it. Tell them so, and do not write it again."


def build_backend(deployment: Deployment, drafts: StoreOverride | None = None) -> CompositeBackend:
    """The filesystem of `agent`, or, with the store of drafts, of `consolidation_agent`."""
    routes: dict[str, BackendProtocol] = {path: RouteFiles(deployment, path, drafts) for path in deployment.routes}
    return CompositeBackend(default=ThreadFiles(list(routes)), routes=routes)


def build_permissions(deployment: Deployment, *, consolidating: bool = False) -> list[FilesystemPermission]:
    """The same rules for deepagents' file tools, which refuse a write or pause it for an operator."""
    rules = {path: deployment.scope(path).rule(deployment.settings, consolidating=consolidating) for path in deployment.routes}
    return [
        FilesystemPermission(operations=["write"], paths=[path.rstrip("/"), f"{path}**"], mode=mode)
        for path, mode in rules.items()
        if mode != "allow"
    ]


def interrupted_tools(deployment: Deployment) -> dict[str, bool | InterruptOnConfig]:
    """The memory tools that pause for an operator, because they write shared memory."""
    if deployment.memory.rule(deployment.settings) != "interrupt":
        return {}
    return {name: InterruptOnConfig(allowed_decisions=["approve", "reject"]) for name in ("append_memory", "save_profile")}


# --- What a new memory starts with


@cache  # they do not change while a process runs
def starting_memory(folder: Path) -> Mapping[str, str]:
    """The files that a person without memory gets at the start of their first run, by key, such as `/preferences.md`: those of
    a deployment's `seeds/memories/`. Folders for named users are put there by `python -m seeds`.
    """
    paths = sorted((folder / "seeds" / "memories").glob("*.*"))
    return {f"/{path.name}": path.read_text("utf-8") for path in paths if path.is_file() and not path.name.startswith(".")}


async def starting_files(
    store: BaseStore, actor: identity.Actor, assistant: str, deployment: Deployment, *, write: bool
) -> Mapping[str, str]:
    """The texts with which this memory starts, by key; none if it has begun. With `write` they become its files.

    It has begun if it has files, or had some: who deletes all of them gets none back.
    """
    own, author = deployment.memory.namespace(actor, assistant), identity.Author("seed", actor.user_id)
    begun = [SearchOp(place, limit=1) for place in (own, namespaces.journals(own))]
    if deployment.memory.is_shared or any(await store.abatch(begun)):
        return {}
    texts = await asyncio.to_thread(starting_memory, deployment.folder)  # the first time it reads files
    for key, text in texts.items() if write else ():
        new, began = _new(text), journal.began(actor)
        try:
            before_write(deployment, f"/memories{key}", text, author)
            await journal.change(store, own, key, new, author, expect="", began=began, limits=deployment.limits)
        except (RefusedWrite, journal.MovedError) as error:  # moved: another run has written it
            logger.warning("A new memory starts without seeds/memories%s: %r", key, error)
    return texts


def _new(text: str) -> journal.Change:
    return lambda _: create_file_data(text)
