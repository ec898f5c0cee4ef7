"""How the authorization matrix says who may do what: callers, outcomes, a row; and rows that come
in families.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from lasting_memory.testing.people import AGENT

CALLERS = (
    "no token",
    "junk token",
    "another user",
    "same identity, other organization",
    "owner",
    "operator",
)
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
NOW: dict[str, Any] = {"assistant_id": "agent", "input": HELLO}
LATER: dict[str, Any] = {**NOW, "after_seconds": 3600}
YEARLY: dict[str, Any] = {**NOW, "schedule": "0 0 1 1 *", "end_time": "2999-01-01T00:00:00Z"}


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


def rule(stranger: Cell, elsewhere: Cell, owner: Cell, operator: Cell) -> Rule:
    return (Cell(401, "refused"), Cell(401, "refused"), stranger, elsewhere, owner, operator)


def owners(ok: int = 200, no: int = 404, meaning: str = "yes") -> Rule:
    """The owner's and operators'."""
    return rule(Cell(no, "refused"), Cell(no, "refused"), Cell(ok, meaning), Cell(ok, meaning))


def owners_else_nothing(ok: int = 200, no: int = 200) -> Rule:
    return rule(Cell(no, "nothing"), Cell(no, "nothing"), Cell(ok, "yes"), Cell(ok, "yes"))


def operators(ok: int = 200) -> Rule:
    return rule(Cell(403, "refused"), Cell(403, "refused"), Cell(403, "refused"), Cell(ok, "yes"))


def operators_else_refused(no: int) -> Rule:
    """Operators', of what people are told that it is not there."""
    return rule(Cell(no, "refused"), Cell(no, "refused"), Cell(no, "refused"), Cell(200, "yes"))


def operators_else_nothing() -> Rule:
    return rule(Cell(200, "nothing"), Cell(200, "nothing"), Cell(200, "nothing"), Cell(200, "yes"))


def each_their_own(ok: int = 200) -> Rule:
    """Everybody acts as themselves, operators too."""
    return rule(Cell(ok, "own"), Cell(ok, "own"), Cell(ok, "yes"), Cell(ok, "own"))


def own_only(ok: int = 200, no: int = 404) -> Rule:
    """The owner's alone: everybody is asked about their own, which others, operators too, do not
    have.
    """
    return rule(Cell(no, "refused"), Cell(no, "refused"), Cell(ok, "yes"), Cell(no, "refused"))


def signed_in(status: int = 200, meaning: str = "yes") -> Rule:
    """The same for everybody who is signed in."""
    cell = Cell(status, meaning)
    return rule(cell, cell, cell, cell)


def everybody(status: int, meaning: str) -> Rule:
    cell = Cell(status, meaning)
    return (cell, cell, cell, cell, cell, cell)


PUBLIC, CLOSED = everybody(200, "public"), everybody(403, "refused")
# What is shared by all, or by an organization, and written by operators alone: by whom it may be
# read.
OUR_ORGANIZATION = rule(Cell(200, "yes"), Cell(403, "refused"), Cell(200, "yes"), Cell(200, "yes"))
OUR_POLICIES = rule(Cell(200, "yes"), Cell(200, "own"), Cell(200, "yes"), Cell(200, "own"))
# A team's file by its path: another team has none, who has no claim has no such folder, and nobody
# has one by another's name.
OUR_TEAM = rule(Cell(404, "refused"), Cell(404, "refused"), Cell(200, "yes"), Cell(422, "refused"))
NO_TEAM = rule(
    Cell(403, "refused"), Cell(403, "refused"), Cell(403, "refused"), Cell(422, "refused")
)
# An offer to a team in whose folder operators alone write: its author sees it and decides nothing,
# people of another team or organization know of none.
OFFERED = rule(Cell(404, "refused"), Cell(404, "refused"), Cell(403, "refused"), Cell(200, "yes"))
OFFERS = rule(Cell(200, "own"), Cell(200, "own"), Cell(200, "yes"), Cell(200, "yes"))
OTHER_ORGANIZATION = rule(
    Cell(403, "refused"), Cell(200, "yes"), Cell(403, "refused"), Cell(200, "yes")
)


@dataclass(frozen=True)
class Row:
    """A way to call a route, and what each caller gets.

    Texts may hold <names>: <thread>, <run>, <checkpoint>, <cron>, <assistant>, <offer> (made for the
    row, by or for the owner), <mine> (a thread of the caller's own), <owner>, <org>, <said>, <kept> and
    <plan> (the owner's secrets: in the conversation, in memory, in their team's folder), <rule>,
    <rule-elsewhere>, <skill> and the namespaces <memory>, <team>, <policies>, <policies-elsewhere>,
    <skills>.
    """

    route: str  # method and path as the server spells them
    what: str
    rule: Rule
    body: Any = None
    # What is made for it: a thread (with a conversation), a run (waiting), a finished one, a
    # revised file, an offer (to the owner's team), ...
    needs: str = ""
    at: str | None = (
        None  # the path called, where it is not the route's with the names of the same kind
    )
    query: str = ""
    shows: str = ""  # is in the answer of those who get a "yes"
    instead: str | None = None  # is the whole answer of those who get "nothing"
    # A run as its caller: the owner's answer, and no operator's, shows what is remembered
    acts: bool = False
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
    def reads(self) -> bool:
        """Whether it can change nothing: what waits for a run can cancel it."""
        return self.method == "GET" and self.needs not in ("run", "finished")

    @property
    def name(self) -> str:
        return f"{self.route}: {self.what}"


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}


# A refusal inside of an answer.
NO_TASK = (
    '{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"Task not found: <thread>:<run>"}}'
)
NO_TASK_THERE = NO_TASK.replace("<thread>:<run>", "<run> in context '<thread>'")
NO_CONTEXT = (
    '{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"Thread \'<thread>\' not found. Please create the thread'
    ' first before sending messages to it.","data":{"thread_id":"<thread>","error_type":"thread_not_found"}}}'
)
NO_CONTEXT_EVENT = (
    'event: message\r\ndata: {"jsonrpc":"2.0","id":"1","error":{"code":-32603,'
    '"message":"Internal server error"}}\r\n\r\n'
)


def store(whose: str, reading: Rule, shows: str) -> Iterator[Row]:
    """The store API on one namespace: reading as `reading` says, writing for operators."""
    at = f"<{whose}>"
    query = urlencode({"namespace": f"<{whose}.>", "key": "/preferences.md"}, safe="<>")
    item = {"namespace": at, "key": "/preferences.md"}
    # fmt: off
    yield Row("GET /store/items", f"{whose}: get", reading, needs="assistant", query=query, shows=shows)
    yield Row("POST /store/items/search", f"{whose}: search", reading, {"namespace_prefix": at}, "assistant", shows=shows)
    yield Row("POST /store/namespaces", f"{whose}: list namespaces", reading, {"prefix": at}, "assistant")
    yield Row("PUT /store/items", f"{whose}: put", operators(204), {**item, "value": {"content": "forged",
        "encoding": "utf-8"}}, "assistant", changes=True)
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
        (Row("GET /memory/facts", "what is known, in lines", each_their_own(), shows="/memories/kept.md"), {}),
        (Row("GET /memory/changes", "what changed since one looked", each_their_own(), needs="revised", shows="until"), {}),
        (Row("GET /memory/trash", "what was deleted", each_their_own(), shows="files"), {}),
        (Row("PUT /memory/seen", "note that one has looked", each_their_own(), {"until": "2026-01-01T00:00:00Z"},
            shows="since"), {"rule": signed_in(403, "refused")}),
        (Row("GET /memory/file", "read a file", own_only(), query=read, shows="<kept>"), {}),
        (Row("GET /memory/file", "read a file of one's team", OUR_TEAM, query=urlencode({"path": "/team/preferences.md"}),
            shows="<plan>"), {"rule": NO_TEAM}),
        (Row("PUT /memory/file", "write a file", each_their_own(), {"content": "x"}, query=write, shows="revision",
            changes=True), {"query": read}),
        (Row("DELETE /memory/file", "delete a file", own_only(), query=read, shows="revision", changes=True), {}),
        (Row("DELETE /memory/fact", "delete a fact for good", own_only(), {"text": "<kept>"}, query=read, shows="revisions",
            changes=True), {}),
        (Row("POST /memory/confirm", "confirm a line", own_only(), {"text": "<kept>"}, query=read, shows="revision",
            changes=True), {"rule": signed_in(403, "refused")}),
        (Row("GET /memory/history", "a file's history", own_only(), needs="revised", query=read, shows="<kept>"), {}),
        (Row("POST /memory/undo", "make a file what it was", own_only(), undo, "revised", shows="revision", changes=True), {}),
        (Row("GET /memory/export", "take everything along", each_their_own(), needs="thread", shows="<said>"), {}),
        (Row("POST /memory/import", "import", each_their_own(), own, shows="create", changes=True), {"body": named,
            "shows": "append"}),
        *[
            (Row("POST /memory/consolidate", "consolidate now", each_their_own(202), shows="queued", queues=True), {}),
            (Row("POST /memory/consolidate", "see what consolidation would change", each_their_own(), needs="thread",
                query="dry_run=true", shows="dry_run"), {}),
            (Row("POST /memory/consolidate", "tidy one's memory", each_their_own(202), query="tidy=true", shows="queued",
                queues=True), {}),
            (Row("POST /memory/consolidate", "what reading all one's conversations again would take", each_their_own(),
                query="from=beginning", shows="tokens"), {"rule": signed_in(403, "refused")}),
            (Row("GET /memory/dream", "how far that is", each_their_own(), shows="dream"), {}),
            (Row("DELETE /memory/dream", "stop it (there is none)", signed_in(404, "refused")),
                {"rule": signed_in(403, "refused")}),
            (Row("POST /memory/bring", "bring along what another assistant knows", each_their_own(), {"text": "- likes leek"},
                shows="proposal"), {"rule": signed_in(403, "refused")}),
        ],
        (Row("GET /memory/controls", "what was decided", each_their_own(), shows="paused"), {}),
        (Row("PUT /memory/controls", "decide", each_their_own(), {"paused": False, "review": False}, shows="paused"),
            {"rule": signed_in(403, "refused")}),
        *[
            (Row("GET /memory/proposals", "what is proposed", each_their_own(), shows="proposals"), {}),
            (Row("POST /memory/proposals/{proposal_id}", "decide about a proposal (there is none)", signed_in(404, "refused"),
                {"accept": True}, at="/memory/proposals/<run>", needs="run"), {"rule": signed_in(403, "refused")}),
            (Row("GET /memory/consolidations", "what consolidation did", each_their_own(), shows="consolidations"), {}),
        ],
        *[
            (Row("GET /memory/offers", "what is offered to groups", OFFERS, needs="offer", shows="<kept>"), {}),
            (Row("POST /memory/offers", "offer a line to one's team", own_only(), {"path": "/memories/kept.md",
                "text": "<kept>", "folder": "/team/", "group": "red", "keep": True}, shows="<kept>"),
                {"rule": signed_in(403, "refused")}),
            (Row("POST /memory/offers/{offer_id}", "decide about what is offered to a team", OFFERED, {"accept": True},
                "offer", "/memory/offers/<offer>", shows="from-members.md", changes=True),
                {"rule": signed_in(403, "refused")}),
            (Row("DELETE /memory/offers/{offer_id}", "withdraw an offer", own_only(), None, "offer",
                "/memory/offers/<offer>", shows="<offer>", changes=True), {"rule": signed_in(403, "refused")}),
        ],
        (Row("GET /memory/me", "who one is, and how memory is kept", each_their_own(), shows="<owner>"), {}),
        (Row("GET /memory/find", "search what is remembered", each_their_own(), query="q=kept", shows="found"), {}),
        (Row("GET /memory/search", "search past conversations", each_their_own(), needs="thread", query="q=<said>",
            shows="<said>"), {}),
        (Row("GET /memory/interrupts", "what waits in a conversation", owners(), needs="thread", query="thread_id=<thread>",
            shows="interrupts"), {}),
        (Row("GET /memory/policies", "one's organization's rules", OUR_POLICIES, shows="<rule>"), {}),
        (Row("GET /memory/prompt", "what the model is shown next", each_their_own(), shows="<kept>"), {}),
        (Row("DELETE /memory", "be forgotten", each_their_own(), needs="thread", shows="deleted", changes=True, last=True),
            {"last": False}),
    ]
    # fmt: on
    for row, otherwise in rows:
        yield row
        by_name: dict[str, Any] = {"query": row.query, **otherwise}
        by_name["query"] = "&".join(
            filter(None, [by_name["query"], "user_id=<owner>&org_id=<org>"])
        )
        yes = max((cell.status for cell in row.rule if cell.status < 300), default=200)
        yield replace(
            row, **{"what": f"{row.what}, of the owner by name", "rule": operators(yes), **by_name}
        )


def a2a_message(**more: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "kind": "message",
        "messageId": "1",
        "parts": [{"kind": "text", "text": "hello"}],
        **more,
    }


def a2a(path: str) -> Iterator[Row]:
    """A2A, which the server has at this path with and without a slash at its end: the same, so that
    is tried with a run.
    """
    # fmt: off
    yield Row(f"GET {path}", "an assistant's card", signed_in(), shows=AGENT)
    yield Row(f"DELETE {path}", "end a session (there are none)", signed_in(405, "refused"))
    yield Row(f"POST {path}", "send a message and stream", each_their_own(), rpc("message/stream", message=a2a_message()),
        acts=True, queues=True)
    if path.endswith("/"):
        return
    yield Row(f"POST {path}", "send a message into the conversation", owners_else_nothing(), rpc("message/send",
        message=a2a_message(contextId="<thread>")), "thread", shows="<thread>", acts=True, instead=NO_CONTEXT, changes=True)
    yield Row(f"POST {path}", "send a message", each_their_own(), rpc("message/send", message=a2a_message()), acts=True)
    yield Row(f"POST {path}", "send a message into the conversation and stream", owners_else_nothing(), rpc("message/stream",
        message=a2a_message(contextId="<thread>")), "thread", shows="<thread>", acts=True, instead=NO_CONTEXT_EVENT,
        changes=True)
    yield Row(f"POST {path}", "get a task", owners_else_nothing(), rpc("tasks/get", id="<thread>:<run>"), "finished",
        shows="<said>", instead=NO_TASK)
    yield Row(f"POST {path}", "get a task by the conversation", owners_else_nothing(), rpc("tasks/get", id="<run>",
        contextId="<thread>"), "finished", shows="<said>", instead=NO_TASK_THERE)
    yield Row(f"POST {path}", "cancel a task", owners_else_nothing(), rpc("tasks/cancel", id="<thread>:<run>"), "run",
        shows="<run>", instead=NO_TASK, changes=True)
    yield Row(f"POST {path}", "list tasks", owners_else_nothing(), rpc("ListTasks", contextId="<thread>"), "finished",
        shows="<said>",
        instead='{"jsonrpc":"2.0","id":"1","result":{"tasks":[],"totalSize":0,"pageSize":0,"nextPageToken":""}}')
    yield Row(f"POST {path}", "the extended card", signed_in(), rpc("GetExtendedAgentCard"), shows=AGENT)
