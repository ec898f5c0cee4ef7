"""`make dev`: the platform's development server of the current directory on a free port, seeded,
with the next steps.

python -m lasting_memory.dev.server [--port PORT] [--postgres]
"""

import argparse
import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import httpx
from filelock import BaseFileLock

from lasting_memory import settings
from lasting_memory.dev import processes
from lasting_memory.dev.configuration import configuration
from lasting_memory.dev.locks import LockedFolderError, lock_folder

FIRST_PORT = 2024
PORTS = 100
# `langgraph dev` believes callers that claim to be Studio, so other machines must not reach it
HOST = "127.0.0.1"
JOBS = "10"
START_SECONDS = 300
STOP_SECONDS = 20
POSTGRES = "lasting_memory.postgres.store"  # it can be taken off
SERVER = "lasting_memory.dev.langgraph_dev"
NEXT = """
{page}Ctrl-C stops it. The API: {url}/docs
In another terminal, talk to it as somebody: make chat {somebody}, or {command}
"""


def choose_port(requested_port: int | None) -> int:
    """The port that the user requests, or else the first free one. Exits where it cannot be used:
    `langgraph dev` would take another.
    """
    ports = list(range(FIRST_PORT, FIRST_PORT + PORTS))
    if requested_port is not None:
        ports = [requested_port]
    for port in ports:
        with (
            contextlib.suppress(OSError, OverflowError),
            socket.create_server((HOST, port)) as server_socket,
        ):
            return int(server_socket.getsockname()[1])
    named_port = requested_port or FIRST_PORT
    sys.exit(f"PORT is {named_port}, which cannot be used; choose another with PORT=.")


def only_server() -> BaseFileLock:
    """The lock of this folder, held until it is released. Exits if another server has it."""
    try:
        return lock_folder()
    except LockedFolderError:
        sys.exit(
            f"A server of this folder runs already, at {settings.dev_address()}; two would overwrite each other's files."
        )


def start(port: int, *, postgres: bool) -> subprocess.Popen[bytes]:
    """Start `langgraph dev` on `port`, with a configuration for development that this writes.

    It logs warnings and worse, unless LOG_LEVEL says otherwise. Raises as `configuration`.
    """
    folder = settings.DEV_ADDRESS.parent
    project_config = settings.project_config(Path())
    config = configuration(project_config, postgres=postgres)
    config_text = json.dumps(config)
    folder.mkdir(exist_ok=True)
    path = folder / "langgraph.json"
    path.write_text(config_text, "utf-8")
    environ = settings.local_environ()
    environ["LOG_LEVEL"] = environ.get("LOG_LEVEL") or "WARNING"
    command = [sys.executable, "-m", SERVER, "dev", "--config", str(path), "--no-browser"]
    command += ["--host", HOST, "--port", str(port)]
    command += ["--n-jobs-per-worker", JOBS]
    return processes.start_apart(command, environ)


def stop(server: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C, which makes the server flush its files and end. It is killed after
    `STOP_SECONDS`.
    """
    processes.interrupt(server)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        processes.kill_with_children(server)


def serve(
    server: subprocess.Popen[bytes],
    url: str,
    *,
    seeds_with: str | None = None,
    as_studio: bool = True,
) -> None:
    """Once the server answers, seed it, say the next steps, and wait for its end. Raises
    `SystemExit` if it does not start.

    It is seeded with the token `seeds_with`; without one as Studio. Where the server lets no Studio
    in and there is no token, an operator seeds it.
    """
    _wait_for_start(server, url)
    settings.DEV_ADDRESS.write_text(url, "utf-8")
    if seeds_with or as_studio:
        _seed(url, seeds_with)
    else:
        print(f"Seed it with an operator's token: make seed URL={url} TOKEN=...", flush=True)  # noqa: T201
    # A look at /app itself would be a refused request in the log, where there is no page.
    answer = httpx.get(url, headers={"accept": "text/html"}, trust_env=False)
    page = ""
    if answer.is_redirect:
        page = f"Open {url}/app to talk to the agent, and to see what it remembers. "
    environ = settings.local_environ()
    if settings.load_settings(environ).uses_jwt:
        person = "TOKEN=<a token of your identity provider>"
        command = f"{person} uv run lasting-memory chat"
    else:
        person = "AS=alice@example.com ORG=acme"
        command = "uv run lasting-memory chat --as alice@example.com --org acme"
    steps = NEXT.format(url=url, page=page, somebody=person, command=command)
    print(steps, flush=True)  # noqa: T201  # a command's answer
    server.wait()


def _seed(url: str, token: str | None) -> None:
    """Seed the server. Raises `SystemExit` where that fails."""
    token_option = ["--token"] if token else []
    # In a session of its own, which Ctrl-C does not reach: this command ends it, without a
    # traceback.
    seeding = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "seeds", "--url", url, *token_option],
        check=False,
        start_new_session=True,
        input=f"{token}\n".encode() if token else None,
    )
    if seeding.returncode not in (0, settings.PARTLY_SEEDED):
        sys.exit("The server was not seeded; the reason is above.")


def _wait_for_start(server: subprocess.Popen[bytes], url: str) -> None:
    """Wait until the server answers. Exits the command if the server ends first or is too slow."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit("The server did not start; the reason is above.")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/ok", trust_env=False).is_success:
                return
        time.sleep(0.2)
    sys.exit(
        f"The server did not answer within {START_SECONDS} seconds; see above, or try LOG_LEVEL=INFO."
    )


def end(*_: object) -> None:
    """Have the command end. Another Ctrl-C would lose unflushed data, so nothing more is heard."""
    for number in processes.end_signals():
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> None:
    """The command. Its arguments are by default those of the process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, help=f"default: {FIRST_PORT}, or the next free one")
    parser.add_argument(
        "--postgres",
        action="store_true",
        help="with memory and checkpoints in Postgres (MEMORY_POSTGRES_URI)",
    )
    args = parser.parse_args(arguments)
    lock = only_server()
    try:
        _run(choose_port(args.port), postgres=args.postgres)
    except settings.SettingsError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
    finally:
        lock.release()


def _run(port: int, *, postgres: bool) -> None:
    """Runs the server until it ends, or a signal asks this command to end. Raises as
    `configuration`, and `KeyboardInterrupt` at a signal.
    """
    server = None
    try:
        for number in processes.end_signals():
            signal.signal(number, end)
        server = start(port, postgres=postgres)
        serve(server, f"http://{HOST}:{port}")
    finally:
        if server:
            stop(server)
        if server and postgres:
            import_module(POSTGRES).stop_embedded(Path.cwd())


if __name__ == "__main__":
    main()
