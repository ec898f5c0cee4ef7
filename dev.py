"""`make dev`: the platform's development server on a free port, seeded, and what to do next.

python dev.py [--port PORT] [--config langgraph.json]
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx

from settings import DEV_ADDRESS, PROJECT, dev_address, local_environ

FIRST_PORT, PORTS = 2024, 100
HOST = "127.0.0.1"  # `langgraph dev` believes whoever says they are Studio: nobody elsewhere may reach it
LOCK = PROJECT / ".dev.lock"
JOBS = "10"
START_SECONDS = 60

NEXT = """
The agent is running at {url} (API reference: {url}/docs). Ctrl-C stops it.

In another terminal, talk to it as somebody:

    make chat AS=alice@example.com ORG=acme

or over HTTP, as any client would:

    curl -s {url}/runs/wait -H 'content-type: application/json' \\
      -H 'authorization: Bearer dev:acme:alice%40example.com' \\
      -d '{{"assistant_id": "agent", "input": {{"messages": [
           {{"role": "user", "content": "Remember that I prefer metric units."}}]}}}}'
"""


def is_free(port: int) -> bool:
    """Whether nothing listens on the port."""
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex((HOST, port)) != 0


def choose_port(asked: int | None) -> int:
    """The port asked for, or the first free one.

    Raises:
        SystemExit: it is taken, or none is free. `langgraph dev` would quietly take another.
    """
    if asked is not None:
        if not is_free(asked):
            sys.exit(f"PORT is {asked}, which is taken; choose another, or leave it out.")
        return asked
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        if is_free(port):
            return port
    sys.exit(f"No port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} is free; choose one with PORT=.")


def only_server() -> object:
    """A lock on this folder for as long as the result lives: two servers would overwrite each other's files.

    Raises:
        SystemExit: a server runs here already.
    """
    lock = LOCK.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"A server of this folder runs already, at {dev_address()}; two would overwrite each other's files.")
    return lock


@contextlib.contextmanager
def running_server(port: int, config: str) -> Iterator[subprocess.Popen[bytes]]:
    """`langgraph dev` on `port`, stopped with SIGINT, upon which it flushes what it keeps in files."""
    # The server's own reading of `.env` would let an empty line there hide what the process was given.
    effective = DEV_ADDRESS.parent / "langgraph.json"
    effective.parent.mkdir(exist_ok=True)
    effective.write_text(json.dumps({**json.loads((PROJECT / config).read_text("utf-8")), "env": {}}), "utf-8")
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--config", str(effective), "--no-browser"]
    options = ["--host", HOST, "--port", str(port), "--n-jobs-per-worker", JOBS]
    server = subprocess.Popen([*command, *options], cwd=PROJECT, env=local_environ(), start_new_session=True)  # noqa: S603
    try:
        yield server
    finally:
        server.send_signal(signal.SIGINT)
        with contextlib.suppress(KeyboardInterrupt):
            server.wait(15)
        if "store" in json.loads(effective.read_text("utf-8")):
            subprocess.run([sys.executable, "-m", "memory.postgres", "stop"], cwd=PROJECT, check=False)


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    """Return once the server answers.

    Raises:
        SystemExit: it ended, or did not answer in `START_SECONDS`.
    """
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
    parser.add_argument("--host", default=HOST, help=f"only {HOST}: this server believes who its callers say they are")
    parser.add_argument("--config", default="langgraph.json")
    args = parser.parse_args()
    if args.host != HOST:
        reason = "the development server believes who its callers say they are"
        sys.exit(f"HOST is {args.host!r}; `make dev` listens on {HOST} only, since {reason}; leave HOST out.")
    lock = only_server()
    port = choose_port(args.port)
    url = f"http://{HOST}:{port}"
    for name in ("SIGTERM", "SIGHUP"):  # so that the server is stopped, and flushed, then too
        signal.signal(getattr(signal, name), lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), running_server(port, args.config) as server:
        wait_until_ready(server, url)
        DEV_ADDRESS.write_text(url, "utf-8")
        if subprocess.run([sys.executable, "-m", "seeds", "--url", url], cwd=PROJECT, check=False).returncode:  # noqa: S603
            sys.exit("The server was not seeded; the reason is above.")
        print(NEXT.format(url=url), flush=True)  # noqa: T201  # a command's answer
        server.wait()
    del lock


if __name__ == "__main__":
    main()
