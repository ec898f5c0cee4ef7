"""Put policies, skills, first memories and the consolidation cron into a deployment. Safe to repeat.

    python -m seeds [--url URL] [--prune] [policies|skills|memories|cron|all]

A deployment on LangSmith wants a LangSmith API key in the environment; `langgraph dev` wants none. Either way the command acts
as an operator.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from rich.console import Console
from rich.progress import Progress

from environment import CONSOLIDATION_GRAPH, SettingsError, check_server, dev_address
from memory import namespaces
from memory.files import ScopedFiles
from memory.identity import Actor, Author, IdentityError
from memory.reindex import RemoteStore, unanswered
from memory.validation import RefusedWriteError
from seeds import files
from settings import PROJECT, Settings, load_settings, local_environ

PARTS = ("policies", "skills", "memories", "cron")
# Marks the cron that this command owns. It leaves other crons alone.
CRON_MARK = {"created_by": "seeds"}
# Fewer changes than this need no progress bar.
MUCH = 20
_PAGE = 100

Change = tuple[str, Callable[[], Awaitable[Any]]]
out = Console(highlight=False, soft_wrap=True)


async def policy_changes(client: LangGraphClient, folder: Path, *, prune: bool) -> list[Change]:
    """Every organization's policies as `policies/` has them. `prune` deletes files and organizations that it no longer has."""
    wanted = {namespaces.policies(org): rules for org, rules in files.policies(folder).items()}
    gone = [namespace for namespace in await _namespaces(client, "policies") if namespace not in wanted] if prune else []
    changes: list[Change] = []
    for namespace in [*wanted, *gone]:
        # Policies have no history but the repository's.
        put, delete = partial(client.store.put_item, namespace), partial(client.store.delete_item, namespace)
        stored = await _stored(client, namespace)
        changes += _changes(namespace, stored, wanted.get(namespace, {}), put, delete if prune else None)
    return changes


async def skill_changes(client: LangGraphClient, folder: Path, *, prune: bool) -> list[Change]:
    """The skills of `seeds/skills/` for every assistant of every agent graph."""
    skills, changes = files.skills(folder), list[Change]()
    for assistant in await _agents(client):
        changes += await _file_changes(client, namespaces.skills(assistant), "/skills", skills, prune=prune)
    return changes


async def memory_changes(client: LangGraphClient, folder: Path, settings: Settings) -> list[Change]:
    """First memories of the people that `seeds/memories/` names. Where memory is shared, those of `_assistant/` for each known
    organization. Existing files stay as they are.
    """
    people, shared = files.memories(folder), files.shared_memories(folder)
    wanted: dict[namespaces.Namespace, files.Files] = {}
    for assistant in await _agents(client):
        # Under MEMORY_SCOPE=assistant memory is shared, so one person's files must not get there.
        if settings.memory_scope != "assistant":
            for (org, user), memories in people.items():
                wanted[namespaces.memories(Actor(user, org), assistant, settings)] = memories
        else:
            for org in {*shared, *files.policies(folder), settings.default_org} - {files.EVERYBODY}:
                of_org = {**shared.get(files.EVERYBODY, {}), **shared.get(org, {})}
                wanted[namespaces.memories(Actor("", org), assistant, settings)] = of_org
    changes: list[Change] = []
    for namespace, memories in wanted.items():
        stored = await _stored(client, namespace)
        absent = {key: value for key, value in memories.items() if key not in stored}
        changes += await _file_changes(client, namespace, "/memories", absent, prune=False)
    return changes


async def _assistants(client: LangGraphClient) -> dict[str, str]:
    """The graph of every assistant, by id."""
    assistants: list[Any] = []
    while page := await client.assistants.search(limit=_PAGE, offset=len(assistants)):
        assistants += page
    return {str(assistant["assistant_id"]): assistant["graph_id"] for assistant in assistants}


async def _agents(client: LangGraphClient) -> list[str]:
    """Ids of all assistants of agent graphs."""
    return [assistant for assistant, graph in (await _assistants(client)).items() if graph != CONSOLIDATION_GRAPH]


async def cron_changes(client: LangGraphClient, settings: Settings) -> list[Change]:
    """One cron for the deployment, at `CONSOLIDATION_SCHEDULE`; none if that is empty, or consolidation is taken off."""
    crons: Any = await client.crons.search(metadata=CRON_MARK, limit=_PAGE, sort_by="created_at", sort_order="asc")
    ours = [cron for cron in crons if CRON_MARK.items() <= (cron.get("metadata") or {}).items()]
    consolidates = CONSOLIDATION_GRAPH in (await _assistants(client)).values()
    schedule = settings.consolidation_schedule if consolidates else None
    extra = ours[1:] if schedule else ours
    changes: list[Change] = [
        (f"cron {cron['cron_id']}: deleted", partial(client.crons.delete, cron["cron_id"])) for cron in extra
    ]
    if schedule and not ours:
        create = partial(
            client.crons.create, CONSOLIDATION_GRAPH, schedule=schedule, input={"messages": []}, metadata=CRON_MARK
        )
        changes.append((f"cron: created, {schedule}", create))
    elif schedule and ours[0]["schedule"] != schedule:
        update = partial(client.crons.update, ours[0]["cron_id"], schedule=schedule)
        changes.append((f"cron {ours[0]['cron_id']}: {ours[0]['schedule']} -> {schedule}", update))
    return changes


async def _file_changes(
    client: LangGraphClient, namespace: namespaces.Namespace, route: str, wanted: files.Files, *, prune: bool
) -> list[Change]:
    """The changes after which a namespace holds these skills or memory files, each checked and journaled as every write."""
    store = RemoteStore(client)
    written = ScopedFiles(
        namespace=lambda _: namespace, gate=lambda: None, route=route, author=lambda: Author("seed"), store=store
    )

    async def put(key: str, value: Any) -> None:
        await written.arevise(key, lambda _: value)

    async def delete(key: str) -> None:
        if item := await store.aget(namespace, key):
            await written.aremove(item)

    return _changes(namespace, await _stored(client, namespace), wanted, put, delete if prune else None)


def _changes(
    namespace: namespaces.Namespace,
    stored: dict[str, dict[str, Any]],
    wanted: files.Files,
    put: Callable[[str, Any], Awaitable[None]],
    delete: Callable[[str], Awaitable[None]] | None,
) -> list[Change]:
    """The changes after which a namespace holds the wanted files. Without `delete` its other files stay."""
    where, changes = "/".join(namespace), list[Change]()
    for key, value in wanted.items():
        old = stored.get(key)
        if old is None or (old.get("content"), old.get("encoding")) != (value["content"], value["encoding"]):
            changes.append((f"{where}{key}: {'updated' if old else 'added'}", partial(put, key, value)))
    if delete:
        changes += [(f"{where}{key}: deleted", partial(delete, key)) for key in sorted(set(stored) - set(wanted))]
    return changes


async def _stored(client: LangGraphClient, namespace: namespaces.Namespace) -> dict[str, dict[str, Any]]:
    values: dict[str, dict[str, Any]] = {}
    while page := (await client.store.search_items(namespace, limit=_PAGE, offset=len(values)))["items"]:
        values |= {item["key"]: item["value"] for item in page}
    return values


async def _namespaces(client: LangGraphClient, root: str) -> list[namespaces.Namespace]:
    listed: list[namespaces.Namespace] = []
    while page := (await client.store.list_namespaces(prefix=[root], limit=_PAGE, offset=len(listed)))["namespaces"]:
        listed += [tuple(namespace) for namespace in page]
    return listed


async def seed(
    client: LangGraphClient, parts: Sequence[str], settings: Settings, *, prune: bool, folder: Path = PROJECT
) -> list[str]:
    """Bring a deployment into the repository's state; returns one line a change.

    `prune` also deletes policies and skills that the repository, `folder`, no longer has. Memories are never deleted.

    Raises:
        SeedError: a file is invalid. All files are checked before the first write.
    """
    planners: dict[str, Callable[[], Awaitable[list[Change]]]] = {
        "policies": lambda: policy_changes(client, folder, prune=prune),
        "skills": lambda: skill_changes(client, folder, prune=prune),
        "memories": lambda: memory_changes(client, folder, settings),
        "cron": lambda: cron_changes(client, settings),
    }
    changes = [change for part in parts for change in await planners[part]()]
    with Progress(console=out, transient=True, disable=len(changes) < MUCH) as progress:
        for line, apply in progress.track(changes, description="Seeding"):
            await apply()
            progress.console.print(line)
    return [line for line, _ in changes]


async def main(folder: Path = PROJECT) -> int:
    """The command. Returns 0 once the deployment has the repository's state, or 1 after printing the reason in one line."""
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
        sys.stderr.write(f"{error} Nothing was written.\n")
        return 1
    except RefusedWriteError as error:  # there is no room left, which only the store knows
        sys.stderr.write(f"{error} Put that right and seed again.\n")
        return 1
    except (httpx.TransportError, httpx.HTTPStatusError) as error:
        sys.stderr.write(f"{unanswered(error, args.url)}\n")
        return 1
    nothing = f"Nothing to change: {', '.join(parts)} are as the repository has them."
    out.print(f"{len(changes)} changes." if changes else nothing)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
