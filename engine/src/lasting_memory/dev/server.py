"""`make dev`: the platform's development server of the current directory on a free port, seeded,
with the next steps.

python -m lasting_memory.dev.server [--port PORT] [--postgres]
"""

import argparse
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import httpx

from lasting_memory import settings

FIRST_PORT, PORTS = 2024, 100
LOCK = Path(".dev.lock")
# `langgraph dev` believes callers that claim to be Studio, so other machines must not reach it
HOST = "127.0.0.1"
JOBS = "10"
START_SECONDS, STOP_SECONDS = 300, 20
APP = "lasting_memory.dev.app:app"
# What `make dev-postgres` adds to langgraph.json. It can be taken off, so nothing here imports it.
POSTGRES = "lasting_memory.postgres.store"
ON_POSTGRES = {
    name: {"path": f"{settings.ENGINE}/postgres/store.py:{name}"}
    for name in ("store", "checkpointer")
}
SERVER = "lasting_memory.dev.langgraph_dev"
# Ctrl-C, `kill`, a terminal that closes.
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

NEXT = """
{page}Ctrl-C stops it. The API: {url}/docs
In another terminal, talk to it as somebody: make chat {somebody}
"""


def choose_port(asked: int | None) -> int:
    """The port asked for, or the first free one. Exits where there is none: `langgraph dev` would
    take another.
    """
    for port in [asked] if asked is not None else range(FIRST_PORT, FIRST_PORT + PORTS):
        with (
            contextlib.suppress(OSError, OverflowError),
            socket.create_server((HOST, port)) as probe,
        ):
            return int(probe.getsockname()[1])
    sys.exit(f"PORT is {asked or FIRST_PORT}, which cannot be used; choose another with PORT=.")


def only_server() -> IO[str]:
    """The lock of this folder, which the command and the server (`dev/app.py`) share. Exits if
    another server has it.
    """
    lock = LOCK.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        sys.exit(
            f"A server of this folder runs already, at {settings.dev_address()}; two would overwrite each other's files."
        )
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def configuration(deployed: dict[str, Any], *, postgres: bool) -> dict[str, Any]:
    """The server's configuration, given langgraph.json's: the same, with the app and the database
    of development.

    Raises `SettingsError` for a block that is no object.
    """
    ours = {"http": {"app": APP}, **(ON_POSTGRES if postgres else {})}
    blocks = {name: {**settings.block_of(deployed, name), **block} for name, block in ours.items()}
    # If the server read `.env` itself, an empty line there would hide a variable of the process.
    return {**deployed, **blocks, "env": {}}


def start(port: int, *, postgres: bool) -> subprocess.Popen[bytes]:
    """`langgraph dev` on `port`."""
    path, deployed = settings.DEV_ADDRESS.parent / "langgraph.json", settings.project_config(Path())
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(configuration(deployed, postgres=postgres)), "utf-8")
    command = [
        sys.executable,
        "-m",
        SERVER,
        "dev",
        "--config",
        str(path),
        "--no-browser",
        "--host",
        HOST,
        "--port",
        str(port),
    ]
    return subprocess.Popen(  # noqa: S603
        [*command, "--n-jobs-per-worker", JOBS],
        env=settings.local_environ(),
        start_new_session=True,
    )


def stop(server: subprocess.Popen[bytes]) -> None:
    """SIGINT makes the server flush its files and end; SIGKILL follows after `STOP_SECONDS`."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)  # with its child, the process that serves
        server.wait()


def serve(server: subprocess.Popen[bytes], url: str) -> None:
    """Once the server answers, seed it, say the next steps, and wait for its end. Raises
    `SystemExit` if it does not start.
    """
    for _ in range(START_SECONDS * 5):
        if server.poll() is not None:
            sys.exit("The server did not start; the reason is above.")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/ok", trust_env=False).is_success:
                break
        time.sleep(0.2)
    else:
        sys.exit(
            f"The server did not answer within {START_SECONDS} seconds; see above, or try LOG_LEVEL=INFO."
        )
    settings.DEV_ADDRESS.write_text(url, "utf-8")
    # In a session of its own, which Ctrl-C does not reach: this command ends it, without a
    # traceback.
    seeding = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "seeds", "--url", url], check=False, start_new_session=True
    )
    if seeding.returncode not in (0, settings.PARTLY_SEEDED):
        sys.exit("The server was not seeded; the reason is above.")
    # A look at /app itself would be a refused request in the log, where there is no page.
    has_page = httpx.get(url, headers={"accept": "text/html"}, trust_env=False).is_redirect
    page = (
        f"Open {url}/app to talk to the agent, and to see what it remembers. " if has_page else ""
    )
    uses_jwt = settings.load_settings(settings.local_environ()).uses_jwt
    somebody = (
        "TOKEN=<a token of your identity provider>" if uses_jwt else "AS=alice@example.com ORG=acme"
    )
    print(NEXT.format(url=url, page=page, somebody=somebody), flush=True)  # noqa: T201  # a command's answer
    server.wait()


def _end(*_: object) -> None:
    """Have the command end. Another Ctrl-C would lose unflushed data, so nothing more is heard."""
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, help=f"default: {FIRST_PORT}, or the next free one")
    parser.add_argument(
        "--postgres",
        action="store_true",
        help="with memory and checkpoints in Postgres (MEMORY_POSTGRES_URI)",
    )
    args = parser.parse_args()
    _lock, port = only_server(), choose_port(args.port)  # held until the command ends
    server = None
    try:
        for number in ENDS:
            signal.signal(number, _end)
        server = start(port, postgres=args.postgres)
        serve(server, f"http://{HOST}:{port}")
    except settings.SettingsError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
    finally:
        if server:
            stop(server)
        if server and args.postgres:
            import_module(POSTGRES).stop_embedded(Path.cwd())


if __name__ == "__main__":
    main()
