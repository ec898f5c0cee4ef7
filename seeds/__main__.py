"""Put policies, skills, first memories and the consolidation cron into a deployment. Safe to repeat.

    python -m seeds [--url URL] [--prune] [policies|skills|memories|cron|all]

A deployment on LangSmith wants a LangSmith API key in the environment; `langgraph dev` wants none. Either way the command comes
in as an operator.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from rich.console import Console
from rich.progress import Progress

from memory import scopes
from seeds import files
from settings import PROJECT, Settings, SettingsError, dev_address, load_settings, local_environ

PARTS = ("policies", "skills", "memories", "cron")
# Marks the cron that this command owns; crons that somebody else made are left alone.
CRON_MARK = {"created_by": "seeds"}
# Fewer changes than this are made before a progress bar could be read.
MUCH = 20
_PAGE = 100

Change = tuple[str, Callable[[], Awaitable[Any]]]
out = Console(highlight=False, soft_wrap=True)


async def policy_changes(client: LangGraphClient, *, prune: bool) -> list[Change]:
    """Every organization's policies as `policies/` has them. Pruned: files and organizations it no longer has."""
    wanted = {scopes.policies(org): found for org, found in files.policies(PROJECT).items()}
    gone = [namespace for namespace in await _namespaces(client, "policies") if namespace not in wanted] if prune else []
    changes: list[Change] = []
    for namespace, found in [*wanted.items(), *((namespace, {}) for namespace in gone)]:
        changes += await _changes(client, namespace, found, prune=prune)
    return changes


async def skill_changes(client: LangGraphClient, *, prune: bool) -> list[Change]:
    """The skills of `seeds/skills/` for every assistant of graph `agent`."""
    found, changes = files.skills(PROJECT), list[Change]()
    assistants: list[Any] = []
    while page := await client.assistants.search(graph_id="agent", limit=_PAGE, offset=len(assistants)):
        assistants += page
    for assistant in assistants:
        changes += await _changes(client, scopes.skills(assistant["assistant_id"]), found, prune=prune)
    return changes


async def memory_changes(client: LangGraphClient, settings: Settings) -> list[Change]:
    """First memories of the people `seeds/memories/` names. A file they have already stays as it is."""
    changes: list[Change] = []
    # Under MEMORY_SCOPE=assistant memory is shared: what is known of one person must not get there.
    people = {} if settings.memory_scope == "assistant" else files.memories(PROJECT)
    for (org, identity), found in people.items():
        namespace = scopes.memories(scopes.Actor(identity, org), scopes.DEFAULT_AGENT_ASSISTANT, settings)
        stored = await _stored(client, namespace)
        absent = {key: value for key, value in found.items() if key not in stored}
        changes += await _changes(client, namespace, absent, prune=False)
    return changes


async def cron_changes(client: LangGraphClient, settings: Settings) -> list[Change]:
    """One cron for the deployment, at `CONSOLIDATION_SCHEDULE`; none when that is empty."""
    crons: Any = await client.crons.search(metadata=CRON_MARK, limit=_PAGE, sort_by="created_at", sort_order="asc")
    ours = [cron for cron in crons if CRON_MARK.items() <= (cron.get("metadata") or {}).items()]
    schedule = settings.consolidation_schedule
    extra = ours[1:] if schedule else ours
    changes: list[Change] = [
        (f"cron {cron['cron_id']}: deleted", _call(client.crons.delete, cron["cron_id"])) for cron in extra
    ]
    if schedule and not ours:
        create = _call(
            client.crons.create, "consolidation_agent", schedule=schedule, input={"messages": []}, metadata=CRON_MARK
        )
        changes.append((f"cron: created, {schedule}", create))
    elif schedule and ours[0]["schedule"] != schedule:
        update = _call(client.crons.update, ours[0]["cron_id"], schedule=schedule)
        changes.append((f"cron {ours[0]['cron_id']}: {ours[0]['schedule']} -> {schedule}", update))
    return changes


async def _changes(client: LangGraphClient, namespace: scopes.Namespace, wanted: files.Files, *, prune: bool) -> list[Change]:
    """What makes a namespace hold the wanted files. Without `prune` what else it holds stays."""
    stored, where = await _stored(client, namespace), "/".join(namespace)
    changes: list[Change] = []
    for key, value in wanted.items():
        old = stored.get(key)
        if old is None or (old.get("content"), old.get("encoding")) != (value["content"], value["encoding"]):
            changes.append(
                (f"{where}{key}: {'updated' if old else 'added'}", _call(client.store.put_item, namespace, key, value))
            )
    gone = sorted(set(stored) - set(wanted)) if prune else []
    return changes + [(f"{where}{key}: deleted", _call(client.store.delete_item, namespace, key)) for key in gone]


def _call(method: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Callable[[], Awaitable[Any]]:
    return lambda: method(*args, **kwargs)


async def _stored(client: LangGraphClient, namespace: scopes.Namespace) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    while page := (await client.store.search_items(namespace, limit=_PAGE, offset=len(found)))["items"]:
        found |= {item["key"]: item["value"] for item in page}
    return found


async def _namespaces(client: LangGraphClient, root: str) -> list[scopes.Namespace]:
    found: list[scopes.Namespace] = []
    while page := (await client.store.list_namespaces(prefix=[root], limit=_PAGE, offset=len(found)))["namespaces"]:
        found += [tuple(namespace) for namespace in page]
    return found


async def seed(client: LangGraphClient, parts: Sequence[str], settings: Settings, *, prune: bool) -> list[str]:
    """Make the deployment hold what the repository has.

    Args:
        client: comes in as an operator.
        parts: of `PARTS`.
        settings: for `MEMORY_SCOPE` and `CONSOLIDATION_SCHEDULE`.
        prune: also delete policies and skills that the repository no longer has. Nobody's memory is ever deleted.

    Returns:
        One line a change.

    Raises:
        SeedError: a file is invalid. Everything is checked before anything is written.
    """
    planners: dict[str, Callable[[], Awaitable[list[Change]]]] = {
        "policies": lambda: policy_changes(client, prune=prune),
        "skills": lambda: skill_changes(client, prune=prune),
        "memories": lambda: memory_changes(client, settings),
        "cron": lambda: cron_changes(client, settings),
    }
    changes = [change for part in parts for change in await planners[part]()]
    with Progress(console=out, transient=True, disable=len(changes) < MUCH) as progress:
        for line, apply in progress.track(changes, description="Seeding"):
            await apply()
            progress.console.print(line)
    return [line for line, _ in changes]


async def main() -> int:
    """The command. 0 when the deployment holds what the repository has, 1 with one line that says why not."""
    parser = argparse.ArgumentParser(prog="python -m seeds", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", choices=[*PARTS, "all"], default="all")
    parser.add_argument(
        "--url", default=dev_address(), help="the deployment's address (default: the server that `make dev` started)"
    )
    parser.add_argument("--prune", action="store_true", help="delete policies and skills the repository no longer has")
    args = parser.parse_args()
    parts = PARTS if args.part == "all" else (args.part,)
    client = get_client(url=args.url, headers={"x-auth-scheme": "langsmith"})
    try:
        changes = await seed(client, parts, load_settings(local_environ()), prune=args.prune)
    except (files.SeedError, SettingsError) as error:
        sys.stderr.write(f"{error} Nothing was written.\n")
        return 1
    except httpx.TransportError:
        sys.stderr.write(f"No server answers at {args.url}; start it with `make dev`, or name another with --url.\n")
        return 1
    except httpx.HTTPStatusError as error:
        reason = error.response.text[:300] or error.response.reason_phrase
        sys.stderr.write(f"{args.url} answered {error.response.status_code} to {error.request.url.path}: {reason}\n")
        return 1
    finally:
        await client.aclose()
    out.print(
        f"{len(changes)} changes." if changes else f"Nothing to change: {', '.join(parts)} are as the repository has them."
    )
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
