"""The quality set judges: every expectation can fail, a good answer meets them all, and the harness
tells the two apart.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import starmap
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from lasting_memory.consolidation.guard import objection
from lasting_memory.memory.proposals import Changed
from lasting_memory.testing.deployed import PROJECT
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.evals.cases import Case, Thread, load_cases, messages
from lasting_memory.testing.evals.quality import run_case
from lasting_memory.testing.evals.server import NO_MODEL, Result, table
from lasting_memory.testing.loopback import ScriptedLangSmith
from lasting_memory.testing.scripted_anthropic import (
    Answer,
    Body,
    Reply,
    ScriptedAnthropic,
    Text,
    ToolCall,
    tool_results,
)
from tests.consolidation.conftest import READY, forget, write

CASES = load_cases()
BY_NAME = {case.name: case for case in CASES}
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def threads_of(case: Case) -> list[Thread]:
    return [
        Thread(str(uuid.UUID(int=number + 1)), "2026-03-02")
        for number in range(len(case.conversations))
    ]


def everything(case: Case) -> dict[str, str]:
    """Memory after a model that writes down all that was said, in every file that it finds or knows
    of.
    """
    talks, start = (
        [*case.messages(), *(messages(act.say) for act in case.person if act.say)],
        case.start(),
    )
    said = (
        "\n".join(
            f"- {line}" for talk in talks for turn in talk for line in turn["content"].splitlines()
        )
        + case.brought
        + (f"\n- {case.question}" if case.category == "in_turn" else "")
    )
    paths = {*start, "/memories/preferences.md", "/memories/topics/index.md"} - {
        "/memories/profile.json"
    }
    return {**start, **{path: f"{start.get(path, '')}\n{said}\n" for path in paths}}


@each_case
def test_a_good_answer_meets_every_expectation(case: Case) -> None:
    """The guard lets it stand, where each line that goes is given to `forget_lines`."""
    threads = threads_of(case)
    after = case.answer(threads)
    assert case.problems(after, threads) == []
    paths = {*case.memory, *after}
    changed = [
        Changed(path.removeprefix("/memories"), case.memory.get(path, ""), after.get(path, ""))
        for path in paths
    ]
    assert (
        objection(changed, {change.path: change.before.splitlines() for change in changed}) is None
    )


@each_case
def test_every_expectation_fails_where_all_is_kept_or_all_is_lost(case: Case) -> None:
    threads = threads_of(case)
    naive: list[dict[str, str]] = [case.start(), everything(case), {}]
    assert [
        check
        for check in case.expect
        if not any(check.problem(case.start(), now, threads) for now in naive)
    ] == []


HOME, PREFERENCES = "/memories/topics/home.md", "/memories/preferences.md"
DECISION, OTHER_WORDS = (
    "a decision with its reason, its date and its thread",
    "one fact in other words",
)
HOP = "whose tent it is"
LENDER = [
    ToolCall("search_past_conversations", {"query": "lent me a tent", "alternatives": ["borrowed"]})
]
BIRTHDAY = [
    ToolCall("search_past_conversations", {"query": "Ilka birthday", "alternatives": ["born"]})
]
TWICE = "what stands twice, in the wrong place, or is over"


def decide_well(body: Body) -> Reply:
    match = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", tool_results(body)[0])
    today = datetime.now(UTC).date().isoformat()
    return (
        [write(*file) for file in BY_NAME[DECISION].answer([Thread(match[0], today)]).items()]
        if match
        else READY
    )


def quote(body: Body) -> Reply:
    return (
        [Text("At the harbour office.")]
        if "harbour office" in tool_results(body)[0]
        else [Text("I do not know.")]
    )


# A case, a model's answers, and how many of its expectations these do not meet.
MODELS: list[tuple[str, Sequence[Answer], int]] = [
    (DECISION, [decide_well] * 5, 0),
    (OTHER_WORDS, [[ToolCall("search_past_conversations", {"query": "Mira", "alternatives": ["hired", "office"]})], quote], 0),
    (OTHER_WORDS, [[Text("At the harbour office, I guess.")]], 2),
    (HOP, [LENDER, BIRTHDAY, [Text("On 3 October.")]], 0),
    (HOP, [LENDER, [Text("On 3 October, I guess.")]], 1),
    (TWICE, [[
        forget(HOME, "- The viewing of the flat is on 3 March 2021", "2021 is over"),
        forget(PREFERENCES, "- Keep answers short", "said above"), *starmap(write, BY_NAME[TWICE].right.items()),
    ], READY], 0),
]  # fmt: skip


@pytest.mark.server
@pytest.mark.parametrize(
    ("name", "answers", "problems"),
    MODELS,
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_case_is_passed_by_a_model_that_does_right_and_by_no_other(
    server: DevServer, model: ScriptedAnthropic, name: str, answers: Sequence[Answer], problems: int
) -> None:
    case = BY_NAME[name]
    model.script(lambda _: True, *answers)
    outcome = await run_case(server, case)
    assert len(found := case.problems(outcome.files, outcome.threads)) == problems, found
    if not case.question:
        assert outcome.cost["model_calls"] == len(model.requests)
        assert min(outcome.cost.values()) > 0


def test_the_summary_says_what_passed_by_kind_what_it_cost_and_what_is_different() -> None:
    move, talk = (
        Result(name="a move", category="update"),
        Result(name="small talk", category="drop"),
    )
    passed: Any = {"passed": True, "at": "2026-11-02", "model": "two"}
    costs: Any = {"model_calls": 3, "input_tokens": 1_200, "output_tokens": 40}
    now = [move.model_copy(update=costs), talk.model_copy(update={"passed": True})]
    last = {"a move": move.model_copy(update=passed), "small talk": talk, "of another run": talk}
    assert [line.split() for line in table(now, last)][1:] == [
        ["update", *["0", "of", "1", "1", "of", "1", "3", "1,200", "40"]],
        ["drop", *["1", "of", "1", "0", "of", "1", "0", "0", "0"]],
        ["all", *["1", "of", "2", "1", "of", "2", "3", "1,200", "40"]],
        ["passes", "now:", "small", "talk"],
        ["fails", "now:", "a", "move"],
        ["last", "run:", "2026-11-02,", "two"],
    ]
    assert [line.split()[0] for line in table(now, {})] == ["kind", "update", "drop", "all"]


def test_the_summary_says_what_a_call_of_the_agent_sends() -> None:
    sizes: Any = {"prompt_tokens": 1_400, "tools_tokens": 2_300}
    lines = table([Result(name="a move", category="in_turn", **sizes)], {})
    assert lines[-1] == "a call of the agent sends about 1,400 tokens of prompt and 2,300 of tools"


IN_PROCESSES = {
    "conftest.py": """
        from pathlib import Path
        from lasting_memory.testing.evals.server import Summary
        SUMMARY = Summary(Path("kept.json"), "model")
        def pytest_configure(config):
            config.pluginmanager.register(SUMMARY)
    """,
    "test_it.py": """
        import pytest
        from conftest import SUMMARY
        from lasting_memory.testing.evals.server import Result
        @pytest.mark.parametrize("number", range(4))
        def test_it(number):
            SUMMARY.note(Result(name=f"case {number}", category="keep", passed=True))
    """,
}


@pytest.mark.proof
def test_the_last_run_is_compared_in_several_processes_too(tmp_path: Path) -> None:
    for name, text in IN_PROCESSES.items():
        (tmp_path / name).write_text(dedent(text))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    for before in ("-", "4 of 4"):
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("keep ")]
        assert line.split("4 of 4", 1)[1].strip().startswith(before), done.stdout


def run_evals(
    folder: Path, env: Mapping[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    """`pytest evals` in a copy of the project, where no `.env` of a developer names a model or a
    key.
    """
    shutil.copytree(PROJECT, folder / "project", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_MODEL") and not name.startswith("LANGSMITH_")
    }
    command = [sys.executable, "-m", "pytest", "evals", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        command,
        cwd=folder / "project",
        env={**own, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


@pytest.mark.proof
def test_the_quality_set_without_a_model_says_so_once_and_fails_nothing(tmp_path: Path) -> None:
    done = run_evals(tmp_path, {})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(NO_MODEL) == 1
    assert (
        f"{len(CASES) + len(load_cases(PROJECT / 'evals' / 'cases.yaml'))} skipped" in done.stdout
    )


@pytest.mark.server
@pytest.mark.proof
def test_the_quality_set_with_a_key_reports_a_score_for_every_case(
    model: ScriptedAnthropic, tmp_path: Path
) -> None:
    with ScriptedLangSmith() as langsmith:
        env = {**model.env, "LANGSMITH_API_KEY": "made-up", "LANGSMITH_ENDPOINT": langsmith.url}
        done = run_evals(tmp_path, env, "-k", "small or Japanese")
        assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
        table = [
            line.split()
            for line in done.stdout.partition("what the model remembers")[2].splitlines()
        ]
        assert ["keep", "0", "of", "1", "-"] in [line[:5] for line in table]
        assert ["drop", "1", "of", "1", "-"] in [line[:5] for line in table]
        kept = json.loads((tmp_path / "project" / "evals" / ".last_run.json").read_text())
        assert {each["name"]: each["passed"] for each in kept} == {
            "small talk": True,
            "a preference in Japanese": False,
        }
        assert {example["inputs"]["name"] for example in langsmith.posted["examples"]} == {
            each["name"] for each in kept
        }
        scores = {(feedback["key"], feedback["score"]) for feedback in langsmith.posted["feedback"]}
        assert scores == {("keep", 0), ("drop", 1), ("pass", 0), ("pass", 1)}
        (experiment,) = langsmith.posted["sessions"]
        assert experiment["name"].startswith("anthropic:claude-sonnet-4-6")
