"""The request that a task carries out: its caller, the runs it may create, and what it stopped.

One request asks several auth handlers. They share here what one of them has found out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from lasting_memory.auth.share import Share
from lasting_memory.people.caller import Caller


@dataclass(slots=True)
class CurrentRequest:
    """What a request has done with runs so far, and who sent it."""

    # The runs it was admitted to create, by id, and the shares that count them.
    admitted_runs: list[tuple[Share, str]] = field(default_factory=list)
    # Ids of the runs that it has stopped, and of the threads whose runs it has stopped.
    stopped_ids: set[str] = field(default_factory=set)
    # Who sent it, once an auth handler has asked.
    caller: Caller | None = None

    def answered(self) -> None:
        """Count its runs as admitted no longer.

        Call it when the request is answered: the platform counts what it has created, or refused
        it.
        """
        for share, run_id in self.admitted_runs:
            share.admitted_runs.pop(run_id, None)
        self.admitted_runs.clear()


# None outside of requests: in a run, which deletes its temporary thread when it ends; and without
# this library's http app: nobody would know there when a request is answered, so runs count once
# the platform lists them.
_request: ContextVar[CurrentRequest | None] = ContextVar("of_request", default=None)


def current_request() -> CurrentRequest | None:
    """The request that this task carries out; None outside of requests."""
    return _request.get()


@contextmanager
def carrying_out() -> Iterator[CurrentRequest]:
    """Within this context, this task carries out a new request.

    A request that is made within another one has the same caller.
    """
    request = CurrentRequest()
    outer_request = _request.get()
    if outer_request is not None:
        request.caller = outer_request.caller
    token = _request.set(request)
    try:
        yield request
    finally:
        request.answered()
        _request.reset(token)
