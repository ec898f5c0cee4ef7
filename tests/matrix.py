"""The authorization matrix: every route and every kind of caller, and what each may do. Data, and its rendering.

`tests/test_matrix.py` sends every row to the real server as every caller. `python -m tests.matrix` writes the table into
docs/security.md, between its two markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from memory.scopes import DEFAULT_AGENT_ASSISTANT as AGENT

PAGE = Path(__file__).resolve().parent.parent / "docs" / "security.md"
BEGIN, END = "<!-- matrix: begin, written by `python -m tests.matrix` -->", "<!-- matrix: end -->"

CALLERS = ("no token", "junk token", "another user", "same identity, other organization", "owner", "operator")


@dataclass(frozen=True)
class Cell:
    """What one caller gets: a status, and what it means."""

    status: int
    meaning: str


MEANINGS = {
    "yes": "succeeds, and shows or changes what it names",
    "own": "succeeds for the caller alone: acts as the caller, shows nothing of the owner's",
    "nothing": "an answer with nothing in it, or with the refusal in it: the platform had begun to answer",
    "refused": "an error",
    "public": "open to everybody, and says nothing of anybody",
}
Rule = tuple[Cell, Cell, Cell, Cell, Cell, Cell]


def rule(stranger: Cell, elsewhere: Cell, owner: Cell, operator: Cell, anonymous: int = 401) -> Rule:
    return (Cell(anonymous, "refused"), Cell(anonymous, "refused"), stranger, elsewhere, owner, operator)


def owners(ok: int = 200, no: int = 404, meaning: str = "yes") -> Rule:
    """The owner's and operators'."""
    return rule(Cell(no, "refused"), Cell(no, "refused"), Cell(ok, meaning), Cell(ok, meaning))


def owners_else_nothing(ok: int = 200, no: int = 200, anonymous: int = 401) -> Rule:
    return rule(Cell(no, "nothing"), Cell(no, "nothing"), Cell(ok, "yes"), Cell(ok, "yes"), anonymous)


def operators(ok: int = 200) -> Rule:
    return rule(Cell(403, "refused"), Cell(403, "refused"), Cell(403, "refused"), Cell(ok, "yes"))


def each_their_own(ok: int = 200) -> Rule:
    """Everybody acts as themselves, operators too."""
    return rule(Cell(ok, "own"), Cell(ok, "own"), Cell(ok, "yes"), Cell(ok, "own"))


def own_only(ok: int = 200, no: int = 404) -> Rule:
    """The owner's alone: everybody is asked about their own, which others, operators too, do not have."""
    return rule(Cell(no, "refused"), Cell(no, "refused"), Cell(ok, "yes"), Cell(no, "refused"))


def signed_in(status: int = 200, meaning: str = "yes") -> Rule:
    """The same for everybody who is signed in."""
    cell = Cell(status, meaning)
    return rule(cell, cell, cell, cell)


def everybody(status: int, meaning: str) -> Rule:
    cell = Cell(status, meaning)
    return (cell, cell, cell, cell, cell, cell)


PUBLIC, CLOSED = everybody(200, "public"), everybody(403, "refused")
# What is shared by all, or by an organization, and written by operators alone: by whom it may be read.
OUR_ORGANIZATION = rule(Cell(200, "yes"), Cell(403, "refused"), Cell(200, "yes"), Cell(200, "yes"))
OTHER_ORGANIZATION = rule(Cell(403, "refused"), Cell(200, "yes"), Cell(403, "refused"), Cell(200, "yes"))


@dataclass(frozen=True)
class Row:
    """A way to call a route, and what each caller gets.

    Texts may hold <names>: <thread>, <run>, <checkpoint>, <cron>, <assistant> (made for the row, by or for the owner),
    <mine> (a thread of the caller's own), <owner>, <org>, <said> and <kept> (the owner's secrets: in the conversation,
    in memory), <rule>, <rule-elsewhere>, <skill> and the namespaces <memory>, <policies>, <policies-elsewhere>, <skills>.
    """

    route: str  # method and path as the server spells them
    what: str
    rule: Rule
    body: Any = None
    needs: str = ""  # what is made for it: a thread (with a conversation), a run (waiting), a finished one, a revised file, ...
    at: str | None = None  # the path called, where it is not the route's with the names of the same kind
    query: str = ""
    shows: str = ""  # is in the answer of those who get a "yes"
    instead: str | None = None  # is the whole answer of those who get "nothing"
    hides: str = ""  # is in no answer of those who get "nothing", where parts of it differ every time
    acts: bool = False  # a run as its caller: the owner's answer, and no operator's, shows what is remembered
    changes: bool = False  # a "yes" is seen in what the owner has
    headers: dict[str, str] = field(default_factory=dict, hash=False)
    queues: bool = False  # a "yes" starts a run that goes on after the answer
    last: bool = False  # disturbs everybody, so it runs when all others have

    @property
    def method(self) -> str:
        return self.route.split(" ")[0]

    @property
    def path(self) -> str:
        return self.route.split(" ")[1]

    @property
    def name(self) -> str:
        return f"{self.route}: {self.what}"


HELLO = {"messages": [{"role": "user", "content": "hello"}]}
FORGED = {"messages": [{"role": "user", "content": "forged"}]}
NOW: dict[str, Any] = {"assistant_id": "agent", "input": HELLO}
LATER: dict[str, Any] = {**NOW, "after_seconds": 3600}
YEARLY: dict[str, Any] = {**NOW, "schedule": "0 0 1 1 *", "end_time": "2999-01-01T00:00:00Z"}
SUPERSTEPS = [{"updates": [{"values": FORGED, "as_node": "__input__"}]}]
STUDIO_PAGE, OTHER_PAGE = {"origin": "https://smith.langchain.com"}, {"origin": "https://example.com"}
CHANNELS = ["values", "messages", "updates", "lifecycle"]

# Where the answer has begun when the platform asks who may see it, the refusal is in the answer.
NO_RUN = '{"__error__":{"error":"HTTPException","message":"404: Run not found"}}'
NO_RUN_EVENT = 'event: error\r\ndata: {"error":"HTTPException","message":"404: Run not found"}\r\n\r\n'
NO_THREAD_EVENT = 'event: error\r\ndata: {"error":"HTTPException","message":"404: Thread not found"}\r\n\r\n'
NO_THREAD_REPLY = '{"type":"error","id":1,"error":"unknown_error","message":"404: Thread or assistant not found."}'
NO_INTERRUPT = '{"type":"error","id":1,"error":"no_such_run","message":"No interrupted run is bound to this thread."}'
NO_TASK = '{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"Task not found: <thread>:<run>"}}'


NO_TASK_THERE = NO_TASK.replace("<thread>:<run>", "<run> in context '<thread>'")
NO_CONTEXT = (
    '{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"Thread \'<thread>\' not found. Please create the thread'
    ' first before sending messages to it.","data":{"thread_id":"<thread>","error_type":"thread_not_found"}}}'
)
NO_CONTEXT_EVENT = (
    'event: message\r\ndata: {"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"Internal server error"}}\r\n\r\n'
)


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}


def a2a_message(**more: str) -> dict[str, Any]:
    return {"role": "user", "kind": "message", "messageId": "1", "parts": [{"kind": "text", "text": "hello"}], **more}


def command(method: str, **params: Any) -> dict[str, Any]:
    return {"id": 1, "method": method, "params": params}


def store(whose: str, reading: Rule, shows: str) -> Iterator[Row]:
    """The store API on one namespace: reading as `reading` says, writing for operators."""
    at = f"<{whose}>"
    query = urlencode({"namespace": f"<{whose}.>", "key": "/preferences.md"}, safe="<>")
    item = {"namespace": at, "key": "/preferences.md"}
    # fmt: off
    yield Row("GET /store/items", f"{whose}: get", reading, needs="assistant", query=query, shows=shows)
    yield Row("POST /store/items/search", f"{whose}: search", reading, {"namespace_prefix": at}, "assistant",
              shows=shows)
    yield Row("POST /store/namespaces", f"{whose}: list namespaces", reading, {"prefix": at}, "assistant")
    yield Row("PUT /store/items", f"{whose}: put", operators(204),
              {**item, "value": {"content": "forged", "encoding": "utf-8"}},
              "assistant", changes=True)
    yield Row("DELETE /store/items", f"{whose}: delete", operators(204), item, "assistant", changes=True)
    # fmt: on


def memory() -> Iterator[Row]:
    """One's own memory over HTTP, and the same with the owner named, which only operators may."""
    # Operators have one memory in all rows, seeded by their runs: they have no kept.md.
    file, undo = {"path": "/memories/kept.md"}, {"path": "/memories/kept.md", "revision": 1}
    read, write = urlencode(file), urlencode({"path": "/memories/written.md"})
    own = {"version": 1, "files": [{"path": "/memories/imported.md", "content": "x"}]}
    named = {"version": 1, "files": [{**file, "content": "x"}]}
    # fmt: off
    rows: list[tuple[Row, dict[str, Any]]] = [
        (Row("GET /memory", "list files", each_their_own(), shows="/memories/kept.md"), {}),
        (Row("GET /memory/file", "read a file", own_only(), query=read, shows="<kept>"), {}),
        (Row("PUT /memory/file", "write a file", each_their_own(), {"content": "x"}, query=write, shows="revision",
             changes=True), {"query": read}),
        (Row("DELETE /memory/file", "delete a file", own_only(), query=read, shows="revision", changes=True), {}),
        (Row("GET /memory/history", "a file's history", own_only(), needs="revised", query=read, shows="<kept>"), {}),
        (Row("POST /memory/undo", "make a file what it was", own_only(), undo, "revised", shows="revision", changes=True), {}),
        (Row("GET /memory/export", "take everything along", each_their_own(), needs="thread", shows="<said>"), {}),
        (Row("POST /memory/import", "see what an import would do", each_their_own(), own, shows="create"),
         {"body": named, "shows": "append"}),
        (Row("POST /memory/import", "import", each_their_own(), own, query="dry_run=false", shows="create", changes=True),
         {"body": named, "shows": "append"}),
        (Row("POST /memory/consolidate", "consolidate now", each_their_own(202), shows="queued", queues=True), {}),
        (Row("POST /memory/consolidate", "see what consolidation would change", each_their_own(), needs="thread",
             query="dry_run=true", shows="dry_run"), {}),
        (Row("GET /memory/consolidations", "what consolidation did", each_their_own(), shows="consolidations"), {}),
        (Row("DELETE /memory", "be forgotten", each_their_own(), needs="thread", shows="deleted", changes=True, last=True),
         {"last": False}),
    ]
    # fmt: on
    for row, otherwise in rows:
        yield row
        by_name: dict[str, Any] = {"query": row.query, **otherwise}
        by_name["query"] = "&".join(filter(None, [by_name["query"], "user_id=<owner>&org_id=<org>"]))
        yes = max(cell.status for cell in row.rule if cell.status < 300)
        yield replace(row, what=f"{row.what}, of the owner by name", rule=operators(yes), **by_name)


def a2a(path: str) -> Iterator[Row]:
    """A2A, which the server has at this path with and without a slash at its end."""
    # fmt: off
    yield Row(f"GET {path}", "an assistant's card", signed_in(), shows=AGENT)
    yield Row(f"DELETE {path}", "end a session (there are none)", signed_in(405, "refused"))
    yield Row(f"POST {path}", "send a message into the conversation", owners_else_nothing(),
              rpc("message/send", message=a2a_message(contextId="<thread>")), "thread", shows="<thread>", acts=True,
              instead=NO_CONTEXT, changes=True)
    yield Row(f"POST {path}", "send a message", each_their_own(), rpc("message/send", message=a2a_message()), acts=True)
    yield Row(f"POST {path}", "send a message and stream", each_their_own(),
              rpc("message/stream", message=a2a_message()), acts=True)
    yield Row(f"POST {path}", "send a message into the conversation and stream", owners_else_nothing(),
              rpc("message/stream", message=a2a_message(contextId="<thread>")), "thread", shows="<thread>", acts=True,
              instead=NO_CONTEXT_EVENT, changes=True)
    yield Row(f"POST {path}", "get a task", owners_else_nothing(), rpc("tasks/get", id="<thread>:<run>"), "finished",
              shows="<said>", instead=NO_TASK)
    yield Row(f"POST {path}", "get a task by the conversation", owners_else_nothing(),
              rpc("tasks/get", id="<run>", contextId="<thread>"), "finished",
              shows="<said>", instead=NO_TASK_THERE)
    yield Row(f"POST {path}", "cancel a task", owners_else_nothing(), rpc("tasks/cancel", id="<thread>:<run>"), "run",
              shows="<run>", instead=NO_TASK, changes=True)
    yield Row(f"POST {path}", "list tasks", owners_else_nothing(),
              rpc("ListTasks", contextId="<thread>"), "finished", shows="<said>",
              instead='{"jsonrpc":"2.0","id":"1","result":{"tasks":[],"totalSize":0,"pageSize":0,"nextPageToken":""}}')
    yield Row(f"POST {path}", "the extended card", signed_in(), rpc("GetExtendedAgentCard"), shows=AGENT)
    # fmt: on


# fmt: off
MATRIX: dict[str, list[Row]] = {
    "What the server says of itself": [
        Row("GET /", "health", PUBLIC),
        Row("GET /ok", "health", PUBLIC),
        Row("GET /info", "versions", PUBLIC),
        Row("GET /metrics", "counters", PUBLIC, needs="finished"),
        Row("GET /metrics", "counters as JSON", PUBLIC, needs="finished", query="format=json"),
        Row("GET /docs", "this API, to look at", PUBLIC),
        Row("GET /openapi.json", "this API", PUBLIC),
        Row("GET /ui/*", "files of a graph's own interface (there is none)", everybody(500, "public"),
            at="/ui/agent/x.js",
            headers={"connection": "close"}),
        Row("POST /ui/{graph_id}", "a graph's own interface (there is none)", signed_in(404, "refused"), {"name": "x"}),
    ],
    "Threads": [
        Row("POST /threads", "create, in the owner's name", each_their_own(),
            {"metadata": {"user_id": "<owner>", "org_id": "<org>"}}, changes=True),
        Row("POST /threads", "create one that exists", owners(no=409),
            {"thread_id": "<thread>", "if_exists": "do_nothing"}, "thread", shows="<said>"),
        Row("POST /threads", "create one that exists, with state", owners(no=409),
            {"thread_id": "<thread>", "if_exists": "do_nothing", "supersteps": SUPERSTEPS}, "thread"),
        Row("POST /threads/search", "by id", owners_else_nothing(), {"ids": ["<thread>"]}, "thread", shows="<said>",
            instead="[]"),
        Row("POST /threads/search", "by owner", owners_else_nothing(),
            {"metadata": {"user_id": "<owner>", "org_id": "<org>"}},
            "thread", shows="<said>", instead="[]"),
        Row("POST /threads/search", "by what was said", owners_else_nothing(), {"metadata": {"note": "<said>"}},
            "thread", shows="<said>", instead="[]"),
        Row("POST /threads/search", "extract what was said", owners_else_nothing(),
            {"ids": ["<thread>"], "select": ["thread_id"], "extract": {"x": "values.messages[0].content"}}, "thread",
            shows="<said>", instead="[]"),
        Row("POST /threads/count", "by what was said", owners_else_nothing(), {"metadata": {"note": "<said>"}},
            "thread",
            shows="1", instead="0"),
        Row("POST /threads/prune", "delete", owners(), {"thread_ids": ["<thread>"]}, "thread", changes=True),
        Row("POST /threads/prune", "keep the latest checkpoint (refused by the dev server)",
            owners(422, meaning="refused"),
            {"thread_ids": ["<thread>"], "strategy": "keep_latest"}, "thread"),
        Row("GET /threads/{thread_id}", "read", owners(), needs="thread", shows="<said>"),
        Row("PATCH /threads/{thread_id}", "change metadata and owner", owners(),
            {"metadata": {"user_id": "mallory", "org_id": "evil", "note": "x"}}, "thread", changes=True),
        Row("DELETE /threads/{thread_id}", "delete", owners(204), needs="thread", changes=True),
        Row("POST /threads/{thread_id}/copy", "copy", owners(no=409), needs="thread", shows="<said>", changes=True),
        Row("GET /threads/{thread_id}/storage", "how much it stores", owners(), needs="thread", shows="<thread>"),
        Row("GET /threads/{thread_id}/state", "state", owners(), needs="thread", shows="<said>"),
        Row("GET /threads/{thread_id}/state", "state with subgraphs", owners(), needs="thread",
            query="subgraphs=true", shows="<said>"),
        Row("POST /threads/{thread_id}/state", "write state", owners(), {"values": FORGED}, "thread", changes=True),
        Row("GET /threads/{thread_id}/state/{checkpoint_id}", "state at a checkpoint", owners(), needs="thread",
            shows="<said>"),
        Row("POST /threads/{thread_id}/state/checkpoint", "state at a checkpoint", owners(),
            {"checkpoint": {"checkpoint_id": "<checkpoint>"}}, "thread", shows="<said>"),
        Row("POST /threads/{thread_id}/state/checkpoint", "the thread named in a checkpoint of one's own",
            each_their_own(),
            {"checkpoint": {"thread_id": "<thread>", "checkpoint_id": "<checkpoint>"}}, "thread",
            "/threads/<mine>/state/checkpoint"),
        Row("GET /threads/{thread_id}/history", "history", owners(), needs="thread", query="limit=10", shows="<said>"),
        Row("POST /threads/{thread_id}/history", "history", owners(), {"limit": 10}, "thread", shows="<said>"),
        Row("POST /threads/{thread_id}/history", "the thread named in a checkpoint of one's own", each_their_own(),
            {"checkpoint": {"thread_id": "<thread>"}}, "thread", "/threads/<mine>/history"),
        Row("POST /threads/{thread_id}/state", "the thread named in a checkpoint of one's own", each_their_own(),
            {"values": FORGED, "checkpoint": {"thread_id": "<thread>"}}, "thread", "/threads/<mine>/state"),
    ],
    "Events of a thread": [
        Row("GET /threads/{thread_id}/stream", "its runs' events from the beginning", owners_else_nothing(),
            needs="finished",
            headers={"last-event-id": "-"}, shows="<said>", instead=NO_THREAD_EVENT),
        Row("POST /threads/{thread_id}/stream/events", "its events from the beginning", owners_else_nothing(),
            {"channels": CHANNELS}, "finished", shows="<said>", instead=""),
        Row("WS /threads/{thread_id}/stream/events", "its events, and a run by a command",
            owners_else_nothing(101, 101, 403),
            [command("subscription.subscribe", channels=CHANNELS), command("run.start", **NOW)], "finished",
            shows="<said>", acts=True,
            hides='"run_id"', changes=True),
        Row("POST /threads/{thread_id}/commands", "start a run", owners_else_nothing(), command("run.start", **NOW),
            "thread",
            shows='"run_id"', instead=NO_THREAD_REPLY, changes=True),
        Row("POST /threads/{thread_id}/commands", "answer an interrupt there is not", owners_else_nothing(),
            command("input.respond", interrupt_id="x", response="y"), "thread",
            shows="no_such_interrupt", instead=NO_INTERRUPT),
        Row("POST /threads/{thread_id}/commands", "the tree of agents", signed_in(), command("agent.getTree"),
            "finished",
            shows="no_such_run"),
    ],
    "Runs on a thread": [
        Row("GET /threads/{thread_id}/runs", "list", owners(), needs="run", shows="<run>"),
        Row("POST /threads/{thread_id}/runs", "create", owners(), LATER, "thread", shows="<thread>", changes=True),
        Row("POST /threads/{thread_id}/runs", "create, and the thread if there is none", owners(),
            {**LATER, "if_not_exists": "create"}, "thread", shows="<thread>", changes=True),
        Row("POST /threads/{thread_id}/runs", "interrupt what runs", owners(),
            {**LATER, "multitask_strategy": "rollback"}, "run",
            shows="<thread>", changes=True),
        Row("POST /threads/{thread_id}/runs/wait", "create and wait", owners(), NOW, "thread", shows="<said>",
            acts=True, changes=True),
        Row("POST /threads/{thread_id}/runs/wait", "go on from a checkpoint", owners(),
            {**NOW, "checkpoint": {"checkpoint_id": "<checkpoint>"}}, "thread", shows="<said>", acts=True,
            changes=True),
        Row("POST /threads/{thread_id}/runs/stream", "create and stream", owners(), NOW, "thread", shows="<said>",
            acts=True, changes=True),
        Row("POST /threads/{thread_id}/runs/crons", "create a cron", operators(), YEARLY, "thread", shows="<thread>"),
        Row("GET /threads/{thread_id}/runs/{run_id}", "read", owners(), needs="run", shows="<said>"),
        Row("GET /threads/{thread_id}/runs/{run_id}", "read, by way of a thread of one's own",
            signed_in(404, "refused"), needs="run",
            at="/threads/<mine>/runs/<run>"),
        Row("DELETE /threads/{thread_id}/runs/{run_id}", "delete", owners(204), needs="run", changes=True),
        Row("DELETE /threads/{thread_id}/runs/{run_id}", "delete, by way of a thread of one's own",
            signed_in(404, "refused"), needs="run",
            at="/threads/<mine>/runs/<run>"),
        Row("GET /threads/{thread_id}/runs/{run_id}/join", "wait for it", owners(), needs="finished", shows="<said>"),
        Row("GET /threads/{thread_id}/runs/{run_id}/join", "wait for it by way of a thread of one's own",
            signed_in(200, "nothing"), needs="finished", at="/threads/<mine>/runs/<run>/join", instead=NO_RUN),
        Row("GET /threads/{thread_id}/runs/{run_id}/join", "wait for it, cancel it on leaving", owners(),
            needs="finished",
            query="cancel_on_disconnect=true", shows="<said>"),
        Row("GET /threads/{thread_id}/runs/{run_id}/stream", "its events", owners_else_nothing(), needs="finished",
            headers={"last-event-id": "-"}, shows="<said>", instead=NO_THREAD_EVENT),
        Row("GET /threads/{thread_id}/runs/{run_id}/stream", "its events by way of a thread of one's own",
            signed_in(200, "nothing"),
            needs="finished", at="/threads/<mine>/runs/<run>/stream", headers={"last-event-id": "-"},
            instead=NO_RUN_EVENT),
        Row("POST /threads/{thread_id}/runs/{run_id}/cancel", "cancel", owners(202), needs="run", changes=True),
        Row("POST /threads/{thread_id}/runs/{run_id}/cancel", "cancel and roll back", owners(202), needs="run",
            query="action=rollback", changes=True),
        Row("POST /threads/{thread_id}/runs/{run_id}/cancel", "cancel, by way of a thread of one's own",
            signed_in(404, "refused"), needs="run",
            at="/threads/<mine>/runs/<run>/cancel"),
    ],
    "Runs without a thread": [
        Row("POST /runs", "create", each_their_own(), LATER, shows='"run_id"'),
        Row("POST /runs", "create, naming a thread", each_their_own(), {**LATER, "thread_id": "<thread>"}, "thread",
            shows='"run_id"'),
        Row("POST /runs/wait", "run and wait", each_their_own(), NOW, acts=True),
        Row("POST /runs/stream", "run and stream", each_their_own(), NOW, acts=True),
        Row("POST /runs/batch", "create several", each_their_own(), [LATER, LATER], shows='"run_id"'),
        Row("POST /runs/cancel", "cancel by id", owners(204), {"thread_id": "<thread>", "run_ids": ["<run>"]}, "run",
            changes=True),
        Row("POST /runs/cancel", "cancel by id, by way of a thread of one's own", signed_in(404, "refused"),
            {"thread_id": "<mine>", "run_ids": ["<run>"]}, "run"),
        Row("POST /runs/cancel", "cancel all", owners(204), {"status": "all"}, "run", changes=True, last=True),
        Row("POST /runs/cancel", "cancel all that wait, and roll back", owners(204), {"status": "pending"}, "run",
            query="action=rollback", changes=True, last=True),
    ],
    "Runs by MCP": [
        Row("GET /mcp", "events (there are none)", signed_in(405, "refused")),
        Row("DELETE /mcp", "end a session (there are none)", signed_in(404, "refused")),
        Row("POST /mcp", "open a session", signed_in(), rpc("initialize"), shows="protocolVersion"),
        Row("POST /mcp", "list tools", signed_in(), rpc("tools/list"), shows="inputSchema"),
        Row("POST /mcp", "call the agent", each_their_own(), rpc("tools/call", name="agent", arguments=HELLO),
            acts=True),
        Row("POST /mcp", "call the agent in the owner's name", each_their_own(), rpc(
            "tools/call", name="agent", arguments=HELLO, context={"user_id": "x", "org_id": "y"}), acts=True),
    ],
    "Runs by A2A": [
        Row("GET /.well-known/agent-card.json", "an assistant's card", signed_in(), query=f"assistant_id={AGENT}",
            shows=AGENT),
        Row("GET /a2a/{assistant_id}/.well-known/agent-card.json", "an assistant's card", signed_in(), shows=AGENT),
        Row("GET /a2a/{assistant_id}/.well-known/agent.json", "an assistant's card", signed_in(), shows=AGENT),
        *a2a("/a2a/{assistant_id}"),
        *a2a("/a2a/{assistant_id}/"),
    ],
    "Crons": [
        Row("POST /runs/crons", "create", operators(), YEARLY, shows='"cron_id"'),
        Row("POST /runs/crons/search", "search", operators(), {"thread_id": "<thread>"}, "cron", shows="<cron>"),
        Row("POST /runs/crons/count", "count", operators(), {"thread_id": "<thread>"}, "cron", shows="1"),
        Row("GET /runs/crons/{cron_id}", "read", operators(), needs="cron", shows="<said>"),
        Row("PATCH /runs/crons/{cron_id}", "change", operators(), {"schedule": "0 0 2 1 *"}, "cron", shows="<cron>",
            changes=True),
        Row("DELETE /runs/crons/{cron_id}", "delete", operators(204), needs="cron", changes=True),
    ],
    "Assistants": [
        Row("POST /assistants", "create", operators(), {"graph_id": "agent", "name": "new"}, shows='"new"'),
        Row("POST /assistants", "create one that exists", operators(),
            {"graph_id": "agent", "assistant_id": "<assistant>", "if_exists": "do_nothing"}, "assistant",
            shows="<assistant>"),
        Row("POST /assistants/search", "search", signed_in(), {"graph_id": "consolidation_agent"},
            shows="consolidation_agent"),
        Row("POST /assistants/count", "count", signed_in(), {"graph_id": "consolidation_agent"}, shows="1"),
        Row("GET /assistants/{assistant_id}", "read", signed_in(), needs="assistant", shows="<assistant>"),
        Row("GET /assistants/{assistant_id}/graph", "its graph", signed_in(), needs="assistant", shows="nodes"),
        Row("GET /assistants/{assistant_id}/schemas", "its schemas", signed_in(), needs="assistant",
            shows="input_schema"),
        Row("GET /assistants/{assistant_id}/subgraphs", "its subgraphs", signed_in(), needs="assistant"),
        Row("GET /assistants/{assistant_id}/subgraphs/{namespace}", "a subgraph", signed_in(), needs="assistant"),
        Row("POST /assistants/{assistant_id}/versions", "its versions", signed_in(), {}, "assistant",
            shows="<assistant>"),
        Row("POST /assistants/{assistant_id}/latest", "choose a version", operators(), {"version": 1}, "assistant",
            shows="<assistant>"),
        Row("PATCH /assistants/{assistant_id}", "change", operators(), {"context": {"user_id": "x"}}, "assistant",
            shows="<assistant>", changes=True),
        Row("DELETE /assistants/{assistant_id}", "delete", operators(204), needs="assistant", changes=True),
        Row("DELETE /assistants/{assistant_id}", "delete, and its threads", operators(204), needs="assistant",
            query="delete_threads=true", changes=True),
    ],
    "Store": [
        *store("memory", owners(no=403), "<kept>"),
        *store("policies", OUR_ORGANIZATION, "<rule>"),
        *store("policies-elsewhere", OTHER_ORGANIZATION, "<rule-elsewhere>"),
        *store("skills", operators(), "<skill>"),
        Row("POST /store/items/search", "all memories", operators(),
            {"namespace_prefix": ["memories"], "limit": 1000}, shows="<kept>"),
        Row("POST /store/items/search", "everything", operators(), {"namespace_prefix": [], "limit": 1000},
            shows="<kept>"),
        Row("POST /store/items/search", "below a memory", operators(),
            {"namespace_prefix": ["memories", "<memory:1>", "x"]}),
        Row("POST /store/items/search", "a memory by wildcard", operators(), {"namespace_prefix": ["memories", "*"]}),
        Row("POST /store/namespaces", "all", operators(), {"limit": 1000}, shows="<memory:1>"),
        Row("POST /store/namespaces", "by suffix", operators(), {"suffix": ["<memory:1>"]}, shows="<memory:1>"),
        Row("POST /store/namespaces", "by wildcard", operators(), {"prefix": ["memories", "*"], "limit": 1000},
            shows="<memory:1>"),
        Row("POST /store/namespaces", "all of one's organization's, by suffix and prefix", operators(),
            {"prefix": ["memories"], "suffix": ["<memory:1>"]}, shows="<memory:1>"),
    ],
    "A person's own memory": [*memory()],
    "`langgraph dev` alone": [
        Row("GET /internal/debug/thread/{thread_id}", "a thread as it is stored", CLOSED, needs="thread", shows="<said>"),
        Row("POST /internal/truncate", "delete everything of everybody", CLOSED, needs="thread", changes=True),
        Row("GET /deploy", "whether the server has a LangSmith key, and its last deployment", CLOSED),
        Row("GET /deploy", "the same, by Studio's page", PUBLIC, headers=STUDIO_PAGE, shows="has_api_key"),
        Row("POST /deploy", "deploy the folder with the server's LangSmith key", CLOSED, {"name": "x"}),
        Row("POST /deploy", "the same, by another website's page", CLOSED, {"name": "x"}, headers=OTHER_PAGE),
        Row("GET /deploy/{operation_id}/stream", "a deployment's log", CLOSED),
        Row("GET /deploy/{operation_id}/stream", "the same, by Studio's page (there is none)", everybody(404, "public"),
            headers=STUDIO_PAGE, shows="not found"),
    ],
}
# fmt: on
ROWS = [row for rows in MATRIX.values() for row in rows]


def render() -> str:
    """The matrix as the Markdown between the markers of docs/security.md."""
    head = ["Route", "What", *CALLERS]
    legend = "\n".join(f"- **{meaning}**: {text}." for meaning, text in MEANINGS.items())
    parts = [legend]
    for section, rows in MATRIX.items():
        lines = [_line(head), _line(["---"] * len(head))]
        for row in rows:
            cells = [f"{cell.meaning} {cell.status}" for cell in row.rule]
            lines.append(_line([f"`{row.route}`", row.what, *cells]))
        parts += [f"### {section}", "\n".join(lines)]
    return "\n\n".join(parts)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def shown() -> str:
    """What the page shows between its markers."""
    return PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip()


if __name__ == "__main__":
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{render()}\n\n{END}{rest.partition(END)[2]}", "utf-8")
