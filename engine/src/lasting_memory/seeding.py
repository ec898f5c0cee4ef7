"""Put policies, skills, first memories and the consolidation cron into a deployment.

    python -m seeds [--url URL] [--prune] [--token] [policies|skills|memories|cron|all|embeddings]

It is safe to repeat. It comes in as Studio does: a deployment on LangSmith wants a LangSmith API
key in the environment, `langgraph dev` wants none. With `--token` it comes in with an operator's
token, read from standard input, where Studio is not let in. Folder names of organizations and
people may be percent-encoded.

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
from typing import NamedTuple, TypeVar

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import Assistant, SearchItem

from lasting_memory import settings
from lasting_memory.agent.policy_block import policies_left_out
from lasting_memory.deployment import Change as FileChange
from lasting_memory.deployment import Deployment
from lasting_memory.memory import validation
from lasting_memory.memory.seed_folder import Files, SeedFolder, read_seed_folder
from lasting_memory.memory.seeded import SeedError as SeedError  # noqa: PLC0414  # who calls this catches it
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author, IdentityError
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import MODEL

PARTS = ("policies", "skills", "memories", "cron")
EMBEDDINGS = "embeddings"
# Marks the cron that this command owns. It leaves other crons alone.
CRON_MARK = {"created_by": "seeds"}
_PAGE = 100
_Entry = TypeVar("_Entry")


class Change(NamedTuple):
    """A change of a deployment: what it is, in a line for people, and the call that makes it."""

    line: str
    apply: Callable[[], Awaitable[object]]


class PartlySeededError(SeedError):
    """Some files cannot be seeded, and the others were.

    The message names those that cannot, with their faults.
    """


def folder_files(
    deployment: Deployment, parts: Sequence[str], agents: Sequence[str]
) -> dict[Namespace, Files]:
    """What the namespaces of these parts shall hold: the files under `policies/` and `seeds/`.

    `agents` are the ids of assistants. Raises `SeedError`, which names every file and folder that
    cannot be seeded.
    """
    folder = read_seed_folder(deployment, parts, agents)
    faults = [*folder.refused, *folder.faults]
    if faults:
        raise SeedError(" ".join(faults))
    return folder.files


async def file_changes(
    client: LangGraphClient,
    namespace: Namespace,
    folder: SeedFolder,
    deployment: Deployment,
    *,
    prune: bool,
) -> list[Change]:
    """The changes after which a namespace holds the files of a folder.

    Memories and groups' files that are there stay as they are. With `prune`, other policies and
    skills are deleted. A change that a check of the deployment refuses becomes one of the folder's
    faults.
    """
    where = "/".join(namespace)
    kind = namespace[0]
    is_ours = kind in ("policies", "skills")  # else people may have changed it
    files = folder.files[namespace]
    stored_files = await _stored_files(client, namespace)
    changes = list[Change]()
    for key, value in files.items():
        stored_file = stored_files.get(key)
        if stored_file is not None:
            is_right = not is_ours or _is_same_file(stored_file, value)
            if is_right:
                continue
        path = f"/{kind}{key}"
        if is_ours and not _is_allowed(deployment, folder, path, stored_file, value):
            continue
        put_file = partial(client.store.put_item, namespace, key, value)
        verb = "updated" if stored_file else "added"
        change = Change(f"{where}{key}: {verb}", put_file)
        changes.append(change)
    if not prune or not is_ours:
        return changes
    removed_keys = stored_files.keys() - files - folder.left_alone[namespace]
    for key in sorted(removed_keys):
        path = f"/{kind}{key}"
        if not _is_allowed(deployment, folder, path, stored_files[key], None):
            continue
        delete = partial(client.store.delete_item, namespace, key)
        change = Change(f"{where}{key}: deleted", delete)
        changes.append(change)
    return changes


async def _stored_files(
    client: LangGraphClient, namespace: Namespace
) -> dict[str, Mapping[str, object]]:
    """The values of a namespace's items, by key."""

    async def page(offset: int) -> list[SearchItem]:
        answer = await client.store.search_items(namespace, limit=_PAGE, offset=offset)
        return answer["items"]

    items = await _all_pages(page)
    return {item["key"]: item["value"] for item in items}


def _is_same_file(stored_file: Mapping[str, object], file: Mapping[str, object]) -> bool:
    """Whether two files, as the store has them, have the same content in the same encoding."""
    if stored_file.get("content") != file["content"]:
        return False
    return stored_file.get("encoding") == file["encoding"]


def _is_allowed(
    deployment: Deployment,
    folder: SeedFolder,
    path: str,
    old_file: Mapping[str, object] | None,
    new_file: Mapping[str, object] | None,
) -> bool:
    """Whether the deployment's checks allow what the file of a skill or a policy becomes.

    `path` is as the agent sees it. `new_file` is None where the file is deleted. A refusal becomes
    one of the folder's faults.
    """
    change = FileChange(path, _text_of(old_file), _text_of(new_file), Author("seed"))
    try:
        validation.check_change(deployment, change)
    except validation.RefusedWrite as error:
        folder.faults.append(f"{change.path} cannot be seeded. {error}")
        return False
    return True


def _text_of(file: Mapping[str, object] | None) -> str | None:
    """The content of a file; None where there is no file, or no text in it: an operator may have put
    anything there.
    """
    content = file.get("content") if file else None
    if not isinstance(content, str):
        return None
    return content


async def cron_changes(
    client: LangGraphClient, deployment: Deployment, graphs: Collection[str]
) -> list[Change]:
    """The changes after which there is one cron, at `CONSOLIDATION_SCHEDULE`.

    Its time zone is `CONSOLIDATION_TIMEZONE`. Without a schedule, or without consolidation, there is
    none afterwards. `graphs` are those of the deployment's assistants.
    """
    crons = await client.crons.search(
        metadata=CRON_MARK, limit=_PAGE, sort_by="created_at", sort_order="asc"
    )
    # The assistant of a graph that was taken off stays in the database.
    consolidates = deployment.consolidation and settings.CONSOLIDATION_GRAPH in graphs
    schedule = None
    if consolidates:
        schedule = deployment.settings.consolidation_schedule
    timezone = deployment.settings.consolidation_timezone
    changes = list[Change]()
    is_there = False
    for cron in crons:
        metadata = cron.get("metadata") or {}
        is_seeded = CRON_MARK.items() <= metadata.items()
        if not is_seeded:
            continue
        cron_timezone = cron.get("timezone") or "UTC"
        is_right = cron["schedule"] == schedule and cron_timezone == timezone
        if is_right and not is_there:
            is_there = True
            continue
        cron_id = cron["cron_id"]
        delete = partial(client.crons.delete, cron_id)
        changes.append(Change(f"cron {cron_id}: deleted", delete))
    if schedule and not is_there:
        create = partial(
            client.crons.create,
            settings.CONSOLIDATION_GRAPH,
            schedule=schedule,
            timezone=timezone,
            input={"messages": []},
            metadata=CRON_MARK,
        )
        changes.append(Change(f"cron: created, {schedule} {timezone}", create))
    return changes


async def embedding_changes(client: LangGraphClient) -> list[Change]:
    """The changes after which the conversations of all people are embedded anew.

    Each deletes by which model a person's conversations are embedded.
    """
    root = f"{namespaces.RECALL_PREFIX}texts"
    people = await _namespaces(client, root)
    changes = list[Change]()
    for _, person in people:
        namespace = [root, person]
        forget = partial(client.store.delete_item, namespace, MODEL)
        change = Change(f"{person}: embedded anew", forget)
        changes.append(change)
    return changes


async def _namespaces(client: LangGraphClient, root: str) -> list[list[str]]:
    """The namespaces in the store whose first part this is."""

    async def page(offset: int) -> list[list[str]]:
        answer = await client.store.list_namespaces(prefix=[root], limit=_PAGE, offset=offset)
        return answer["namespaces"]

    return await _all_pages(page)


async def _assistants(client: LangGraphClient) -> list[Assistant]:
    """The assistants of a deployment."""

    async def page(offset: int) -> list[Assistant]:
        return await client.assistants.search(limit=_PAGE, offset=offset)

    return await _all_pages(page)


async def _all_pages(page: Callable[[int], Awaitable[list[_Entry]]]) -> list[_Entry]:
    """All that a search of the platform finds. `page` gives at most `_PAGE` entries, from this one
    on.
    """
    entries = list[_Entry]()
    while True:
        entries_of_page = await page(len(entries))
        if not entries_of_page:
            return entries
        entries += entries_of_page


async def seed(
    client: LangGraphClient, parts: Sequence[str], deployment: Deployment, *, prune: bool
) -> list[str]:
    """Brings a deployment into the repository's state; prints and returns one line a change.

    It also prints which files are skipped, and which policies no prompt shows. With `prune` it also
    deletes policies and skills that the repository no longer has. Memories are never deleted.

    Raises `SeedError` before the first write, if the owner of a file is not certain (the folder's
    `refused`), and `PartlySeededError` after the last one, if some files cannot be seeded (its
    `faults`).
    """
    graphs = set[str]()
    agents = list[str]()
    for assistant in await _assistants(client):
        graph = assistant["graph_id"]
        graphs.add(graph)
        if graph != settings.CONSOLIDATION_GRAPH:
            agents.append(assistant["assistant_id"])
    folder = read_seed_folder(deployment, parts, agents)
    if folder.refused:
        faults = [*folder.refused, *folder.faults]
        raise SeedError(" ".join(faults))
    if prune and "policies" in parts:
        await _add_stored_policies(client, folder)
    changes = list[Change]()
    for namespace in folder.files:
        changes += await file_changes(client, namespace, folder, deployment, prune=prune)
    if "cron" in parts:
        changes += await cron_changes(client, deployment, graphs)
    if EMBEDDINGS in parts:
        changes += await embedding_changes(client)
    await _apply(changes)
    hidden_policies = _hidden_policies(folder, deployment)
    for line in [*folder.skipped, *hidden_policies]:
        print(line, flush=True)
    if folder.faults:
        raise PartlySeededError(" ".join(folder.faults))
    return [change.line for change in changes]


async def _add_stored_policies(client: LangGraphClient, folder: SeedFolder) -> None:
    """Let the folder have the namespaces of stored policies, too, so that it has no files for them
    and these are deleted.
    """
    stored_namespaces = await _namespaces(client, "policies")
    all_files = dict[Namespace, Files]()
    for parts in stored_namespaces:
        namespace = tuple(parts)
        all_files[namespace] = {}
    all_files.update(folder.files)
    folder.files = all_files


async def _apply(changes: Sequence[Change]) -> None:
    """Makes the changes in order; prints the line of each one that is made."""
    for change in changes:
        await change.apply()
        print(change.line, flush=True)


def _hidden_policies(folder: SeedFolder, deployment: Deployment) -> list[str]:
    """A line for each policy that the prompts of its organization do not show, or not as a whole."""
    lines = list[str]()
    max_bytes = deployment.limits.policy_block_bytes
    for namespace, files in folder.files.items():
        if namespace[0] != "policies":
            continue
        where = "/".join(namespace)
        texts = {key: value["content"] for key, value in files.items()}
        for left_out in policies_left_out(texts, max_bytes):
            lines.append(f"{where}: no prompt shows {left_out}")
    return lines


def _parse_arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m seeds", description=summary)
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
    return parser.parse_args()


async def _main(deployment: Deployment) -> str | None:
    """The command.

    Returns the reason in one line if the deployment has not the repository's state.
    """
    args = _parse_arguments()
    headers = {"x-auth-scheme": "langsmith"}
    if args.token:
        token = sys.stdin.readline().strip()
        headers = {"authorization": f"Bearer {token}"}
    parts = PARTS if args.part == "all" else (args.part,)
    try:
        settings.check_server(args.url)
        environ = settings.local_environ(deployment.folder)
        local_settings = settings.load_settings(environ)
        deployment = replace(deployment, settings=local_settings)
        async with get_client(url=args.url, headers=headers) as client:
            changes = await seed(client, parts, deployment, prune=args.prune)
    except PartlySeededError as error:
        print(f"{error} The rest is written.", file=sys.stderr, flush=True)
        sys.exit(settings.PARTLY_SEEDED)
    except (settings.SettingsError, IdentityError) as error:
        return f"{error} Nothing was written."
    except (httpx.TransportError, httpx.HTTPStatusError) as error:
        return settings.unanswered(error)
    if changes:
        print(f"{len(changes)} changes.")
    else:
        print(f"Nothing to change: {', '.join(parts)} are as the repository has them.")
    return None


def main(deployment: Deployment) -> None:
    """The command `python -m seeds`.

    Exits with the reason in one line if the deployment has not the state of the folder.
    """
    try:
        sys.exit(asyncio.run(_main(deployment)))
    except KeyboardInterrupt:
        sys.exit("Stopped. What stands above is written; run it again for the rest.")
