"""The server of the quality set: the project in this folder as it is, with the model that the
environment or `.env` names. And what `make eval` says at its end: what passed by kind, what it
cost, and what changed since the last run of these cases.

A fork's `evals/conftest.py` imports `pytest_configure` and the two fixtures.
"""

import json
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from lasting_memory.settings import VARIABLES, local_environ
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.evals.cases import Category

_PROPERTY = "case"
_KINDS = {kind: kind.replace("_", " ") for kind in get_args(Category)}


class Result(BaseModel):
    """How a case ended: with which model and when (ISO, in UTC), and what its consolidations cost.

    `prompt_tokens` and `tools_tokens` are about what a first turn sends beside the conversation.
    """

    name: str
    category: Category
    passed: bool = False
    model: str = ""
    at: str = ""
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_tokens: int = 0
    tools_tokens: int = 0


def table(now: Iterable[Result], last: Mapping[str, Result]) -> list[str]:
    """The summary in lines. `last` are the last results of cases by name; only those that ran now,
    too, are compared.
    """
    results = sorted(now, key=lambda result: result.name)
    lines = [_line("kind", "passed", "last run", "calls", "tokens in", "tokens out")]
    for kind, shown in _KINDS.items():
        of_kind = [result for result in results if result.category == kind]
        if of_kind:
            lines.append(_summary(shown, of_kind, last))
    if results:
        lines.append(_summary("all", results, last))
    lines += _changes(results, last)
    prompt = 0
    tools = 0
    for result in results:
        prompt = max(prompt, result.prompt_tokens)
        tools = max(tools, result.tools_tokens)
    if prompt:
        lines.append(
            f"a call of the agent sends about {prompt:,} tokens of prompt and {tools:,} of tools"
        )
    return lines


def _summary(shown: str, results: list[Result], last: Mapping[str, Result]) -> str:
    """The line of a kind of cases: what passed now and the last time, and what it cost."""
    before = list[Result]()
    calls = 0
    tokens_in = 0
    tokens_out = 0
    for result in results:
        calls += result.model_calls
        tokens_in += result.input_tokens
        tokens_out += result.output_tokens
        if result.name in last:
            before.append(last[result.name])
    costs = (f"{calls:,}", f"{tokens_in:,}", f"{tokens_out:,}")
    return _line(shown, _passed(results), _passed(before), *costs)


def _changes(results: list[Result], last: Mapping[str, Result]) -> list[str]:
    """Which cases pass or fail now and did not the last time, and when that was."""
    passes_now = list[str]()
    fails_now = list[str]()
    last_runs = list[tuple[str, str]]()
    for result in results:
        before = last.get(result.name)
        if before is None:
            continue
        last_runs.append((before.at, before.model))
        if result.passed == before.passed:
            continue
        if result.passed:
            passes_now.append(f"passes now: {result.name}")
        else:
            fails_now.append(f"fails now: {result.name}")
    if not last_runs:
        return []
    when, model = max(last_runs)
    return [*passes_now, *fails_now, f"last run: {when}, {model}"]


def _passed(results: list[Result]) -> str:
    if not results:
        return "-"
    passed = sum(result.passed for result in results)
    return f"{passed} of {len(results)}"


def _line(first: str, *others: str) -> str:
    line = f"{first:<14}"
    for other in others:
        line += f"{other:>13}"
    return line


class Summary:
    """A plugin of pytest: gathers results, of all its processes, and shows and keeps them at the
    end.
    """

    def __init__(self, kept: Path, model: str) -> None:
        self._kept = kept
        self._model = model
        self._item: pytest.Item | None = None
        self._results: list[Result] = []

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._item = item

    def note(self, result: Result) -> None:
        """Note how the case of the test that is going ended."""
        if self._item is None:
            return
        now = datetime.now(UTC).isoformat(timespec="minutes")
        stamped = result.model_copy(update={"model": self._model, "at": now})
        self._item.user_properties.append((_PROPERTY, stamped.model_dump_json()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == _PROPERTY:
                self._results.append(Result.model_validate_json(str(value)))

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        # A worker of xdist has results of its own cases only, and keeps none: the last run's would
        # be gone before they are compared.
        if not self._results or hasattr(config, "workerinput"):
            return
        last = self._last()
        terminalreporter.section("what the model remembers")
        for line in table(self._results, last):
            terminalreporter.write_line(line)
        kept = dict(last)
        for result in self._results:
            kept[result.name] = result
        dumped = [result.model_dump() for result in kept.values()]
        text = json.dumps(dumped, indent=1)
        self._kept.write_text(text, "utf-8")

    def _last(self) -> dict[str, Result]:
        try:
            known = TypeAdapter(list[Result]).validate_json(self._kept.read_bytes())
        except (OSError, ValidationError):  # the first run, or one of an engine with other kinds
            known = []
        return {result.name: result for result in known}


PROJECT = Path.cwd()
ENVIRON = local_environ(PROJECT)
MODELS = ("AGENT_MODEL", "CONSOLIDATION_MODEL")
# The one that is judged.
MODEL = ENVIRON.get("CONSOLIDATION_MODEL") or ENVIRON.get("AGENT_MODEL", "")
NO_MODEL = (
    "No model is set, so there is nothing to judge: put AGENT_MODEL (or CONSOLIDATION_MODEL) and its provider's key into .env, "
    "e.g. AGENT_MODEL=anthropic:claude-sonnet-4-6 and ANTHROPIC_API_KEY=..."
)
# By the cases' names: each keeps its last result, so that part of them can be run.
SUMMARY = Summary(PROJECT / "evals" / ".last_run.json", MODEL)
# What a deployment's own settings may not change about a case, and what belongs to the server that
# is started here.
_DROPPED = ("LANGGRAPH_", "POSTGRES_", "MEMORY_POSTGRES_")


def server_env(environ: Mapping[str, str] = ENVIRON) -> dict[str, str]:
    """The environment of the server: everything given but the deployment's settings, of which only
    the models count.
    """
    kept = dict[str, str]()
    for name, value in environ.items():
        is_model = name in MODELS and bool(value)
        is_setting = name in VARIABLES or name.startswith(_DROPPED)
        if is_model or not is_setting:
            kept[name] = value
    kept["CONSOLIDATE_AFTER_SECONDS"] = "0"
    return kept


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    if not any(ENVIRON.get(name) for name in MODELS):
        pytest.skip(NO_MODEL)
    folder = tmp_path_factory.mktemp("server")
    with DevServer(folder, env=server_env(), project=PROJECT) as server:
        yield server


@pytest.fixture
async def server(shared_server: DevServer) -> AsyncIterator[DevServer]:
    """`langgraph dev` with the project's own configuration and a real model."""
    yield shared_server
    await shared_server.close_clients()


def pytest_configure(config: pytest.Config) -> None:
    """Show and keep results. LangSmith's plugin reads the process environment, and reports nothing
    while tracing is off.
    """
    config.pluginmanager.register(SUMMARY)
    for name, value in ENVIRON.items():
        if name.startswith("LANGSMITH_"):
            os.environ[name] = value
    if ENVIRON.get("LANGSMITH_API_KEY"):
        os.environ.setdefault("LANGSMITH_TRACING", "true")
        os.environ.setdefault("LANGSMITH_EXPERIMENT", MODEL)
