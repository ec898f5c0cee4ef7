"""The versions in use are above the published fixes that this library depends on."""

from importlib.metadata import version

import pytest
from packaging.version import Version

# The first version without the flaw, and what the flaw was.
FIXES = {
    "langgraph-sdk": ("0.4.4", "CVE-2026-104873: auth.on.*(actions=) was ignored"),
    "langgraph-api": ("0.15", "CVE-2026-118668"),
    "langgraph-checkpoint-postgres": ("3.1.1", "CVE-2026-71433: namespace a matched ab, and _ matched anything"),
}


@pytest.mark.parametrize("package", FIXES)
def test_installed_versions_are_above_the_published_fixes(package: str) -> None:
    fixed, flaw = FIXES[package]
    assert Version(version(package)) >= Version(fixed), flaw
