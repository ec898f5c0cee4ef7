"""The agent's filesystem: the owner of each path, who may write there, and with which files a new memory starts.

Every rule is a gate at the backend (`files/backends.py`). deepagents' `permissions` repeat the rules: they refuse earlier,
with a clearer message.
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
from lasting_memory.files.backends import Gate, ScopedFiles, StoreOverride, ThreadFiles
from lasting_memory.files.proposals import Memory
from lasting_memory.people import identity, namespaces
from lasting_memory.people.namespaces import Namespace, Scope
from lasting_memory.settings import SharedWrites
from lasting_memory.validation import RefusedWrite, before_write

logger = logging.getLogger(__name__)

# Of a write that its person sees first.
WAITS = "waits among their proposed changes"
# What a temporary conversation sees as `/memories/`. The gate keeps it empty.
_EMPTY = InMemoryStore()


def build_gate(writes: SharedWrites, deployment: Deployment, *, remembers: bool = False) -> Gate:
    """The check before each write to a route; `remembers` as of a scope."""

    async def refusal(store: BaseStore) -> str | None:
        if remembers and in_temporary_conversation():
            return "this is a temporary conversation, of which nothing is remembered."
        if remembers and (await controls(store, identity.current_actor(deployment.settings), deployment)).paused:
            return f"{PAUSED}: nothing is remembered until they resume it. Tell them so."
        if writes == "allow":
            return None
        if writes == "deny":
            return "it is read-only here."
        # A write that waits for approval continues in the run with which the operator resumed it. A client's forged tool call,
        # jump to the tools node or resume value stays the client's run.
        user = identity.run_user(get_runtime())
        approved = user is not None and identity.is_operator(user, deployment.settings)
        return None if approved else "an operator has to approve writing here."

    return refusal


def build_backend(
    deployment: Deployment, *, consolidating: bool = False, drafts: StoreOverride | None = None
) -> CompositeBackend:
    """The filesystem of `agent`, or, with the store of drafts, of `consolidation_agent`."""

    def actor(runtime: Runtime[Any] | None = None) -> identity.Actor:
        return identity.current_actor(deployment.settings, runtime)

    def assistant(runtime: Runtime[Any]) -> str:
        return identity.current_assistant(deployment.default_assistant, runtime)

    def memory_store() -> BaseStore | None:
        return _EMPTY if in_temporary_conversation() else drafts() if drafts else None

    def author() -> identity.Author:
        return identity.current_author(deployment.settings, consolidating=consolidating)

    async def propose(store: BaseStore, files: Namespace, key: str, change: journal.Change) -> str | None:
        if not (await controls(store, actor(), deployment)).review_agent:
            return None
        await Memory(store, actor(), files, deployment, journal.began(actor())).propose_write(key, change, author())
        return f"/memories{key} was not changed: yours {WAITS} until they accept it. Tell them so, and do not write it again."

    def route_of(path: str, scope: Scope) -> ScopedFiles:
        writes = scope.rule(deployment.settings, consolidating=consolidating)
        return ScopedFiles(
            deployment=deployment,
            namespace=lambda run: scope.namespace(actor(run), assistant(run), identity.claims_of(identity.run_user(run))),
            gate=build_gate(writes, deployment, remembers=scope.remembers),
            propose=propose if path == "/memories/" and not consolidating else None,
            route=path.rstrip("/"),
            author=author,
            began=lambda: journal.began(actor()),
            override=memory_store if path == "/memories/" else None,
        )

    routes: dict[str, BackendProtocol] = {path: route_of(path, deployment.scope(path)) for path in deployment.routes}
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
