"""The store of a server under test, one of whose operations fails: that an operator asks for."""

from collections.abc import Iterable

from langgraph.store.base import Op, PutOp, Result

from lasting_memory.testing.stores import WrappedStore

# The item that asks for it: its value says after how many batches. It is gone once that batch has failed.
FAULT = ("fault",)


class FailingStore(WrappedStore):
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        if any(getattr(op, "namespace_prefix", FAULT) == FAULT == getattr(op, "namespace", FAULT) for op in ops):
            for op in ops:
                if isinstance(op, PutOp) and op.value:
                    self.fail(op.value["after"])
            return await self.inner.abatch(ops)
        try:
            return await super().abatch(ops)
        except OSError:
            await self.inner.adelete(FAULT, "/")
            raise


store = FailingStore()
