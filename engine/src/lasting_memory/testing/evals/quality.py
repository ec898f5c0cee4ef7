"""What a model remembers, and what it does not: `make eval`. With LANGSMITH_API_KEY set, an
experiment in LangSmith.

A case's memory goes into the store, its conversations into threads, between them what the person
does over HTTP, as the page would; then consolidation over all of it, and the files back.

`Person` is a client of the server's HTTP API: `made` sends a request and returns its JSON, `listed`
the entries of a list. The operator is a client who may write to any namespace of the store. Every
request raises an error if the server refuses it.
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
_SEARCH_TOOLS = ("search_past_conversations", "read_conversation")
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
    run_name = uuid.uuid4().hex[:12]
    org = f"eval-{run_name}"
    person = server.person(PERSON, org, seconds=_SECONDS)
    operator = server.person("", headers=OPERATOR, seconds=_SECONDS)
    memory = _memory_of(server, org)
    await _put_files(operator, case, org, memory)
    sizes = await _sizes_of(person)
    threads = await _hold_conversations(server, operator, person, case)
    if case.category == "tidy":
        await _tidy(server, person)
    elif case.brought:
        body = {"text": case.brought}
        await person.made("POST", "/memory/bring", body)
        await _decide(person, accept=True)
    answer_files = dict[str, str]()
    if case.question:
        answer_files = await _ask(person, case.question)
    else:
        await _consolidate(server, person)
    memory_files = await _files_in(operator, memory)
    files = memory_files | answer_files
    cost = await _cost_of(person)
    return Outcome(files, threads, cost, sizes)


async def _sizes_of(person: Person) -> dict[str, int]:
    """How many tokens the agent's prompt and tools have: `prompt_tokens` and `tools_tokens`."""
    prompt = await person.made("GET", "/memory/prompt")
    prompt_tokens = 0
    for block in prompt["blocks"]:
        prompt_tokens += block["tokens"]
    tools_tokens = prompt["tools_tokens"]
    return {"prompt_tokens": prompt_tokens, "tools_tokens": tools_tokens}


def _memory_of(server: DevServer, org: str) -> list[str]:
    """The namespace of the person's memory, as the store's API takes it."""
    deployment = Deployment(server.project, Settings())
    actor = identity.Actor(PERSON, org)
    assistant = deployment.default_assistant
    namespace = deployment.memory.namespace(actor, assistant)
    return list(namespace)


async def _put_files(operator: Person, case: Case, org: str, memory: list[str]) -> None:
    """Stores the memory of a case, and its policies, if it has some."""
    for path, text in case.memory.items():
        key = path.removeprefix("/memories")
        await _put_file(operator, memory, key, text)
    if case.policies:
        policies = list(namespaces.policies(org))
        await _put_file(operator, policies, "/policy.md", case.policies)


async def _put_file(operator: Person, namespace: list[str], key: str, text: str) -> None:
    """Stores a text as the file of this key."""
    value = create_file_data(text)
    item = {"namespace": namespace, "key": key, "value": value}
    await operator.made("PUT", "/store/items", item)


async def _hold_conversations(
    server: DevServer, operator: Person, person: Person, case: Case
) -> list[Thread]:
    """Stores the conversations of a case, in order, and does what the person does before, between
    and after them. Returns the conversations' threads.
    """
    threads = list[Thread]()
    await _do_all(server, operator, person, case, threads)
    for conversation in case.messages():
        thread = await _hold(operator, person, conversation)
        threads.append(thread)
        await _do_all(server, operator, person, case, threads)
    return threads


async def _do_all(
    server: DevServer, operator: Person, person: Person, case: Case, threads: list[Thread]
) -> None:
    """Does what the person of a case does after so many conversations as there are threads."""
    for act in case.person:
        if act.after == len(threads):
            await _do(server, operator, person, act, threads)


async def _hold(operator: Person, person: Person, conversation: Any) -> Thread:
    """Stores a conversation, which is a list of messages. Returns its thread."""
    thread_id = await person.thread(graph_id="agent")
    await _say(operator, person, thread_id, conversation)
    route = f"/threads/{thread_id}"
    thread = await person.made("GET", route)
    updated_at = str(thread["updated_at"])
    return Thread(thread_id, updated_at[:10])


async def _files_in(operator: Person, memory: list[str]) -> dict[str, str]:
    """The files of a memory, by path."""
    most = DEFAULTS.max_files
    search = {"namespace_prefix": memory, "limit": most}
    results = await operator.made("POST", "/store/items/search", search)
    files = dict[str, str]()
    for item in results["items"]:
        key = item["key"]
        content = item["value"].get("content", "")
        files[f"/memories{key}"] = str(content)
    return files


async def _cost_of(person: Person) -> dict[str, int]:
    """What all runs of consolidation cost, by `COSTS`."""
    cost = dict.fromkeys(COSTS, 0)
    for run in await person.listed("consolidations"):
        for name in COSTS:
            cost[name] += run[name]
    return cost


async def _ask(person: Person, question: str) -> dict[str, str]:
    """Asks the agent in a new conversation. Returns two texts, which a case checks
    as it checks files: its `answer`, and `searches`, a line for each look at past conversations,
    with its arguments.
    """
    thread_id = await person.thread(graph_id="agent")
    values = await person.turn(thread_id, question)
    thread_messages = values["messages"]
    searches = list[str]()
    for message in thread_messages:
        for call in message.get("tool_calls") or []:
            name = call["name"]
            if name not in _SEARCH_TOOLS:
                continue
            arguments = json.dumps(call["args"], ensure_ascii=False)
            search = f"{name} {arguments}"
            searches.append(search)
    last_message = thread_messages[-1]
    answer = message_text(last_message["content"])
    search_lines = "\n".join(searches)
    return {"answer": answer, "searches": search_lines}


async def _tidy(server: DevServer, person: Person) -> None:
    """Has memory tidied, and accepts what that proposes.

    Raises `RuntimeError` if it failed, `TimeoutError` if it takes too long.
    """
    await person.made("POST", "/memory/consolidate", tidy="true")
    async with asyncio.timeout(_SECONDS):
        records = await person.listed("consolidations")
        while not records:
            await asyncio.sleep(1)
            records = await person.listed("consolidations")
    record = records[0]
    if record["status"] == "failed":
        raise _failed(server, record["reason"])
    await _decide(person, accept=True)


async def _decide(person: Person, *, accept: bool) -> None:
    """Accepts, or else declines, whatever is proposed."""
    decision = {"accept": accept}
    for proposal in await person.listed("proposals"):
        proposal_id = proposal["id"]
        route = f"/memory/proposals/{proposal_id}"
        await person.made("POST", route, decision)


async def _consolidate(server: DevServer, person: Person) -> None:
    """Consolidates a person's conversations. Raises `RuntimeError` if that failed."""
    thread_id = await person.thread()
    values = await person.turn(thread_id, "", "consolidation_agent", raise_error=False)
    error = values.get("__error__")
    if error is not None:
        raise _failed(server, error)


def _failed(server: DevServer, reason: object) -> RuntimeError:
    """The error for a consolidation that failed, with the end of the server's log."""
    lines = server.log.splitlines()
    last_lines = lines[-_LOG_LINES:]
    log = "\n".join(last_lines)
    return RuntimeError(f"Consolidation failed ({reason}). The end of the server's log:\n{log}")


async def _do(
    server: DevServer, operator: Person, person: Person, act: Act, threads: list[Thread]
) -> None:
    """Does what a person does, by the routes that the page calls."""
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
        await _decide(person, accept=False)
    elif act.say:
        thread = threads[act.thread]
        further_messages = messages(act.say)
        await _say(operator, person, thread.thread_id, further_messages)


async def _undo(person: Person, path: str) -> None:
    """Makes a file again what it was before its last change."""
    history = await person.made("GET", "/memory/history", path=path)
    revisions = history["revisions"]
    earlier = revisions[1]  # the newest comes first
    body = {"path": path, "revision": earlier["revision"]}
    await person.made("POST", "/memory/undo", body)


async def _say(operator: Person, person: Person, thread_id: str, new_messages: Any) -> None:
    """Adds messages to a conversation with the agent. They reach it in a run, which stops before it
    calls a model.
    """
    thread_route = f"/threads/{thread_id}"
    run = {
        "assistant_id": "agent",
        "input": {"messages": new_messages},
        "interrupt_before": "*",
        "context": {"user_id": PERSON, "org_id": person.org},
    }
    end = {"values": None, "as_node": "__end__"}
    await operator.made("POST", f"{thread_route}/runs/wait", run)
    await person.made("POST", f"{thread_route}/state", end)


REPORTED = (
    bool(ENVIRON.get("LANGSMITH_API_KEY"))
    and ENVIRON.get("LANGSMITH_TRACING", "true").lower() == "true"
)


def judged(*files: Path) -> list[Any]:
    """Parameters for a test of each case: the engine's cases, and those of further files.

    Raises `ValidationError` for a case that is not well-formed.
    """
    cases = load_cases()
    for path in files:
        cases += load_cases(path)
    marks = list[pytest.MarkDecorator]()
    if REPORTED:
        marks.append(pytest.mark.langsmith)
    parameters = list[Any]()
    for case in cases:
        parameter = pytest.param(case, id=case.name, marks=marks)
        parameters.append(parameter)
    return parameters


async def judge(server: DevServer, case: Case) -> None:
    """Runs a case, and notes its result for the summary and for LangSmith.

    Raises `AssertionError` with the files if they are not as the case says.
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
    """Logs a case to LangSmith: what went in, what came out, and the share of expectations met, by
    category.
    """
    fields = {"name", "category", "conversations", "memory", "person", "policies"}
    inputs = case.model_dump(include=fields)
    run = get_current_run_tree()
    if run:
        # Without the test's own arguments, which differ from run to run and would make another
        # example.
        run.set(inputs=inputs)
    t.log_inputs(inputs)
    expected = list[dict[str, Any]]()
    for check in case.expect:
        dumped = check.model_dump(by_alias=True, exclude_defaults=True)
        expected.append(dumped)
    reference = {"expect": expected}
    outputs = {"files": outcome.files, "problems": problems}
    t.log_reference_outputs(reference)
    t.log_outputs(outputs)
    missed_share = len(problems) / len(case.expect)
    score = 1 - missed_share
    t.log_feedback(key=case.category, score=score)
