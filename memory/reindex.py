"""Make the recall index of a person anew from their threads, on a running server, as an operator:

    python -m memory.reindex --user alice@example.com [--org acme] [--url URL]

Needed once for people whose conversations are older than the index; otherwise nothing depends on it, because a search indexes
what it finds unindexed. A deployment on LangSmith wants a LangSmith API key in the environment; `langgraph dev` wants none.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable
from typing import Any

import httpx
from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, Result, SearchItem, SearchOp
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from memory import scopes
from memory.recall import rebuild
from settings import SettingsError, dev_address, load_settings, local_environ

# Requests to the server at once.
_AT_ONCE = 8


class RemoteStore(BaseStore):
    """The platform's store over HTTP, as far as the index uses it."""

    def __init__(self, client: LangGraphClient) -> None:
        self._store = client.store
        self._turn = asyncio.Semaphore(_AT_ONCE)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Only `abatch` is offered."""
        raise NotImplementedError("RemoteStore is asynchronous; use abatch.")

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Each operation as a request of its own; they are in no order."""
        return list(await asyncio.gather(*map(self._do, ops)))

    async def _do(self, op: Op) -> Result:
        async with self._turn:
            if isinstance(op, PutOp):
                if op.value is None:
                    await self._store.delete_item(op.namespace, op.key)
                else:
                    await self._store.put_item(op.namespace, op.key, op.value, index=op.index)
                return None
            if isinstance(op, GetOp):
                found = await self._store.get_item(op.namespace, op.key)
                return Item(**_fields(found)) if found else None
            if isinstance(op, SearchOp):
                page = await self._store.search_items(
                    op.namespace_prefix, filter=op.filter, limit=op.limit, offset=op.offset, query=op.query
                )
                return [SearchItem(**_fields(item), score=item.get("score")) for item in page["items"]]
        raise NotImplementedError(f"{type(op).__name__} is not used by the index.")


def _fields(item: Any) -> dict[str, Any]:
    names = ("value", "key", "created_at", "updated_at")
    return {**{name: item[name] for name in names}, "namespace": tuple(item["namespace"])}


async def main() -> int:
    """The command. 0 when the index was made, 1 with one line that says why not."""
    parser = argparse.ArgumentParser(prog="python -m memory.reindex", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--user", required=True, help="whose index: the identity in their tokens")
    parser.add_argument("--org", help="in which organization (default: DEFAULT_ORG)")
    parser.add_argument("--url", default=dev_address(), help="the deployment's address (default: what `make dev` started)")
    args = parser.parse_args()
    client = get_client(url=args.url, headers={"x-auth-scheme": "langsmith"})
    try:
        actor = scopes.Actor(args.user, args.org or load_settings(local_environ()).default_org)
        count = await rebuild(RemoteStore(client), client.threads, actor)
    except (SettingsError, scopes.IdentityError) as error:
        sys.stderr.write(f"{error}\n")
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
    sys.stdout.write(f"{count} conversations of {args.user} are indexed.\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
