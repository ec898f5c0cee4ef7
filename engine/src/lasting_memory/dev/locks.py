"""The lock of a folder: two development servers would overwrite each other's files.

The command holds one lock and the process that serves holds another. So the folder stays locked
where the command was killed and what it started goes on.
"""

from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

COMMAND_LOCK = Path(".dev.lock")
SERVING_LOCK = Path(".dev.serving.lock")
# Seconds. The reloader starts the next server when the one before has ended.
_TAKEN_OVER_WITHIN = 10


class LockedFolderError(RuntimeError):
    """Another server of this folder runs."""


def lock_folder() -> BaseFileLock:
    """Locks the current folder for a command that starts a server. Raises `LockedFolderError`.

    The lock is held until it is released, or until the process ends.
    """
    lock = FileLock(COMMAND_LOCK)
    server_lock = FileLock(SERVING_LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise LockedFolderError from None
    try:
        server_lock.acquire(blocking=False)
    except Timeout:
        lock.release()
        raise LockedFolderError from None
    server_lock.release()
    return lock


def lock_as_server() -> BaseFileLock:
    """Locks the current folder for the process that serves. Raises `filelock.Timeout` where another
    one goes on.
    """
    lock = FileLock(SERVING_LOCK)
    lock.acquire(timeout=_TAKEN_OVER_WITHIN)
    return lock
