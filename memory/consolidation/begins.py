"""The begins of planned runs, so that few of them begin in the same second."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta

# Planned runs that may begin in the same second. A conversation's turn would have to wait behind many.
BEGINS_PER_SECOND = 4
# The longest postponement for that, in seconds.
_MAX_SPREAD = 3_600


def utc_now() -> datetime:
    return datetime.now(UTC)


class Begins:
    """The begins of the runs that this process has planned."""

    def __init__(self, clock: Callable[[], datetime] = utc_now) -> None:
        self.clock = clock
        self._planned: dict[int, set[Hashable]] = {}

    def book(self, owner: Hashable, begin: datetime, now: datetime) -> datetime:
        """The first second from `begin` on in which fewer than `BEGINS_PER_SECOND` other runs begin."""
        while self._planned and (first := next(iter(self._planned))) < now.timestamp() - 1:
            del self._planned[first]
        for later in range(_MAX_SPREAD):
            planned = self._planned.setdefault(int(begin.timestamp()) + later, set())
            if owner in planned or len(planned) < BEGINS_PER_SECOND:
                planned.add(owner)
                return begin + timedelta(seconds=later)
        return begin + timedelta(seconds=_MAX_SPREAD)
