"""The context of a run, for calls outside of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from langchain_core.runnables.config import var_child_runnable_config


@contextmanager
def in_run(run_id: str | None) -> Iterator[None]:
    """Calls in this context belong to the run; None for a script's run, which has no id."""
    token = var_child_runnable_config.set({"configurable": {"run_id": run_id} if run_id else {}})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
