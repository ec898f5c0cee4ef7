"""Processes that a command starts: their end by Ctrl-C, their exit codes, on every system.

POSIX has groups of processes, and Windows has not: names that only one of them has are looked up
when they are used.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# A process that Ctrl-C ended exits so in a shell.
INTERRUPTED = 130
# Ctrl-C, `kill`, a terminal that closes.
_ENDS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


def end_signals() -> list[signal.Signals]:
    """The signals that ask a process of this system to end."""
    return [getattr(signal, name) for name in _ENDS if hasattr(signal, name)]


def start_apart(
    command: Sequence[str], environ: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a process that a Ctrl-C in the terminal does not reach: its parent ends it."""
    return subprocess.Popen(  # noqa: S603
        command,
        env=environ,
        start_new_session=True,  # Windows ignores it
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Sends what Ctrl-C sends to a process that `start_apart` started."""
    process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that `start_apart` started, and what that has started."""
    kill_group = getattr(os, "killpg", None)
    if kill_group:
        kill_group(process.pid, signal.Signals["SIGKILL"])
    else:
        command = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        subprocess.run(command, check=False, capture_output=True)  # noqa: S603
    process.wait()


def run(
    command: Sequence[str], folder: Path | None = None, stdin: str | None = None, **variables: str
) -> int:
    """Runs a command in the terminal and returns its exit code; 137 if signal 9 killed it, as in a
    shell.

    Args:
        folder: where it runs; by default here.
        stdin: what it reads; by default what this process would.
        variables: of its environment, beside those of this process.

    A Ctrl-C reaches it as well, and this waits for its end.
    """
    environ = {**os.environ, **variables}  # noqa: TID251  # passed on
    pipe = subprocess.PIPE if stdin is not None else None
    with subprocess.Popen(command, cwd=folder, env=environ, stdin=pipe) as process:  # noqa: S603
        if stdin is not None and process.stdin:
            with suppress(BrokenPipeError):  # it has ended without reading
                process.stdin.write(stdin.encode())
                process.stdin.close()
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                continue
            return code if code >= 0 else 128 - code
