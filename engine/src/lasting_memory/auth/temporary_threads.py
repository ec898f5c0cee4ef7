"""Deletion of a person's expired temporary conversations, whenever they begin another one."""

import logging
from time import monotonic

from lasting_memory.conversations.retention import delete_temporary
from lasting_memory.people.identity import Actor
from lasting_memory.platform import get_client

# Seconds between two lines of the log about a failure that lasts.
_LOG_SECONDS = 60

logger = logging.getLogger("auth")


class TemporaryThreads:
    """Deletes temporary conversations that are older than so many hours."""

    def __init__(self, hours: float) -> None:
        self._hours = hours
        self._failures = 0
        self._logged_at = float("-inf")

    async def delete_expired(self, owner: Actor) -> None:
        """Delete this person's expired temporary conversations.

        A failure is for the log, and does not concern the request.
        """
        try:
            await delete_temporary(get_client(), self._hours, owner)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next conversation or the sweep tries again
            self._log_failure(error)

    def _log_failure(self, error: Exception) -> None:
        """Log that expired temporary conversations stay, once a minute at most."""
        self._failures += 1
        if monotonic() - self._logged_at < _LOG_SECONDS:
            return
        failure = "Expired temporary conversations were not deleted; they stay until the next try"
        logger.warning(
            "%s. Failures since this was last said: %d. %r",
            failure,
            self._failures,
            error,
            exc_info=error,
        )
        self._failures = 0
        self._logged_at = monotonic()
