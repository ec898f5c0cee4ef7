"""The authorization matrix: every route and every kind of caller, and what each may do. Data, and
its rendering.

`tests/auth/test_matrix.py` sends every row to the real server as every caller. `python -m
tests.auth.matrix` writes the table into docs/matrix.md, between its two markers; that page works out one row.
"""

from pathlib import Path
from typing import Any

from lasting_memory.people.identity import assistant_of
from lasting_memory.testing.people import AGENT
from tests.auth.rules import (
    CALLERS,
    CLOSED,
    HELLO,
    LATER,
    MEANINGS,
    NOW,
    OTHER_ORGANIZATION,
    OUR_ORGANIZATION,
    PUBLIC,
    YEARLY,
    Row,
    a2a,
    each_their_own,
    everybody,
    memory,
    operators,
    operators_else_nothing,
    operators_else_refused,
    owners,
    owners_else_nothing,
    rpc,
    signed_in,
    store,
)

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
BEGIN, END = (
    "<!-- matrix: begin, written by `python -m tests.auth.matrix` -->",
    "<!-- matrix: end -->",
)
FORGED = {"messages": [{"role": "user", "content": "forged"}]}
SUPERSTEPS = [{"updates": [{"values": FORGED, "as_node": "__input__"}]}]
STUDIO_PAGE, OTHER_PAGE = (
    {"origin": "https://smith.langchain.com"},
    {"origin": "https://example.com"},
)
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "A" * 22 + "==",
}
CHANNELS = ["values", "messages", "updates", "lifecycle"]
# Where the answer has begun when the platform asks who may see it, the refusal is in the answer.
NO_RUN = '{"__error__":{"error":"HTTPException","message":"404: Run not found"}}'
NO_RUN_EVENT = (
    'event: error\r\ndata: {"error":"HTTPException","message":"404: Run not found"}\r\n\r\n'
)
NO_THREAD_EVENT = (
    'event: error\r\ndata: {"error":"HTTPException","message":"404: Thread not found"}\r\n\r\n'
)
NO_THREAD_REPLY = '{"type":"error","id":1,"error":"unknown_error","message":"404: Thread or assistant not found."}'
NO_INTERRUPT = '{"type":"error","id":1,"error":"no_such_run","message":"No interrupted run is bound to this thread."}'


def command(method: str, **params: Any) -> dict[str, Any]:
    return {"id": 1, "method": method, "params": params}


# What clients of MCP accept.
BOTH = {"accept": "application/json, text/event-stream"}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return rpc("tools/call", name=tool, arguments=arguments)


# fmt: off
OF_THE_PAGE = [
    Row("GET /app", "the page", PUBLIC),
    Row("GET /app/{name:path}", "a file of the page", PUBLIC, at="/app/main.js"),
    Row("GET /app/{name:path}", "a file that the page does not have", everybody(404, "public"), at="/app/api/app.py"),
]
# Where a program learns at which provider people sign in.
DISCOVERY = [
    Row("GET /.well-known/oauth-protected-resource", "where people sign in", PUBLIC),
    Row("GET /.well-known/oauth-protected-resource/memory/mcp", "the same, of memory by MCP", PUBLIC),
]
OF_EVERYBODY = {
    "Everybody's memory": [
        Row("GET /memory/operations", "what is due for consolidation", operators(), shows="due"),
    ],
}
LAST_GRAPH = "consolidation_agent"
CONSOLIDATION = assistant_of(LAST_GRAPH)
NO_TOOL = '{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"Unknown tool: consolidation_agent"}}'
MATRIX: dict[str, list[Row]] = {
    "What the server says of itself": [
        Row("GET /", "health", PUBLIC),
        Row("GET /ok", "health", PUBLIC),
        Row("GET /info", "versions", PUBLIC),
        Row("GET /metrics", "counters", PUBLIC, needs="finished"),
        Row("GET /metrics", "counters as JSON", PUBLIC, needs="finished", query="format=json"),
        Row("GET /docs", "this API, to look at", PUBLIC),
        Row("GET /openapi.json", "this API", PUBLIC),
        *OF_THE_PAGE,
        *DISCOVERY,
        Row("GET /ui/*", "files of a graph's own interface (there is none)", everybody(500, "public"), at="/ui/agent/x.js",
            headers={"connection": "close"}),
        Row("POST /ui/{graph_id}", "a graph's own interface (there is none)", signed_in(404, "refused"), {"name": "x"}),
    ],
    "Threads": [
        Row("POST /threads", "create, in the owner's name", each_their_own(), {"metadata": {"user_id": "<owner>",
            "org_id": "<org>"}}, changes=True),
        Row("POST /threads", "create one that exists", owners(no=409), {"thread_id": "<thread>", "if_exists": "do_nothing"},
            "thread", shows="<said>"),
        Row("POST /threads", "create one that exists, with state", owners(no=409), {"thread_id": "<thread>",
            "if_exists": "do_nothing", "supersteps": SUPERSTEPS}, "thread"),
        Row("POST /threads/search", "by id", owners_else_nothing(), {"ids": ["<thread>"]}, "thread", shows="<said>",
            instead="[]"),
        Row("POST /threads/search", "by owner", owners_else_nothing(), {"metadata": {"user_id": "<owner>", "org_id": "<org>"}},
            "thread", shows="<said>", instead="[]"),
        Row("POST /threads/search", "by what was said", owners_else_nothing(), {"metadata": {"note": "<said>"}}, "thread",
            shows="<said>", instead="[]"),
        Row("POST /threads/search", "extract what was said", owners_else_nothing(), {"ids": ["<thread>"],
            "select": ["thread_id"], "extract": {"x": "values.messages[0].content"}}, "thread", shows="<said>", instead="[]"),
        Row("POST /threads/count", "by what was said", owners_else_nothing(), {"metadata": {"note": "<said>"}}, "thread",
            shows="1", instead="0"),
        Row("POST /threads/prune", "delete", owners(), {"thread_ids": ["<thread>"]}, "thread", changes=True),
        Row("POST /threads/prune", "keep the latest checkpoint (refused by the dev server)", owners(422, meaning="refused"),
            {"thread_ids": ["<thread>"], "strategy": "keep_latest"}, "thread"),
        Row("GET /threads/{thread_id}", "read", owners(), needs="thread", shows="<said>"),
        Row("PATCH /threads/{thread_id}", "change metadata and owner", owners(), {"metadata": {"user_id": "mallory",
            "org_id": "evil", "note": "x"}}, "thread", changes=True),
        Row("DELETE /threads/{thread_id}", "delete", owners(204), needs="thread", changes=True),
        Row("POST /threads/{thread_id}/copy", "copy", owners(no=409), needs="thread", shows="<said>", changes=True),
        Row("GET /threads/{thread_id}/storage", "how much it stores", owners(), needs="thread", shows="<thread>"),
        Row("GET /threads/{thread_id}/state", "state", owners(), needs="thread", shows="<said>"),
        Row("GET /threads/{thread_id}/state", "state with subgraphs", owners(), needs="thread", query="subgraphs=true",
            shows="<said>"),
        Row("POST /threads/{thread_id}/state", "write state", owners(), {"values": FORGED}, "thread", changes=True),
        Row("GET /threads/{thread_id}/state/{checkpoint_id}", "state at a checkpoint", owners(), needs="thread",
            shows="<said>"),
        Row("POST /threads/{thread_id}/state/checkpoint", "state at a checkpoint", owners(),
            {"checkpoint": {"checkpoint_id": "<checkpoint>"}}, "thread", shows="<said>"),
        Row("POST /threads/{thread_id}/state/checkpoint", "the thread named in a checkpoint of one's own", each_their_own(),
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
        Row("GET /threads/{thread_id}/stream", "its runs' events from the beginning", owners_else_nothing(), needs="finished",
            headers={"last-event-id": "-"}, shows="<said>", instead=NO_THREAD_EVENT),
        Row("POST /threads/{thread_id}/stream/events", "its events from the beginning", owners_else_nothing(),
            {"channels": CHANNELS}, "finished", shows="<said>", instead=""),
        Row("WS /threads/{thread_id}/stream/events", "anything: WebSockets are closed", CLOSED, needs="thread", shows="<said>",
            headers=UPGRADE),
        Row("POST /threads/{thread_id}/commands", "start a run", owners_else_nothing(), command("run.start", **NOW), "thread",
            shows='"run_id"', instead=NO_THREAD_REPLY, changes=True),
        Row("POST /threads/{thread_id}/commands", "answer an interrupt there is not", owners_else_nothing(),
            command("input.respond", interrupt_id="x", response="y"), "thread", shows="no_such_interrupt",
            instead=NO_INTERRUPT),
        Row("POST /threads/{thread_id}/commands", "the tree of agents", signed_in(), command("agent.getTree"), "finished",
            shows="no_such_run"),
    ],
    "Runs on a thread": [
        Row("GET /threads/{thread_id}/runs", "list", owners(), needs="run", shows="<run>"),
        Row("POST /threads/{thread_id}/runs", "create", owners(), LATER, "thread", shows="<thread>", changes=True),
        Row("POST /threads/{thread_id}/runs", "create, and the thread if there is none", owners(), {**LATER,
            "if_not_exists": "create"}, "thread", shows="<thread>", changes=True),
        Row("POST /threads/{thread_id}/runs", "interrupt what runs", owners(), {**LATER, "multitask_strategy": "rollback"},
            "run", shows="<thread>", changes=True),
        Row("POST /threads/{thread_id}/runs/wait", "create and wait", owners(), NOW, "thread", shows="<said>", acts=True,
            changes=True),
        Row("POST /threads/{thread_id}/runs/wait", "go on from a checkpoint", owners(), {**NOW,
            "checkpoint": {"checkpoint_id": "<checkpoint>"}}, "thread", shows="<said>", acts=True, changes=True),
        Row("POST /threads/{thread_id}/runs/stream", "create and stream", owners(), NOW, "thread", shows="<said>", acts=True,
            changes=True),
        Row("POST /threads/{thread_id}/runs/crons", "create a cron", operators(), YEARLY, "thread", shows="<thread>"),
        Row("GET /threads/{thread_id}/runs/{run_id}", "read", owners(), needs="run", shows="<said>"),
        Row("GET /threads/{thread_id}/runs/{run_id}", "read, by way of a thread of one's own", signed_in(404, "refused"),
            needs="run", at="/threads/<mine>/runs/<run>"),
        Row("DELETE /threads/{thread_id}/runs/{run_id}", "delete", owners(204), needs="run", changes=True),
        Row("DELETE /threads/{thread_id}/runs/{run_id}", "delete, by way of a thread of one's own", signed_in(404, "refused"),
            needs="run", at="/threads/<mine>/runs/<run>"),
        Row("GET /threads/{thread_id}/runs/{run_id}/join", "wait for it", owners(), needs="finished", shows="<said>"),
        Row("GET /threads/{thread_id}/runs/{run_id}/join", "wait for it by way of a thread of one's own", signed_in(200,
            "nothing"), needs="finished", at="/threads/<mine>/runs/<run>/join", instead=NO_RUN),
        Row("GET /threads/{thread_id}/runs/{run_id}/join", "wait for it, cancel it on leaving", owners(), needs="finished",
            query="cancel_on_disconnect=true", shows="<said>"),
        Row("GET /threads/{thread_id}/runs/{run_id}/stream", "its events", owners_else_nothing(), needs="finished",
            headers={"last-event-id": "-"}, shows="<said>", instead=NO_THREAD_EVENT),
        Row("GET /threads/{thread_id}/runs/{run_id}/stream", "its events by way of a thread of one's own", signed_in(200,
            "nothing"), needs="finished", at="/threads/<mine>/runs/<run>/stream", headers={"last-event-id": "-"},
            instead=NO_RUN_EVENT),
        Row("POST /threads/{thread_id}/runs/{run_id}/cancel", "cancel", owners(202), needs="run", changes=True),
        Row("POST /threads/{thread_id}/runs/{run_id}/cancel", "cancel and roll back", owners(202), needs="run",
            query="action=rollback", changes=True),
        Row("POST /threads/{thread_id}/runs/{run_id}/cancel", "cancel, by way of a thread of one's own", signed_in(404,
            "refused"), needs="run", at="/threads/<mine>/runs/<run>/cancel"),
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
        Row("POST /mcp", "list tools", signed_in(), rpc("tools/list"), shows='"name":"agent"'),
        Row("POST /mcp", "call the agent", each_their_own(), rpc("tools/call", name="agent", arguments=HELLO), acts=True),
        Row("POST /mcp", "call the agent in the owner's name", each_their_own(), rpc("tools/call", name="agent",
            arguments=HELLO, context={"user_id": "x", "org_id": "y"}), acts=True),
        Row("POST /mcp", "call consolidation", operators_else_nothing(), rpc("tools/call", name=LAST_GRAPH, arguments=HELLO),
            shows="content", instead=NO_TOOL),
    ],
    "One's own memory by MCP": [
        Row("GET /memory/mcp", "events (there are none)", signed_in(405, "refused")),
        Row("DELETE /memory/mcp", "end a session (there are none)", signed_in(405, "refused")),
        Row("POST /memory/mcp", "open a session", signed_in(), rpc("initialize", protocolVersion="2025-06-18",
            capabilities={}, clientInfo={"name": "x", "version": "1"}), headers=BOTH, shows="protocolVersion"),
        Row("POST /memory/mcp", "list tools", signed_in(), rpc("tools/list"), headers=BOTH, shows='"name":"remember"'),
        Row("POST /memory/mcp", "ask for all that is known", each_their_own(), call("what_do_you_know"), headers=BOTH,
            shows="<kept>"),
        Row("POST /memory/mcp", "search what is remembered", each_their_own(), call("search_memory", query="kept"),
            headers=BOTH, shows="<kept>"),
        Row("POST /memory/mcp", "remember", each_their_own(), call("remember", fact="x"), headers=BOTH, changes=True),
        Row("POST /memory/mcp", "correct a line", each_their_own(), call("correct", line="kept", correct="x"), headers=BOTH,
            changes=True),
        Row("POST /memory/mcp", "forget a line", each_their_own(), call("forget", line="kept"), headers=BOTH, changes=True),
        Row("POST /memory/mcp", "ask for all that is known of the owner by name", signed_in(422, "refused"),
            call("what_do_you_know"), query="user_id=<owner>&org_id=<org>", headers=BOTH),
    ],
    "Runs by A2A": [
        Row("GET /.well-known/agent-card.json", "an assistant's card", signed_in(), query=f"assistant_id={AGENT}", shows=AGENT),
        Row("GET /a2a/{assistant_id}/.well-known/agent-card.json", "an assistant's card", signed_in(), shows=AGENT),
        Row("GET /a2a/{assistant_id}/.well-known/agent.json", "an assistant's card", signed_in(), shows=AGENT),
        Row("GET /.well-known/agent-card.json", "consolidation's card", operators_else_refused(400),
            query=f"assistant_id={CONSOLIDATION}", shows=CONSOLIDATION),
        Row("GET /a2a/{assistant_id}/.well-known/agent-card.json", "consolidation's card", operators_else_refused(400),
            at=f"/a2a/{CONSOLIDATION}/.well-known/agent-card.json", shows=CONSOLIDATION),
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
        Row("POST /assistants", "create one that exists", operators(), {"graph_id": "agent", "assistant_id": "<assistant>",
            "if_exists": "do_nothing"}, "assistant", shows="<assistant>"),
        Row("POST /assistants/search", "search", signed_in(), {"graph_id": LAST_GRAPH}, shows=LAST_GRAPH),
        Row("POST /assistants/count", "count", signed_in(), {"graph_id": LAST_GRAPH}, shows="1"),
        Row("GET /assistants/{assistant_id}", "read", signed_in(), needs="assistant", shows="<assistant>"),
        Row("GET /assistants/{assistant_id}/graph", "its graph", signed_in(), needs="assistant", shows="nodes"),
        Row("GET /assistants/{assistant_id}/schemas", "its schemas", signed_in(), needs="assistant", shows="input_schema"),
        Row("GET /assistants/{assistant_id}/subgraphs", "its subgraphs", signed_in(), needs="assistant"),
        Row("GET /assistants/{assistant_id}/subgraphs/{namespace}", "a subgraph", signed_in(), needs="assistant"),
        Row("POST /assistants/{assistant_id}/versions", "its versions", signed_in(), {}, "assistant", shows="<assistant>"),
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
        *store("team", owners(no=403), "<plan>"),
        *store("policies", OUR_ORGANIZATION, "<rule>"),
        *store("policies-elsewhere", OTHER_ORGANIZATION, "<rule-elsewhere>"),
        *store("skills", operators(), "<skill>"),
        Row("POST /store/items/search", "all memories", operators(), {"namespace_prefix": ["memories"], "limit": 1000},
            shows="<kept>"),
        Row("POST /store/items/search", "all memories, by a filter", operators(), {"namespace_prefix": ["memories"],
            "filter": {"encoding": {"$eq": "utf-8"}}, "limit": 1000}, shows="<kept>"),
        Row("POST /store/items/search", "everything", operators(), {"namespace_prefix": [], "limit": 1000}, shows="<kept>"),
        Row("POST /store/items/search", "below a memory", operators(), {"namespace_prefix": ["memories", "<memory:1>", "x"]}),
        Row("POST /store/items/search", "a memory by wildcard", operators(), {"namespace_prefix": ["memories", "*"]}),
        Row("POST /store/namespaces", "all", operators(), {"limit": 1000}, shows="<memory:1>"),
        Row("POST /store/namespaces", "by suffix", operators(), {"suffix": ["<memory:1>"]}, shows="<memory:1>"),
        Row("POST /store/namespaces", "by wildcard", operators(), {"prefix": ["memories", "*"], "limit": 1000},
            shows="<memory:1>"),
        Row("POST /store/namespaces", "all of one's organization's, by suffix and prefix", operators(),
            {"prefix": ["memories"], "suffix": ["<memory:1>"]}, shows="<memory:1>"),
    ],
    "A person's own memory": [*memory()],
    **OF_EVERYBODY,
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
    """The matrix as the Markdown between the markers of docs/matrix.md."""
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
