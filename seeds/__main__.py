"""Put policies, skills, first memories and the consolidation cron into a deployment. Safe to repeat.

    python -m seeds [--url URL] [--prune] [policies|skills|memories|cron|all]

A deployment on LangSmith wants a LangSmith API key in the environment; `langgraph dev` wants none. Either way the command acts
as an operator.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from memory import namespaces
from memory.files import ScopedFiles
from memory.identity import Actor, Author, IdentityError
from memory.validation import RefusedWriteError
from seeds import files
from seeds.remote import RemoteStore, unanswered
from settings import (
    CONSOLIDATION_GRAPH,
    PROJECT,
    Settings,
    SettingsError,
    check_server,
    dev_address,
    load_settings,
    local_environ,
)

PARTS = ("policies", "skills", "memories", "cron")
# Marks the cron that this command owns. It leaves other crons alone.
CRON_MARK = {"created_by": "seeds"}
_PAGE = 100

Change = tuple[str, Callable[[], Awaitable[Any]]]


@dataclass(frozen=True)
class Wanted:
    """What a namespace shall hold of this repository, and what becomes of files that are there."""

    route: str
    namespace: namespaces.Namespace
    files: files.Files
    overwrites: bool = True  # what is there otherwise
    deletes: bool = False  # what the repository does not have


async def wanted(
    client: LangGraphClient, parts: Sequence[str], settings: Settings, folder: Path, *, prune: bool
) -> list[Wanted]:
    """What the namespaces of these parts shall hold. Raises `SeedError` for a file that cannot be seeded."""
    graphs = await _assistants(client)
    agents = [assistant for assistant, graph in graphs.items() if graph != CONSOLIDATION_GRAPH]
    found: list[Wanted] = []
    if "policies" in parts:
        rules = {namespaces.policies(org): policies for org, policies in files.policies(folder).items()}
        there = await _pages(client.store.list_namespaces, "namespaces", prefix=["policies"]) if prune else []
        every = {**{tuple(namespace): {} for namespace in there}, **rules}
        found += [Wanted("/policies", namespace, policies, deletes=prune) for namespace, policies in every.items()]
    if "skills" in parts:
        skills = files.skills(folder)
        found += [Wanted("/skills", namespaces.skills(agent), skills, deletes=prune) for agent in agents]
    if "memories" in parts:
        for agent in agents:
            memories = {
                namespaces.memories(actor, agent, settings): first for actor, first in _first_memories(folder, settings)
            }
            found += [Wanted("/memories", place, first, overwrites=False) for place, first in memories.items()]
    return list({one.namespace: one for one in found}.values())


def _first_memories(folder: Path, settings: Settings) -> Iterator[tuple[Actor, files.Files]]:
    """First memories of the people that `seeds/memories/` names. Where memory is shared, which one person's files must not
    reach, those of `_assistant/` for each known organization.
    """
    people, shared = files.memories(folder), files.shared_memories(folder)
    if settings.memory_scope != "assistant":
        yield from ((Actor(user, org), memories) for (org, user), memories in people.items())
    else:
        for org in {*shared, *files.policies(folder), settings.default_org} - {files.EVERYBODY}:
            yield Actor("", org), {**shared.get(files.EVERYBODY, {}), **shared.get(org, {})}


async def file_changes(client: LangGraphClient, want: Wanted) -> list[Change]:
    """The changes after which a namespace holds what it shall, each checked and journaled as every write. Policies have no
    history but the repository's.
    """
    stored = {item["key"]: item["value"] for item in await _pages(partial(client.store.search_items, want.namespace), "items")}
    store = RemoteStore(client)
    journaled = ScopedFiles(namespace=lambda _: want.namespace, route=want.route, author=lambda: Author("seed"), store=store)

    async def put(key: str, value: Any) -> None:
        if want.route == "/policies":
            await client.store.put_item(want.namespace, key, value)
        else:
            await journaled.arevise(key, lambda _: value)

    async def delete(key: str) -> None:
        if want.route == "/policies":
            await client.store.delete_item(want.namespace, key)
        elif item := await store.aget(want.namespace, key):
            await journaled.aremove(item)

    where, changes = "/".join(want.namespace), list[Change]()
    for key, value in want.files.items():
        old = stored.get(key)
        same = old is not None and (old.get("content"), old.get("encoding")) == (value["content"], value["encoding"])
        if old is None or (want.overwrites and not same):
            changes.append((f"{where}{key}: {'updated' if old else 'added'}", partial(put, key, value)))
    gone = sorted(set(stored) - set(want.files)) if want.deletes else []
    return changes + [(f"{where}{key}: deleted", partial(delete, key)) for key in gone]


async def cron_changes(client: LangGraphClient, settings: Settings) -> list[Change]:
    """One cron for the deployment, at `CONSOLIDATION_SCHEDULE`; none if that is empty, or consolidation is taken off."""
    crons: Any = await client.crons.search(metadata=CRON_MARK, limit=_PAGE, sort_by="created_at", sort_order="asc")
    ours = [cron for cron in crons if CRON_MARK.items() <= (cron.get("metadata") or {}).items()]
    consolidates = CONSOLIDATION_GRAPH in (await _assistants(client)).values()
    schedule = settings.consolidation_schedule if consolidates else None
    changes: list[Change] = [
        (f"cron {cron['cron_id']}: deleted", partial(client.crons.delete, cron["cron_id"]))
        for cron in (ours[1:] if schedule else ours)
    ]
    if schedule and not ours:
        create = partial(client.crons.create, schedule=schedule, input={"messages": []}, metadata=CRON_MARK)
        changes.append((f"cron: created, {schedule}", partial(create, CONSOLIDATION_GRAPH)))
    elif schedule and ours[0]["schedule"] != schedule:
        update = partial(client.crons.update, ours[0]["cron_id"], schedule=schedule)
        changes.append((f"cron {ours[0]['cron_id']}: {ours[0]['schedule']} -> {schedule}", update))
    return changes


async def _assistants(client: LangGraphClient) -> dict[str, str]:
    """The graph of every assistant, by id."""
    listed = await _pages(client.assistants.search)
    return {str(assistant["assistant_id"]): assistant["graph_id"] for assistant in listed}


async def _pages(search: Callable[..., Awaitable[Any]], part: str | None = None, **asked: Any) -> list[Any]:
    """All that a search of the platform finds; `part` names the list in its answers, which are lists otherwise."""
    found = list[Any]()
    while page := await search(limit=_PAGE, offset=len(found), **asked):
        if not (listed := page[part] if part else page):
            break
        found += listed
    return found


async def seed(
    client: LangGraphClient, parts: Sequence[str], settings: Settings, *, prune: bool, folder: Path = PROJECT
) -> list[str]:
    """Bring a deployment into the repository's state; prints and returns one line a change.

    `prune` also deletes policies and skills that the repository, `folder`, no longer has. Memories are never deleted.

    Raises:
        SeedError: a file is invalid. All files are checked before the first write.
    """
    changes = list[Change]()
    for want in await wanted(client, parts, settings, folder, prune=prune):
        changes += await file_changes(client, want)
    if "cron" in parts:
        changes += await cron_changes(client, settings)
    for line, apply in changes:
        await apply()
        print(line, flush=True)
    return [line for line, _ in changes]


async def main(folder: Path = PROJECT) -> str | None:
    """The command. Returns the reason in one line if the deployment has not the repository's state."""
    parser = argparse.ArgumentParser(prog="python -m seeds", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", choices=[*PARTS, "all"], default="all")
    parser.add_argument(
        "--url", default=dev_address(), help="the deployment's address (default: the server that `make dev` started)"
    )
    parser.add_argument("--prune", action="store_true", help="delete policies and skills the repository no longer has")
    args = parser.parse_args()
    parts = PARTS if args.part == "all" else (args.part,)
    try:
        check_server(args.url)
        settings = load_settings(local_environ())
        async with get_client(url=args.url, headers={"x-auth-scheme": "langsmith"}) as client:
            changes = await seed(client, parts, settings, prune=args.prune, folder=folder)
    except (files.SeedError, SettingsError, IdentityError) as error:
        return f"{error} Nothing was written."
    except RefusedWriteError as error:  # there is no room left, which only the store knows
        return f"{error} Put that right and seed again."
    except (httpx.TransportError, httpx.HTTPStatusError) as error:
        return unanswered(error, args.url)
    print(f"{len(changes)} changes." if changes else f"Nothing to change: {', '.join(parts)} are as the repository has them.")
    return None


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
