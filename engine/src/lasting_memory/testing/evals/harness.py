"""Runs a case: its memory into the store, its conversations into threads, between them what the person does over HTTP, as the
page would; then consolidation over all of it, and the files back.
"""

import asyncio
import json
import uuid
from dataclasses import dataclass
from typing import Any

from deepagents.backends.utils import create_file_data
from langgraph_sdk.client import LangGraphClient

from lasting_memory.deployment import Deployment
from lasting_memory.limits import DEFAULTS
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import message_text
from lasting_memory.settings import Settings
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.evals.cases import Act, Case, Thread, messages

PERSON = "person@example.com"
_LOG_LINES = 30
_TIDY_SECONDS = 600
_LOOKS = ("search_past_conversations", "read_conversation")
COSTS = ("model_calls", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind: the person's files by path, the conversations it read, and what it cost, by `COSTS`.

    Where a case asks a question, `answer` and `searches` are files, too.
    """

    files: dict[str, str]
    threads: list[Thread]
    cost: dict[str, int]


async def run_case(server: DevServer, case: Case) -> Outcome:
    """Consolidate a case's conversations for a person in an organization of their own, or ask its question about them.

    Raises:
        RuntimeError: the run failed; with the end of the server's log, because the platform masks why.
    """
    org = f"eval-{uuid.uuid4().hex[:12]}"
    deployment = Deployment(server.project, Settings())
    namespace = list(deployment.memory.namespace(identity.Actor(PERSON, org), deployment.default_assistant))
    client, operator = server.as_user(PERSON, org), server.as_operator()
    for path, text in case.memory.items():
        await operator.store.put_item(namespace, path.removeprefix("/memories"), {**create_file_data(text)})
    if case.policies:
        await operator.store.put_item(list(namespaces.policies(org)), "/policy.md", {**create_file_data(case.policies)})
    threads: list[Thread] = []
    for number in range(len(case.conversations) + 1):
        if number:
            said, at = case.messages()[number - 1], (await client.threads.create(graph_id="agent"))["thread_id"]
            await _say(server, client, at, org, said)
            threads.append(Thread(at, str((await client.threads.get(at))["updated_at"])[:10]))
        for act in case.person:
            if act.after == number:
                await _do(server, client, act, threads, org)
    if case.category == "tidy":
        await _tidy(server, client)
    elif case.brought:
        await _call(client, "POST", "/memory/bring", {}, {"text": case.brought})
        await _accept(client)
    found = await _ask(client, case.question) if case.question else await _consolidate(server, client)
    items = (await operator.store.search_items(namespace, limit=DEFAULTS.max_files))["items"]
    runs = (await _call(client, "GET", "/memory/consolidations"))["consolidations"]
    cost = {name: sum(run[name] for run in runs) for name in COSTS}
    files = {f"/memories{item['key']}": str(item["value"].get("content", "")) for item in items}
    return Outcome(files | found, threads, cost)


async def _ask(client: LangGraphClient, question: str) -> dict[str, str]:
    """What the agent answers in a new conversation, and a line for each look at past ones, with its arguments."""
    thread = await client.threads.create(graph_id="agent")
    asked: Any = [{"role": "user", "content": question}]
    values: Any = await client.runs.wait(thread["thread_id"], "agent", input={"messages": asked})
    calls = [call for message in values["messages"] for call in message.get("tool_calls") or []]
    searches = [f"{call['name']} {json.dumps(call['args'], ensure_ascii=False)}" for call in calls if call["name"] in _LOOKS]
    return {"answer": message_text(values["messages"][-1]["content"]), "searches": "\n".join(searches)}


async def _tidy(server: DevServer, client: LangGraphClient) -> None:
    """Have memory tidied, and accept what that proposes."""
    await _call(client, "POST", "/memory/consolidate", {"tidy": "true"})
    async with asyncio.timeout(_TIDY_SECONDS):
        while not (done := (await _call(client, "GET", "/memory/consolidations"))["consolidations"]):  # noqa: ASYNC110  # the server's
            await asyncio.sleep(1)
    if done[0]["status"] == "failed":
        raise _failed(server, done[0]["reason"])
    await _accept(client)


async def _accept(client: LangGraphClient, *, accept: bool = True) -> None:
    """Decide about whatever is proposed."""
    for proposal in (await _call(client, "GET", "/memory/proposals"))["proposals"]:
        await _call(client, "POST", f"/memory/proposals/{proposal['id']}", {}, {"accept": accept})


async def _consolidate(server: DevServer, client: LangGraphClient) -> dict[str, str]:
    try:
        thread = await client.threads.create()
        await client.runs.wait(thread["thread_id"], "consolidation_agent", input={"messages": []})
    except Exception as error:
        raise _failed(server, error) from error
    return {}


def _failed(server: DevServer, reason: object) -> RuntimeError:
    log = "\n".join(server.log.splitlines()[-_LOG_LINES:])
    return RuntimeError(f"Consolidation failed ({reason}). The end of the server's log:\n{log}")


async def _do(server: DevServer, client: LangGraphClient, act: Act, threads: list[Thread], org: str) -> None:
    """What a person does, by the routes that the page calls. Raises `httpx.HTTPStatusError` if one of them refuses."""
    if act.write:
        await _call(client, "PUT", "/memory/file", {"path": act.write}, {"content": act.text})
    elif act.delete:
        await _call(client, "DELETE", "/memory/file", {"path": act.delete})
    elif act.undo:
        _, before = (await _call(client, "GET", "/memory/history", {"path": act.undo}))["revisions"][:2]
        await _call(client, "POST", "/memory/undo", {}, {"path": act.undo, "revision": before["revision"]})
    elif act.propose:
        await _call(client, "PUT", "/memory/controls", {}, {"review": True})
        await _consolidate(server, client)
        await _call(client, "PUT", "/memory/controls", {}, {"review": False})
    elif act.decline:
        await _accept(client, accept=False)
    elif act.say:
        await _say(server, client, threads[act.thread].thread_id, org, messages(act.say))


async def _call(
    client: LangGraphClient, method: str, path: str, parameters: dict[str, str] | None = None, body: Any = None
) -> Any:
    options = {} if body is None else {"json": body}
    response = await client.http.client.request(method, path, params=parameters, **options)
    return response.raise_for_status().json()


async def _say(server: DevServer, client: LangGraphClient, thread_id: str, org: str, said: Any) -> None:
    """Turns of a conversation with the agent. They reach it in a run, which stops before it calls a model."""
    context: Any = {"user_id": PERSON, "org_id": org}
    await server.as_operator().runs.wait(thread_id, "agent", input={"messages": said}, context=context, interrupt_before="*")
    await client.threads.update_state(thread_id, None, as_node="__end__")
