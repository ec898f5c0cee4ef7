"""What aegra needs beside this environment: one of its own, Redis, and a database.

aegra's wheel wants Python 3.12, and this environment may have 3.11.
"""

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from lasting_memory.dev import processes
from lasting_memory.dev.checks import MissingToolError
from lasting_memory.settings import ENGINE, SettingsError

VERSION = "0.11.0"
FOLDER = Path(".venv-aegra")
NEEDS_PYTHON = (
    "aegra needs Python 3.12 or newer, and uv finds none here; install one, "
    "e.g. with `uv python install 3.12`."
)
NO_REDIS = (
    "No redis-server is here, so one process serves, and the runs of a killed one are lost; "
    "install it (apt install redis-server, brew install redis), or set REDIS_URL."
)
_POSTGRES = "lasting_memory.postgres.store"  # it can be taken off
_DATABASE = "aegra"
_REDIS_SECONDS = 10


def python_of_aegra(project: Path) -> Path:
    """The path of the interpreter that runs aegra for a project.

    Its environment, `.venv-aegra/`, is made first if it is missing or has other requirements.

    Raises `MissingToolError` with one line that says what is missing.
    """
    relative_folder = project / FOLDER
    folder = relative_folder.absolute()
    python = folder / "bin" / "python"
    requirements = _requirements(project)
    installed_path = folder / ".installed"
    if installed_path.exists() and installed_path.read_text("utf-8") == requirements:
        return python
    interpreter = Path(sys.executable)
    uv = shutil.which("uv") or shutil.which("uv", path=str(interpreter.parent))
    if uv is None:
        raise MissingToolError("uv is not here, which makes aegra's environment; install it.")
    making = [uv, "venv", "--quiet", "--allow-existing", "--python", ">=3.12", str(folder)]
    making.append("--no-python-downloads")
    if processes.run(making):
        raise MissingToolError(NEEDS_PYTHON)
    installing = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python)]
    installing += requirements.split("\n")
    if processes.run(installing, project):
        raise MissingToolError(f"aegra-api {VERSION} could not be installed; the reason is above.")
    installed_path.write_text(requirements, "utf-8")
    return python


def _requirements(project: Path) -> str:
    """What is installed for aegra, one argument a line: the engine that this project runs, too."""
    arguments = [f"aegra-api=={VERSION}"]
    if (project / "constraints.txt").exists():
        arguments += ["-c", "constraints.txt"]
    if (project / "engine" / "pyproject.toml").exists():
        arguments += ["-e", "./engine"]
    elif (ENGINE.parents[1] / "pyproject.toml").exists():
        arguments += ["-e", str(ENGINE.parents[1])]
    else:
        arguments += ["--find-links", "wheels", "lasting-memory"]
    if (project / "pyproject.toml").exists():
        arguments += ["-e", "."]
    return "\n".join(arguments)


@contextmanager
def database(environ: Mapping[str, str]) -> Iterator[str]:
    """The address of a Postgres for aegra: `MEMORY_POSTGRES_URI`, or one that this starts.

    The embedded one has its data in `.postgres/`, in a database beside that of `make dev-postgres`.
    """
    named = environ.get("MEMORY_POSTGRES_URI")
    if named:
        yield named
        return
    postgres = import_module(_POSTGRES)
    # It ends with the last process that uses it.
    address: str = postgres.embedded_address()
    yield postgres.database_in(address, _DATABASE)


@contextmanager
def redis(environ: Mapping[str, str]) -> Iterator[str | None]:
    """The address of a Redis: `REDIS_URL`, or one that this starts; None where there is none."""
    named = environ.get("REDIS_URL")
    if named:
        yield named
        return
    command = shutil.which("redis-server")
    if command is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    where = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(  # noqa: S603
            [command, *where, "--dir", folder, "--loglevel", "warning"],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait_for(server, port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a server that was started answers at its port. Raises `SettingsError`."""
    deadline = time.monotonic() + _REDIS_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SettingsError("redis-server did not start; run it by itself to see why.")
