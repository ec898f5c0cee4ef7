"""A store in memory, one of whose operations fails: that an operator, or a test, asks for."""

from collections.abc import Iterable

from langgraph.store.base import Op, PutOp, Result
from langgraph.store.memory import InMemoryStore

# The item that asks for it: its value says after how many batches. It is gone once that batch has failed.
FAULT = ("fault",)


class FailingStore(InMemoryStore):
    """Carries out `left` batches, fails at the next, and works again. None: it does not fail."""

    left: int | None = None

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        asked = [op.value for op in ops if isinstance(op, PutOp) and op.namespace == FAULT and op.value]
        about = any(getattr(op, "namespace_prefix", FAULT) == FAULT == getattr(op, "namespace", FAULT) for op in ops)
        if asked:
            self.left = asked[0]["after"]
        elif self.left is not None and not about:
            self.left -= 1
            if self.left < 0:
                self.left = None
                await super().abatch([PutOp(FAULT, "/", None)])
                raise OSError("the store failed")
        return await super().abatch(ops)


store = FailingStore()
