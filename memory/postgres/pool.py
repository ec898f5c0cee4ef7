"""Connections to Postgres that give up within seconds of an outage, and return soon after it."""

import time
from typing import Any, cast

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from psycopg_pool.pool_async import AddConnection

from memory.postgres.outage import PostgresUnreachableError

# Connections of one server for the store, and again for the checkpoints.
CONNECTIONS = 10
# Timeouts in seconds: for a free connection, and for one exchange.
WAIT_SECONDS, ANSWER_SECONDS = 5.0, 10.0
Connection = psycopg.AsyncConnection[DictRow]

# The options that langgraph's store and checkpointer need.
CONNECTION: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
# Seconds during an outage: between attempts to connect; of one request's wait; in which others are then refused at once.
_RETRY_SECONDS, _PROBE_SECONDS, _REFUSE_SECONDS = 0.5, 1.0, 0.5
# Timeout in seconds of the check before each use of a connection.
_CHECK_SECONDS = 2.0
# Classes of errors during an outage: connection, resources, intervention, system. The client's own errors have no class.
_AWAY = ("08", "53", "57", "58")
# Refuses to write: what was the primary until a failover. Only a new connection may find the one that took over.
_READ_ONLY = "25006"


class UnreachableError(psycopg.OperationalError, PostgresUnreachableError):
    """psycopg's error during an outage."""


class _BoundedConnection(Connection):
    """A connection that closes when the server does not answer in time: TCP notices a peer that is gone, not one that hangs."""

    answer_seconds: float = ANSWER_SECONDS

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ASYNC109  # psycopg's
        """Carry out one exchange. Raises `UnreachableError` if the server is away, only reads, or takes longer than
        `answer_seconds`.
        """
        end = time.monotonic() + self.answer_seconds
        try:
            return await super().wait(gen, interval, self.answer_seconds)
        except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction) as error:
            if time.monotonic() >= end or error.sqlstate == _READ_ONLY:
                self.pgconn.finish()
            if (error.sqlstate or _AWAY[0]).startswith((*_AWAY, _READ_ONLY)):
                raise UnreachableError(str(error)) from error
            raise


async def _check(connection: Connection) -> None:
    """Raise `UnreachableError` unless the server answers soon."""
    bounded = cast("_BoundedConnection", connection)
    bounded.answer_seconds = _CHECK_SECONDS
    await bounded.execute("")
    bounded.answer_seconds = ANSWER_SECONDS


class Pool(AsyncConnectionPool[Connection]):
    """psycopg's pool waits longer after each failure to connect, and so does everybody who wants a connection. This one tries
    again soon, and lets nobody wait long for a server that it could not reach a moment ago.
    """

    _away, _refused_until = False, 0.0

    async def getconn(self, timeout: float | None = None) -> Connection:  # noqa: ASYNC109  # psycopg's
        """A connection that works. Raises `UnreachableError` if there is none."""
        if time.monotonic() < self._refused_until:
            raise UnreachableError("Postgres could not be reached a moment ago")
        try:
            connection = await super().getconn(_PROBE_SECONDS if self._away else timeout)
        except PoolTimeout as error:
            self._away, self._refused_until = True, time.monotonic() + _REFUSE_SECONDS
            raise UnreachableError(str(error)) from None
        self._away = False
        return connection

    async def schedule_task(self, task: Any, delay: float) -> None:
        await super().schedule_task(task, min(delay, _RETRY_SECONDS) if isinstance(task, AddConnection) else delay)


def open_pool(conninfo: str) -> Pool:
    """A pool for this address, to be entered."""
    return Pool(
        conninfo,
        connection_class=_BoundedConnection,
        kwargs=CONNECTION,
        min_size=1,
        max_size=CONNECTIONS,
        timeout=WAIT_SECONDS,
        reconnect_timeout=WAIT_SECONDS,
        check=_check,  # a restarted Postgres must not fail the next run
        open=False,
    )
