"""Make the recall index of a person anew from their threads, on a running server, as an operator:

    python -m memory.reindex --user alice@example.com [--org acme] [--url URL]

Needed after a change of the embedding model, with which it embeds anew (docs/recall.md); otherwise nothing depends on it,
because a search indexes what it finds unindexed: also what is left where this is interrupted. A deployment on LangSmith wants a
LangSmith API key in the environment; `langgraph dev` wants none.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from typing import Any

import httpx
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, Result, SearchItem, SearchOp
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from memory import identity
from memory.recall import rebuild
from settings import PROJECT, SettingsError, check_server, dev_address, load_settings, local_environ

# Requests to the server at once.
_AT_ONCE = 8


class RemoteStore(BaseStore):
    """The platform's store over HTTP, as far as the index and the journal use it. Asynchronous only."""

    def __init__(self, client: LangGraphClient) -> None:
        self._store = client.store
        config = json.loads((PROJECT / "langgraph.json").read_text("utf-8"))
        self.index_config = bool(config.get("store", {}).get("index"))  # whether it ranks by meaning
        self._turn = asyncio.Semaphore(_AT_ONCE)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise NotImplementedError("RemoteStore is asynchronous; use abatch.")

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """One request per operation: first all reads, then all writes, each group in no order."""
        given = list(ops)
        done: dict[int, Result] = {}
        for writes in (False, True):
            places = [place for place, op in enumerate(given) if isinstance(op, PutOp) is writes]
            done |= dict(zip(places, await asyncio.gather(*(self._do(given[place]) for place in places)), strict=True))
        return [done[place] for place in range(len(given))]

    async def _do(self, op: Op) -> Result:
        async with self._turn:
            if isinstance(op, PutOp):
                if op.value is None:
                    await self._store.delete_item(op.namespace, op.key)
                else:
                    await self._store.put_item(op.namespace, op.key, op.value, index=op.index)
                return None
            if isinstance(op, GetOp):
                item = await self._store.get_item(op.namespace, op.key)
                return _item(item) if item else None
            if isinstance(op, SearchOp):
                page = await self._store.search_items(
                    op.namespace_prefix, filter=op.filter, limit=op.limit, offset=op.offset, query=op.query
                )
                return [_item(item, score=item.get("score")) for item in page["items"]]
        raise NotImplementedError(f"{type(op).__name__} is not among them.")


def _item(given: Any, score: float | None = None) -> SearchItem:
    times = given["created_at"], given["updated_at"]
    return SearchItem(tuple(given["namespace"]), given["key"], given["value"], *times, score)


def unanswered(error: httpx.HTTPError, url: str) -> str:
    """The reason why a command got no answer from the server at `url`, in one line."""
    if isinstance(error, httpx.HTTPStatusError):
        reason = error.response.text[:300] or error.response.reason_phrase
        return f"{url} answered {error.response.status_code} to {error.request.url.path}: {reason}"
    return f"No server answers at {url}; start it with `make dev`, or name another with --url."


async def main() -> int:
    """The command. 0 when the index was made, 1 with one line that says why not."""
    parser = argparse.ArgumentParser(prog="python -m memory.reindex", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--user", required=True, help="whose index: the identity in their tokens")
    parser.add_argument("--org", help="in which organization (default: DEFAULT_ORG)")
    parser.add_argument("--url", default=dev_address(), help="the deployment's address (default: what `make dev` started)")
    parser.add_argument("--restart", action="store_true", help="what it does in any case; accepted for scripts that say it")
    args = parser.parse_args()
    try:
        check_server(args.url)
        actor = identity.Actor(args.user, args.org or load_settings(local_environ()).default_org)
        async with get_client(url=args.url, headers={"x-auth-scheme": "langsmith"}) as client:
            count = await rebuild(RemoteStore(client), client.threads, actor)
    except (SettingsError, identity.IdentityError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except (httpx.TransportError, httpx.HTTPStatusError) as error:
        sys.stderr.write(f"{unanswered(error, args.url)}\n")
        return 1
    sys.stdout.write(f"{count} conversations of {args.user} are indexed.\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
