"""`make dev`: the platform's development server on a free port, seeded, and what to do next.

python dev.py [--port PORT] [--config FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx

from settings import DEV_ADDRESS, PROJECT

FIRST_PORT = 2024
HOST = "127.0.0.1"  # `langgraph dev` answers some routes to anybody: it must not listen anywhere else
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


def free_port(first: int) -> int:
    """The first port from `first` on that nothing listens on.

    Raises:
        SystemExit: none of the next hundred is free.
    """
    for port in range(first, first + 100):
        with contextlib.closing(socket.socket()) as probe:
            if probe.connect_ex((HOST, port)):
                return port
    sys.exit(f"No port from {first} to {first + 99} is free; choose one with PORT=.")


@contextlib.contextmanager
def running_server(port: int, config: str) -> Iterator[subprocess.Popen[bytes]]:
    """`langgraph dev` with `config` on `port`, stopped with SIGINT, upon which it flushes what it keeps in files."""
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--host", HOST, "--port", str(port)]
    command += ["--config", config, "--n-jobs-per-worker", JOBS]
    server = subprocess.Popen(command, cwd=PROJECT, start_new_session=True)  # noqa: S603
    try:
        yield server
    finally:
        server.send_signal(signal.SIGINT)
        with contextlib.suppress(KeyboardInterrupt):
            server.wait(15)


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    """Return once the server answers.

    Raises:
        SystemExit: it ended, or did not answer in `START_SECONDS`.
    """
    for _ in range(START_SECONDS * 5):
        if server.poll() is not None:
            sys.exit("The server did not start; the reason is above.")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/ok").is_success:
                return
        time.sleep(0.2)
    sys.exit(f"The server did not answer at {url} within {START_SECONDS} seconds.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, help=f"default: {FIRST_PORT}, or the next free one")
    parser.add_argument("--config", default="langgraph.json", help="default: %(default)s")
    given = parser.parse_args()
    port = given.port or free_port(FIRST_PORT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the server is stopped, and flushed, then too
    url = f"http://{HOST}:{port}"
    with running_server(port, given.config) as server:
        wait_until_ready(server, url)
        DEV_ADDRESS.write_text(url, "utf-8")
        if subprocess.run([sys.executable, "-m", "seeds", "--url", url], cwd=PROJECT, check=False).returncode:  # noqa: S603
            sys.exit("The server was not seeded; the reason is above.")
        print(NEXT.format(url=url), flush=True)  # noqa: T201  # a command's answer
        with contextlib.suppress(KeyboardInterrupt):
            server.wait()


if __name__ == "__main__":
    main()
