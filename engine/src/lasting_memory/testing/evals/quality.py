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
    person = server.person(PERSON, org, seconds=_SECONDS)
    operator = server.person("", headers=OPERATOR, seconds=_SECONDS)
    memory = _memory_of(server, org)
    await _put_files(operator, case, org, memory)
    sizes = await _sizes_of(person)
    threads = await _hold_conversations(server, operator, person, case)
    if case.category == "tidy":
        await _tidy(server, person)
    elif case.brought:
        await person.made("POST", "/memory/bring", {"text": case.brought})
        await _accept(person)
    found = dict[str, str]()
    if case.question:
        found = await _ask(person, case.question)
    else:
        await _consolidate(server, person)
    files = await _files_in(operator, memory)
    cost = await _cost_of(person)
    return Outcome(files | found, threads, cost, sizes)


async def _sizes_of(person: Person) -> dict[str, int]:
    """How many tokens the agent's prompt and tools have."""
    shown = await person.made("GET", "/memory/prompt")
    prompt_tokens = 0
    for block in shown["blocks"]:
        prompt_tokens += block["tokens"]
    return {"prompt_tokens": prompt_tokens, "tools_tokens": shown["tools_tokens"]}


def _memory_of(server: DevServer, org: str) -> list[str]:
    """The namespace of the person's memory, as the store's API takes it."""
    deployment = Deployment(server.project, Settings())
    actor = identity.Actor(PERSON, org)
    return list(deployment.memory.namespace(actor, deployment.default_assistant))


async def _put_files(operator: Person, case: Case, org: str, memory: list[str]) -> None:
    """Store the memory of a case, and its policies."""
    for path, text in case.memory.items():
        key = path.removeprefix("/memories")
        await _put_file(operator, memory, key, text)
    if case.policies:
        policies = list(namespaces.policies(org))
        await _put_file(operator, policies, "/policy.md", case.policies)


async def _put_file(operator: Person, namespace: list[str], key: str, text: str) -> None:
    item = {"namespace": namespace, "key": key, "value": create_file_data(text)}
    await operator.made("PUT", "/store/items", item)


async def _hold_conversations(
    server: DevServer, operator: Person, person: Person, case: Case
) -> list[Thread]:
    """Store the conversations of a case, with what the person does before, between and after them."""
    conversations = case.messages()
    threads = list[Thread]()
    for number in range(len(conversations) + 1):
        if number > 0:
            thread = await _hold(operator, person, conversations[number - 1])
            threads.append(thread)
        for act in case.person:
            if act.after == number:
                await _do(server, operator, person, act, threads)
    return threads


async def _hold(operator: Person, person: Person, said: Any) -> Thread:
    """Store a conversation."""
    thread_id = await person.thread(graph_id="agent")
    await _say(operator, person, thread_id, said)
    thread = await person.made("GET", f"/threads/{thread_id}")
    updated_at = str(thread["updated_at"])
    return Thread(thread_id, updated_at[:10])


async def _files_in(operator: Person, memory: list[str]) -> dict[str, str]:
    """The files of a memory, by path."""
    wanted = {"namespace_prefix": memory, "limit": DEFAULTS.max_files}
    found = await operator.made("POST", "/store/items/search", wanted)
    files = dict[str, str]()
    for item in found["items"]:
        path = f"/memories{item['key']}"
        files[path] = str(item["value"].get("content", ""))
    return files


async def _cost_of(person: Person) -> dict[str, int]:
    """What all runs of consolidation cost, by `COSTS`."""
    cost = dict.fromkeys(COSTS, 0)
    for run in await person.listed("consolidations"):
        for name in COSTS:
            cost[name] += run[name]
    return cost


async def _ask(person: Person, question: str) -> dict[str, str]:
    """What the agent answers in a new conversation, and a line for each look at past ones, with its
    arguments.
    """
    thread_id = await person.thread(graph_id="agent")
    values = await person.turn(thread_id, question)
    said = values["messages"]
    searches = list[str]()
    for message in said:
        for call in message.get("tool_calls") or []:
            name = call["name"]
            if name in _LOOKS:
                arguments = json.dumps(call["args"], ensure_ascii=False)
                searches.append(f"{name} {arguments}")
    last = said[-1]
    answer = message_text(last["content"])
    return {"answer": answer, "searches": "\n".join(searches)}


async def _tidy(server: DevServer, person: Person) -> None:
    """Have memory tidied, and accept what that proposes."""
    await person.made("POST", "/memory/consolidate", tidy="true")
    async with asyncio.timeout(_SECONDS):
        done = await person.listed("consolidations")
        while not done:
            await asyncio.sleep(1)
            done = await person.listed("consolidations")
    if done[0]["status"] == "failed":
        raise _failed(server, done[0]["reason"])
    await _accept(person)


async def _accept(person: Person, *, accept: bool = True) -> None:
    """Decide about whatever is proposed."""
    decision = {"accept": accept}
    for proposal in await person.listed("proposals"):
        route = f"/memory/proposals/{proposal['id']}"
        await person.made("POST", route, decision)


async def _consolidate(server: DevServer, person: Person) -> None:
    thread_id = await person.thread()
    values = await person.turn(thread_id, "", "consolidation_agent", raise_error=False)
    if "__error__" in values:
        raise _failed(server, values["__error__"])


def _failed(server: DevServer, reason: object) -> RuntimeError:
    last_lines = server.log.splitlines()[-_LOG_LINES:]
    log = "\n".join(last_lines)
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
        await _undo(person, act.undo)
    elif act.propose:
        await person.control(review=True)
        await _consolidate(server, person)
        await person.control(review=False)
    elif act.decline:
        await _accept(person, accept=False)
    elif act.say:
        thread_id = threads[act.thread].thread_id
        await _say(operator, person, thread_id, messages(act.say))


async def _undo(person: Person, path: str) -> None:
    """Make a file again what it was before its last change."""
    history = await person.made("GET", "/memory/history", path=path)
    _, before = history["revisions"][:2]
    wanted = {"path": path, "revision": before["revision"]}
    await person.made("POST", "/memory/undo", wanted)


async def _say(operator: Person, person: Person, thread_id: str, said: Any) -> None:
    """Turns of a conversation with the agent. They reach it in a run, which stops before it calls a
    model.
    """
    run = {
        "assistant_id": "agent",
        "input": {"messages": said},
        "interrupt_before": "*",
        "context": {"user_id": PERSON, "org_id": person.org},
    }
    end = {"values": None, "as_node": "__end__"}
    await operator.made("POST", f"/threads/{thread_id}/runs/wait", run)
    await person.made("POST", f"/threads/{thread_id}/state", end)


REPORTED = (
    bool(ENVIRON.get("LANGSMITH_API_KEY"))
    and ENVIRON.get("LANGSMITH_TRACING", "true").lower() == "true"
)


def judged(*files: Path) -> list[Any]:
    """Parameters for a test: the engine's cases, and those of further files. Raises
    `ValidationError` for one that is none.
    """
    cases = load_cases()
    for path in files:
        cases += load_cases(path)
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
        has_passed = not problems
        update = {**outcome.cost, **outcome.sizes, "passed": has_passed}
        result = result.model_copy(update=update)
    finally:
        SUMMARY.note(result)
    if REPORTED:
        report(case, outcome, problems)
    shown_files = ""
    for path, text in outcome.files.items():
        shown_files += f"\n{path}:\n{text}"
    assert problems == [], f"{problems}{shown_files}"


def report(case: Case, outcome: Outcome, problems: list[str]) -> None:
    """Log a case to LangSmith: what went in, what came out, and the share of expectations met, by
    category.
    """
    inputs = case.model_dump(
        include={"name", "category", "conversations", "memory", "person", "policies"}
    )
    run = get_current_run_tree()
    if run:
        # Without the test's own arguments, which differ from run to run and would make another
        # example.
        run.set(inputs=inputs)
    t.log_inputs(inputs)
    expected = list[dict[str, Any]]()
    for check in case.expect:
        expected.append(check.model_dump(by_alias=True, exclude_defaults=True))
    t.log_reference_outputs({"expect": expected})
    t.log_outputs({"files": outcome.files, "problems": problems})
    missed = len(problems) / len(case.expect)
    t.log_feedback(key=case.category, score=1 - missed)
