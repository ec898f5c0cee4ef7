"""Every environment variable that a deployment reads, as the fields of one frozen object.

A variable exists only where two deployments of the same code must differ. `.env.example` documents
every variable; a test holds the two lists equal. Numbers that a fork decides are in `Limits` and
`Consolidation`.
"""

import re
from dataclasses import fields
from typing import Annotated, Literal
from zoneinfo import available_timezones

from annotated_types import Predicate
from croniter import croniter
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from lasting_memory.settings.addresses import is_https, is_postgres, origin_of
from lasting_memory.settings.claims import PROVIDERS_CLAIM, is_providers, is_scope, names_person

MemoryScope = Literal["user", "user+assistant", "assistant"]
SharedWrites = Literal["deny", "interrupt", "allow"]
# The latest that a run may be planned for, in seconds from its request: 7 days.
MAX_AFTER_SECONDS = 604_800
# UTF-8 bytes of an organization's name, so that it fits into a namespace.
_MAX_ORG_BYTES = 256


def _fires(cron: str) -> bool:
    """Whether this is a cron of five fields that has a next time: the 31st of February has none."""
    # A sixth field would be seconds.
    if not re.fullmatch(r"(\S+\s+){4}\S+", cron):
        return False
    return bool(croniter(cron).get_next())


def listed(text: str) -> list[str]:
    """The values of a setting that lists them with commas."""
    values = [part.strip() for part in text.split(",")]
    return [value for value in values if value]


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
    auth_jwks_url: Annotated[str, Predicate(is_https)] | None = Field(
        default=None, description="the https:// address of your identity provider's key set"
    )
    # HS256 keys shorter than the hash are guessable (RFC 7518, section 3.2).
    auth_jwt_secret: str | None = Field(
        default=None, min_length=32, repr=False, description="at least 32 random bytes"
    )
    auth_issuer: Annotated[str, Predicate(listed)] | None = Field(
        default=None,
        description="the `iss` of your tokens, e.g. https://id.example.com/; several are separated by commas",
    )
    auth_audience: Annotated[str, Predicate(listed)] | None = Field(
        default=None,
        description="the `aud` of your tokens, e.g. https://agent.example.com; several are separated by commas",
    )
    auth_audience_claim: str = "aud"
    auth_identity_claim: Annotated[str, Predicate(names_person)] = Field(
        default="sub",
        description="a claim that is each person's own and stays so, e.g. sub, oid or uid",
    )
    # Of the page, where people sign in at the first issuer.
    auth_client_id: str | None = None
    auth_scope: Annotated[str, Predicate(is_scope)] = Field(
        default="openid",
        description="scopes separated by spaces, openid among them, e.g. openid offline_access",
    )
    # None says that the environment does not name it; `org_claim` and `fallback_org` are what then
    # holds.
    auth_org_claim: Annotated[str, Predicate(is_providers)] | None = Field(
        default=None, description=PROVIDERS_CLAIM
    )
    auth_permissions_claim: Annotated[str, Predicate(is_providers)] = Field(
        default="permissions", description=PROVIDERS_CLAIM
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
    memory_postgres_uri: Annotated[str, Predicate(is_postgres)] | None = Field(
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
        return tuple(listed(self.auth_issuer or ""))

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of which a token must name one; none if they are not checked."""
        return tuple(listed(self.auth_audience or ""))

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
        if self.auth_client_id:
            return "provider"
        return "token"

    @property
    def page_issuer(self) -> str | None:
        """The issuer at which people sign in on the page: the first that is an address."""
        for issuer in self.issuers:
            if origin_of(issuer):
                return issuer
        return None

    @property
    def page_origin(self) -> str | None:
        """The origin of `page_issuer`; None without one."""
        issuer = self.page_issuer
        if issuer is None:
            return None
        return origin_of(issuer)

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
