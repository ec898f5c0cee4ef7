"""Reads the environment once, and says which setting is wrong and what to use in its place."""

import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import get_args
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from lasting_memory.settings.addresses import is_loopback
from lasting_memory.settings.errors import SettingsError
from lasting_memory.settings.project import http_of, object_of
from lasting_memory.settings.variables import VARIABLES, Settings, listed

_SETTINGS = TypeAdapter(Settings)
_CORS = '{"allow_origins": ["https://example.com"]}'


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
        fields = {**values, "served_at": served_at, "served_as": served_as}
        settings = _SETTINGS.validate_python(fields)
    except ValidationError as error:  # its text shows no value: it may be a secret
        raise SettingsError(_fault(error)) from None
    _check_together(settings, values.keys())
    return settings


def _values_in(environ: Mapping[str, str]) -> dict[str, object]:
    """The values of all variables that are set, by the names of their fields."""
    values = dict[str, object]()
    for name in VARIABLES:
        value = environ.get(name, "").strip()
        if value:
            values[name.lower()] = set(listed(value)) if name == "OPERATORS" else value
    return values


def _values_of_dev_server(environ: Mapping[str, str], host: str) -> dict[str, object]:
    """What the platform says of `langgraph dev`, which is reached at this host."""
    http = http_of(environ.get("LANGGRAPH_HTTP"))
    cors = object_of(http.get("cors"), "LANGGRAPH_HTTP: cors", _CORS)
    return {
        "local_dev": True,
        "exposed": not is_loopback(host),
        "cors_origins": cors.get("allow_origins") or (),
        "cors_origin_regex": cors.get("allow_origin_regex") or None,
    }


def _fault(error: ValidationError) -> str:
    """The first value that cannot be used, and what to use, in one line. It shows no secret."""
    details = error.errors(include_url=False)
    detail = details[0]
    name = str(detail["loc"][0])
    all_fields: dict[str, FieldInfo] = vars(Settings)["__pydantic_fields__"]
    field = all_fields[name]
    variable = field.title or name.upper()
    fix = field.description
    if not fix:
        choices = ", ".join(get_args(field.annotation))
        fix = f"one of {choices}"
    if not field.repr:
        return f"{variable} is unusable as it is; use {fix}."
    value = str(detail["input"])[:100]
    return f"{variable} is {value!r}; use {fix}."


def _check_together(settings: Settings, named_fields: AbstractSet[str]) -> None:
    """Raises `SettingsError` for settings that exclude or need each other.

    `named_fields` are the fields that the environment names.
    """
    if settings.auth_jwks_url and settings.auth_jwt_secret:
        raise SettingsError(
            "AUTH_JWKS_URL and AUTH_JWT_SECRET are both set; keep the one your tokens are signed with."
        )
    if "auth_audience_claim" in named_fields and not settings.auth_audience:
        claim = settings.auth_audience_claim
        raise SettingsError(
            f"AUTH_AUDIENCE_CLAIM is {claim!r:.100}; use it together with AUTH_AUDIENCE, or leave it empty."
        )
    if settings.auth_client_id and not (settings.page_issuer and settings.uses_jwt):
        needed_settings = (
            "an AUTH_ISSUER that is an https:// address, and AUTH_JWKS_URL or AUTH_JWT_SECRET"
        )
        raise SettingsError(
            f"AUTH_CLIENT_ID is {settings.auth_client_id!r:.100}; use it together with {needed_settings}."
        )
    if "auth_scope" in named_fields and not settings.auth_client_id:
        raise SettingsError(
            f"AUTH_SCOPE is {settings.auth_scope!r:.100}; use it together with AUTH_CLIENT_ID, or leave it empty."
        )
