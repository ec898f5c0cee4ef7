"""The server of the quality set: the project in this folder as it is, with the model that the
environment or `.env` names. And what `make eval` says at its end: what passed by kind, what it
cost, and what changed since the last run of these cases.

A fork's `evals/conftest.py` imports `pytest_configure` and the two fixtures. A result says how a case
ended. The last results are in a file of the project; a case's earlier result is the one there.
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
    results = sorted(now, key=_name_of)
    lines = [_line("kind", "passed", "last run", "calls", "tokens in", "tokens out")]
    for kind, title in _KINDS.items():
        of_kind = [result for result in results if result.category == kind]
        if of_kind:
            line = _summary(title, of_kind, last)
            lines.append(line)
    if results:
        line = _summary("all", results, last)
        lines.append(line)
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


def _name_of(result: Result) -> str:
    return result.name


def _summary(title: str, results: list[Result], last: Mapping[str, Result]) -> str:
    """The line of a kind of cases: what passed now and the last time, and what it cost.

    `last` are the last results by name.
    """
    earlier_results = list[Result]()
    calls = 0
    tokens_in = 0
    tokens_out = 0
    for result in results:
        calls += result.model_calls
        tokens_in += result.input_tokens
        tokens_out += result.output_tokens
        if result.name in last:
            earlier_result = last[result.name]
            earlier_results.append(earlier_result)
    passed = _passed(results)
    passed_earlier = _passed(earlier_results)
    costs = list[str]()
    for count in (calls, tokens_in, tokens_out):
        costs.append(f"{count:,}")
    return _line(title, passed, passed_earlier, *costs)


def _changes(results: list[Result], last: Mapping[str, Result]) -> list[str]:
    """Lines that say which cases pass or fail now and did not the last time, and when that was.

    There are none if no case has an earlier result. `last` are the last results by name.
    """
    passing = list[str]()
    failing = list[str]()
    last_time_and_model = ("", "")
    has_earlier_result = False
    for result in results:
        earlier_result = last.get(result.name)
        if earlier_result is None:
            continue
        has_earlier_result = True
        time_and_model = (earlier_result.at, earlier_result.model)
        last_time_and_model = max(last_time_and_model, time_and_model)
        if result.passed == earlier_result.passed:
            continue
        if result.passed:
            passing.append(f"passes now: {result.name}")
        else:
            failing.append(f"fails now: {result.name}")
    if not has_earlier_result:
        return []
    at, model = last_time_and_model
    last_run = f"last run: {at}, {model}"
    return [*passing, *failing, last_run]


def _passed(results: list[Result]) -> str:
    """How many of these cases passed; "-" if there are none."""
    if not results:
        return "-"
    passed = 0
    for result in results:
        if result.passed:
            passed += 1
    return f"{passed} of {len(results)}"


def _line(first: str, *others: str) -> str:
    """A line of the table, from the texts of its columns."""
    line = f"{first:<14}"
    for other in others:
        line += f"{other:>13}"
    return line


class Summary:
    """A plugin of pytest: gathers results, of all its processes, and shows and keeps them at the
    end.
    """

    def __init__(self, file: Path, model: str) -> None:
        """`file` has the last results, `model` is the one that is judged."""
        self._file = file
        self._model = model
        self._item: pytest.Item | None = None
        self._results: list[Result] = []

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._item = item

    def note(self, result: Result) -> None:
        """Notes how the case of the running test ended, in the test's report, which the process
        that shows the summary reads. Does nothing outside of tests.
        """
        if self._item is None:
            return
        now = datetime.now(UTC).isoformat(timespec="minutes")
        details = {"model": self._model, "at": now}
        stamped = result.model_copy(update=details)
        text = stamped.model_dump_json()
        self._item.user_properties.append((_PROPERTY, text))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == _PROPERTY:
                result = Result.model_validate_json(str(value))
                self._results.append(result)

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        # A worker of xdist has results of its own cases only, and keeps none: the last run's would
        # be gone before they are compared.
        is_worker = hasattr(config, "workerinput")
        if is_worker or not self._results:
            return
        last = self._last()
        terminalreporter.section("what the model remembers")
        for line in table(self._results, last):
            terminalreporter.write_line(line)
        by_name = dict(last)
        for result in self._results:
            by_name[result.name] = result
        dumped = list[dict[str, Any]]()
        for result in by_name.values():
            dumped.append(result.model_dump())
        text = json.dumps(dumped, indent=1)
        self._file.write_text(text, "utf-8")

    def _last(self) -> dict[str, Result]:
        """The last results by name; none on the first run, or after one of an engine with other
        kinds of cases.
        """
        adapter = TypeAdapter(list[Result])
        try:
            text = self._file.read_bytes()
            results = adapter.validate_json(text)
        except (OSError, ValidationError):
            return {}
        return {result.name: result for result in results}


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
    server_environ = dict[str, str]()
    for name, value in environ.items():
        is_setting = name in VARIABLES
        is_dropped = is_setting or name.startswith(_DROPPED)
        names_model = name in MODELS and value != ""
        if names_model or not is_dropped:
            server_environ[name] = value
    server_environ["CONSOLIDATE_AFTER_SECONDS"] = "0"
    return server_environ


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """`langgraph dev` for all tests; they are skipped if no model is set."""
    has_model = any(ENVIRON.get(name) for name in MODELS)
    if not has_model:
        pytest.skip(NO_MODEL)
    folder = tmp_path_factory.mktemp("server")
    env = server_env()
    with DevServer(folder, env=env, project=PROJECT) as server:
        yield server


@pytest.fixture
async def server(shared_server: DevServer) -> AsyncIterator[DevServer]:
    """`langgraph dev` with the project's own configuration and a real model."""
    yield shared_server
    await shared_server.close_clients()


def pytest_configure(config: pytest.Config) -> None:
    """Shows and keeps results. LangSmith's plugin reads the process environment, and reports nothing
    while tracing is off.
    """
    config.pluginmanager.register(SUMMARY)
    for name, value in ENVIRON.items():
        if name.startswith("LANGSMITH_"):
            os.environ[name] = value
    if ENVIRON.get("LANGSMITH_API_KEY"):
        os.environ.setdefault("LANGSMITH_TRACING", "true")
        os.environ.setdefault("LANGSMITH_EXPERIMENT", MODEL)
