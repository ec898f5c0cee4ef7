"""What a model remembers, and what it does not: `make eval`. With LANGSMITH_API_KEY set, an
experiment in LangSmith.

A case's memory goes into the store, its conversations into threads, between them what the person
does over HTTP, as the page would; then consolidation over all of it, and the files back.
"""

import asyncio
import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langsmith import get_current_run_tree
from langsmith import testing as t

from lasting_memory.deployment import DEFAULTS, Deployment
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import message_text
from lasting_memory.settings import Settings
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.evals.cases import Act, Case, Thread, load_cases, messages
from lasting_memory.testing.evals.server import ENVIRON, SUMMARY, Result
from lasting_memory.testing.people import OPERATOR, Person

PERSON = "person@example.com"
_LOG_LINES = 30
_SECONDS = 600
_LOOKS = ("search_past_conversations", "read_conversation")
COSTS = ("model_calls", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind: the person's files by path, the conversations it read, and what it
    cost, by `COSTS`, with the tokens of the agent's prompt and tools.

    Where a case asks a question, `answer` and `searches` are files, too.
    """

    files: dict[str, str]
    threads: list[Thread]
    cost: dict[str, int]
    sizes: dict[str, int]


async def run_case(server: DevServer, case: Case) -> Outcome:
    """Consolidate a case's conversations for a person in an organization of their own, or ask its
    question about them.

    Raises:
        RuntimeError: the run failed; with the end of the server's log, because the platform masks
        why.
    """
    org = f"eval-{uuid.uuid4().hex[:12]}"
    deployment = Deployment(server.project, Settings())
    namespace = list(
        deployment.memory.namespace(identity.Actor(PERSON, org), deployment.default_assistant)
    )
    person = server.person(PERSON, org, seconds=_SECONDS)
    operator = server.person("", headers=OPERATOR, seconds=_SECONDS)
    files = [
        (namespace, path.removeprefix("/memories"), text) for path, text in case.memory.items()
    ]
    if case.policies:
        files.append((list(namespaces.policies(org)), "/policy.md", case.policies))
    for of, key, text in files:
        await operator.made(
            "PUT", "/store/items", {"namespace": of, "key": key, "value": create_file_data(text)}
        )
    shown = await person.made("GET", "/memory/prompt")
    threads: list[Thread] = []
    for number in range(len(case.conversations) + 1):
        if number:
            at = await person.thread(graph_id="agent")
            await _say(operator, person, at, case.messages()[number - 1])
            threads.append(
                Thread(at, str((await person.made("GET", f"/threads/{at}"))["updated_at"])[:10])
            )
        for act in case.person:
            if act.after == number:
                await _do(server, operator, person, act, threads)
    if case.category == "tidy":
        await _tidy(server, person)
    elif case.brought:
        await person.made("POST", "/memory/bring", {"text": case.brought})
        await _accept(person)
    found = (
        await _ask(person, case.question) if case.question else await _consolidate(server, person)
    )
    wanted = {"namespace_prefix": namespace, "limit": DEFAULTS.max_files}
    items = (await operator.made("POST", "/store/items/search", wanted))["items"]
    runs = await person.listed("consolidations")
    cost = {name: sum(run[name] for run in runs) for name in COSTS}
    sizes = {
        "prompt_tokens": sum(block["tokens"] for block in shown["blocks"]),
        "tools_tokens": shown["tools_tokens"],
    }
    left = {f"/memories{item['key']}": str(item["value"].get("content", "")) for item in items}
    return Outcome(left | found, threads, cost, sizes)


async def _ask(person: Person, question: str) -> dict[str, str]:
    """What the agent answers in a new conversation, and a line for each look at past ones, with its
    arguments.
    """
    said = (await person.turn(await person.thread(graph_id="agent"), question))["messages"]
    calls = [call for message in said for call in message.get("tool_calls") or []]
    searches = [
        f"{call['name']} {json.dumps(call['args'], ensure_ascii=False)}"
        for call in calls
        if call["name"] in _LOOKS
    ]
    return {"answer": message_text(said[-1]["content"]), "searches": "\n".join(searches)}


async def _tidy(server: DevServer, person: Person) -> None:
    """Have memory tidied, and accept what that proposes."""
    await person.made("POST", "/memory/consolidate", tidy="true")
    async with asyncio.timeout(_SECONDS):
        while not (done := await person.listed("consolidations")):  # noqa: ASYNC110  # the server's
            await asyncio.sleep(1)
    if done[0]["status"] == "failed":
        raise _failed(server, done[0]["reason"])
    await _accept(person)


async def _accept(person: Person, *, accept: bool = True) -> None:
    """Decide about whatever is proposed."""
    for proposal in await person.listed("proposals"):
        await person.made("POST", f"/memory/proposals/{proposal['id']}", {"accept": accept})


async def _consolidate(server: DevServer, person: Person) -> dict[str, str]:
    values = await person.turn(await person.thread(), "", "consolidation_agent", raise_error=False)
    if "__error__" in values:
        raise _failed(server, values["__error__"])
    return {}


def _failed(server: DevServer, reason: object) -> RuntimeError:
    log = "\n".join(server.log.splitlines()[-_LOG_LINES:])
    return RuntimeError(f"Consolidation failed ({reason}). The end of the server's log:\n{log}")


async def _do(
    server: DevServer, operator: Person, person: Person, act: Act, threads: list[Thread]
) -> None:
    """What a person does, by the routes that the page calls. Raises if one of them refuses."""
    if act.write:
        await person.write(act.write, act.text)
    elif act.delete:
        await person.made("DELETE", "/memory/file", path=act.delete)
    elif act.undo:
        _, before = (await person.made("GET", "/memory/history", path=act.undo))["revisions"][:2]
        await person.made(
            "POST", "/memory/undo", {"path": act.undo, "revision": before["revision"]}
        )
    elif act.propose:
        await person.control(review=True)
        await _consolidate(server, person)
        await person.control(review=False)
    elif act.decline:
        await _accept(person, accept=False)
    elif act.say:
        await _say(operator, person, threads[act.thread].thread_id, messages(act.say))


async def _say(operator: Person, person: Person, thread_id: str, said: Any) -> None:
    """Turns of a conversation with the agent. They reach it in a run, which stops before it calls a
    model.
    """
    run = {"assistant_id": "agent", "input": {"messages": said}, "interrupt_before": "*"}
    acting = {"context": {"user_id": PERSON, "org_id": person.org}}
    await operator.made("POST", f"/threads/{thread_id}/runs/wait", {**run, **acting})
    await person.made("POST", f"/threads/{thread_id}/state", {"values": None, "as_node": "__end__"})


REPORTED = (
    bool(ENVIRON.get("LANGSMITH_API_KEY"))
    and ENVIRON.get("LANGSMITH_TRACING", "true").lower() == "true"
)


def judged(*files: Path) -> list[Any]:
    """Parameters for a test: the engine's cases, and those of further files. Raises
    `ValidationError` for one that is none.
    """
    cases = load_cases()
    if files:
        cases += load_cases(*files)
    marks = [pytest.mark.langsmith] if REPORTED else []
    return [pytest.param(case, id=case.name, marks=marks) for case in cases]


async def judge(server: DevServer, case: Case) -> None:
    """Consolidate a case's conversations. Raises `AssertionError` with the files if they are not as
    the case says.
    """
    result = Result(name=case.name, category=case.category)
    try:
        outcome = await run_case(server, case)
        problems = case.problems(outcome.files, outcome.threads)
        result = result.model_copy(update={**outcome.cost, **outcome.sizes, "passed": not problems})
    finally:
        SUMMARY.note(result)
    if REPORTED:
        report(case, outcome, problems)
    files = "\n".join(f"{path}:\n{text}" for path, text in outcome.files.items())
    assert problems == [], f"{problems}\n{files}"


def report(case: Case, outcome: Outcome, problems: list[str]) -> None:
    """Log a case to LangSmith: what went in, what came out, and the share of expectations met, by
    category.
    """
    inputs = case.model_dump(
        include={"name", "category", "conversations", "memory", "person", "policies"}
    )
    if run := get_current_run_tree():
        run.set(
            inputs=inputs
        )  # without the test's own arguments, which differ from run to run and would make another example
    t.log_inputs(inputs)
    t.log_reference_outputs(
        {
            "expect": [
                check.model_dump(by_alias=True, exclude_defaults=True) for check in case.expect
            ]
        }
    )
    t.log_outputs({"files": outcome.files, "problems": problems})
    t.log_feedback(key=case.category, score=1 - len(problems) / len(case.expect))
