"""What commands of this machine read: the local environment, and the server that they call."""

import os
from pathlib import Path

import httpx

from lasting_memory.settings.errors import SettingsError

# `make dev` writes the server's address here, in the current directory, for `make chat` and `python
# -m seeds`.
DEV_ADDRESS = Path(".langgraph_api/address")
# Exit status of `python -m seeds` where some files cannot be seeded, and the others were.
PARTLY_SEEDED = 3


def local_environ(folder: Path = Path()) -> dict[str, str]:
    """The environment of commands on this machine.

    It is the folder's `.env`, overridden by non-empty variables of the process.
    """
    from dotenv import dotenv_values  # noqa: PLC0415  # a development library: the platform gives servers their environment

    environ = dict[str, str]()
    for name, value in dotenv_values(folder / ".env").items():
        environ[name] = value or ""
    for name, value in os.environ.items():
        if value:
            environ[name] = value
    return environ


def adopt_local_environ() -> None:
    """Makes `local_environ` this process's environment: providers' packages read keys from it."""
    os.environ.update(local_environ())


def given_token() -> str:
    """The token with which `make chat TOKEN=` signs in; empty if there is none.

    Never from `.env`, which is the server's.
    """
    return os.environ.get("TOKEN", "").strip()


def dev_address() -> str:
    """The address at which `make dev` last started a server, or its default one."""
    if not DEV_ADDRESS.exists():
        return "http://127.0.0.1:2024"
    return DEV_ADDRESS.read_text("utf-8")


def check_server(url: str) -> None:
    """Raises `SettingsError` if no deployment answers at `url`.

    It asks once, where the SDK's client would try six times.
    """
    timeout = httpx.Timeout(60, connect=5)
    try:
        answer = httpx.get(f"{url}/ok", timeout=timeout, trust_env=False)
        answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        raise SettingsError(
            f"No deployment answers at {url}; start one with `make dev`, or name another with --url."
        ) from None


def unanswered(error: httpx.TransportError | httpx.HTTPStatusError) -> str:
    """What a server answered to a command, or that it did not, in one line."""
    url = error.request.url
    if isinstance(error, httpx.HTTPStatusError):
        response = error.response
        text = response.text[:300]
        return f"{url} answered {response.status_code}: {text}"
    return f"{url} does not answer: {error!r}"
