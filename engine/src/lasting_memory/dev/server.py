"""`make dev`: the platform's development server of the current directory on a free port, seeded, with the next steps.

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
HOST = "127.0.0.1"  # `langgraph dev` believes callers that claim to be Studio, so other machines must not reach it
JOBS = "10"
START_SECONDS, STOP_SECONDS = 300, 20
APP = "lasting_memory.dev.app:app"
# What `make dev-postgres` adds to langgraph.json. It can be taken off, so nothing here imports it.
POSTGRES = "lasting_memory.postgres.store"
ON_POSTGRES = {name: {"path": f"{settings.ENGINE}/postgres/store.py:{name}"} for name in ("store", "checkpointer")}
# Options of uvicorn. `langgraph dev` waits for every answer before it ends, even for a model that hangs: here that is a second.
# It closes an idle connection after 5 s, and so does httpx: a request sent in that moment is lost. Here clients close first.
SERVING = {"timeout_graceful_shutdown": 1, "timeout_keep_alive": 75}
SERVER = f"""import functools, langgraph_api.cli, langgraph_cli.cli
langgraph_api.cli.run_server = functools.partial(langgraph_api.cli.run_server, **{SERVING})
langgraph_cli.cli.cli()"""

NEXT = """
{page}Ctrl-C stops it. The API: {url}/docs
In another terminal, talk to it as somebody: make chat {somebody}
"""


def choose_port(asked: int | None) -> int:
    """The port asked for, or the first free one. Exits where there is none: `langgraph dev` would take another."""
    for port in [asked] if asked is not None else range(FIRST_PORT, FIRST_PORT + PORTS):
        with contextlib.suppress(OSError, OverflowError), socket.create_server((HOST, port)) as probe:
            return int(probe.getsockname()[1])
    sys.exit(f"PORT is {asked or FIRST_PORT}, which cannot be used; choose another with PORT=.")


def only_server() -> IO[str]:
    """The lock of this folder, which the command and the server (`dev/app.py`) share. Exits if another server has it."""
    lock = LOCK.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        sys.exit(f"A server of this folder runs already, at {settings.dev_address()}; two would overwrite each other's files.")
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def configuration(deployed: dict[str, Any], *, postgres: bool) -> dict[str, Any]:
    """The server's configuration, given langgraph.json's: the same, with the app and the database of development."""
    ours = {name: {**deployed.get(name, {}), **block} for name, block in ON_POSTGRES.items()} if postgres else {}
    # If the server read `.env` itself, an empty line there would hide a variable of the process.
    return {**deployed, **ours, "env": {}, "http": {**deployed.get("http", {}), "app": APP}}


def start(port: int, *, postgres: bool) -> subprocess.Popen[bytes]:
    """`langgraph dev` on `port`."""
    path, deployed = settings.DEV_ADDRESS.parent / "langgraph.json", settings.project_config(Path())
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(configuration(deployed, postgres=postgres)), "utf-8")
    command = [sys.executable, "-c", SERVER, "dev", "--config", str(path), "--no-browser", "--host", HOST, "--port", str(port)]
    return subprocess.Popen([*command, "--n-jobs-per-worker", JOBS], env=settings.local_environ(), start_new_session=True)  # noqa: S603


def stop(server: subprocess.Popen[bytes]) -> None:
    """SIGINT makes the server flush its files and end; SIGKILL follows after `STOP_SECONDS`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C would lose unflushed data
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)  # with its child, the process that serves
        server.wait()


def serve(server: subprocess.Popen[bytes], url: str) -> None:
    """Once the server answers, seed it, say the next steps, and wait for its end. Raises `SystemExit` if it does not start."""
    for _ in range(START_SECONDS * 5):
        if server.poll() is not None:
            sys.exit("The server did not start; the reason is above.")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/ok", trust_env=False).is_success:
                break
        time.sleep(0.2)
    settings.DEV_ADDRESS.write_text(url, "utf-8")
    if subprocess.run([sys.executable, "-m", "seeds", "--url", url], check=False).returncode:  # noqa: S603
        sys.exit("The server was not seeded; the reason is above.")
    has_page = httpx.get(f"{url}/app", trust_env=False).is_success
    page = f"Open {url}/app to talk to the agent, and to see what it remembers. " if has_page else ""
    uses_jwt = settings.load_settings(settings.local_environ()).uses_jwt
    somebody = "TOKEN=<a token of your identity provider>" if uses_jwt else "AS=alice@example.com ORG=acme"
    print(NEXT.format(url=url, page=page, somebody=somebody), flush=True)  # noqa: T201  # a command's answer
    server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, help=f"default: {FIRST_PORT}, or the next free one")
    parser.add_argument("--postgres", action="store_true", help="with memory and checkpoints in Postgres (MEMORY_POSTGRES_URI)")
    args = parser.parse_args()
    _lock, port = only_server(), choose_port(args.port)  # held until the command ends
    for name in ("SIGTERM", "SIGHUP"):  # they also stop and flush the server
        signal.signal(getattr(signal, name), lambda *_: sys.exit(0))
    try:
        server = start(port, postgres=args.postgres)
    except settings.SettingsError as error:
        sys.exit(str(error))
    try:
        serve(server, f"http://{HOST}:{port}")
    except KeyboardInterrupt:
        pass
    finally:
        stop(server)
        if args.postgres:
            import_module(POSTGRES).stop_embedded(Path.cwd())


if __name__ == "__main__":
    main()
