"""Every environment variable this deployment reads, read once, into one frozen object.

A variable exists only where two deployments of the same code must differ. `.env.example` documents
every variable; a test holds the two lists equal. Numbers that a fork decides are in `Limits` and
`Consolidation`.
"""

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args
from urllib.parse import parse_qs, urlsplit
from zoneinfo import available_timezones

import httpx
from annotated_types import Predicate
from croniter import croniter
from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

ENGINE = Path(__file__).parent
# `make dev` writes the server's address here, in the current directory, for `make chat` and `python
# -m seeds`.
DEV_ADDRESS = Path(".langgraph_api/address")
# Exit status of `python -m seeds` where some files cannot be seeded, and the others were.
PARTLY_SEEDED = 3
# The graph that turns conversations into memory. Every other graph is an agent that people talk to.
CONSOLIDATION_GRAPH = "consolidation_agent"
MemoryScope = Literal["user", "user+assistant", "assistant"]
SharedWrites = Literal["deny", "interrupt", "allow"]

# A host with its port, as a Content Security Policy may name it.
_HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
# UTF-8 bytes of an organization's name, so that it fits into a namespace.
_MAX_ORG_BYTES = 256
# The latest that a run may be planned for, in seconds from its request: 7 days.
MAX_AFTER_SECONDS = 604_800


class SettingsError(ValueError):
    """A setting that cannot be used. The message is one line: variable, value, fix."""


def is_loopback(name: str) -> bool:
    """Whether a host name or IP address (without brackets or port) is a loopback one."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _fires(cron: str) -> bool:
    """Whether this is a cron of five fields that has a next time: the 31st of February has none."""
    # A sixth field would be seconds.
    if not re.fullmatch(r"(\S+\s+){4}\S+", cron):
        return False
    return bool(croniter(cron).get_next())


def _is_https(address: str) -> bool:
    """Whether this is an https:// address, or an http:// one of this machine."""
    url = urlsplit(address)
    if not url.hostname:
        return False
    return url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname))


def _origin_of(address: str) -> str | None:
    """The origin of an address that a browser may call; None for any other."""
    try:
        url = urlsplit(address)
    except ValueError:
        return None
    if not _HOST.fullmatch(url.netloc) or not _is_https(address):
        return None
    return f"{url.scheme}://{url.netloc.lower()}"


def is_address(text: str) -> bool:
    """Whether a client may call this address: https://, or http:// of this machine."""
    return _origin_of(text) is not None


def _is_postgres(address: str) -> bool:
    """Whether this is the address of a Postgres database, with its host."""
    url = urlsplit(address)
    if url.scheme not in {"postgres", "postgresql"}:
        return False
    # After a second @ Postgres would take a piece of the password for the host.
    if "@" in url.netloc.partition("@")[2]:
        return False
    return bool(url.hostname) or "host" in parse_qs(url.query)


def _listed(text: str) -> list[str]:
    """The values of a setting that lists them with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


# Objects in which providers keep what people write about themselves (Supabase and Auth0, Clerk).
_PEOPLES_OWN = frozenset({"user_metadata", "raw_user_meta_data", "unsafe_metadata"})
_PROVIDERS = "a claim that only you or your provider writes, e.g. app_metadata.org_id: people write user_metadata themselves"
# Claims of the token itself (RFC 7519, OpenID Connect): the same for everybody, or another one each
# time.
_OF_THE_TOKEN = frozenset(
    {
        "aud",
        "azp",
        "client_id",
        "exp",
        "iat",
        "iss",
        "jti",
        "nbf",
        "nonce",
        "scope",
        "scp",
        "sid",
        "tid",
    }
)


def is_peoples_own(path: str) -> bool:
    """Whether people write the claim at this path themselves, as far as its name tells.

    Such a claim proves nothing.
    """
    return not _PEOPLES_OWN.isdisjoint(re.split("[./:]", path.casefold()))


def _is_scope(text: str) -> bool:
    return "openid" in text.split() and text.isascii() and text.isprintable()


def _is_providers(path: str) -> bool:
    return not is_peoples_own(path)


def _names_person(path: str) -> bool:
    return path not in _OF_THE_TOKEN and not is_peoples_own(path)


# A description says what to use in place of a bad value. Fields with `repr=False` hold secrets, and
# no error shows them.
_Model = Annotated[str, Field(pattern="^[^:]+:.")]
_MODEL = Field(
    default=None, description="provider:model, e.g. anthropic:claude-sonnet-4-6, or leave it empty"
)


@dataclass(frozen=True, slots=True, config=ConfigDict(hide_input_in_errors=True))
class Settings:
    """The environment: each field is the variable of its name in capitals.

    The defaults are those of a start without any key.
    """

    agent_model: _Model | None = _MODEL
    auth_jwks_url: Annotated[str, Predicate(_is_https)] | None = Field(
        default=None, description="the https:// address of your identity provider's key set"
    )
    # HS256 keys shorter than the hash are guessable (RFC 7518, section 3.2).
    auth_jwt_secret: str | None = Field(
        default=None, min_length=32, repr=False, description="at least 32 random bytes"
    )
    auth_issuer: Annotated[str, Predicate(_listed)] | None = Field(
        default=None,
        description="the `iss` of your tokens, e.g. https://id.example.com/; several are separated by commas",
    )
    auth_audience: Annotated[str, Predicate(_listed)] | None = Field(
        default=None,
        description="the `aud` of your tokens, e.g. https://agent.example.com; several are separated by commas",
    )
    auth_audience_claim: str = "aud"
    auth_identity_claim: Annotated[str, Predicate(_names_person)] = Field(
        default="sub",
        description="a claim that is each person's own and stays so, e.g. sub, oid or uid",
    )
    # Of the page, where people sign in at the first issuer.
    auth_client_id: str | None = None
    auth_scope: Annotated[str, Predicate(_is_scope)] = Field(
        default="openid",
        description="scopes separated by spaces, openid among them, e.g. openid offline_access",
    )
    # None says that the environment does not name it; `org_claim` and `fallback_org` are what then
    # holds.
    auth_org_claim: Annotated[str, Predicate(_is_providers)] | None = Field(
        default=None, description=_PROVIDERS
    )
    auth_permissions_claim: Annotated[str, Predicate(_is_providers)] = Field(
        default="permissions", description=_PROVIDERS
    )
    default_org: (
        Annotated[str, Predicate(lambda text: len(text.encode()) <= _MAX_ORG_BYTES)] | None
    ) = Field(default=None, description=f"at most {_MAX_ORG_BYTES} bytes of UTF-8")
    operators: frozenset[str] = frozenset()
    dev_tokens: Literal["local", "anywhere"] = "local"
    memory_scope: MemoryScope = "user"
    memory_writes: Literal["both", "background"] = "both"
    shared_writes: SharedWrites = "deny"
    daily_tokens: int = Field(
        default=0,
        ge=0,
        lt=10**12,
        description="a whole number of tokens, e.g. 500000, or 0 for no limit",
    )
    # Of consolidation, which can be taken off.
    consolidation_model: _Model | None = _MODEL
    consolidate_after_seconds: int = Field(
        default=300,
        ge=0,
        le=MAX_AFTER_SECONDS,
        description=f"a whole number of seconds, e.g. 300, or 0 to turn it off, and at most {MAX_AFTER_SECONDS} (7 days)",
    )
    consolidation_schedule: Annotated[str, Predicate(_fires)] | None = Field(
        default=None, description="five cron fields, e.g. 0 3 * * *, or leave it empty for none"
    )
    consolidation_timezone: Annotated[
        str, Predicate(lambda name: name in available_timezones())
    ] = Field(
        default="UTC", description="an IANA name, e.g. Europe/Berlin, or leave it empty for UTC"
    )
    consolidation_review: Literal["off", "on"] = "off"
    # Of Postgres for development, which can be taken off.
    memory_postgres_uri: Annotated[str, Predicate(_is_postgres)] | None = Field(
        default=None, repr=False, description="postgresql://user:password@host:5432/database"
    )
    # The platform sets the rest; `.env` cannot. Whether this is `langgraph dev`, and reachable from
    # other machines (`--host`, `--tunnel`); its address, and the host name or IP address of that;
    # and the websites that may call it (`http.cors` of langgraph.json).
    local_dev: bool = False
    exposed: bool = False
    served_at: str = ""
    served_as: str = ""
    cors_origins: frozenset[str] = Field(
        default=frozenset(),
        title="http.cors.allow_origins",
        description='a list of origins, e.g. ["https://example.com"]',
    )
    cors_origin_regex: re.Pattern[str] | None = Field(
        default=None,
        title="http.cors.allow_origin_regex",
        description="a regular expression of origins",
    )

    @property
    def issuers(self) -> tuple[str, ...]:
        """The issuers whose tokens are believed, as the environment spells them.

        None if they are not checked.
        """
        return tuple(_listed(self.auth_issuer or ""))

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of which a token must name one; none if they are not checked."""
        return tuple(_listed(self.auth_audience or ""))

    @property
    def org_claim(self) -> str:
        """The name, or path, of the claim that holds the caller's organization."""
        return self.auth_org_claim or "org_id"

    @property
    def fallback_org(self) -> str:
        """The organization of operators and scripts that name none.

        Also that of people, where `requires_org` is false.
        """
        return self.default_org or "default"

    @property
    def requires_org(self) -> bool:
        """Whether a person's token must name an organization.

        It must if the environment says by which claim, and names no organization itself. Without
        this rule a misspelt claim would put the people of all organizations into one.
        """
        return bool(self.auth_org_claim) and not self.default_org

    @property
    def accepts_dev_tokens(self) -> bool:
        """Whether callers name themselves: on `langgraph dev` without JSON web tokens.

        Other machines may reach it only if `DEV_TOKENS` says so.
        """
        if not self.local_dev or self.uses_jwt:
            return False
        return not self.exposed or self.dev_tokens == "anywhere"

    @property
    def accepts_studio(self) -> bool:
        """Whether a caller may say it is Studio.

        `langgraph dev` does not verify that; in a deployment LangSmith does.
        """
        return not self.exposed or self.accepts_dev_tokens

    @property
    def sign_in(self) -> Literal["dev", "token", "provider"]:
        """How people sign in on the page.

        "dev": with a name and an organization; "token": with a token; "provider": at their identity
        provider.
        """
        if self.accepts_dev_tokens:
            return "dev"
        return "provider" if self.auth_client_id else "token"

    @property
    def page_issuer(self) -> str | None:
        """The issuer at which people sign in on the page: the first that is an address."""
        for issuer in self.issuers:
            if _origin_of(issuer):
                return issuer
        return None

    @property
    def page_origin(self) -> str | None:
        """The origin of `page_issuer`."""
        return _origin_of(self.page_issuer) if self.page_issuer else None

    @property
    def uses_jwt(self) -> bool:
        """Whether people sign in with JSON web tokens. Development tokens are then refused."""
        return bool(self.auth_jwks_url or self.auth_jwt_secret)


_OF_THE_PLATFORM = {
    "local_dev",
    "exposed",
    "served_at",
    "served_as",
    "cors_origins",
    "cors_origin_regex",
}
VARIABLES = tuple(
    field.name.upper() for field in fields(Settings) if field.name not in _OF_THE_PLATFORM
)


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from `environ` (default: the process environment). An empty value counts as unset.

    Raises `SettingsError` if a value cannot be used, or two settings exclude each other.
    """
    environ = os.environ if environ is None else environ
    values = _values_in(environ)
    served_at = environ.get("LANGGRAPH_API_URL", "").rstrip("/")
    served_as = urlsplit(served_at).hostname or ""
    if environ.get("LANGSMITH_LANGGRAPH_API_VARIANT") == "local_dev":
        values |= _values_of_dev_server(environ, served_as)
    try:
        settings = Settings(**values, served_at=served_at, served_as=served_as)
    except ValidationError as error:  # its text shows no value: it may be a secret
        raise SettingsError(_fault(error)) from None
    _check_together(settings, values.keys())
    return settings


def _values_in(environ: Mapping[str, str]) -> dict[str, Any]:
    """The values of all variables that are set, by the names of their fields."""
    values = dict[str, Any]()
    for name in VARIABLES:
        value = environ.get(name, "").strip()
        if value:
            values[name.lower()] = value
    if "operators" in values:
        values["operators"] = set(_listed(values["operators"]))
    return values


def _values_of_dev_server(environ: Mapping[str, str], host: str) -> dict[str, Any]:
    """What the platform says of `langgraph dev`, which is reached at this host."""
    http = _http_of(environ.get("LANGGRAPH_HTTP"))
    cors = _mapping(http.get("cors"), "LANGGRAPH_HTTP: cors", _CORS)
    return {
        "local_dev": True,
        "exposed": not is_loopback(host),
        "cors_origins": cors.get("allow_origins") or (),
        "cors_origin_regex": cors.get("allow_origin_regex") or None,
    }


def _fault(error: ValidationError) -> str:
    """The first value that cannot be used, and what to use, in one line. It shows no secret."""
    detail = error.errors(include_url=False)[0]
    name = str(detail["loc"][0])
    field = cast("Any", Settings).__pydantic_fields__[name]
    variable = field.title or name.upper()
    fix = field.description
    if not fix:
        choices = ", ".join(get_args(field.annotation))
        fix = f"one of {choices}"
    if not field.repr:
        return f"{variable} is unusable as it is; use {fix}."
    value = str(detail["input"])[:100]
    return f"{variable} is {value!r}; use {fix}."


def _check_together(settings: Settings, named: AbstractSet[str]) -> None:
    """Raises `SettingsError` for settings that exclude or need each other.

    `named` are the fields that the environment names.
    """
    if settings.auth_jwks_url and settings.auth_jwt_secret:
        raise SettingsError(
            "AUTH_JWKS_URL and AUTH_JWT_SECRET are both set; keep the one your tokens are signed with."
        )
    if "auth_audience_claim" in named and not settings.auth_audience:
        claim = settings.auth_audience_claim
        raise SettingsError(
            f"AUTH_AUDIENCE_CLAIM is {claim!r:.100}; use it together with AUTH_AUDIENCE, or leave it empty."
        )
    if settings.auth_client_id and not (settings.page_issuer and settings.uses_jwt):
        needs = "an AUTH_ISSUER that is an https:// address, and AUTH_JWKS_URL or AUTH_JWT_SECRET"
        raise SettingsError(
            f"AUTH_CLIENT_ID is {settings.auth_client_id!r:.100}; use it together with {needs}."
        )
    if "auth_scope" in named and not settings.auth_client_id:
        raise SettingsError(
            f"AUTH_SCOPE is {settings.auth_scope!r:.100}; use it together with AUTH_CLIENT_ID, or leave it empty."
        )


_HTTP = '{"app": "./http_api.py:app", "enable_custom_route_auth": true}'
_CORS = '{"allow_origins": ["https://example.com"]}'
_GRAPHS = '{"agent": "./agent.py:agent"}'
_BLOCKS = {
    "http": _HTTP,
    "store": '{"index": {"embed": "openai:text-embedding-3-small", "dims": 1536}}',
    "checkpointer": '{"ttl": {"strategy": "delete", "default_ttl": 43200}}',
}


def _parsed(text: str, where: str) -> Any:
    """The value of a JSON text. Raises `SettingsError`, which names where it stands."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{error.msg} in line {error.lineno}, column {error.colno}"
        raise SettingsError(f"{where} is no JSON ({place}); correct it there.") from None
    except RecursionError:
        raise SettingsError(f"{where} is nested too deeply; write it flatter.") from None


def _mapping(value: object, where: str, example: str) -> dict[str, Any]:
    """A JSON object; an empty one for null. Raises `SettingsError` for anything else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingsError(f"{where} is {value!r:.80}; use an object, e.g. {example}.")
    return value


def _http_of(served: str | None) -> dict[str, Any]:
    """The `http` block that the platform hands to its server in LANGGRAPH_HTTP."""
    block = _parsed(served, "LANGGRAPH_HTTP") if served else None
    return _mapping(block, "LANGGRAPH_HTTP", _HTTP)


def project_config(folder: Path) -> dict[str, Any]:
    """What langgraph.json of a folder says.

    Raises `SettingsError` if it is not there, or no JSON object.
    """
    path = folder / "langgraph.json"
    try:
        text = path.read_text("utf-8")
    except OSError:
        raise SettingsError(
            f"{path.absolute()} is not there; run this in the project's folder."
        ) from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
    config = _parsed(text, str(path))
    if not isinstance(config, dict):
        raise SettingsError(
            f'{path} is {config!r:.80}; use an object, e.g. {{"graphs": {_GRAPHS}}}.'
        )
    return config


def registered_graphs(folder: Path) -> tuple[str, ...]:
    """Ids of all graphs that the server has; without a server, those that langgraph.json names.

    Raises as `project_config`.
    """
    served = os.environ.get("LANGSERVE_GRAPHS")
    if served:
        return tuple(_mapping(_parsed(served, "LANGSERVE_GRAPHS"), "LANGSERVE_GRAPHS", _GRAPHS))
    graphs = project_config(folder).get("graphs")
    return tuple(_mapping(graphs, f"{folder / 'langgraph.json'}: graphs", _GRAPHS))


def served_http(folder: Path) -> dict[str, Any]:
    """The `http` block with which the server runs; without a server, that of langgraph.json.

    An empty one if there is none. Raises as `project_config`.
    """
    served = os.environ.get("LANGGRAPH_HTTP")
    if served:
        return _http_of(served)
    return project_http(folder)


def project_http(folder: Path) -> dict[str, Any]:
    """The `http` block of langgraph.json; an empty one if it has none. Raises as `project_config`."""
    return block_of(project_config(folder), "http", folder)


def block_of(config: Mapping[str, Any], name: str, folder: Path = Path()) -> dict[str, Any]:
    """A block of a folder's langgraph.json; an empty one if it has none.

    Raises `SettingsError` for what is no object.
    """
    return _mapping(config.get(name), f"{folder / 'langgraph.json'}: {name}", _BLOCKS[name])


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
    """The address at which `make dev` last started a server."""
    return DEV_ADDRESS.read_text("utf-8") if DEV_ADDRESS.exists() else "http://127.0.0.1:2024"


def check_server(url: str) -> None:
    """Raises `SettingsError` if no deployment answers at `url`.

    It asks once, where the SDK's client would try six times.
    """
    try:
        httpx.get(f"{url}/ok", timeout=httpx.Timeout(60, connect=5), trust_env=False).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        raise SettingsError(
            f"No deployment answers at {url}; start one with `make dev`, or name another with --url."
        ) from None


def unanswered(error: httpx.TransportError | httpx.HTTPStatusError) -> str:
    """What a server answered to a command, or that it did not, in one line."""
    if isinstance(error, httpx.HTTPStatusError):
        response = error.response
        return f"{error.request.url} answered {response.status_code}: {response.text[:300]}"
    return f"{error.request.url} does not answer: {error!r}"
