"""Where the server is: loopback or not, the address that `make dev` wrote, and whether a deployment answers there."""

import ipaddress
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import httpx

PROJECT = Path(__file__).parent
# `make dev` writes the server's address here, for `make chat` and `python -m seeds`.
DEV_ADDRESS = PROJECT / ".langgraph_api" / "address"
# The graph that turns conversations into memory. Every other graph is an agent that people talk to.
CONSOLIDATION_GRAPH = "consolidation_agent"
# Digits of a number of seconds.
MAX_SECONDS_DIGITS = 9


class SettingsError(ValueError):
    """A setting that cannot be used. The message is one line: variable, value, fix."""


def is_loopback(name: str) -> bool:
    """Whether a host name or IP address (without brackets or port) is a loopback one."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def hostname_of(address: str) -> str:
    """The host of a URL in lower case, without brackets; empty if it has none."""
    url = split_address(address)
    return (url.hostname or "") if url else ""


def split_address(value: str) -> SplitResult | None:
    """The parts of a URL; None if it is malformed. The parser's own errors would show a password."""
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError:
        return None
    return None if port == 0 else url


def dev_address() -> str:
    """The address at which `make dev` last started a server."""
    return DEV_ADDRESS.read_text("utf-8") if DEV_ADDRESS.exists() else "http://127.0.0.1:2024"


def check_server(url: str) -> None:
    """Ask a server whether it is one, before the SDK's client does, which tries six times.

    Raises:
        httpx.TransportError: `url` is none, or no server answers there.
        SettingsError: the address leads elsewhere, or another server answers.
    """
    try:
        answer = httpx.get(f"{url}/ok", timeout=httpx.Timeout(60, connect=5), trust_env=False)
    except (httpx.InvalidURL, ValueError) as error:
        raise httpx.UnsupportedProtocol(str(error)) from None
    if answer.is_redirect or (answer.is_success and "json" not in answer.headers.get("content-type", "")):
        other = f"redirects to {answer.headers['location'][:200]!r}" if answer.is_redirect else "is something else's"
        raise SettingsError(f"URL is {url!r}, which {other}; use the deployment's address.")
