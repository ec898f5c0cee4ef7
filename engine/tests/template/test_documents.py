"""What the template's documents and examples say is there: settings, links, commands, code,
prompts.
"""

from __future__ import annotations

import re
from io import StringIO

from dotenv import dotenv_values

from lasting_memory.dev.command import COMMANDS
from lasting_memory.settings import VARIABLES, load_settings
from tests.template.test_deploy import ENGINE, PROJECT
from tests.test_docs import links
from tests.test_offline_model import PROMPTS

README = (PROJECT / "README.md").read_text("utf-8")
ENV_EXAMPLE = (PROJECT / ".env.example").read_text("utf-8")
DOCUMENTS = [*PROJECT.glob("*.md"), *ENGINE.glob("*.md"), *(ENGINE / "docs").glob("**/*.md")]


def section(title: str) -> str:
    """The text of a section of README."""
    text = README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert text
    return text


def test_the_readme_is_short_and_its_tree_is_what_is_there() -> None:
    assert len(README.splitlines()) <= 150
    tree = section("What you own").split("```")[1]
    named = [line.split()[0] for line in tree.strip().splitlines()]
    assert [path for path in named if not (PROJECT / path.partition("<")[0]).exists()] == []
    assert {path.name for path in PROJECT.glob("*.py")} <= {*named}


def test_the_prompts_to_try_are_those_that_the_offline_model_is_tested_with() -> None:
    assert re.findall(r"`([A-Z][^`]+[.?])`", section("Try this")) == PROMPTS


def test_every_relative_link_points_to_a_file_of_the_project() -> None:
    for document in DOCUMENTS:
        found = {target: (document.parent / target).resolve() for target in links(document)}
        broken = [
            target
            for target, path in found.items()
            if not path.is_relative_to(PROJECT) or not path.exists()
        ]
        assert broken == [], document


def test_every_make_command_in_the_documents_is_a_target() -> None:
    targets = set(
        re.findall(
            r"^([a-z][a-z-]*):(?!=)", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE
        )
    )
    texts = [
        path.read_text("utf-8") for path in DOCUMENTS if path.name != "CHANGELOG.md"
    ]  # that names what is gone
    mentioned = {
        name for text in texts for name in re.findall(r"(?m)(?:`|^)make ([a-z][a-z-]*)", text)
    }
    assert "dev" in mentioned
    assert mentioned - targets == set()


def test_every_command_in_the_documents_is_one_and_make_has_it_too() -> None:
    texts = [path.read_text("utf-8") for path in DOCUMENTS if path.name != "CHANGELOG.md"]
    mentioned = {
        name
        for text in texts
        for name in re.findall(r"lasting-memory ([a-z][a-z-]*[a-z])(?=[ `\n])", text)
    }
    assert {"check", "forget", "upgrade-engine"} <= mentioned
    assert mentioned - COMMANDS.keys() == set()
    makefile = (PROJECT / "Makefile").read_text("utf-8")
    targets = re.findall(r"^([a-z][a-z-]*):(?!=)", makefile, re.MULTILINE)
    assert COMMANDS.keys() - set(targets) == set()


def test_env_example_names_exactly_the_variables_that_are_read_once_each() -> None:
    named = re.findall(r"^\s*(?:#\s*)?([A-Z][A-Z0-9_]*)=", ENV_EXAMPLE, re.MULTILINE)
    assert sorted(named) == sorted(VARIABLES)


def test_env_example_as_it_is_sets_nothing() -> None:
    values = dotenv_values(stream=StringIO(ENV_EXAMPLE))
    assert values
    assert set(values.values()) == {""}
    assert load_settings({name: value or "" for name, value in values.items()}) == load_settings({})
