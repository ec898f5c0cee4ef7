"""Each row of README's "Making it yours", made in a copy of the template: it still loads, and a fork's own tests stay green."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.template.test_deploy import CLEAN, MODEL, langgraph, load

PROJECT = Path(__file__).parents[3]
_SKIPPED = {"engine", "build", "__pycache__", "node_modules", "wheels"}


def beside(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name in _SKIPPED or name.startswith(".") or name.endswith(".egg-info")]


class Fork:
    """A copy of the template. Paths are from its root."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(shutil.copytree(PROJECT, folder, ignore=beside))
        self.given = {**MODEL}  # what `.env` says

    def write(self, path: str, text: str) -> None:
        """Add a file, or replace all of it."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, "utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text of a file, which must be there once: the row has to follow the template."""
        text = (self.folder / path).read_text("utf-8")
        assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}; change the row, and README's, with it."
        self.write(path, text.replace(old, new))

    def decide(self, argument: str, above: str = "") -> None:
        """Add an argument to `Deployment(...)` in deployment.py, and code above it."""
        self.edit("deployment.py", "DEPLOYMENT = Deployment(", f"{above}\n\nDEPLOYMENT = Deployment({argument}, ")

    def run(self, *command: str) -> str:
        """What a command of Python in the copy prints, which must succeed; it imports the copy's modules."""
        env = {**CLEAN, **self.given, "PYTHONPATH": str(self.folder)}
        done = subprocess.run([sys.executable, *command], cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}:\n{done.stdout[-8_000:]}\n{done.stderr[-4_000:]}"
        return done.stdout

    def said(self, expression: str) -> str:
        """What an expression about the deployment `d` and the agent's tools says in the copy."""
        tools = f"lambda: {{name for named in {NAMED} for name in named}}"
        code = f"from deployment import DEPLOYMENT as d; from agent import agent; tools = {tools}; print({expression})"
        return self.run("-W", "ignore", "-c", code).strip()


def the_model(fork: Fork) -> str:
    fork.given = {"AGENT_MODEL": "openai:gpt-5.1", "OPENAI_API_KEY": "test"}
    return "__import__('lasting_memory').build_model(d).model_name == 'gpt-5.1'"


def a_model_object(fork: Fork) -> str:
    fork.given["OPENAI_API_KEY"] = "test"
    fork.edit("agent.py", "    build_model,\n", "")
    fork.edit("agent.py", "\nfrom deployment import", "from langchain_openai import ChatOpenAI\n\nfrom deployment import")
    fork.edit("agent.py", "WRITER: SubAgent", 'MODEL = ChatOpenAI(model="gpt-5.1", temperature=0)\n\nWRITER: SubAgent')
    fork.edit("agent.py", "model=model or build_model(d)", "model=model or MODEL")
    return "__import__('agent').MODEL.model_name == 'gpt-5.1'"


def a_profile_field(fork: Fork) -> str:
    above = (
        "from lasting_memory import Profile\nfrom pydantic import Field\n\n\nclass MyProfile(Profile):\n"
        '    pronouns: str | None = Field(None, max_length=50, description="How to refer to them.")\n'
    )
    fork.decide('schemas={"/memories/profile.json": MyProfile}', above)
    return "'pronouns' in d.profile.model_fields"


def a_check(fork: Fork) -> str:
    above = (
        "import re\n\nfrom lasting_memory import Author, RefusedWrite\n\n\n"
        "def no_card_numbers(path: str, content: str | None, author: Author) -> None:\n"
        '    if content and re.search(r"\\d{4}([ -]?)(\\d{4}\\1){2}\\d{4}", content):\n'
        '        raise RefusedWrite(f"{path} was not written: it would hold a card number; leave it out.")\n'
    )
    fork.decide("checks=[no_card_numbers]", above)
    return "[check.__name__ for check in d.checks] == ['no_card_numbers']"


def a_folder_of_a_team(fork: Fork) -> str:
    fork.edit("deployment.py", "organization()}", 'organization(), "/team/": group("team_id")}')
    fork.edit("deployment.py", "assistant, organization", "assistant, group, organization")
    return "d.claims == {'team_id'}"


def numbers(fork: Fork) -> str:
    fork.decide("limits=Limits(busy_threads=2)", "from lasting_memory import Limits\n")
    fork.edit("deployment.py", "Consolidation()", "Consolidation(batch_tokens=8_000)")
    return "(d.limits.busy_threads, d.consolidation.batch_tokens) == (2, 8_000)"


def behaviour(fork: Fork) -> str:
    fork.write("prompts/agent.md", "You are a librarian. What you learn of a reader you keep in `/memories/`.\n")
    fork.write("prompts/policies_block.md", "<policies>\nThe house has rules.\n{files}\n</policies>\n")
    return "d.prompt('agent.md').startswith('You are a librarian.') and 'The house' in d.prompt('policies_block.md')"


def seeds(fork: Fork) -> str:
    fork.write("policies/umbrella/rules.md", "# Rules\n\n1. Be kind.\n")
    shutil.rmtree(fork.folder / "seeds/skills")
    fork.write("seeds/skills/greeting/SKILL.md", "---\nname: greeting\ndescription: How to greet.\n---\n\nSay hello.\n")
    fork.write("seeds/memories/preferences.md", "# Preferences\n\n- New here.\n")
    seeding = "__import__('lasting_memory.seeding').seeding"
    return f"'rules.md' in str({seeding}.policies(d.folder, d)) and 'greeting' in str({seeding}.skills(d.folder, d))"


def a_tool(fork: Fork) -> str:
    fork.write("library.py", LIBRARY)
    fork.edit(
        "agent.py", "from deployment import DEPLOYMENT\n", "from deployment import DEPLOYMENT\nfrom library import find_book\n"
    )
    fork.edit("agent.py", "tools=[*memory_tools(d)", "tools=[find_book, *memory_tools(d)")
    return "'find_book' in tools()"


LIBRARY = '''"""A tool of this fork's own."""

from langchain_core.tools import tool


@tool
def find_book(title: str) -> str:
    """Say where a book stands."""
    return f"{title} is on the third shelf."
'''


def a_description(fork: Fork) -> str:
    fork.edit(
        "agent.py", "*memory_tools(d)", '*memory_tools(d, descriptions={"search_memories": "Search the reader\'s card."})'
    )
    return f"any(named['search_memories'].description == 'Search the reader\\'s card.' for named in {NAMED} if named)"


# The tools of each node of the agent, by name.
NAMED = "(getattr(node.bound, 'tools_by_name', {}) for node in agent.nodes.values())"


def a_subagent(fork: Fork) -> str:
    fork.edit("agent.py", "\n\ndef build_agent(", f"\n{CHECKER}\n\ndef build_agent(")
    fork.edit("agent.py", "subagents(d, WRITER)", "subagents(d, WRITER, CHECKER)")
    return f"any('- checker: ' in named['task'].description for named in {NAMED} if named)"


CHECKER = """CHECKER: SubAgent = {
    "name": "checker",
    "description": "Checks a text against the policies.",
    "system_prompt": "List what the policies forbid in the text.",
}
"""


def another_agent(fork: Fork) -> str:
    fork.write("support.py", SUPPORT)
    fork.edit("langgraph.json", '"graphs": {\n', '"graphs": {\n    "support": {"path": "./support.py:support"},\n')
    return "d.agents == ('support', 'agent')"


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


def a_route_of_its_own(fork: Fork) -> str:
    fork.write("http_api.py", HELLO)
    return "True"


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


def fewer_permissions(fork: Fork) -> str:
    fork.edit("auth.py", '        "threads:delete",\n', "")
    return "True"


def memory_of_an_assistant(fork: Fork) -> str:
    fork.given["MEMORY_SCOPE"] = "assistant"
    return "d.memory.is_shared"


def memory_with_each_assistant(fork: Fork) -> str:
    fork.given["MEMORY_SCOPE"] = "user+assistant"
    return "d.memory.per_assistant"


def a_front_end(fork: Fork) -> str:
    fork.edit("langgraph.json", '"allow_origins": []', '"allow_origins": ["https://chat.example.com"]')
    langgraph(fork.folder, "validate")
    settings, http = "__import__('lasting_memory.settings').settings", "__import__('json').dumps(read(d.folder)['http'])"
    served = f"{{'LANGSMITH_LANGGRAPH_API_VARIANT': 'local_dev', 'LANGGRAPH_HTTP': {http}}}"
    return f"(lambda read: {settings}.load_settings({served}).cors_origins)({settings}.project_config) == {{'https://chat.example.com'}}"


def semantic_search(fork: Fork) -> str:
    index = '{"embed": "openai:text-embedding-3-small", "dims": 1536}'
    fork.edit("langgraph.json", '  "auth":', f'  "store": {{"index": {index}}},\n  "auth":')
    return "True"


def no_page(fork: Fork) -> str:
    fork.edit("http_api.py", "app = build_http(DEPLOYMENT", "app = build_http(DEPLOYMENT, page=False")
    return "True"


def no_skills(fork: Fork) -> str:
    fork.edit("deployment.py", '"/skills/": assistant(), ', "")
    return "'/skills/' not in d.routes"


def no_search_of_conversations(fork: Fork) -> str:
    fork.edit("agent.py", ", *conversation_tools(d)", "")
    fork.edit("agent.py", "    conversation_tools,\n", "")
    return "not {'search_past_conversations', 'read_conversation'} & tools()"


def no_writer(fork: Fork) -> str:
    fork.edit("agent.py", "subagents(d, WRITER)", "subagents(d)")
    return "True"


def no_offline_model(fork: Fork) -> str:
    fork.decide("offline_model=False")
    return "not d.offline_model"


def no_consolidation(fork: Fork) -> str:
    (fork.folder / "consolidation_agent.py").unlink()
    config = json.loads((fork.folder / "langgraph.json").read_text("utf-8"))
    del config["graphs"]["consolidation_agent"]
    fork.write("langgraph.json", json.dumps(config))
    fork.edit("deployment.py", "consolidation=Consolidation()", "consolidation=None")
    return "d.consolidation is None"


# By what README calls them.
ROWS: dict[str, list[Callable[[Fork], str]]] = {
    "the model": [the_model, a_model_object],
    "how it behaves": [behaviour],
    "the rules, skills, a new person's memory": [seeds],
    "what a profile holds": [a_profile_field],
    "what may be written": [a_check],
    "a folder of a team": [a_folder_of_a_team],
    "limits; how consolidation works": [numbers],
    "a tool, what it is told to be, a subagent": [a_tool, a_description, a_subagent],
    "another agent": [another_agent],
    "a route over HTTP": [a_route_of_its_own],
    "who may do what": [fewer_permissions],
    "whose memory it is": [memory_of_an_assistant, memory_with_each_assistant],
    "semantic search": [semantic_search],
    "a front end of your own": [a_front_end],
    "no page": [no_page],
    "no skills": [no_skills],
    "no search of past conversations; no writer": [no_search_of_conversations, no_writer],
    "no offline model": [no_offline_model],
    "no consolidation": [no_consolidation],
}


def test_every_row_of_the_readme_is_made_here() -> None:
    table = (PROJECT / "README.md").read_text("utf-8").partition("\n## Making it yours\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:] == [*ROWS]


CHANGES = [change for changes in ROWS.values() for change in changes]


def test_each_change_has_its_place_in_the_template(tmp_path: Path) -> None:
    for change in CHANGES:
        fork = Fork(tmp_path / change.__name__)
        change(fork)
        for file in fork.folder.glob("*.py"):
            compile(file.read_text("utf-8"), file, "exec")


@pytest.mark.proof
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_fork_with_one_change_loads_and_passes_its_own_tests(change: Callable[[Fork], str], tmp_path: Path) -> None:
    fork = Fork(tmp_path / "fork")
    holds = change(fork)
    load(sys.executable, fork.folder, given=fork.given)
    assert fork.said(holds) == "True"
    fork.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "tests")
