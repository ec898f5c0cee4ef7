"""What a model remembers, and what it does not: `make eval`. With LANGSMITH_API_KEY set, an experiment in LangSmith."""

from pathlib import Path
from typing import Any

import pytest
from langsmith import get_current_run_tree
from langsmith import testing as t

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.evals.cases import Case, load_cases
from lasting_memory.testing.evals.harness import Outcome, run_case
from lasting_memory.testing.evals.server import ENVIRON, SUMMARY
from lasting_memory.testing.evals.summary import Result

REPORTED = bool(ENVIRON.get("LANGSMITH_API_KEY")) and ENVIRON.get("LANGSMITH_TRACING", "true").lower() == "true"


def judged(*files: Path) -> list[Any]:
    """Parameters for a test: the engine's cases, and those of further files. Raises `ValidationError` for one that is none."""
    cases = [case for path in (None, *files) for case in (load_cases(path) if path else load_cases())]
    return [pytest.param(case, id=case.name, marks=[pytest.mark.langsmith] if REPORTED else []) for case in cases]


async def judge(server: DevServer, case: Case) -> None:
    """Consolidate a case's conversations. Raises `AssertionError` with the files if they are not as the case says."""
    result = Result(name=case.name, category=case.category)
    try:
        outcome = await run_case(server, case)
        problems = case.problems(outcome.files, outcome.threads)
        result = result.model_copy(update={**outcome.cost, "passed": not problems})
    finally:
        SUMMARY.note(result)
    if REPORTED:
        report(case, outcome, problems)
    files = "\n".join(f"{path}:\n{text}" for path, text in outcome.files.items())
    assert problems == [], f"{problems}\n{files}"


def report(case: Case, outcome: Outcome, problems: list[str]) -> None:
    """Log a case to LangSmith: what went in, what came out, and the share of expectations met, by category."""
    inputs = case.model_dump(include={"name", "category", "conversations", "memory", "person", "policies"})
    if run := get_current_run_tree():
        run.set(inputs=inputs)  # without the test's own arguments, which differ from run to run and would make another example
    t.log_inputs(inputs)
    t.log_reference_outputs({"expect": [check.model_dump(by_alias=True, exclude_defaults=True) for check in case.expect]})
    t.log_outputs({"files": outcome.files, "problems": problems})
    t.log_feedback(key=case.category, score=1 - len(problems) / len(case.expect))
