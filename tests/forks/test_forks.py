"""Each row of README's "Making it yours", made literally in a copy: its checks and the fast tests it touches stay green."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from settings import PROJECT
from tests.forks import parts
from tests.forks.fork import Fork

pytestmark = pytest.mark.forks

README = (PROJECT / "README.md").read_text("utf-8")
SKILL = "---\nname: {name}\ndescription: Write {name}.\n---\n\n1. Ask for whom.\n2. Write it.\n"


def model(fork: Fork) -> None:
    fork.write(".env", "AGENT_MODEL=ollama:some-model\n")


def behaviour(fork: Fork) -> None:
    fork.write("prompts/agent.md", "You are a librarian. What you learn of a reader you keep in `/memories/`.\n")
    fork.write("prompts/consolidation.md", "Keep what a reader liked to read, a line each, in `/memories/topics/books.md`.\n")


def rules(fork: Fork) -> None:
    fork.delete("policies/acme")
    fork.write("policies/umbrella/rules.md", "# Rules\n\n1. Be kind.\n")


def skills(fork: Fork) -> None:
    for folder in sorted((fork.folder / "seeds/skills").iterdir()):
        fork.delete(f"seeds/skills/{folder.name}")
    for name in ("letters", "haiku", "tables"):
        fork.write(f"seeds/skills/{name}/SKILL.md", SKILL.format(name=name))


def starting_memory(fork: Fork) -> None:
    fork.write("seeds/memories/preferences.md", "# How we write\n\n- In British English.\n")
    fork.write("seeds/memories/topics.md", "# Topics\n")
    fork.write("seeds/memories/_assistant/handbook.md", "Of all.\n")


def profile(fork: Fork) -> None:
    field = '    pronouns: str | None = Field(None, max_length=50, description="How to refer to them.")\n'
    fork.edit("memory/validation.py", ("    units: str | None", f"{field}    units: str | None"))


def own_rule(fork: Fork) -> None:
    """README's own example, as it stands there."""
    (rule,) = re.findall(r"```python\n([^`]*?def check_no_card_numbers.*?)```", README, re.DOTALL)
    fork.insert("memory/validation.py", f"{rule.strip()}\n\n\n", "def before_write(")
    fork.insert("memory/validation.py", "    check_no_card_numbers(path, content)\n", "    check_skill(path, content, actor)\n")


def consolidation(fork: Fork) -> None:
    fork.edit(
        "settings.py",
        ("BATCH_TOKENS = 15_000", "BATCH_TOKENS = 8_000"),
        ("MAX_CONSOLIDATION_STEPS = 40", "MAX_CONSOLIDATION_STEPS = 20"),
        ("REVISIONS_KEPT = 50", "REVISIONS_KEPT = 100"),
    )


def scope(fork: Fork) -> None:
    fork.write(".env", "MEMORY_SCOPE=assistant\nSHARED_WRITES=allow\nDEFAULT_ORG=acme\n")


def permission(fork: Fork) -> None:
    """Conversations are deleted by operators alone."""
    fork.edit("auth.py", ("auth.on.threads.delete(use_own_threads)\n", ""))


def page(fork: Fork) -> None:
    fork.write("app/style.css", fork.text("app/style.css") + "\nbody { background: linen; }\n")


def front_end(fork: Fork) -> None:
    fork.edit("langgraph.json", ('"allow_origins": []', '"allow_origins": ["https://app.example.com"]'))


def tool(fork: Fork) -> None:
    fork.write("library.py", LIBRARY)
    fork.insert("agent.py", "from library import find_book\n", "from memory.consolidation import agent_hooks\n")
    fork.edit("agent.py", ("tools=[*build_memory_tools", "tools=[find_book, *build_memory_tools"))


LIBRARY = '''"""A tool of this fork's own."""

from langchain_core.tools import tool


@tool
def find_book(title: str) -> str:
    """Say where a book stands.

    Args:
        title: of the book.
    """
    return f"{title} is on the third shelf."
'''


def another_agent(fork: Fork) -> None:
    text = fork.text("agent.py").replace('name="agent"', 'name="support"').replace("\nagent = build", "\nsupport = build")
    fork.write("support.py", text)
    fork.insert("langgraph.json", '    "support": "./support.py:support",\n', '    "consolidation_agent": ')


def knowledge(fork: Fork) -> None:
    """An organization's own route, which its agents and its people read."""
    shown = "return namespace in (own, policies(actor.org_id))"
    both = "return namespace in (own, policies(actor.org_id), knowledge(actor.org_id))"
    fork.insert("memory/namespaces.py", KNOWLEDGE, "def person_label(")
    fork.edit("memory/namespaces.py", (shown, both))
    fork.insert("memory/routes.py", KNOWLEDGE_OF_RUN, '        "/policies": lambda run:')
    fork.insert("memory/routes.py", '        "/knowledge": "deny",\n', '        "/policies": "deny"')


KNOWLEDGE = '''def knowledge(org_id: str) -> Namespace:
    """Namespace of `/knowledge/`: the organization's."""
    return ("knowledge", label(org_id))


'''
KNOWLEDGE_OF_RUN = '        "/knowledge": lambda run: namespaces.knowledge(actor(run).org_id),\n'


def semantic_search(fork: Fork) -> None:
    index = '{"embed": "openai:text-embedding-3-small", "dims": 1536}'
    fork.edit("langgraph.json", ('  "auth":', f'  "store": {{"index": {index}}},\n  "auth":'))


@dataclass(frozen=True, slots=True)
class Row:
    """A row of README's table: how it begins, the change, and the fast tests that are about what it touches."""

    title: str
    change: Callable[[Fork], None]
    tests: tuple[str, ...]


DOCS = ("tests/test_docs.py", "tests/test_architecture.py")
AGENT = ("tests/test_agent.py", "tests/memory/test_prompt.py", "tests/memory/test_files.py")
SHOWN = ("tests/test_shared_text.py", "tests/test_hostile.py", "tests/api", *AGENT)
CONFIGURED = ("tests/test_deploy.py", *DOCS)
SERVED = (
    *("tests/faults", "tests/memory/journal", "tests/memory/test_usage.py"),
    *("tests/test_graphs.py", "tests/faults/test_hostile_input.py", "tests/test_seeds.py", *SHOWN, *CONFIGURED),
)
ROWS = [
    Row("the model", model, ("tests/test_models.py", "tests/test_settings.py")),
    Row("no offline model", parts.no_offline_model, ("tests/test_models.py", "tests/test_settings.py", "tests/faults", *DOCS)),
    Row("how it behaves", behaviour, (*AGENT, "tests/memory/consolidation", *DOCS)),
    Row("the rules", rules, ("tests/test_seeds.py",)),
    Row("skills", skills, ("tests/test_seeds.py", "tests/memory/test_skills.py", *DOCS)),
    Row("what a new user starts with", starting_memory, ("tests/test_seeds.py", "tests/dev", *AGENT, *DOCS)),
    Row("what a profile holds", profile, ("tests/memory/test_validation.py", "tests/api", *AGENT, *DOCS)),
    Row("what may be written", own_rule, ("tests/memory/test_validation.py", "tests/test_hostile.py", *AGENT)),
    Row("how consolidation works", consolidation, ("tests/memory/consolidation", "tests/memory/journal", *DOCS)),
    Row("whose memory it is", scope, ("tests/test_settings.py", "tests/memory", "tests/access", *DOCS)),
    Row("who may do what", permission, ("tests/access", *DOCS)),
    Row("the page", page, DOCS),
    Row("a front end of your own in a browser", front_end, ("tests/access/test_dev_guard.py", *CONFIGURED)),
    Row("a tool", tool, DOCS),
    Row("another agent", another_agent, ("tests/test_graphs.py", *DOCS)),
    Row("another route", knowledge, ("tests/memory/test_namespaces.py", "tests/api", *AGENT, *DOCS)),
    Row("semantic search", semantic_search, ("tests/memory/recall", *CONFIGURED)),
    Row("no writer", parts.no_writer, ("tests/access", "tests/api", *AGENT, *DOCS)),
    Row("no search of past conversations", parts.no_episodes, ("tests/memory/recall", "tests/test_hostile.py", *AGENT, *DOCS)),
    Row("no semantic search", parts.no_semantic_search, ("tests/memory/recall", *DOCS)),
    Row("no skills", parts.no_skills, (*SHOWN, "tests/test_seeds.py", "tests/faults/test_hostile_input.py", *DOCS)),
    Row("no page", parts.no_page, ("tests/access", "tests/dev", *SHOWN, *CONFIGURED)),
    Row("no consolidation", parts.no_consolidation, ("tests/access", "tests/dev", *SERVED)),
    Row(
        "no Postgres for development",
        parts.no_postgres,
        ("tests/dev", "tests/test_settings.py", *SHOWN, *CONFIGURED),
    ),
]


def table() -> dict[str, str]:
    """README's table: what to edit or delete, by what can be changed."""
    text = README.partition("## Making it yours")[2].partition("\n## ")[0]
    cells = re.findall(r"(?m)^\| ([^|]+?) \| (.+) \|$", text)
    return {title: told for title, told in cells if title not in {"to change", "---"}}


def test_every_row_of_readme_is_made_by_a_script_and_every_script_is_in_readme() -> None:
    assert sorted(table()) == sorted(row.title for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_a_row_can_be_made(row: Row, tmp_path: Path) -> None:
    """Each text that it replaces is there, and each test that it is tried with."""
    row.change(Fork(tmp_path / "fork"))
    assert [test for test in row.tests if not (PROJECT / test).exists()] == []


OFF = [row for row in ROWS if row.title.startswith("no ")]
QUICK = [row for row in ROWS if row.title in {"the rules", "a tool", "another agent"}]
ALONE = [row for row in ROWS if row.title in {"the model", "whose memory it is"}]  # both write .env
# What a server serves has changed: it is started as `make dev` does.
STARTED = {"no skills", "no page", "no consolidation", "no Postgres for development"}
# Edits are tried together, for a copy's checks take longer than its tests.
GROUPS = {
    "quick": QUICK,
    # With a second agent, tests that count the requests of one do not hold: it is among the quick ones.
    "edits": [row for row in ROWS if row not in [*OFF, *ALONE] and row.title != "another agent"],
    **{row.title: [row] for row in [*ALONE, *OFF]},
}


@pytest.mark.parametrize("group", ["quick", *(pytest.param(group, marks=pytest.mark.proof) for group in list(GROUPS)[1:])])
def test_a_fork_that_changes_it_stays_green(group: str, tmp_path: Path) -> None:
    fork = Fork(tmp_path / "fork")
    for row in GROUPS[group]:
        row.change(fork)
    fork.check(types=group != "quick")
    fork.test(sorted({test for row in GROUPS[group] for test in row.tests}))
    if group in STARTED:
        fork.test(["tests/dev/test_server.py", "tests/dev/test_smoke.py"], "server and not proof")
