"""Parses the texts of environment variables. A value that cannot be used raises one line: variable, value, fix."""

import ipaddress
import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args
from urllib.parse import SplitResult, parse_qs, urlsplit

import httpx
from croniter import CroniterBadDateError, croniter

PROJECT = Path(__file__).parent
# `make dev` writes the server's address here, for `make chat` and `python -m seeds`.
DEV_ADDRESS = PROJECT / ".langgraph_api" / "address"
# The graph that turns conversations into memory. Every other graph is an agent that people talk to.
CONSOLIDATION_GRAPH = "consolidation_agent"
# UTF-8 bytes of an organization's name, so that it fits into a namespace.
MAX_ORG_BYTES = 256
# HS256 keys shorter than the hash are guessable (RFC 7518, section 3.2).
MIN_JWT_SECRET_BYTES = 32
# Digits of a number of seconds, and of a number of tokens.
MAX_SECONDS_DIGITS = 9
MAX_TOKENS_DIGITS = 12
# Characters of a value in an error.
_SHOWN_CHARS = 100
# A sixth field would be seconds, which the platform's scheduler does not support.
CRON_FIELDS = 5


class SettingsError(ValueError):
    """A setting that cannot be used. The message is one line: variable, value, fix."""


def bad_value(name: str, value: str, fix: str) -> SettingsError:
    shown = value if len(value) <= _SHOWN_CHARS else f"{value[:_SHOWN_CHARS]}..."
    return SettingsError(f"{name} is {shown!r}; {fix}")


def parse_model(name: str, value: str) -> str:
    provider, _, model = value.partition(":")
    if not provider or not model:
        raise bad_value(name, value, "use provider:model, e.g. anthropic:claude-sonnet-4-6, or leave it empty.")
    return value


def parse_choice(kind: object) -> Callable[[str, str], str]:
    choices = get_args(kind)

    def parse(name: str, value: str) -> str:
        if value not in choices:
            raise bad_value(name, value, f"use one of {', '.join(choices)}.")
        return value

    return parse


def _whole_number(name: str, value: str, digits: int, fix: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= digits):
        raise bad_value(name, value[:20], f"use a whole number of {fix}")
    return int(value)


parse_seconds = partial(_whole_number, digits=MAX_SECONDS_DIGITS, fix="seconds, e.g. 300, or 0 to turn it off.")
parse_tokens = partial(_whole_number, digits=MAX_TOKENS_DIGITS, fix="tokens, e.g. 500000, or 0 for no limit.")


def parse_cron(name: str, value: str) -> str:
    if len(value.split()) != CRON_FIELDS or not croniter.is_valid(value) or not _fires(value):
        raise bad_value(name, value, "use five cron fields in UTC, e.g. 0 3 * * *, or leave it empty for none.")
    return value


def _fires(cron: str) -> bool:
    """Whether a valid cron has a next time: the 31st of February has none."""
    try:
        return bool(croniter(cron).get_next())
    except CroniterBadDateError:
        return False


def parse_jwks_url(name: str, value: str) -> str:
    url = split_address(value)
    if not url or not url.hostname or not (url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname))):
        raise bad_value(name, value, "use the https:// address of your identity provider's key set.")
    return value


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


def parse_jwt_secret(name: str, value: str) -> str:
    if len(value.encode()) < MIN_JWT_SECRET_BYTES:
        raise SettingsError(f"{name} has {len(value.encode())} bytes; use at least {MIN_JWT_SECRET_BYTES} random ones.")
    return value


def parse_postgres_uri(name: str, value: str) -> str:
    url = split_address(value)
    if not url or url.scheme not in {"postgres", "postgresql"} or not (url.hostname or "host" in parse_qs(url.query)):
        raise SettingsError(f"{name} is not a Postgres address; use postgresql://user:password@host:5432/database.")
    return value


def parse_identities(name: str, value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",") if part.strip())


def parse_org(name: str, value: str) -> str:
    if len(value.encode()) > MAX_ORG_BYTES:
        raise bad_value(name, f"{value[:20]}...", f"use at most {MAX_ORG_BYTES} bytes.")
    return value


def parse_text(name: str, value: str) -> str:
    return value


def parse_cors(http: str) -> tuple[frozenset[str], str | None]:
    """The allowed origins, and the regular expression of further ones, in the platform's `http` configuration."""
    given: dict[str, Any] = (json.loads(http or "{}") or {}).get("cors") or {}
    expression = given.get("allow_origin_regex") or ""
    try:
        re.compile(expression)
    except re.error as error:
        raise bad_value("http.cors.allow_origin_regex", expression, f"{error}: use a regular expression of origins.") from None
    return frozenset(given.get("allow_origins") or ()), expression or None


@cache
def parse_graphs(text: str) -> tuple[str, ...]:
    """Ids of the agent graphs in a langgraph.json, or in the platform's own list of graphs, in its order. Raises
    `SettingsError` if there is none.
    """
    given: dict[str, Any] = json.loads(text)
    if agents := tuple(graph for graph in given.get("graphs", given) if graph != CONSOLIDATION_GRAPH):
        return agents
    raise SettingsError(f"graphs in langgraph.json names no agent; add one beside {CONSOLIDATION_GRAPH}.")


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
    if answer.is_redirect:
        raise SettingsError(
            f"URL is {url!r}, which redirects to {answer.headers.get('location', '')[:200]!r}; use that address."
        )
    if answer.is_success and "json" not in answer.headers.get("content-type", ""):
        raise SettingsError(f"URL is {url!r}, where something else than this deployment answers; use the deployment's address.")
