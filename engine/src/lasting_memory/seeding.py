"""Put policies, skills, first memories and the consolidation cron into a deployment. Safe to
repeat.

    python -m seeds [--url URL] [--prune] [--token] [policies|skills|memories|cron|all|embeddings]

It comes in as Studio does: a deployment on LangSmith wants a LangSmith API key in the environment,
`langgraph dev` wants none. With `--token` it comes in with an operator's token, read from standard
input, where Studio is not let in. Folder names of organizations and people may be percent-encoded.

All files are read before any is written. A file that cannot be seeded is named with its fault, and
the rest is put in; the exit status is then 3. A link, or a folder whose owner is not certain, stops
everything: nothing is written. Files that nobody would look for, or that are too large, are skipped
and named; hidden files, `node_modules` and `__pycache__` are skipped in silence.

`embeddings`, which `all` leaves out, is for another embedding model in `store.index`: past
conversations are embedded anew, each person's with their next search and consolidation.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from lasting_memory import settings, validation
from lasting_memory.agent.prompt import policies_left_out
from lasting_memory.deployment import Change as FileChange
from lasting_memory.deployment import Deployment
from lasting_memory.files.seed_folder import Files, SeedFolder, read_seed_folder
from lasting_memory.files.seeded import SeedError as SeedError  # noqa: PLC0414  # who calls this catches it
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author, IdentityError
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import MODEL

PARTS = ("policies", "skills", "memories", "cron")
EMBEDDINGS = "embeddings"
# Marks the cron that this command owns. It leaves other crons alone.
CRON_MARK = {"created_by": "seeds"}
_PAGE = 100

Change = tuple[str, Callable[[], Awaitable[Any]]]


class PartlySeededError(SeedError):
    """Some files cannot be seeded, and the others were. The message names all of them, with their
    faults.
    """


def folder_files(
    deployment: Deployment, parts: Sequence[str], agents: Sequence[str]
) -> dict[Namespace, Files]:
    """What the namespaces of these parts shall hold: the files under `policies/` and `seeds/`.

    `agents` are the ids of assistants. Raises `SeedError`, which names every file and folder that
    cannot be seeded.
    """
    folder = read_seed_folder(deployment, parts, agents)
    if wrong := [*folder.refused, *folder.faults]:
        raise SeedError(" ".join(wrong))
    return folder.files


async def file_changes(
    client: LangGraphClient,
    namespace: Namespace,
    folder: SeedFolder,
    deployment: Deployment,
    *,
    prune: bool,
) -> list[Change]:
    """The changes after which a namespace holds the files of a folder. Memories and groups' files
    that are there stay as they are. A change that a check of the deployment refuses becomes one of
    the folder's faults.
    """
    where = "/".join(namespace)
    route = f"/{namespace[0]}"
    files = folder.files[namespace]
    stored = {
        item["key"]: item["value"]
        for item in await _pages(partial(client.store.search_items, namespace), "items")
    }
    is_ours = namespace[0] in ("policies", "skills")
    changes = list[Change]()
    for key, value in files.items():
        old = stored.get(key)
        is_same = old is not None and all(
            old.get(name) == value[name] for name in ("content", "encoding")
        )
        if is_same or (old is not None and not is_ours):
            continue
        if is_ours and not _is_allowed(deployment, folder, f"{route}{key}", old, value):
            continue
        put = partial(client.store.put_item, namespace, key, value)
        changes.append((f"{where}{key}: {'updated' if old else 'added'}", put))
    if not (prune and is_ours):
        return changes
    for key in sorted(stored.keys() - files - folder.left_alone[namespace]):
        if _is_allowed(deployment, folder, f"{route}{key}", stored[key], None):
            changes.append(
                (f"{where}{key}: deleted", partial(client.store.delete_item, namespace, key))
            )
    return changes


def _is_allowed(
    deployment: Deployment,
    folder: SeedFolder,
    path: str,
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
) -> bool:
    """Whether the deployment's checks allow what the file of a skill or a policy becomes (None: it
    is deleted).

    `path` is as the agent sees it. A refusal becomes one of the folder's faults.
    """
    before = old.get("content") if old else None
    text = before if isinstance(before, str) else None  # an operator may have put anything there
    change = FileChange(path, text, new["content"] if new else None, Author("seed"))
    try:
        validation.check_change(deployment, change)
    except validation.RefusedWrite as error:
        folder.faults.append(f"{change.path} cannot be seeded. {error}")
        return False
    return True


async def cron_changes(
    client: LangGraphClient, deployment: Deployment, graphs: Collection[str]
) -> list[Change]:
    """One cron, at `CONSOLIDATION_SCHEDULE` of `CONSOLIDATION_TIMEZONE`; none without a schedule,
    or without consolidation.
    """
    crons: Any = await client.crons.search(
        metadata=CRON_MARK, limit=_PAGE, sort_by="created_at", sort_order="asc"
    )
    ours = [cron for cron in crons if CRON_MARK.items() <= (cron.get("metadata") or {}).items()]
    # The assistant of a graph that was taken off stays in the database.
    consolidates = deployment.consolidation and settings.CONSOLIDATION_GRAPH in graphs
    schedule = deployment.settings.consolidation_schedule if consolidates else None
    timezone = deployment.settings.consolidation_timezone
    kept = [
        cron
        for cron in ours
        if (cron["schedule"], cron.get("timezone") or "UTC") == (schedule, timezone)
    ][:1]
    gone = [cron["cron_id"] for cron in ours if cron not in kept]
    changes: list[Change] = [
        (f"cron {cron_id}: deleted", partial(client.crons.delete, cron_id)) for cron_id in gone
    ]
    if schedule and not kept:
        create = partial(
            client.crons.create,
            schedule=schedule,
            timezone=timezone,
            input={"messages": []},
            metadata=CRON_MARK,
        )
        changes.append(
            (f"cron: created, {schedule} {timezone}", partial(create, settings.CONSOLIDATION_GRAPH))
        )
    return changes


async def embedding_changes(client: LangGraphClient) -> list[Change]:
    """For each person whose conversations are embedded: forget by which model, so that they are
    embedded anew.
    """
    texts = f"{namespaces.RECALL_PREFIX}texts"
    people = await _pages(client.store.list_namespaces, "namespaces", prefix=[texts])
    return [
        (f"{person}: embedded anew", partial(client.store.delete_item, [texts, person], MODEL))
        for _, person in people
    ]


async def _pages(
    search: Callable[..., Awaitable[Any]], part: str | None = None, **asked: Any
) -> list[Any]:
    """All that a search of the platform finds; `part` names the list in its answers, which are
    lists otherwise.
    """
    found = list[Any]()
    while page := await search(limit=_PAGE, offset=len(found), **asked):
        if not (listed := page[part] if part else page):
            break
        found += listed
    return found


async def seed(
    client: LangGraphClient, parts: Sequence[str], deployment: Deployment, *, prune: bool
) -> list[str]:
    """Bring a deployment into the repository's state; prints and returns one line a change.

    Prints also which files are skipped, and which policies no prompt shows. `prune` also deletes
    policies and skills that the repository no longer has. Memories are never deleted. Raises
    `SeedError` before the first write, where the owner of a file is not certain, and
    `PartlySeededError` after the last one, where some files cannot be seeded.
    """
    assistants = {
        found["assistant_id"]: found["graph_id"] for found in await _pages(client.assistants.search)
    }
    agents = [
        assistant
        for assistant, graph in assistants.items()
        if graph != settings.CONSOLIDATION_GRAPH
    ]
    folder = read_seed_folder(deployment, parts, agents)
    if folder.refused:
        raise SeedError(" ".join([*folder.refused, *folder.faults]))
    if prune and "policies" in parts:
        there = await _pages(client.store.list_namespaces, "namespaces", prefix=["policies"])
        folder.files = {tuple(namespace): {} for namespace in there} | folder.files
    changes = list[Change]()
    for namespace in folder.files:
        changes += await file_changes(client, namespace, folder, deployment, prune=prune)
    if "cron" in parts:
        changes += await cron_changes(client, deployment, assistants.values())
    if EMBEDDINGS in parts:
        changes += await embedding_changes(client)
    for line, apply in changes:
        await apply()
        print(line, flush=True)
    for line in [*folder.skipped, *_hidden_policies(folder, deployment)]:
        print(line, flush=True)
    if folder.faults:
        raise PartlySeededError(" ".join(folder.faults))
    return [line for line, _ in changes]


def _hidden_policies(folder: SeedFolder, deployment: Deployment) -> list[str]:
    """A line for each policy that the prompts of its organization do not show, or not as a whole."""
    lines = list[str]()
    for namespace, files in folder.files.items():
        if namespace[0] != "policies":
            continue
        texts = {key: value["content"] for key, value in files.items()}
        for left_out in policies_left_out(texts, deployment.limits.policy_block_bytes):
            lines.append(f"{'/'.join(namespace)}: no prompt shows {left_out}")
    return lines


async def _main(deployment: Deployment) -> str | None:
    """The command. Returns the reason in one line if the deployment has not the repository's state."""
    parser = argparse.ArgumentParser(
        prog="python -m seeds", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("part", nargs="?", choices=[*PARTS, "all", EMBEDDINGS], default="all")
    parser.add_argument(
        "--url",
        default=settings.dev_address(),
        help="the deployment's address (default: that of `make dev`)",
    )
    parser.add_argument(
        "--prune",
        action="store_true",
        help="delete policies and skills the repository no longer has",
    )
    parser.add_argument(
        "--token", action="store_true", help="read an operator's token from standard input"
    )
    args = parser.parse_args()
    sign_in = (
        {"authorization": f"Bearer {sys.stdin.readline().strip()}"}
        if args.token
        else {"x-auth-scheme": "langsmith"}
    )
    parts = PARTS if args.part == "all" else (args.part,)
    try:
        settings.check_server(args.url)
        deployment = replace(
            deployment, settings=settings.load_settings(settings.local_environ(deployment.folder))
        )
        async with get_client(url=args.url, headers=sign_in) as client:
            changes = await seed(client, parts, deployment, prune=args.prune)
    except PartlySeededError as error:
        print(f"{error} The rest is written.", file=sys.stderr, flush=True)
        sys.exit(settings.PARTLY_SEEDED)
    except (settings.SettingsError, IdentityError) as error:
        return f"{error} Nothing was written."
    except (httpx.TransportError, httpx.HTTPStatusError) as error:
        return settings.unanswered(error)
    print(
        f"{len(changes)} changes."
        if changes
        else f"Nothing to change: {', '.join(parts)} are as the repository has them."
    )
    return None


def main(deployment: Deployment) -> None:
    """The command `python -m seeds`. Exits with the reason in one line if the server has not the
    state of the folder.
    """
    try:
        sys.exit(asyncio.run(_main(deployment)))
    except KeyboardInterrupt:
        sys.exit("Stopped. What stands above is written; run it again for the rest.")
