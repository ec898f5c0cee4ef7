"""Every environment variable this deployment reads, read once, into one frozen object; and the constants that a fork changes.

A variable exists only where two deployments of the same code must differ. `.env.example` documents every variable; a test holds
the two lists equal. Constants that no fork changes stay with the code that they tune.
"""

import ipaddress
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args
from urllib.parse import parse_qs, urlsplit

import httpx
from croniter import croniter
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

ENGINE = Path(__file__).parent
# `make dev` writes the server's address here, in the current directory, for `make chat` and `python -m seeds`.
DEV_ADDRESS = Path(".langgraph_api/address")
# The graph that turns conversations into memory. Every other graph is an agent that people talk to.
CONSOLIDATION_GRAPH = "consolidation_agent"
MemoryScope = Literal["user", "user+assistant", "assistant"]
SharedWrites = Literal["deny", "interrupt", "allow"]

# --- The system prompt. Sizes are UTF-8 bytes.
# Files shown in every system prompt. The model reads other files on demand.
MEMORY_FILES = ("/memories/preferences.md", "/memories/profile.json", "/memories/topics/index.md")
# Each prompt block. A longer block is cut, and says which file to read for the rest.
MEMORY_BUDGET_BYTES = 16_384
POLICY_BUDGET_BYTES = 32_768
SKILLS_BUDGET_BYTES = 16_384
# One skill's front matter. A run reads `SKILLS_BUDGET_BYTES` of all.
MAX_FRONT_MATTER_BYTES = 8_192

# --- Files. Sizes are UTF-8 bytes.
# One file, and its path within a route.
MAX_FILE_BYTES = 262_144
MAX_PATH_BYTES = 512
# Files of one namespace (a person's memory, an assistant's skills), and their size together. Every write reads them.
MAX_MEMORY_FILES = 500
MAX_MEMORY_BYTES = 4_194_304
# A namespace's files with their histories. To make room, histories of deleted files go first, then old revisions.
MAX_STORED_BYTES = 2 * MAX_MEMORY_BYTES
# A document to import.
MAX_IMPORT_BYTES = 16_777_216
# Revisions of a file, for its history and for undo.
REVISIONS_KEPT = 50
# Characters of one file's diff, in the history and in records of consolidation.
MAX_DIFF_CHARS = 20_000

# --- Conversations.
# Hours from the last turn of a temporary conversation to its deletion, by the sweep or at its owner's next new conversation.
TEMPORARY_HOURS = 24
# Days from the last turn of any conversation to its deletion by the sweep, with its index and positions. None: never.
CONVERSATION_DAYS: int | None = None
# Characters of a search tool's answer.
MAX_SEARCH_RESULT_CHARS = 4_000

# --- Consolidation.
# Tokens of conversation (about), and topic files, that one batch shows. A run commits each batch.
BATCH_TOKENS = 15_000
TOPIC_FILES_SHOWN = 5
# Model calls per batch. A batch that needs more changes nothing, and stays due.
MAX_CONSOLIDATION_STEPS = 40
# Share of a file's facts (lines except headings and comments) that a batch may remove without a reason.
MAX_SHRINKING = 1 / 3
# Share of a fact's words that one line must contain to keep the fact. Words that other facts use count less.
FACT_WORDS_KEPT = 2 / 3
# Records kept per person.
CONSOLIDATIONS_KEPT = 100
# Consolidations at once in one process, beside one that somebody asked for and one dry run: with a sweep and MAX_BUSY_THREADS,
# fewer than its workers (N_JOBS_PER_WORKER).
CONSOLIDATIONS_AT_ONCE = 2

# --- Limits of one person.
# Requests per second to one process, and the burst allowed before that rate applies. Further ones wait.
REQUESTS_PER_SECOND = 20
REQUESTS_AT_ONCE = 300
# Bytes, sent or answered, that count as a request; some routes count more (`access/request_bounds.py`).
BYTES_PER_REQUEST = 131_072
# Answers that are streamed or waited for at once, WebSockets included.
MAX_OPEN_STREAMS = 50
# States of a conversation's history in one answer: each is the whole conversation.
MAX_HISTORY = 100
# Conversations with a run under way or queued, and as many consolidations: fewer than half of ten workers.
MAX_BUSY_THREADS = 4
# Runs queued behind the current run of one conversation.
MAX_WAITING_RUNS = 2
# Bytes of a request, to any route but the import of memory.
MAX_INPUT_BYTES = 1_048_576
# Seconds without output until a model call fails. Raise it for models that think longer in silence.
MODEL_SILENCE_SECONDS = 120
# Further attempts after an incomplete answer.
MODEL_RETRIES = 2
# Seconds of model and tool calls in one run.
MAX_RUN_SECONDS = 1_800
# Highest `recursion_limit` that a run may ask for.
MAX_RECURSION_LIMIT = 10_000

# UTF-8 bytes of an organization's name, so that it fits into a namespace.
_MAX_ORG_BYTES = 256


class SettingsError(ValueError):
    """A setting that cannot be used. The message is one line: variable, value, fix."""


def is_loopback(name: str) -> bool:
    """Whether a host name or IP address (without brackets or port) is a loopback one."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _that(holds: Callable[[str], object]) -> AfterValidator:
    """Takes a text for which `holds` is true. What to use instead is the field's description."""

    def check(text: str) -> str:
        if not holds(text):
            raise ValueError
        return text

    return AfterValidator(check)


def _fires(cron: str) -> bool:
    """Whether this is a cron of five fields (a sixth would be seconds) that has a next time: the 31st of February has none."""
    return bool(re.fullmatch(r"(\S+\s+){4}\S+", cron)) and bool(croniter(cron).get_next())


def _is_key_set(address: str) -> bool:
    url = urlsplit(address)
    return bool(url.hostname and (url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname))))


def _is_postgres(address: str) -> bool:
    url = urlsplit(address)
    # Otherwise Postgres would take a piece of the password for the host.
    return (
        url.scheme in {"postgres", "postgresql"}
        and "@" not in url.netloc.partition("@")[2]
        and bool(url.hostname or "host" in parse_qs(url.query))
    )


def _parts(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


# A description says what to use in place of a bad value. Fields with `repr=False` hold secrets, and no error shows them.
_Model = Annotated[str, Field(pattern="^[^:]+:.")]
_MODEL = Field(default=None, description="provider:model, e.g. anthropic:claude-sonnet-4-6, or leave it empty")


@dataclass(frozen=True, slots=True, config=ConfigDict(hide_input_in_errors=True))
class Settings:
    """The environment: each field is the variable of its name in capitals. The defaults are those of a first local start
    without any key.
    """

    agent_model: _Model | None = _MODEL
    auth_jwks_url: Annotated[str, _that(_is_key_set)] | None = Field(
        default=None, description="the https:// address of your identity provider's key set"
    )
    # HS256 keys shorter than the hash are guessable (RFC 7518, section 3.2).
    auth_jwt_secret: Annotated[str, Field(min_length=32)] | None = Field(
        default=None, repr=False, description="at least 32 random bytes"
    )
    auth_issuer: str | None = None
    auth_audience: str | None = None
    auth_org_claim: str = "org_id"
    auth_permissions_claim: str = "permissions"
    default_org: Annotated[str, _that(lambda text: len(text.encode()) <= _MAX_ORG_BYTES)] = Field(
        default="default", description=f"at most {_MAX_ORG_BYTES} bytes of UTF-8"
    )
    operators: Annotated[frozenset[str], BeforeValidator(_parts)] = frozenset()
    dev_tokens: Literal["local", "anywhere"] = "local"
    memory_scope: MemoryScope = "user"
    memory_writes: Literal["both", "background"] = "both"
    shared_writes: SharedWrites = "deny"
    daily_tokens: int = Field(
        default=0, ge=0, lt=10**12, description="a whole number of tokens, e.g. 500000, or 0 for no limit"
    )
    # Of consolidation, which can be taken off.
    consolidation_model: _Model | None = _MODEL
    consolidate_after_seconds: int = Field(
        default=300, ge=0, lt=10**9, description="a whole number of seconds, e.g. 300, or 0 to turn it off"
    )
    consolidation_schedule: Annotated[str, _that(_fires)] | None = Field(
        default=None, description="five cron fields in UTC, e.g. 0 3 * * *, or leave it empty for none"
    )
    consolidation_review: Literal["off", "on"] = "off"
    # Of Postgres for development, which can be taken off.
    memory_postgres_uri: Annotated[str, _that(_is_postgres)] | None = Field(
        default=None, repr=False, description="postgresql://user:password@host:5432/database"
    )
    # The platform sets the rest; `.env` cannot. Whether this is `langgraph dev`, and reachable from other machines
    # (`--host`, `--tunnel`); its host name or IP address; and the websites that may call it (`http.cors` of langgraph.json).
    local_dev: bool = False
    exposed: bool = False
    served_as: str = ""
    cors_origins: frozenset[str] = frozenset()
    cors_origin_regex: re.Pattern[str] | None = Field(
        default=None, title="http.cors.allow_origin_regex", description="a regular expression of origins"
    )

    @property
    def accepts_dev_tokens(self) -> bool:
        """Whether callers name themselves: on `langgraph dev` without JWTs, while only this machine reaches it."""
        return self.local_dev and not self.uses_jwt and (not self.exposed or self.dev_tokens == "anywhere")

    @property
    def accepts_studio(self) -> bool:
        """Whether a caller may say it is Studio. `langgraph dev` does not verify that; in a deployment LangSmith does."""
        return not self.exposed or self.accepts_dev_tokens

    @property
    def sign_in(self) -> Literal["dev", "token"]:
        """How people sign in: with a name and an organization, or with a token."""
        return "dev" if self.accepts_dev_tokens else "token"

    @property
    def uses_jwt(self) -> bool:
        """Whether people sign in with JSON web tokens. Development tokens are then refused."""
        return bool(self.auth_jwks_url or self.auth_jwt_secret)


_OF_THE_PLATFORM = {"local_dev", "exposed", "served_as", "cors_origins", "cors_origin_regex"}
VARIABLES = tuple(field.name.upper() for field in fields(Settings) if field.name not in _OF_THE_PLATFORM)


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from `environ` (default: the process environment). An empty value counts as unset. Raises `SettingsError` if a
    value cannot be used, or two settings exclude each other.
    """
    environ = os.environ if environ is None else environ
    given: dict[str, Any] = {name.lower(): value for name in VARIABLES if (value := environ.get(name, "").strip())}
    served_as = urlsplit(environ.get("LANGGRAPH_API_URL", "")).hostname or ""
    if environ.get("LANGSMITH_LANGGRAPH_API_VARIANT") == "local_dev":
        cors = (json.loads(environ.get("LANGGRAPH_HTTP") or "{}") or {}).get("cors") or {}
        given |= {
            "local_dev": True,
            "exposed": not is_loopback(served_as),
            "cors_origins": cors.get("allow_origins") or (),
            "cors_origin_regex": cors.get("allow_origin_regex") or None,
        }
    try:
        settings = Settings(**given, served_as=served_as)
    except ValidationError as error:  # its text shows no value: it may be a secret
        wrong = error.errors(include_url=False)[0]
        field = cast("Any", Settings).__pydantic_fields__[wrong["loc"][0]]
        fix = field.description or f"one of {', '.join(get_args(field.annotation))}"
        said = repr(str(wrong["input"])[:100]) if field.repr else "unusable as it is"
        raise SettingsError(f"{field.title or str(wrong['loc'][0]).upper()} is {said}; use {fix}.") from None
    if settings.auth_jwks_url and settings.auth_jwt_secret:
        raise SettingsError("AUTH_JWKS_URL and AUTH_JWT_SECRET are both set; keep the one your tokens are signed with.")
    return settings


def agent_graphs(folder: Path) -> tuple[str, ...]:
    """Ids of the graphs that people talk to: all that the server has, or langgraph.json, but consolidation's."""
    given = json.loads(os.environ.get("LANGSERVE_GRAPHS") or (folder / "langgraph.json").read_text("utf-8"))
    if agents := tuple(graph for graph in given.get("graphs", given) if graph != CONSOLIDATION_GRAPH):
        return agents
    raise SettingsError(f"graphs in langgraph.json names no agent; add one beside {CONSOLIDATION_GRAPH}.")


def local_environ(folder: Path = Path()) -> dict[str, str]:
    """The environment of commands on this machine: the folder's `.env`, overridden by non-empty variables of the process."""
    from dotenv import dotenv_values  # noqa: PLC0415  # a development library: the platform gives servers their environment

    written = {name: value or "" for name, value in dotenv_values(folder / ".env").items()}
    return {**written, **{name: value for name, value in os.environ.items() if value}}


def adopt_local_environ() -> None:
    """Make `local_environ` this process's environment, from which providers' packages read their keys."""
    os.environ.update(local_environ())


def dev_address() -> str:
    """The address at which `make dev` last started a server."""
    return DEV_ADDRESS.read_text("utf-8") if DEV_ADDRESS.exists() else "http://127.0.0.1:2024"


def check_server(url: str) -> None:
    """Raises `SettingsError` if no deployment answers at `url`: at once, where the SDK's client would try six times."""
    try:
        httpx.get(f"{url}/ok", timeout=httpx.Timeout(60, connect=5), trust_env=False).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        raise SettingsError(f"No deployment answers at {url}; start one with `make dev`, or name another with --url.") from None


def unanswered(error: httpx.TransportError | httpx.HTTPStatusError) -> str:
    """What a server answered to a command, or that it did not, in one line."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"{error.request.url} answered {error.response.status_code}: {error.response.text[:300]}"
    return f"{error.request.url} does not answer: {error!r}"
