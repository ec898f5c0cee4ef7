"""A store around another one, which a test watches, slows down or breaks, and a deterministic semantic index."""

import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.memory import InMemoryStore

Hook = Callable[[list[Op]], Awaitable[None] | None]


class WrappedStore(BaseStore):
    """Hands every batch on to `inner` (by default an empty store in memory).

    Args:
        before: called with each batch before it is carried out, and awaited if it has to be. What it raises is the batch's
            failure; it may wait, or act in between.
        after: the same, once the batch was carried out: what it raises hides that it was.
    """

    def __init__(self, inner: BaseStore | None = None, *, before: Hook | None = None, after: Hook | None = None) -> None:
        self.inner = InMemoryStore() if inner is None else inner
        self.before, self.after = before, after
        self.has_failed = False

    def fail(self, after: int, error: BaseException | None = None, *, times: int | None = 1) -> None:
        """Carry out `after` batches, then fail so often (None: for ever)."""
        batches, self.has_failed = itertools.count(), False

        def count(_: list[Op]) -> None:
            number = next(batches)
            if number >= after and (times is None or number < after + times):
                self.has_failed = True
                raise error or OSError("the store failed")

        self.before = count

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        if self.before:
            self.before(ops)
        results = self.inner.batch(ops)
        if self.after:
            self.after(ops)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        await _told(self.before, ops)
        results = await self.inner.abatch(ops)
        await _told(self.after, ops)
        return results


async def _told(hook: Hook | None, ops: list[Op]) -> None:
    waiting = hook(ops) if hook else None
    if waiting is not None:
        await waiting


SUBJECTS = (("dog", "puppy", "pet"), ("car", "engine", "vehicle"), ("bread", "oven", "baking"))


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Words of one subject share a direction: how many of each subject a text has. No vector is zero."""
    return [[0.01 + sum(word in text.lower() for word in words) for words in SUBJECTS] for text in texts]


# A store's index, and what a server's langgraph.json says of it.
INDEX: Any = {"embed": embed, "dims": len(SUBJECTS), "fields": ["content"]}
SERVED = {**INDEX, "embed": f"{__file__}:embed"}
