"""One development server per folder: two would overwrite each other's files.

All processes of a server share a lock on the folder, which lasts until the last of them ends: `dev/server.py`, the process that
it starts and that reloads the code, and the one that serves.
"""

import sys
from pathlib import Path
from typing import IO

from environment import dev_address

NAME = ".dev.lock"


def only_server(folder: Path) -> IO[str]:
    """The folder's shared lock, held while the result is open. Raises `SystemExit` if another server has it."""
    import fcntl  # noqa: PLC0415  # not on Windows, where `langgraph dev` runs

    lock = (folder / NAME).open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        process = f" (process {pid})" if (pid := lock.read(20).strip()) else ""
        sys.exit(f"A server of this folder runs already, at {dev_address()}{process}; two would overwrite each other's files.")
    lock.truncate(0)
    return lock


def share(folder: Path) -> IO[str] | None:
    """The lock of `only_server` in another process of that server; None if `dev/server.py` did not start it."""
    if not (folder / NAME).exists():
        return None
    import fcntl  # noqa: PLC0415  # as above

    lock = (folder / NAME).open("a+")
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock
