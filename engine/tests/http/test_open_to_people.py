"""What auth.py opens to people: only what keeps them apart."""

import pytest

from lasting_memory.auth.handlers import build_auth
from lasting_memory.settings import SettingsError
from lasting_memory.testing.deployed import PROJECT, deployed


@pytest.mark.parametrize("name", ["threads:write", "*", "crons:search", "assistants:create"])
def test_an_action_that_would_not_keep_people_apart_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(SettingsError) as refused:
        build_auth(deployed(), open_to_people={"threads:read", name})
    assert repr(name) in str(refused.value)
    assert "threads:create_run" in str(refused.value), "it says what can be opened"
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["threads:read", "threads:search", "threads:update"])
def test_runs_are_not_opened_without_what_they_need(name: str) -> None:
    needed = {"threads:read", "threads:search", "threads:update", "threads:create_run"}
    assert build_auth(deployed(), open_to_people=needed)
    with pytest.raises(SettingsError, match=f"'threads:create_run' without '{name}'"):
        build_auth(deployed(), open_to_people=needed - {name})


def test_the_project_opens_all_that_has_a_rule() -> None:
    text = (PROJECT / "auth.py").read_text("utf-8")
    with pytest.raises(SettingsError) as refused:
        build_auth(deployed(), open_to_people={"x"})
    for name in str(refused.value).rpartition("use one of ")[2].removesuffix(".").split(", "):
        assert f'"{name}"' in text
