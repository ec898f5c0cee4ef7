"""The versions in use are those that `constraints.txt` pins, and workflows pin what they run."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]


def pinned() -> dict[str, str]:
    lines = (PROJECT / "constraints.txt").read_text().splitlines()
    return {re.sub(r"[-_.]+", "-", name).lower(): number for name, _, number in (line.partition("==") for line in lines)}


def test_what_is_installed_is_what_is_pinned() -> None:
    pins = pinned()
    installed = {re.sub(r"[-_.]+", "-", dist.metadata["Name"]).lower(): dist.version for dist in distributions()}
    assert {name: installed[name] for name in pins if name in installed and installed[name] != pins[name]} == {}


def test_constraints_are_plain_pins() -> None:
    lines = (PROJECT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []


@pytest.mark.parametrize("path", sorted((PROJECT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_pins_its_actions_and_may_only_read(path: Path) -> None:
    text = path.read_text()
    uses = re.findall(r"uses: (\S+)", text)
    assert uses
    assert [action for action in uses if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []
    assert re.findall(r"permissions:\n((?: +.*\n)+)", text) == ["  contents: read\n"]
    assert "secrets." not in text or path.name == "deploy.yml"
