"""Every variable: its default, what it refuses and how it says so."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from langchain.chat_models import base
from langgraph_cli.deploy import RESERVED_ENV_VARS

from lasting_memory.agent.models import build_model
from lasting_memory.offline.model import OfflineModel
from lasting_memory.settings import VARIABLES, Settings, SettingsError, load_settings
from lasting_memory.testing.deployed import PROJECT, deployed, run_command

SECRET = "correct-horse-battery-staple-correct-horse"
JWKS_URL = "https://idp.example/keys"

# Variable, value, and what its error says to use.
BAD = [
    ("AGENT_MODEL", "claude", "provider:model"),
    ("CONSOLIDATION_MODEL", ":claude", "provider:model"),
    ("AUTH_JWKS_URL", "http://idp.example/keys", "https://"),
    ("AUTH_JWT_SECRET", "hunter2", "at least 32 random bytes"),
    ("AUTH_ISSUER", ",", "separated by commas"),
    ("AUTH_AUDIENCE", ",,", "separated by commas"),
    ("AUTH_AUDIENCE_CLAIM", "client_id", "AUTH_AUDIENCE"),
    ("AUTH_CLIENT_ID", "page", "an AUTH_ISSUER that is an https:// address"),
    ("AUTH_SCOPE", "profile email", "openid among them"),
    ("AUTH_SCOPE", "openid email", "together with AUTH_CLIENT_ID"),
    ("AUTH_IDENTITY_CLAIM", "iss", "sub, oid or uid"),
    ("AUTH_IDENTITY_CLAIM", "user_metadata.email", "sub, oid or uid"),
    ("AUTH_ORG_CLAIM", "user_metadata.org_id", "app_metadata.org_id"),
    ("AUTH_PERMISSIONS_CLAIM", "https://example.com/unsafe_metadata", "app_metadata.org_id"),
    ("DEFAULT_ORG", "é" * 129, "at most 256 bytes"),
    ("DEFAULT_ORG", "acme\udcff", "UTF-8"),
    ("MEMORY_SCOPE", "team", "user, user+assistant, assistant"),
    ("MEMORY_WRITES", "never", "both, background"),
    ("DEV_TOKENS", "everywhere", "local, anywhere"),
    ("SHARED_WRITES", "yes", "deny, interrupt, allow"),
    ("DAILY_TOKENS", "many", "500000, or 0 for no limit"),
    ("CONSOLIDATE_AFTER_SECONDS", "soon", "seconds, e.g. 300, or 0"),
    ("CONSOLIDATE_AFTER_SECONDS", "1\n2", "seconds, e.g. 300, or 0"),
    ("CONSOLIDATE_AFTER_SECONDS", "9" * 5_000, "seconds, e.g. 300, or 0"),
    ("CONSOLIDATE_AFTER_SECONDS", "604801", "at most 604800 (7 days)"),
    ("CONSOLIDATION_SCHEDULE", "daily", "0 3 * * *"),
    ("CONSOLIDATION_SCHEDULE", "0 3 31 2 *", "0 3 * * *"),
    ("CONSOLIDATION_TIMEZONE", "Berlin", "Europe/Berlin"),
    ("CONSOLIDATION_REVIEW", "yes", "off, on"),
    ("MEMORY_POSTGRES_URI", "postgresql:///db", "postgresql://user:password@host"),
    (
        "MEMORY_POSTGRES_URI",
        "postgresql://user:hunter2@[host/database",
        "postgresql://user:password@host",
    ),
    (
        "MEMORY_POSTGRES_URI",
        "postgresql://user:hunter2@hunter2@127.0.0.1:1/db",
        "postgresql://user:password@host",
    ),
    (
        "MEMORY_POSTGRES_URI",
        "postgresql://user:pass℀word@host/database",
        "postgresql://user:password@host",
    ),
]
SECRET_VARIABLES = {"AUTH_JWT_SECRET", "MEMORY_POSTGRES_URI"}


CheckSettings = Callable[..., str]


@pytest.fixture
def check_settings(monkeypatch: pytest.MonkeyPatch) -> CheckSettings:
    """What `python -m lasting_memory.dev.preflight` refuses, which `make dev` runs first, in a
    project with these variables.
    """

    def check(folder: Path = PROJECT, **values: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        monkeypatch.delitem(sys.modules, "deployment", raising=False)
        monkeypatch.syspath_prepend(folder)
        given = {
            **kept,
            "GOOGLE_API_KEY": "",
            "GEMINI_API_KEY": "",
            "AGENT_MODEL": "anthropic:claude-sonnet-4-6",
            **values,
        }
        with mock.patch.dict("os.environ", given, clear=True):
            done = run_command("lasting_memory.dev.preflight", folder=folder)
        assert done.returncode == bool(done.stdout + done.stderr)
        assert len((done.stdout + done.stderr).splitlines()) <= 1
        return done.stderr

    return check


def test_an_unusable_setting_is_refused_in_one_line_before_the_start(
    check_settings: CheckSettings,
) -> None:
    assert check_settings(AGENT_MODEL="nobody:x").startswith("AGENT_MODEL is 'nobody:x', ")
    assert "GOOGLE_API_KEY" in check_settings(AGENT_MODEL="google_genai:x")
    assert check_settings(CONSOLIDATE_AFTER_SECONDS="soon").startswith(
        "CONSOLIDATE_AFTER_SECONDS is 'soon'; "
    )


def test_make_dev_checks_what_the_project_decides_before_it_starts(
    check_settings: CheckSettings, tmp_path: Path
) -> None:
    shutil.copytree(PROJECT, tmp_path, dirs_exist_ok=True)
    decided, graphs = tmp_path / "deployment.py", tmp_path / "langgraph.json"
    decided.write_text(decided.read_text().replace(".parent)", ".parent, offline_model=False)"))
    assert check_settings(tmp_path, AGENT_MODEL="").startswith("AGENT_MODEL is empty; ")
    graphs.write_text('{"graphs": {"agent": "./agent.py:agent"}}')
    assert check_settings(tmp_path).startswith("graphs in langgraph.json lacks consolidation_agent")
    decided.write_text(decided.read_text().replace("offline_model=False", "consolidation=None"))
    assert check_settings(tmp_path, CONSOLIDATION_MODEL="nobody:x") == ""


def test_an_empty_value_counts_as_unset() -> None:
    for empty in ("", "  \t"):
        assert load_settings(dict.fromkeys(VARIABLES, empty)) == load_settings({})


@pytest.mark.parametrize(
    ("variable", "value", "parsed"),
    [
        ("AUTH_JWKS_URL", "http://127.0.0.1:8080/keys", "http://127.0.0.1:8080/keys"),
        ("DEFAULT_ORG", "é" * 128, "é" * 128),
        (
            "OPERATORS",
            "root, alice@example.com ,,auth0|42",
            frozenset({"root", "alice@example.com", "auth0|42"}),
        ),
        ("SHARED_WRITES", " allow ", "allow"),
        ("CONSOLIDATE_AFTER_SECONDS", "0", 0),
        ("CONSOLIDATION_SCHEDULE", "*/15 3 * * 1-5", "*/15 3 * * 1-5"),
        ("MEMORY_POSTGRES_URI", "postgres://u:p@h:5432/db", "postgres://u:p@h:5432/db"),
        ("MEMORY_POSTGRES_URI", "postgresql:///db?host=/run", "postgresql:///db?host=/run"),
    ],
)
def test_a_good_value_reaches_its_field_and_no_other(
    variable: str, value: str, parsed: Any
) -> None:
    default, loaded = load_settings({}), load_settings({variable: value})
    changed = {
        name
        for name in (field.name for field in fields(Settings))
        if getattr(loaded, name) != getattr(default, name)
    }
    assert changed == {variable.lower()}
    assert getattr(loaded, variable.lower()) == parsed


@pytest.mark.parametrize(("variable", "value", "fix"), BAD, ids=lambda value: ascii(value)[:48])
def test_a_bad_value_is_an_error_with_variable_value_and_fix_in_one_line(
    variable: str, value: str, fix: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({variable: value})
    name, shown = str(caught.value).split(" ", 1)
    assert name == variable
    assert (repr(value)[:100] in shown) is (variable not in SECRET_VARIABLES)
    assert fix in shown.partition("; use ")[2]
    assert len(shown.splitlines()) == 1
    assert len(shown) < 500
    if variable in SECRET_VARIABLES:
        errors = (caught.value, caught.value.__cause__, caught.value.__context__)
        assert [error for error in errors if "hunter2" in str(error) or SECRET in str(error)] == []


def test_a_variable_is_in_the_table_of_bad_values_or_takes_any_text() -> None:
    for variable in set(VARIABLES) - {bad for bad, _, _ in BAD}:
        parsed = getattr(load_settings({variable: "José Ñ|*/~ 42"}), variable.lower())
        assert parsed in ("José Ñ|*/~ 42", frozenset({"José Ñ|*/~ 42"}))


def test_a_key_set_and_a_shared_secret_together_are_an_error_that_names_both() -> None:
    with pytest.raises(SettingsError, match=r"^AUTH_JWKS_URL and AUTH_JWT_SECRET ") as caught:
        load_settings({"AUTH_JWKS_URL": JWKS_URL, "AUTH_JWT_SECRET": SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("variant", "local"), [("local_dev", True), ("cloud", False), ("", False)])
def test_only_the_variant_local_dev_is_local_development(variant: str, local: bool) -> None:
    assert load_settings({"LANGSMITH_LANGGRAPH_API_VARIANT": variant}).local_dev is local


def test_no_variable_is_one_that_langgraph_deploy_drops() -> None:
    assert "POSTGRES_URI" in RESERVED_ENV_VARS  # the list is still what we take it for
    assert RESERVED_ENV_VARS.isdisjoint(VARIABLES)


def test_an_empty_agent_model_is_the_offline_one_on_langgraph_dev_alone() -> None:
    for consolidating in (False, True):
        assert isinstance(
            build_model(deployed(local_dev=True), consolidating=consolidating), OfflineModel
        )
        with pytest.raises(SettingsError, match="AGENT_MODEL is empty; use "):
            build_model(deployed(), consolidating=consolidating)


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_a_provider_that_is_not_installed_is_an_error_naming_the_extra(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"langchain_{provider}", None)
    base._get_chat_model_creator.cache_clear()  # of a test before, which had the provider
    with pytest.raises(
        SettingsError, match=f"CONSOLIDATION_MODEL is '{provider}:x'.* EXTRA={provider}"
    ):
        build_model(deployed(consolidation_model=f"{provider}:x"), consolidating=True)


@pytest.mark.parametrize(
    ("issuer", "page_issuer", "origin"),
    [
        ("https://id.example.com", "https://id.example.com", "https://id.example.com"),
        (
            "accounts.google.com,https://accounts.google.com",
            "https://accounts.google.com",
            "https://accounts.google.com",
        ),
        (
            "https://ID.example.com:8443/realms/x",
            "https://ID.example.com:8443/realms/x",
            "https://id.example.com:8443",
        ),
        ("http://127.0.0.1:9/x", "http://127.0.0.1:9/x", "http://127.0.0.1:9"),
        ("http://id.example.com", None, None),
        ("https://id.example.com;script-src", None, None),
        ("https://user@id.example.com", None, None),
        ("https://id.example.com:http", None, None),
        ("https://[id", None, None),
        ("acme", None, None),
    ],
)
def test_people_sign_in_on_the_page_at_an_issuer_that_is_an_address(
    issuer: str, page_issuer: str | None, origin: str | None
) -> None:
    environ = {"AUTH_ISSUER": issuer, "AUTH_CLIENT_ID": "page", "AUTH_JWKS_URL": JWKS_URL}
    if origin is None:
        with pytest.raises(
            SettingsError, match=r"^AUTH_CLIENT_ID is 'page'; use it together with an AUTH_ISSUER"
        ):
            load_settings(environ)
        return
    settings = load_settings(environ)
    assert (settings.sign_in, settings.page_issuer, settings.page_origin) == (
        "provider",
        page_issuer,
        origin,
    )
    with pytest.raises(SettingsError, match="AUTH_JWKS_URL or AUTH_JWT_SECRET"):
        load_settings({**environ, "AUTH_JWKS_URL": ""})
