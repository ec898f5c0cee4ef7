"""`make dev`: the platform's development server on a free port, seeded, with the next steps.

python -m dev.server [--port PORT] [--postgres]
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import IO, Any

import httpx

from settings import DEV_ADDRESS, PROJECT, SettingsError, dev_address, load_settings, local_environ

FIRST_PORT, PORTS, PORT_LIMIT = 2024, 100, 65_536
HOST = "127.0.0.1"  # `langgraph dev` believes callers that claim to be Studio, so other machines must not reach it
JOBS = "10"
START_SECONDS, STOP_SECONDS = 60, 20
APP = "./dev/app.py:app"
# What `make dev-postgres` adds to langgraph.json. It can be taken off, so nothing here imports it.
POSTGRES = "memory.postgres.store"
ON_POSTGRES = {name: {"path": f"./memory/postgres/store.py:{name}"} for name in ("store", "checkpointer")}
# `langgraph dev` waits for every answer before it ends, and so for a model that hangs. This one waits a second.
SERVER = """import functools, langgraph_api.cli, langgraph_cli.cli
langgraph_api.cli.run_server = functools.partial(langgraph_api.cli.run_server, timeout_graceful_shutdown=1)
langgraph_cli.cli.cli()"""

NEXT = """
Open {url}/app to talk to the agent, and to see what it remembers. Ctrl-C stops it.

In another terminal, talk to it as somebody:

    make chat AS=alice@example.com ORG=acme

or over HTTP, as any client would (API reference: {url}/docs):

    curl -s {url}/runs/wait -H 'content-type: application/json' \\
      -H 'authorization: Bearer dev:acme:alice%40example.com' \\
      -d '{{"assistant_id": "agent", "input": {{"messages": [
           {{"role": "user", "content": "Remember that I prefer metric units."}}]}}}}'
"""


def choose_port(asked: int | None) -> int:
    """The port asked for, or the first free one. Raises `SystemExit` if it is no port, it is taken, or none is free:
    `langgraph dev` would quietly take another.
    """
    if asked is not None and not 0 < asked < PORT_LIMIT:
        sys.exit(f"PORT is {asked}; use 1 to {PORT_LIMIT - 1}, or leave it out.")
    for port in [asked] if asked else range(FIRST_PORT, FIRST_PORT + PORTS):
        with contextlib.closing(socket.socket()) as probe:
            if probe.connect_ex((HOST, port)):
                return port
    taken = (
        f"PORT is {asked}, which is taken" if asked else f"The ports from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} are taken"
    )
    sys.exit(f"{taken}; choose another with PORT=.")


def only_server() -> IO[str]:
    """The lock of this folder, held by the command and the server. Raises `SystemExit` if another server has it."""
    lock = (PROJECT / ".dev.lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"A server of this folder runs already, at {dev_address()}; two would overwrite each other's files.")
    return lock


def configuration(deployed: dict[str, Any], *, postgres: bool) -> dict[str, Any]:
    """The server's configuration, given langgraph.json's: the same, with the app and the database of development."""
    ours = {name: {**deployed.get(name, {}), **block} for name, block in ON_POSTGRES.items()} if postgres else {}
    # If the server read `.env` itself, an empty line there would hide a variable of the process.
    return {**deployed, **ours, "env": {}, "http": {**deployed.get("http", {}), "app": APP}}


@contextlib.contextmanager
def running_server(port: int, lock: IO[str], *, postgres: bool) -> Iterator[subprocess.Popen[bytes]]:
    """`langgraph dev` on `port` with the folder's lock, stopped at the end."""
    path, deployed = DEV_ADDRESS.parent / "langgraph.json", json.loads((PROJECT / "langgraph.json").read_text("utf-8"))
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(configuration(deployed, postgres=postgres)), "utf-8")
    command = [sys.executable, "-c", SERVER, "dev", "--config", str(path), "--no-browser"]
    options = ["--host", HOST, "--port", str(port), "--n-jobs-per-worker", JOBS]
    server = subprocess.Popen(  # noqa: S603
        [*command, *options], cwd=PROJECT, env=local_environ(), start_new_session=True, pass_fds=[lock.fileno()]
    )
    try:
        yield server
    finally:
        stop(server)
        if postgres:
            import_module(POSTGRES).stop_embedded(PROJECT)


def stop(server: subprocess.Popen[bytes]) -> None:
    """SIGINT makes the server flush its files and end; SIGKILL follows after `STOP_SECONDS`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C would lose unflushed data
    server.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(STOP_SECONDS)
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)  # with its child, the process that serves
        server.wait()


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    """Return once the server answers. Raises `SystemExit` if it ends, or does not answer within `START_SECONDS`."""
    for _ in range(START_SECONDS * 5):
        if server.poll() is not None:
            sys.exit("The server did not start; the reason is above.")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/ok", trust_env=False).is_success:
                return
        time.sleep(0.2)
    sys.exit(f"The server did not answer at {url} within {START_SECONDS} seconds.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, help=f"default: {FIRST_PORT}, or the next free one")
    parser.add_argument("--postgres", action="store_true", help="with memory and checkpoints in Postgres (MEMORY_POSTGRES_URI)")
    args = parser.parse_args()
    if args.postgres:
        try:
            asyncio.run(import_module(POSTGRES).check(load_settings(local_environ())))
        except SettingsError as error:
            sys.exit(str(error))
    lock, port = only_server(), choose_port(args.port)
    url = f"http://{HOST}:{port}"
    for name in ("SIGTERM", "SIGHUP"):  # they also stop and flush the server
        signal.signal(getattr(signal, name), lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), running_server(port, lock, postgres=args.postgres) as server:
        wait_until_ready(server, url)
        DEV_ADDRESS.write_text(url, "utf-8")
        if subprocess.run([sys.executable, "-m", "seeds", "--url", url], cwd=PROJECT, check=False).returncode:  # noqa: S603
            sys.exit("The server was not seeded; the reason is above.")
        print(NEXT.format(url=url), flush=True)  # noqa: T201  # a command's answer
        server.wait()


if __name__ == "__main__":
    main()
