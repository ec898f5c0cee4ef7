"""Every environment variable this deployment reads, read once, into one frozen object.

A variable exists only where two deployments of the same code must differ. What a fork would change once and for all is a
commented constant below. `.env.example` documents every variable; a test holds the two lists equal.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args
from urllib.parse import SplitResult, parse_qs, urlsplit

from croniter import croniter

MemoryScope = Literal["user", "user+assistant", "assistant"]
MemoryWrites = Literal["both", "background"]
SharedWrites = Literal["deny", "interrupt", "allow"]
DevTokens = Literal["local", "anywhere"]

PROJECT = Path(__file__).parent
# Where `make dev` says at which address it started, for `make chat` and `python -m seeds`.
DEV_ADDRESS = PROJECT / ".langgraph_api" / "address"

# The files shown to the model in every system prompt; everything else it reads when it needs it.
MEMORY_FILES = ("/memories/preferences.md", "/memories/profile.json", "/memories/topics/index.md")
# UTF-8 bytes of each prompt block; beyond it the head is kept and the prompt says what to read for the rest.
MEMORY_BUDGET_BYTES = 16_384
POLICY_BUDGET_BYTES = 32_768
SKILLS_BUDGET_BYTES = 16_384
# UTF-8 bytes of one skill's front matter, and of all that a run reads of one folder of skills.
MAX_FRONT_MATTER_BYTES = 8_192
SKILLS_READ_BYTES = 4 * SKILLS_BUDGET_BYTES
# Files of one organization's policies that are looked at for the top-level rules among them.
MAX_POLICY_FILES = 1_000
# UTF-8 bytes of one file written through the agent's filesystem, and of its path within a route.
MAX_FILE_BYTES = 262_144
MAX_PATH_BYTES = 512
# Files of one namespace (a person's memory, an assistant's skills), and UTF-8 bytes of all of them together. Every write reads
# them all to know.
MAX_MEMORY_FILES = 500
MAX_MEMORY_BYTES = 4_194_304
# UTF-8 bytes that the files of one namespace and their histories take up together. Beyond it histories go: those of deleted
# files first, then the oldest revisions; never the newest of a file that is there.
MAX_STORED_BYTES = 2 * MAX_MEMORY_BYTES
# Assistants with which one person has memory (`MEMORY_SCOPE=user+assistant`) before no request begins it with another.
MAX_ASSISTANTS = 20
# Deleted files that are still known by their last revision. Beyond it the oldest are cleared away, which takes ten minutes; at
# twice as many, no new file is made until then.
MAX_DELETED_FILES = 1_000
# Bytes of a request to /memory (its JSON may write a character in six), and of a document to import, which may hold more than
# the files.
MAX_BODY_BYTES = 1_048_576
MAX_IMPORT_BYTES = 16_777_216
# Seconds after forgetting somebody when it is looked whether a write that was on its way has landed.
FORGET_GRACE_SECONDS = 0.5
# Revisions of a file that are kept for the history and for undoing.
REVISIONS_KEPT = 50
# Characters of a search tool's answer.
MAX_SEARCH_RESULT_CHARS = 4_000
# Memory files of one person that one search looks at where the store has no semantic index.
MAX_SEARCHED_FILES = 1_000
# What one batch of consolidation shows the model: tokens of conversation, counted approximately, and topic files that the
# conversations are about. A backlog takes several batches in one run, each committed.
BATCH_TOKENS = 15_000
TOPIC_FILES_SHOWN = 5
# Model calls that one batch may take; beyond them it is undone, and stays due.
MAX_CONSOLIDATION_STEPS = 40
# Changes that one batch may make to one file: together with undoing them, fewer than the revisions that are kept.
MAX_CHANGES_OF_A_FILE = 20
# Batches that may be undone for good before a run ends; what they held is tried again by the next one, each conversation alone.
MAX_UNDONE_BATCHES = 3
# What consolidation may do to lines of memory. What it updates or removes stays in the history.
CONSOLIDATION_ADDS = True
CONSOLIDATION_UPDATES = True
CONSOLIDATION_REMOVES = True
# The share of a file's facts (lines that are no headings or comments) that a batch may take from memory, beside those that
# the model gave as outdated or contradicted.
MAX_SHRINKING = 1 / 3
# The share of a fact's words that one line must still have for the fact to be kept; words that other facts have count less.
FACT_WORDS_KEPT = 2 / 3
# Seconds after which a consolidation that gave no sign of life is taken for dead, and what it left half done is undone.
LEASE_SECONDS = 300
# Finished consolidations that are kept of a person.
CONSOLIDATIONS_KEPT = 100
# Characters of all diffs in the record of one, and bytes of all records of a person.
MAX_RECORD_CHARS = 200_000
MAX_CONSOLIDATIONS_BYTES = 1_048_576
# Characters of one file's diff, in the history and in what consolidation did.
MAX_DIFF_CHARS = 20_000
# Seconds for which further turns of somebody who never pauses postpone a consolidation at most.
MAX_CONSOLIDATION_WAIT_SECONDS = 3_600
# A sweep looks back this much further than to the start of the last one: clocks differ, and a turn may be committed late.
SWEEP_MARGIN_SECONDS = 600
# Connections to Postgres that one server opens at most, for the store and again for the checkpoints: `make dev-postgres` only.
POSTGRES_CONNECTIONS = 10
# The embedded Postgres's data, in the folder the server works in.
POSTGRES_FOLDER = ".postgres"
# HS256 keys shorter than the hash are guessable (RFC 7518, section 3.2).
MIN_JWT_SECRET_BYTES = 32
# UTF-8 bytes of what one run is sent (its input and command, as JSON).
MAX_INPUT_BYTES = 1_048_576
# Bytes of a body that is sent to any other route than /memory (JSON may write a text in three times its bytes), and levels to
# which it may nest.
MAX_REQUEST_BYTES = 4 * MAX_INPUT_BYTES
MAX_REQUEST_NESTING = 150
# Requests that one batch may be made of.
MAX_BATCH = 1_000
# Conversations of one person that may have a run going or waiting at once.
MAX_BUSY_THREADS = 10
# Steps that a run may ask for at most.
MAX_RECURSION_LIMIT = 10_000
# Keys of the metadata of one run or thread, and characters of each key and value.
MAX_METADATA_KEYS = 50
MAX_METADATA_CHARS = 2_000
# Levels to which what a run is sent may nest. Python copies a few hundred at most.
MAX_NESTING = 100
# Links for feedback that one run may ask for; each is a call to LangSmith.
MAX_FEEDBACK_KEYS = 10
# Whether everybody's runs may have a webhook, which carries the conversation out, or only operators'.
WEBHOOKS_FOR_EVERYBODY = False
# Seconds by which the clocks of this server and of a token's issuer may differ.
CLOCK_SKEW_SECONDS = 30
# Of a number of seconds; more would be centuries.
MAX_SECONDS_DIGITS = 9
# Seconds by which a run may be put off: as far as CONSOLIDATE_AFTER_SECONDS goes.
MAX_AFTER_SECONDS = 10**MAX_SECONDS_DIGITS
# A sixth field would be seconds, which the platform's scheduler does not have.
CRON_FIELDS = 5


class SettingsError(ValueError):
    """A setting that cannot be used. The message is one line: variable, value, fix."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says. Defaults are those of a first local start without any key."""

    agent_model: str | None = None
    consolidation_model: str | None = None
    auth_jwks_url: str | None = None
    auth_jwt_secret: str | None = field(default=None, repr=False)
    auth_issuer: str | None = None
    auth_audience: str | None = None
    auth_org_claim: str = "org_id"
    auth_permissions_claim: str = "permissions"
    default_org: str = "default"
    operators: frozenset[str] = frozenset()
    dev_tokens: DevTokens = "local"
    memory_scope: MemoryScope = "user"
    memory_writes: MemoryWrites = "both"
    shared_writes: SharedWrites = "deny"
    consolidate_after_seconds: int = 300
    consolidation_schedule: str | None = None
    memory_postgres_uri: str | None = field(default=None, repr=False)
    # True where the server is `langgraph dev`, and where that can be reached from elsewhere (`--host`, `--tunnel`): the
    # platform says so, `.env` cannot.
    local_dev: bool = False
    exposed: bool = False
    # The name or IP address by which `langgraph dev` says it is reached.
    served_as: str = ""
    # The websites that may call: `http.cors` of langgraph.json, as the platform passes it on. For the development server.
    cors_origins: frozenset[str] = frozenset()
    cors_origin_regex: str | None = None

    @property
    def accepts_dev_tokens(self) -> bool:
        """Whether a caller may simply say who they are: on `langgraph dev` that only this machine reaches, without JWTs."""
        return self.local_dev and not self.uses_jwt and (not self.exposed or self.dev_tokens == "anywhere")

    @property
    def accepts_studio(self) -> bool:
        """Whether a caller may say they are Studio. On `langgraph dev` nobody checks that; in a deployment LangSmith does."""
        return not self.exposed or self.accepts_dev_tokens

    @property
    def uses_jwt(self) -> bool:
        """Whether people sign in with JSON web tokens; if so, development tokens are refused."""
        return bool(self.auth_jwks_url or self.auth_jwt_secret)


T = TypeVar("T")


def _bad(name: str, value: str, fix: str) -> SettingsError:
    return SettingsError(f"{name} is {value!r}; {fix}")


def _model(name: str, value: str) -> str:
    provider, _, model = value.partition(":")
    if not provider or not model:
        raise _bad(name, value, "use provider:model, e.g. anthropic:claude-sonnet-4-6, or leave it empty.")
    return value


def _choice(kind: object) -> Callable[[str, str], str]:
    choices = get_args(kind)

    def parse(name: str, value: str) -> str:
        if value not in choices:
            raise _bad(name, value, f"use one of {', '.join(choices)}.")
        return value

    return parse


def _label_text(name: str, value: str) -> str:
    if len(value.encode()) > MAX_PATH_BYTES // 2:
        raise _bad(name, f"{value[:20]}...", f"use at most {MAX_PATH_BYTES // 2} bytes.")
    return value


def _seconds(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= MAX_SECONDS_DIGITS):
        raise _bad(name, value[:20], "use a whole number of seconds, e.g. 300, or 0 to turn it off.")
    return int(value)


def _cron(name: str, value: str) -> str:
    if len(value.split()) != CRON_FIELDS or not croniter.is_valid(value):
        raise _bad(name, value, "use five cron fields in UTC, e.g. 0 3 * * *, or leave it empty for none.")
    return value


def _jwks_url(name: str, value: str) -> str:
    url = _split(value)
    if not url or not url.hostname or not (url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname))):
        raise _bad(name, value[:100], "use the https:// address of your identity provider's key set.")
    return value


def is_loopback(name: str) -> bool:
    """Whether a host's name or IP address, without brackets or port, is this machine's alone."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _hostname(address: str) -> str:
    """The host of an address in lower case, without brackets; empty where it has none."""
    url = _split(address)
    return (url.hostname or "") if url else ""


def _split(value: str) -> SplitResult | None:
    """The parts of an address, None where it has none that can be told apart. Its own errors would show a password."""
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError:
        return None
    return None if port == 0 else url


def _jwt_secret(name: str, value: str) -> str:
    if len(value.encode()) < MIN_JWT_SECRET_BYTES:
        raise SettingsError(f"{name} has {len(value.encode())} bytes; use at least {MIN_JWT_SECRET_BYTES} random ones.")
    return value


def _postgres_uri(name: str, value: str) -> str:
    url = _split(value)
    if not url or url.scheme not in {"postgres", "postgresql"} or not (url.hostname or "host" in parse_qs(url.query)):
        raise SettingsError(f"{name} is not a Postgres address; use postgresql://user:password@host:5432/database.")
    return value


def _identities(name: str, value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",") if part.strip())


def _text(name: str, value: str) -> str:
    return value


def _cors(http: str) -> tuple[frozenset[str], str | None]:
    """The origins, and the expression for further ones, that the platform's `http` configuration lets call."""
    given: dict[str, Any] = (json.loads(http or "{}") or {}).get("cors") or {}
    expression = given.get("allow_origin_regex") or ""
    try:
        re.compile(expression)
    except re.error as error:
        raise _bad("http.cors.allow_origin_regex", expression, f"{error}: use a regular expression of origins.") from None
    return frozenset(given.get("allow_origins") or ()), expression or None


# The name of each variable is its field's in capitals.
_PARSERS: dict[str, Callable[[str, str], object]] = {
    "agent_model": _model,
    "consolidation_model": _model,
    "auth_jwks_url": _jwks_url,
    "auth_jwt_secret": _jwt_secret,
    "auth_issuer": _text,
    "auth_audience": _text,
    "auth_org_claim": _text,
    "auth_permissions_claim": _text,
    "default_org": _label_text,
    "operators": _identities,
    "dev_tokens": _choice(DevTokens),
    "memory_scope": _choice(MemoryScope),
    "memory_writes": _choice(MemoryWrites),
    "shared_writes": _choice(SharedWrites),
    "consolidate_after_seconds": _seconds,
    "consolidation_schedule": _cron,
    "memory_postgres_uri": _postgres_uri,
}

VARIABLES = tuple(name.upper() for name in _PARSERS)


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from `environ` (default: the process environment). An empty value counts as unset.

    Raises:
        SettingsError: a value cannot be used, or two settings exclude each other.
    """
    environ = os.environ if environ is None else environ
    given = {name: value for name in VARIABLES if (value := environ.get(name, "").strip())}
    for name, value in given.items():
        if any("\ud800" <= character <= "\udfff" for character in value):  # how Python reads bytes that are not UTF-8
            raise SettingsError(f"{name} is not UTF-8 text; type it again.")
    values = {name.lower(): _PARSERS[name.lower()](name, value) for name, value in given.items()}
    local_dev = environ.get("LANGSMITH_LANGGRAPH_API_VARIANT") == "local_dev"
    served_as = _hostname(environ.get("LANGGRAPH_API_URL", ""))
    origins, origin_regex = _cors(environ.get("LANGGRAPH_HTTP", "") if local_dev else "")
    settings = Settings(
        **cast("dict[str, str]", values),  # type: ignore[arg-type]  # each parser returns its field's type
        local_dev=local_dev,
        exposed=local_dev and not is_loopback(served_as),
        served_as=served_as,
        cors_origins=origins,
        cors_origin_regex=origin_regex,
    )
    if settings.auth_jwks_url and settings.auth_jwt_secret:
        raise SettingsError("AUTH_JWKS_URL and AUTH_JWT_SECRET are both set; keep the one your tokens are signed with.")
    return settings


def dev_address() -> str:
    """The address at which `make dev` last started a server."""
    return DEV_ADDRESS.read_text("utf-8") if DEV_ADDRESS.exists() else "http://127.0.0.1:2024"


def local_environ() -> dict[str, str]:
    """The environment of commands on this machine: `.env`, and over it what the process was given and is not empty."""
    from dotenv import dotenv_values  # noqa: PLC0415  # a development library: servers are given their environment

    given = {name: value for name, value in os.environ.items() if value}
    return {**{name: value or "" for name, value in dotenv_values(PROJECT / ".env").items()}, **given}


if __name__ == "__main__":  # `make dev` asks before it starts a server
    try:
        load_settings(local_environ())
    except SettingsError as error:
        sys.exit(str(error))
