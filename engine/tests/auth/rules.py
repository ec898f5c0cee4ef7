"""How the authorization matrix says who may do what: callers, outcomes, and a row."""

from dataclasses import dataclass, field
from typing import Any

CALLERS = ("no token", "junk token", "another user", "same identity, other organization", "owner", "operator")
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
OUR_POLICIES = rule(Cell(200, "yes"), Cell(200, "own"), Cell(200, "yes"), Cell(200, "own"))
# A team's file by its path: another team has none, who has no claim has no such folder, and nobody has one by another's name.
OUR_TEAM = rule(Cell(404, "refused"), Cell(404, "refused"), Cell(200, "yes"), Cell(422, "refused"))
NO_TEAM = rule(Cell(403, "refused"), Cell(403, "refused"), Cell(403, "refused"), Cell(422, "refused"))
OTHER_ORGANIZATION = rule(Cell(403, "refused"), Cell(200, "yes"), Cell(403, "refused"), Cell(200, "yes"))


@dataclass(frozen=True)
class Row:
    """A way to call a route, and what each caller gets.

    Texts may hold <names>: <thread>, <run>, <checkpoint>, <cron>, <assistant> (made for the row, by or for the owner),
    <mine> (a thread of the caller's own), <owner>, <org>, <said>, <kept> and <plan> (the owner's secrets: in the conversation,
    in memory, in their team's folder), <rule>, <rule-elsewhere>, <skill> and the namespaces <memory>, <team>, <policies>,
    <policies-elsewhere>, <skills>.
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
    def reads(self) -> bool:
        """Whether it can change nothing: what waits for a run can cancel it."""
        return self.method == "GET" and self.needs not in ("run", "finished")

    @property
    def name(self) -> str:
        return f"{self.route}: {self.what}"


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}
