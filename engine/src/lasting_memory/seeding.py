"""Put policies, skills, first memories and the consolidation cron into a deployment. Safe to repeat.

    python -m seeds [--url URL] [--prune] [--token] [policies|skills|memories|cron|all|embeddings]

It comes in as Studio does: a deployment on LangSmith wants a LangSmith API key in the environment, `langgraph dev` wants none.
With `--token` it comes in with an operator's token, read from standard input, where Studio is not let in. All files are checked
before any is written; links are refused, and hidden files and folders left out. Folder names of organizations and people may be
percent-encoded.

`embeddings`, which `all` leaves out, is for another embedding model in `store.index`: past conversations are embedded anew,
each person's with their next search and consolidation.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from lasting_memory import settings, validation
from lasting_memory.deployment import Change as FileChange
from lasting_memory.deployment import Deployment
from lasting_memory.files.seeded import SeedError as SeedError  # noqa: PLC0414  # who calls this catches it
from lasting_memory.files.seeded import all_files, check_quota, entries, first_files, folders, seed_value
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author, IdentityError, label
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import MODEL

PARTS = ("policies", "skills", "memories", "cron")
EMBEDDINGS = "embeddings"
# Marks the cron that this command owns. It leaves other crons alone.
CRON_MARK = {"created_by": "seeds"}
_PAGE = 100

Files = dict[str, dict[str, Any]]  # by store key
Change = tuple[str, Callable[[], Awaitable[Any]]]


def folder_files(deployment: Deployment, parts: Sequence[str], agents: Sequence[str]) -> dict[Namespace, Files]:
    """What the namespaces of these parts shall hold: the files under `policies/` and `seeds/`.

    `agents` are the ids of assistants. Raises `SeedError` for a file or folder that cannot be seeded.
    """
    found = dict[Namespace, Files]()
    policies, seeds = deployment.folder / "policies", deployment.folder / "seeds"
    entries(seeds)  # refuses a link
    if "policies" in parts:
        for org, folder in _named_folders(policies).items():
            found[namespaces.policies(org)] = _files(folder, "/policies", deployment, suffix=".md")
    if "skills" in parts and "/skills/" in deployment.routes:
        found |= dict.fromkeys(map(namespaces.skills, agents), _skills(seeds / "skills", deployment))
    if "memories" in parts:
        found |= _memories(seeds / "memories", deployment, agents)
        found |= _groups(seeds / "memories" / "_groups", deployment)
    return found


def _skills(root: Path, deployment: Deployment) -> Files:
    """The files of `<name>/`, of which each needs a SKILL.md."""
    found: Files = {}
    for folder in folders(root):
        if folder / "SKILL.md" not in entries(folder):
            raise SeedError(f"{folder} has no SKILL.md; add one, or move the folder away.")
        seeded = _files(folder, f"/skills/{folder.name}", deployment)
        found |= {f"/{folder.name}{key}": value for key, value in seeded.items()}
    return found


def _memories(root: Path, deployment: Deployment, agents: Sequence[str]) -> dict[Namespace, Files]:
    """First memories of each person that `<org>/<identity>/` names.

    Files at the top are for everyone. Named people get them too, unless their own folder has a file of that name; others get
    them with their first conversation, and so does a shared memory. What is one person's is never put into that.
    """
    if not deployment.has_memory:
        return {}
    found = dict[Namespace, Files]()
    everyone = {
        f"/{path.name}": seed_value(path, f"/memories/{path.name}", deployment) for path in first_files(root.parents[1])
    }
    for org, org_folder in _named_folders(root).items():
        for person, folder in _named_folders(org_folder).items():
            files = {**everyone, **_files(folder, "/memories", deployment)}
            check_quota(folder, [file["content"] for file in files.values()], deployment.limits)
            for agent in agents:
                found[deployment.memory.namespace(Actor(person, org), agent)] = files
    return {} if deployment.memory.is_shared else found


def _groups(root: Path, deployment: Deployment) -> dict[Namespace, Files]:
    """First files of each group: in `team/acme/red/` those of `/team/` for the people of acme whose claim is "red"."""
    found = dict[Namespace, Files]()
    for folder in folders(root):
        scope = deployment.routes.get(f"/{folder.name}/")
        if scope is None or not scope.claim:
            fix = f'add "/{folder.name}/": group("<claim>") to routes, or move it away'
            raise SeedError(f"{folder} is the folder of no group; {fix}.")
        for org, org_folder in _named_folders(folder).items():
            for group, group_folder in _named_folders(org_folder).items():
                place = scope.namespace(Actor("", org), "", {scope.claim: group})
                found[place] = _files(group_folder, f"/{folder.name}", deployment)
    return found


def _named_folders(path: Path) -> dict[str, Path]:
    """The folders of organizations, people or groups, by the name that each spells, percent-encoded or not.

    Raises `SeedError` for a name that nobody can have, and for two folders of one name: the second would replace the first.
    """
    found = dict[str, Path]()
    for folder in folders(path):
        try:
            name = unquote(folder.name, errors="strict")
            label(name)
        except (UnicodeDecodeError, IdentityError):
            raise SeedError(f"{folder} spells no name that somebody could have; rename it, or move it away.") from None
        if name in found:
            raise SeedError(f"{found[name]} and {folder} both spell {name!r}; put the files into one of them.")
        found[name] = folder
    return found


def _files(folder: Path, route: str, deployment: Deployment, suffix: str = "") -> Files:
    """The files of a folder and of those below it, checked for writing under `route`."""
    found: Files = {}
    for path in all_files(folder):
        if path.name.endswith(suffix):
            key = f"/{path.relative_to(folder).as_posix()}"
            found[key] = seed_value(path, f"{route}{key}", deployment)
    return found


async def file_changes(
    client: LangGraphClient, namespace: Namespace, files: Files, deployment: Deployment, *, prune: bool
) -> list[Change]:
    """The changes after which a namespace holds these files. Memories and groups' files that are there stay as they are.

    Raises `SeedError` for a change of a skill or a policy that a check of the deployment refuses.
    """
    where, changes, put, delete = "/".join(namespace), list[Change](), client.store.put_item, client.store.delete_item
    stored = {item["key"]: item["value"] for item in await _pages(partial(client.store.search_items, namespace), "items")}
    is_ours = namespace[0] in ("policies", "skills")
    for key, value in files.items():
        old = stored.get(key)
        if old is None or (is_ours and any(old.get(name) != value[name] for name in ("content", "encoding"))):
            if is_ours:
                _check(deployment, namespace, key, old, value)
            changes.append((f"{where}{key}: {'updated' if old else 'added'}", partial(put, namespace, key, value)))
    gone = sorted(stored.keys() - files) if prune and is_ours else []
    for key in gone:
        _check(deployment, namespace, key, stored[key], None)
    return changes + [(f"{where}{key}: deleted", partial(delete, namespace, key)) for key in gone]


def _check(
    deployment: Deployment, namespace: Namespace, key: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> None:
    """Raise `SeedError` if a check refuses what a skill's or a policy's file becomes (None: it is deleted)."""
    before = old.get("content") if old else None
    text = before if isinstance(before, str) else None  # an operator may have put anything there
    change = FileChange(f"/{namespace[0]}{key}", text, new["content"] if new else None, Author("seed"))
    try:
        validation.check_change(deployment, change)
    except validation.RefusedWrite as error:
        raise SeedError(f"{change.path} cannot be seeded. {error}") from None


async def cron_changes(client: LangGraphClient, deployment: Deployment, graphs: Collection[str]) -> list[Change]:
    """One cron, at `CONSOLIDATION_SCHEDULE` of `CONSOLIDATION_TIMEZONE`; none without a schedule, or without consolidation."""
    crons: Any = await client.crons.search(metadata=CRON_MARK, limit=_PAGE, sort_by="created_at", sort_order="asc")
    ours = [cron for cron in crons if CRON_MARK.items() <= (cron.get("metadata") or {}).items()]
    # The assistant of a graph that was taken off stays in the database.
    consolidates = deployment.consolidation and settings.CONSOLIDATION_GRAPH in graphs
    schedule = deployment.settings.consolidation_schedule if consolidates else None
    timezone = deployment.settings.consolidation_timezone
    kept = [cron for cron in ours if (cron["schedule"], cron.get("timezone") or "UTC") == (schedule, timezone)][:1]
    gone = [cron["cron_id"] for cron in ours if cron not in kept]
    changes: list[Change] = [(f"cron {cron_id}: deleted", partial(client.crons.delete, cron_id)) for cron_id in gone]
    if schedule and not kept:
        create = partial(client.crons.create, schedule=schedule, timezone=timezone, input={"messages": []}, metadata=CRON_MARK)
        changes.append((f"cron: created, {schedule} {timezone}", partial(create, settings.CONSOLIDATION_GRAPH)))
    return changes


async def embedding_changes(client: LangGraphClient) -> list[Change]:
    """For each person whose conversations are embedded: forget by which model, so that they are embedded anew."""
    texts = f"{namespaces.RECALL_PREFIX}texts"
    people = await _pages(client.store.list_namespaces, "namespaces", prefix=[texts])
    return [(f"{person}: embedded anew", partial(client.store.delete_item, [texts, person], MODEL)) for _, person in people]


async def _pages(search: Callable[..., Awaitable[Any]], part: str | None = None, **asked: Any) -> list[Any]:
    """All that a search of the platform finds; `part` names the list in its answers, which are lists otherwise."""
    found = list[Any]()
    while page := await search(limit=_PAGE, offset=len(found), **asked):
        if not (listed := page[part] if part else page):
            break
        found += listed
    return found


async def seed(client: LangGraphClient, parts: Sequence[str], deployment: Deployment, *, prune: bool) -> list[str]:
    """Bring a deployment into the repository's state; prints and returns one line a change.

    `prune` also deletes policies and skills that the repository no longer has. Memories are never deleted. Raises
    `SeedError` for an invalid file, before the first write.
    """
    assistants = {found["assistant_id"]: found["graph_id"] for found in await _pages(client.assistants.search)}
    agents = [assistant for assistant, graph in assistants.items() if graph != settings.CONSOLIDATION_GRAPH]
    wanted, changes = folder_files(deployment, parts, agents), list[Change]()
    if prune and "policies" in parts:
        there = await _pages(client.store.list_namespaces, "namespaces", prefix=["policies"])
        wanted = {tuple(namespace): {} for namespace in there} | wanted
    for namespace, files in wanted.items():
        changes += await file_changes(client, namespace, files, deployment, prune=prune)
    if "cron" in parts:
        changes += await cron_changes(client, deployment, assistants.values())
    if EMBEDDINGS in parts:
        changes += await embedding_changes(client)
    for line, apply in changes:
        await apply()
        print(line, flush=True)
    return [line for line, _ in changes]


async def _main(deployment: Deployment) -> str | None:
    """The command. Returns the reason in one line if the deployment has not the repository's state."""
    parser = argparse.ArgumentParser(prog="python -m seeds", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", choices=[*PARTS, "all", EMBEDDINGS], default="all")
    parser.add_argument("--url", default=settings.dev_address(), help="the deployment's address (default: that of `make dev`)")
    parser.add_argument("--prune", action="store_true", help="delete policies and skills the repository no longer has")
    parser.add_argument("--token", action="store_true", help="read an operator's token from standard input")
    args = parser.parse_args()
    sign_in = {"authorization": f"Bearer {sys.stdin.readline().strip()}"} if args.token else {"x-auth-scheme": "langsmith"}
    parts = PARTS if args.part == "all" else (args.part,)
    try:
        settings.check_server(args.url)
        deployment = replace(deployment, settings=settings.load_settings(settings.local_environ(deployment.folder)))
        async with get_client(url=args.url, headers=sign_in) as client:
            changes = await seed(client, parts, deployment, prune=args.prune)
    except (settings.SettingsError, IdentityError) as error:
        return f"{error} Nothing was written."
    except (httpx.TransportError, httpx.HTTPStatusError) as error:
        return settings.unanswered(error)
    print(f"{len(changes)} changes." if changes else f"Nothing to change: {', '.join(parts)} are as the repository has them.")
    return None


def main(deployment: Deployment) -> None:
    """The command `python -m seeds`. Exits with the reason in one line if the server has not the state of the folder."""
    try:
        sys.exit(asyncio.run(_main(deployment)))
    except KeyboardInterrupt:
        sys.exit("Stopped. What stands above is written; run it again for the rest.")
