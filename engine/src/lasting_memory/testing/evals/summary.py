"""What `make eval` says at its end: what passed by kind, what it cost, and what changed since the last run of these cases."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from lasting_memory.testing.evals.cases import Category

_PROPERTY = "case"
_KINDS = {kind: kind.replace("_", " ") for kind in get_args(Category)}


class Result(BaseModel):
    """How a case ended: with which model and when (ISO, in UTC), and what its consolidations cost."""

    name: str
    category: Category
    passed: bool = False
    model: str = ""
    at: str = ""
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def table(now: Iterable[Result], last: Mapping[str, Result]) -> list[str]:
    """The summary in lines. `last` are the last results of cases by name; only those that ran now, too, are compared."""
    results = sorted(now, key=lambda result: result.name)
    lines = [_line("kind", "passed", "last run", "calls", "tokens in", "tokens out")]
    for kind, shown in (*_KINDS.items(), ("", "all")):
        these = [result for result in results if kind in ("", result.category)]
        before = [last[result.name] for result in these if result.name in last]
        if these:
            costs = [sum(getattr(each, name) for each in these) for name in ("model_calls", "input_tokens", "output_tokens")]
            lines.append(_line(shown, _passed(these), _passed(before), *(f"{cost:,}" for cost in costs)))
    known = [(result, last[result.name]) for result in results if result.name in last]
    for said, change in (("passes now", (True, False)), ("fails now", (False, True))):
        lines += [f"{said}: {new.name}" for new, old in known if (new.passed, old.passed) == change]
    if known:
        when, model = max((old.at, old.model) for _, old in known)
        lines.append(f"last run: {when}, {model}")
    return lines


def _passed(results: list[Result]) -> str:
    return f"{sum(result.passed for result in results)} of {len(results)}" if results else "-"


def _line(first: str, *others: str) -> str:
    return f"{first:<14}" + "".join(f"{other:>13}" for other in others)


class Summary:
    """A plugin of pytest: gathers results, of all its processes, and shows and keeps them at the end."""

    def __init__(self, kept: Path, model: str) -> None:
        self._kept, self._model = kept, model
        self._item: pytest.Item | None = None
        self._results: list[Result] = []

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._item = item

    def note(self, result: Result) -> None:
        """Note how the case of the test that is going ended."""
        stamped = result.model_copy(update={"model": self._model, "at": datetime.now(UTC).isoformat(timespec="minutes")})
        if self._item:
            self._item.user_properties.append((_PROPERTY, stamped.model_dump_json()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = [value for name, value in report.user_properties if name == _PROPERTY] if report.when == "call" else []
        self._results += [Result.model_validate_json(str(value)) for value in told]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._results:
            return
        last = self._last()
        terminalreporter.section("what the model remembers")
        for line in table(self._results, last):
            terminalreporter.write_line(line)
        kept = {**last, **{result.name: result for result in self._results}}
        self._kept.write_text(json.dumps([result.model_dump() for result in kept.values()], indent=1), "utf-8")

    def _last(self) -> dict[str, Result]:
        try:
            known = TypeAdapter(list[Result]).validate_json(self._kept.read_bytes())
        except (OSError, ValidationError):  # the first run, or one of an engine with other kinds
            known = []
        return {result.name: result for result in known}
