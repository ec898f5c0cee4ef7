"""What a model remembers, and what it does not: `make eval`. With LANGSMITH_API_KEY set, an experiment in LangSmith."""

from __future__ import annotations

import pytest
from langsmith import get_current_run_tree
from langsmith import testing as t

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.evals.cases import Case, load_cases
from lasting_memory.testing.evals.conftest import ENVIRON
from lasting_memory.testing.evals.harness import Outcome, run_case

REPORTED = bool(ENVIRON.get("LANGSMITH_API_KEY")) and ENVIRON.get("LANGSMITH_TRACING", "true").lower() == "true"
CASES = {case.name: case for case in load_cases()}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.langsmith] if REPORTED else []) for name in CASES])
async def test_memory_after_consolidation_is_as_the_case_says(name: str, server: DevServer) -> None:
    case = CASES[name]
    outcome = await run_case(server, case)
    problems = case.problems(outcome.files, outcome.threads)
    if REPORTED:
        report(case, outcome, problems)
    assert problems == [], "\n".join(f"{path}:\n{text}" for path, text in outcome.files.items())


def report(case: Case, outcome: Outcome, problems: list[str]) -> None:
    """Log a case to LangSmith: what went in, what came out, and the share of expectations met, by category."""
    inputs = case.model_dump(include={"name", "category", "conversations", "memory", "person", "policies"})
    if run := get_current_run_tree():
        run.set(inputs=inputs)  # without the test's own arguments, which differ from run to run and would make another example
    t.log_inputs(inputs)
    t.log_reference_outputs({"expect": [check.model_dump(by_alias=True, exclude_defaults=True) for check in case.expect]})
    t.log_outputs({"files": outcome.files, "problems": problems})
    t.log_feedback(key=case.category, score=1 - len(problems) / len(case.expect))
