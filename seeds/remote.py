"""A deployment over HTTP, for commands that act as an operator."""

from collections.abc import Iterable
from typing import Any

import httpx
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, Result, SearchItem, SearchOp
from langgraph_sdk.client import LangGraphClient


class RemoteStore(BaseStore):
    """The platform's store over HTTP, as far as the journal uses it. Asynchronous only."""

    def __init__(self, client: LangGraphClient) -> None:
        self._store = client.store

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise NotImplementedError("RemoteStore is asynchronous; use abatch.")

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """One request per operation, in their order."""
        return [await self._do(op) for op in ops]

    async def _do(self, op: Op) -> Result:
        if isinstance(op, PutOp) and op.value is None:
            await self._store.delete_item(op.namespace, op.key)
        elif isinstance(op, PutOp):
            await self._store.put_item(op.namespace, op.key, op.value or {}, index=op.index)
        elif isinstance(op, GetOp):
            item = await self._store.get_item(op.namespace, op.key)
            return _item(item) if item else None
        elif isinstance(op, SearchOp):
            page = await self._store.search_items(op.namespace_prefix, filter=op.filter, limit=op.limit, offset=op.offset)
            return [_item(item) for item in page["items"]]
        else:
            raise NotImplementedError(f"{type(op).__name__} is not among them.")
        return None


def _item(given: Any) -> SearchItem:
    return SearchItem(tuple(given["namespace"]), given["key"], given["value"], given["created_at"], given["updated_at"])


def unanswered(error: httpx.HTTPError, url: str) -> str:
    """The reason why a command got no answer from the server at `url`, in one line."""
    if isinstance(error, httpx.HTTPStatusError):
        reason = error.response.text[:300] or error.response.reason_phrase
        return f"{url} answered {error.response.status_code} to {error.request.url.path}: {reason}"
    return f"No server answers at {url}; start it with `make dev`, or name another with --url."
