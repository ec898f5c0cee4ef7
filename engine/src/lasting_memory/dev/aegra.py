"""`make dev-aegra`: this folder on aegra, with Postgres and Redis, on this machine.

python -m lasting_memory.dev.aegra [--port PORT] [--processes COUNT]
"""

import argparse
import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from lasting_memory import settings
from lasting_memory.dev import aegra_environment, processes
from lasting_memory.dev.server import HOST, choose_port, end, only_server, serve, stop

# Server processes by default: a killed one's runs go on in the other.
_PROCESSES = 2


def environment(address: str, database: str, redis: str | None) -> dict[str, str]:
    """The environment of a server process at this address.

    It is a development server: it takes development tokens, and listens on this machine alone.
    """
    environ = settings.local_environ()
    environ |= {
        "AEGRA_CONFIG": "langgraph.json",
        "DATABASE_URL": database,
        "ENV_MODE": environ.get("ENV_MODE") or "PRODUCTION",  # one line for each event
        "LANGGRAPH_API_URL": address,
        "LANGGRAPH_HTTP": json.dumps(settings.project_http(Path())),
        "LANGSMITH_LANGGRAPH_API_VARIANT": "local_dev",
        "LOG_LEVEL": environ.get("LOG_LEVEL") or "WARNING",
        "REDIS_BROKER_ENABLED": "true" if redis else "false",
    }
    if redis:
        environ["REDIS_URL"] = redis
    return environ


def command(python: Path, port: int, count: int) -> list[str]:
    """What serves, in so many processes at one port."""
    words = [str(python), "-m", "uvicorn", "lasting_memory.dev.aegra_app:app"]
    words += ["--host", HOST, "--port", str(port), "--no-access-log"]
    if count > 1:
        words += ["--workers", str(count)]
    words += ["--timeout-graceful-shutdown", "1", "--timeout-keep-alive", "75"]
    return words


def with_seeder(environ: dict[str, str]) -> str | None:
    """Make a new operator for seeding: it is added to OPERATORS of this environment, in place.

    Returns the operator's development token; None where people sign in with tokens of their
    identity provider.
    """
    if settings.load_settings(environ).uses_jwt:
        return None
    secret = secrets.token_hex(16)
    seeder = f"seeder-{secret}"
    operators = environ.get("OPERATORS")
    environ["OPERATORS"] = f"{operators},{seeder}" if operators else seeder
    org = environ.get("DEFAULT_ORG") or "default"
    return f"dev:{org}:{seeder}"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command. Its arguments are by default those of the process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, help="default: 2024, or the next free one")
    parser.add_argument("--processes", type=int, default=_PROCESSES, help="how many serve")
    args = parser.parse_args(arguments)
    lock = only_server()
    try:
        port = choose_port(args.port)
        process_count = max(1, args.processes)
        _run(port, process_count)
    except settings.SettingsError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
    finally:
        lock.release()


def _run(port: int, count: int) -> None:
    """Serve until the server ends, or a signal asks this command to end."""
    python = aegra_environment.python_of_aegra(Path())
    for number in processes.end_signals():
        signal.signal(number, end)
    environ = settings.local_environ()
    with ExitStack() as stack:
        database = stack.enter_context(aegra_environment.database(environ))
        redis = stack.enter_context(aegra_environment.redis(environ))
        if redis is None:
            print(aegra_environment.NO_REDIS, flush=True)  # noqa: T201  # a command's answer
            count = 1
        address = f"http://{HOST}:{port}"
        server_environ = environment(address, database, redis)
        token = with_seeder(server_environ)
        _make_tables(python, server_environ)
        server_command = command(python, port, count)
        server = processes.start_apart(server_command, server_environ)
        stack.callback(_end, server)
        settings.DEV_ADDRESS.parent.mkdir(exist_ok=True)
        serve(server, address, seeds_with=token, as_studio=False)


def _make_tables(python: Path, environ: dict[str, str]) -> None:
    """Make the tables: processes that begin at once would be in each other's way.

    Raises `SettingsError` if that fails.
    """
    making = [str(python), "-m", "lasting_memory.platform.aegra.tables"]
    process = subprocess.run(making, env=environ, check=False)  # noqa: S603
    if process.returncode:
        raise settings.SettingsError("The tables could not be made; the reason is above.")


def _end(server: subprocess.Popen[bytes]) -> None:
    """Stop the server if it still runs."""
    if server.poll() is None:
        stop(server)


if __name__ == "__main__":
    main()
