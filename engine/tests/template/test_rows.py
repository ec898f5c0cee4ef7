"""Each row of README's "Making it yours", made in a copy of the template: it still loads, and a
fork's own tests stay green.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.template.test_deploy import CLEAN, MODEL, PROJECT, copied, load

# Paths are from the root; a text that is replaced must be there once: the row has to follow the
# template.
Edit = tuple[str, str, str]


@dataclass(frozen=True)
class Change:
    """A change to a copy of the template, and an expression about its deployment `d` and `tools`
    that is then true.
    """

    edits: Sequence[Edit] = ()
    holds: str = "True"
    files: Mapping[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # what `.env` says

    def make(self, folder: Path) -> None:
        copied(PROJECT, folder, "engine")
        for path in self.gone:
            shutil.rmtree(folder / path) if (folder / path).is_dir() else (folder / path).unlink()
        for path, text in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
        for path, old, new in self.edits:
            text = (folder / path).read_text("utf-8")
            assert text.count(old) == 1, (
                f"{path} has {text.count(old)} times {old!r}; change the row, and README's, with it."
            )
            (folder / path).write_text(text.replace(old, new), "utf-8")


def decided(argument: str, above: str = "") -> Edit:
    """An argument more of `Deployment(...)`, and code above it."""
    return (
        "deployment.py",
        "DEPLOYMENT = Deployment(",
        f"{above}\n\nDEPLOYMENT = Deployment({argument}, ",
    )


PROFILE = """from lasting_memory import Profile
from pydantic import Field


class MyProfile(Profile):
    pronouns: str | None = Field(None, max_length=50, description="How to refer to them.")
"""
CARDS = r"""import re

from lasting_memory import Author, RefusedWrite


def no_card_numbers(path: str, content: str | None, author: Author) -> None:
    if content and re.search(r"\d{4}([ -]?)(\d{4}\1){2}\d{4}", content):
        raise RefusedWrite(f"{path} was not written: it would hold a card number; leave it out.")
"""
SHRINKING = """from lasting_memory import Change, RefusedWrite


def nothing_shorter(change: Change) -> None:
    if change.before and len(change.after or "") < len(change.before) / 2:
        raise RefusedWrite(f"{change.path} was not written: half of it would be gone.")
"""
FIRST_FILES = """from lasting_memory import Actor


def my_files(person: Actor) -> dict[str, str]:
    return {"/memories/preferences.md": f"- Works at {person.org_id}.\\n"}
"""
LIBRARY = '''"""A tool of this fork's own."""

from langchain_core.tools import tool


@tool
def find_book(title: str) -> str:
    """Say where a book stands."""
    return f"{title} is on the third shelf."
'''
# As LangChain's documents write it, and as README does.
READER = '''"""A tool of this fork's own that reads the run."""

from langchain.tools import ToolRuntime, tool
from lasting_memory import Context


@tool
def find_shelf(title: str, runtime: {runtime}) -> str:
    """Say where somebody finds a book."""
    return f"{{runtime.context.user_id}} finds {{title}} on the third shelf."
'''
ASKED = '''"""The tool in a run of the agent, where warnings are errors."""

from lasting_memory.testing.contract import ALICE, World

from agent import build_agent
from deployment import DEPLOYMENT


async def test_the_tool_knows_whose_run_it_is() -> None:
    model = await World(DEPLOYMENT, build_agent).turn(ALICE, [("find_shelf", {"title": "Emma"})])
    assert model.answers() == "alice finds Emma on the third shelf."
'''
READING: Sequence[Edit] = [
    (
        "agent.py",
        "from deployment import DEPLOYMENT\n",
        "from deployment import DEPLOYMENT\nimport library\n",
    ),
    ("agent.py", "tools=[*memory_tools(d)", "tools=[library.find_shelf, *memory_tools(d)"),
]
CHECKER = """

CHECKER: SubAgent = {
    "name": "checker",
    "description": "Checks a text against the policies.",
    "system_prompt": "List what the policies forbid in the text.",
}


def build_agent("""
SUPPORT = '''"""An agent of its own skills, on the same memory."""

from deepagents import create_deep_agent
from lasting_memory import Context, build_model, file_system, memory_tools, middleware, skills, subagents

from deployment import DEPLOYMENT as d

support = create_deep_agent(
    name="support",
    model=build_model(d),
    system_prompt="You help with what broke.",
    tools=memory_tools(d),
    **file_system(d),
    middleware=middleware(d, skills(d)),
    subagents=subagents(d),
    context_schema=Context,
)
'''
HELLO = '''"""A person's own view, and a route of this fork's own behind the same sign-in."""

from lasting_memory import build_http
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from deployment import DEPLOYMENT


async def hello(request: Request) -> JSONResponse:
    return JSONResponse({"hello": request.user.identity})


app = build_http(DEPLOYMENT, routes=[Route("/hello", hello)])
'''
GREETING = "---\nname: greeting\ndescription: How to greet.\n---\n\nSay hello.\n"
INDEX = '{"embed": "openai:text-embedding-3-small", "dims": 1536}'
(OPENAI_PIN,) = re.findall(
    r'^openai = \["(.*)"\]', (PROJECT / "pyproject.toml").read_text("utf-8"), re.MULTILINE
)
OPENAI = {"AGENT_MODEL": "openai:gpt-5.1", "OPENAI_API_KEY": "test"}
CONFIG = (PROJECT / "langgraph.json").read_text("utf-8")
(CONSOLIDATING,) = re.findall(r',\n    "consolidation_agent": .*', CONFIG)

SEEDED = "'{}' in str(__import__('lasting_memory.seeding').seeding.folder_files(d, ['policies', 'skills'], ['x']))"

# By what README calls them.
ROWS: dict[str, list[Change]] = {
    "the model": [
        Change(
            env=OPENAI, holds="__import__('lasting_memory').build_model(d).model_name == 'gpt-5.1'"
        )
    ],
    "another provider than Anthropic": [
        Change(
            [("pyproject.toml", "\ndependencies = [", f'\ndependencies = [\n  "{OPENAI_PIN}",')],
            "__import__('tomllib').loads(__import__('pathlib').Path('pyproject.toml').read_text('utf-8'))"
            f"['project']['dependencies'][0] == '{OPENAI_PIN}'",
        )
    ],
    "a model with options of your own": [
        Change(
            [
                ("agent.py", "    build_model,\n", ""),
                (
                    "agent.py",
                    "\nfrom deployment import",
                    "from langchain_openai import ChatOpenAI\n\nfrom deployment import",
                ),
                (
                    "agent.py",
                    "WRITER: SubAgent",
                    'MODEL = ChatOpenAI(model="gpt-5.1", temperature=0)\n\nWRITER: SubAgent',
                ),
                ("agent.py", "model=model or build_model(d)", "model=model or MODEL"),
            ],
            "__import__('agent').MODEL.model_name == 'gpt-5.1'",
            env={"OPENAI_API_KEY": "test"},
        ),
    ],
    "how it behaves": [
        Change(
            files={
                "prompts/agent.md": "You are a librarian. What you learn of a reader you keep in `/memories/`.\n",
                "prompts/policies_block.md": "<policies>\nThe house has rules.\n{files}\n</policies>\n",
            },
            holds="d.prompt('agent.md').startswith('You are a lib') and 'The house' in d.prompt('policies_block.md')",
        )
    ],
    "the rules": [
        Change(
            files={"policies/umbrella/rules.md": "# Rules\n\n1. Be kind.\n"},
            holds=SEEDED.format("rules.md"),
        )
    ],
    "skills": [
        Change(
            gone=["seeds/skills"],
            files={"seeds/skills/greeting/SKILL.md": GREETING},
            holds=SEEDED.format("greeting"),
        )
    ],
    "a new person's memory": [
        Change(
            files={"seeds/memories/preferences.md": "# Preferences\n\n- New here.\n"},
            holds="'New here' in "
            "__import__('lasting_memory.memory.new_memory').files.new_memory.starting_memory(d.folder)['/preferences.md']",
        )
    ],
    "a new person's files that depend on them": [
        Change(
            [decided("first_files=my_files", FIRST_FILES)],
            "'acme' in d.first_files(__import__('lasting_memory').Actor('ada', 'acme'))['/memories/preferences.md']",
        )
    ],
    "what a profile holds": [
        Change(
            [decided('schemas={"/memories/profile.json": MyProfile}', PROFILE)],
            "'pronouns' in d.profile.model_fields",
        )
    ],
    "what may be written": [
        Change(
            [decided("checks=[no_card_numbers]", CARDS)],
            "d.checks[0].__name__ == 'no_card_numbers'",
        ),
        Change(
            [decided("checks=[nothing_shorter]", SHRINKING)],
            "d.checks[0].__name__ == 'nothing_shorter'",
        ),
    ],
    "a folder of a team": [
        Change(
            [
                ("deployment.py", "organization()}", 'organization(), "/team/": group("team_id")}'),
                ("deployment.py", "assistant, organization", "assistant, group, organization"),
            ],
            "d.claims == {'team_id'}",
        )
    ],
    "limits": [
        Change(
            [decided("limits=Limits(busy_threads=2)", "from lasting_memory import Limits\n")],
            "d.limits.busy_threads == 2",
        )
    ],
    "how consolidation works": [
        Change(
            [("deployment.py", "Consolidation()", "Consolidation(batch_tokens=8_000)")],
            "d.consolidation.batch_tokens == 8_000",
        )
    ],
    "what consolidation may change": [
        Change(
            [("deployment.py", "Consolidation()", 'Consolidation(may={"add"})')],
            "d.consolidation.may == {'add'}",
        )
    ],
    "a tool, or what one of memory is told to be": [
        Change(
            [
                (
                    "agent.py",
                    "*memory_tools(d)",
                    '*memory_tools(d, descriptions={"search_memories": "Search the card."})',
                )
            ],
            "tools['search_memories'].description == 'Search the card.'",
        ),
        Change(
            [
                (
                    "agent.py",
                    "from deployment import DEPLOYMENT\n",
                    "from deployment import DEPLOYMENT\nimport library\n",
                ),
                (
                    "agent.py",
                    "tools=[*memory_tools(d)",
                    "tools=[library.find_book, *memory_tools(d)",
                ),
            ],
            "'find_book' in tools",
            files={"library.py": LIBRARY},
        ),
        *(
            Change(
                READING,
                "'find_shelf' in tools",
                files={
                    "library.py": READER.format(runtime=runtime),
                    "tests/test_library.py": ASKED,
                },
            )
            for runtime in ("ToolRuntime[Context]", "ToolRuntime")
        ),
    ],
    "a subagent": [
        Change(
            [
                ("agent.py", "\n\ndef build_agent(", CHECKER),
                ("agent.py", "subagents(d, WRITER)", "subagents(d, WRITER, CHECKER)"),
            ],
            "'- checker: ' in tools['task'].description",
        )
    ],
    "another agent": [
        Change(
            [
                (
                    "langgraph.json",
                    '"graphs": {\n',
                    '"graphs": {\n    "support": {"path": "./support.py:support"},\n',
                )
            ],
            "d.agents == ('support', 'agent')",
            files={"support.py": SUPPORT},
        )
    ],
    "a route over HTTP": [Change(files={"http_api.py": HELLO})],
    "who may do what": [Change([("auth.py", '        "threads:delete",\n', "")])],
    "whose memory it is": [
        Change(env={"MEMORY_SCOPE": "assistant"}, holds="d.memory.is_shared"),
        Change(env={"MEMORY_SCOPE": "user+assistant"}, holds="d.memory.per_assistant"),
    ],
    "memory in people's other programs": [
        Change(
            [
                (
                    "http_api.py",
                    "app = build_http(DEPLOYMENT",
                    "app = build_http(DEPLOYMENT, mcp=False",
                )
            ]
        )
    ],
    "semantic search": [
        Change([("langgraph.json", '  "auth":', f'  "store": {{"index": {INDEX}}},\n  "auth":')])
    ],
    "a front end of your own": [
        Change(
            [
                (
                    "langgraph.json",
                    '"allow_origins": []',
                    '"allow_origins": ["https://chat.example.com"]',
                )
            ]
        )
    ],
    "the page's words, or another language": [
        Change(
            files={"texts/en.json": '{"data.export": "Take it with you"}\n'},
            holds="__import__('lasting_memory.http.texts').http.texts.load(d.folder / 'texts')['en']['data.export']"
            " == 'Take it with you'",
        )
    ],
    "what memory takes on": [
        Change([decided('unconfirmed="propose"')], "d.unconfirmed == 'propose'"),
        Change(
            [decided("ends=False, offers=False, dream=False")],
            "not (d.ends or d.has_offers or d.has_dream) and 'prepare_offer' not in tools",
        ),
    ],
    "no page": [
        Change(
            [
                (
                    "http_api.py",
                    "app = build_http(DEPLOYMENT",
                    "app = build_http(DEPLOYMENT, page=False",
                )
            ]
        )
    ],
    "no skills": [
        Change([("deployment.py", '"/skills/": assistant(), ', "")], "'/skills/' not in d.routes")
    ],
    "no memory, only skills and policies": [
        Change(
            [
                ("deployment.py", '"/memories/": person(), ', ""),
                ("deployment.py", ", person\n", "\n"),
                ("langgraph.json", CONSOLIDATING, ""),
                ("deployment.py", "consolidation=Consolidation()", "consolidation=None"),
            ],
            "not d.has_memory and 'append_memory' not in tools",
            gone=["consolidation_agent.py"],
        )
    ],
    "no search of past conversations": [
        Change(
            [
                ("agent.py", ", *conversation_tools(d)", ""),
                ("agent.py", "    conversation_tools,\n", ""),
            ],
            "not {'search_past_conversations', 'read_conversation'} & {*tools}",
        )
    ],
    "no writer": [
        Change(
            [("agent.py", "subagents(d, WRITER)", "subagents(d)")],
            "'- writer: ' not in tools['task'].description",
        )
    ],
    "no offline model": [Change([decided("offline_model=False")], "not d.offline_model")],
    "no consolidation": [
        Change(
            [
                ("langgraph.json", CONSOLIDATING, ""),
                ("deployment.py", "consolidation=Consolidation()", "consolidation=None"),
            ],
            "d.consolidation is None",
            gone=["consolidation_agent.py"],
        )
    ],
}
CHANGES = [
    pytest.param(change, id=f"{row} {number}")
    for row, of in ROWS.items()
    for number, change in enumerate(of, 1)
]


def test_every_row_of_the_readme_is_made_here() -> None:
    table = (
        (PROJECT / "README.md")
        .read_text("utf-8")
        .partition("\n## Making it yours\n")[2]
        .partition("\n## ")[0]
    )
    assert re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:] == [*ROWS]


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_has_its_place_in_the_template(change: Change, tmp_path: Path) -> None:
    change.make(tmp_path / "fork")
    for file in (tmp_path / "fork").glob("*.py"):
        compile(file.read_text("utf-8"), file, "exec")


@pytest.mark.proof
@pytest.mark.parametrize("change", CHANGES)
def test_a_fork_with_one_change_loads_and_passes_its_own_tests(
    change: Change, tmp_path: Path
) -> None:
    fork, given = tmp_path / "fork", {**MODEL, **change.env}
    change.make(fork)
    load(sys.executable, fork, given=given)
    named = "{name: tool for node in agent.nodes.values() for name, tool in getattr(node.bound, 'tools_by_name', {}).items()}"
    code = f"from deployment import DEPLOYMENT as d; from agent import agent; tools = {named}; assert {change.holds}"
    for command in (
        ["-W", "ignore", "-c", code],
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "tests"],
    ):
        env = {**CLEAN, **given, "PYTHONPATH": str(fork)}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=fork,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-8_000:]}\n{done.stderr[-4_000:]}"
