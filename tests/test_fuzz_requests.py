"""Fuzz: whatever somebody sends to whatever route, nothing of another person's is shown or changed, and every run ends.

Black box: the requests come from the server's own document (`tests/fuzz/`), the verdict from what the attacker is answered,
what the model is shown, and what the victim has before and after. A failure prints the smallest request that still fails.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
import pytest

from testing.dev_server import DevServer
from testing.scripted_anthropic import ScriptedAnthropic, last_user_text
from tests.access.matrix import ROWS
from tests.access.world import ACCEPT, Answer, World, body_of, filled
from tests.conftest import model_env
from tests.fuzz.cases import Case
from tests.fuzz.people import Attacker, Victim
from tests.fuzz.requests import Requests

pytestmark = pytest.mark.server

AT_ONCE = 40
GROUP = 25  # cases on one victim: when she is changed, these are tried again one by one
ANSWER_SECONDS = 60.0  # until an answer begins
READ_SECONDS = 20.0  # of one that has begun; what it would go on to show is looked for in what it leaves behind
LISTEN_SECONDS = 3.0  # of one that goes on with what happens next on a thread
STUCK_SECONDS = 15.0  # without any run of an attacker's ending
SHRUNK = 8  # findings of different kinds that are made small
ROUNDS = 6  # of making one smaller
ENDED = {"success", "error", "timeout", "interrupted"}
Result = TypeVar("Result")
_MARK = re.compile(r"\b(?:said|kept|rule|skill)-[0-9a-f]{32}\b")
_TAG = re.compile(r"\bask-[0-9a-f]{32}\b")

# 500s of the platform's own, whoever is named: it takes what its document describes, and then does not know what to do with it.
PLATFORM_ERRORS: dict[str, Callable[[Any], bool]] = {
    # An object, where langgraph wants one with "configurable" in it.
    "POST /threads/{thread_id}/history": lambda body: isinstance(body.get("before"), dict),
    # Optional in the document, required in the code.
    "POST /store/items/search": lambda body: body.get("namespace_prefix") is None,
    # A refusal of the run that a tool's call starts becomes a 500, whatever its status was.
    "POST /mcp": lambda body: body["method"] == "tools/call" and body["params"].get("context") is not None,
}

# Routes with a body on which people succeed with what is their own, by the matrix.
OPEN = {row.route for row in ROWS if row.body is not None and row.rule[4].meaning == "yes" and not row.last}


@dataclass
class Trial:
    """A case that was sent, by whom, and the answer; status 0 where none came."""

    case: Case
    attacker: Attacker
    request: dict[str, Any] = field(default_factory=dict)
    answer: Answer = field(default_factory=lambda: Answer(0, ""))

    @property
    def accepted(self) -> bool:
        """Whether the server did what it was asked for; some routes refuse with 200 and an error."""
        refused = any(sign in body_of(self.answer) for sign in ('"type":"error"', '"id":"1","error"'))
        return self.answer.status in range(100, 300) and not refused


@dataclass
class Finding:
    """What is wrong, and which requests it may come from."""

    what: str
    suspects: Sequence[Trial]
    detail: str = ""


@dataclass
class Fuzz:
    """Sends cases to a server and judges them."""

    server: DevServer
    model: ScriptedAnthropic
    http: httpx.AsyncClient

    async def examine(self, cases: Sequence[Case], group: int = GROUP) -> tuple[list[Trial], list[Finding]]:
        """Send all cases at the same time, `group` of them to one victim; the answers, and what is wrong."""
        victims = [Victim(self.server, self.http) for _ in range(0, len(cases), group)]
        await _each(victim.settle_in() for victim in victims)
        before, asked = await self._snapshot(victims), len(self.model.requests)
        trials = [Trial(case, self._attacker(case, victims[number // group])) for number, case in enumerate(cases)]
        await _each(map(self._send, trials))
        findings = await self._endless(trials)
        findings += [finding for findings in await _each(map(self._shown, trials)) for finding in findings]
        findings += self._told(trials, self.model.requests[asked:])
        for number, (old, new) in enumerate(zip(before, await self._snapshot(victims), strict=True)):
            suspects = trials[number * group : (number + 1) * group]
            changed = [name for name in old if old[name] != new[name]]
            findings += [
                Finding(f"changed: {_anonymous(name)} of hers", suspects, _difference(old[name], new[name])) for name in changed
            ]
        return trials, findings

    def _attacker(self, case: Case, victim: Victim) -> Attacker:
        return Attacker(self.server, self.http, victim=victim, elsewhere=case.elsewhere)

    async def _send(self, trial: Trial) -> None:
        case, attacker = trial.case, trial.attacker
        parts = case.parts()
        await attacker.settle_in(json.dumps([case.route, parts]))
        parts = filled(parts, {**attacker.victim.spelled(), **attacker.names})
        # What is asked there, so that what the model is shown tells in which request's run.
        parts = json.loads(json.dumps(parts).replace('"hello"', json.dumps(attacker.names["said"])))
        method, route = case.route.split(" ")
        path = filled(route.replace("{", "<").replace("}", ">"), parts["path"])
        path = str(httpx.URL(path, params=_texts(parts["query"])))
        trial.request = {"request": f"{method} {path}", "headers": parts["headers"], "body": parts["body"]}
        headers = {**ACCEPT, **_texts(parts["headers"]), **attacker.headers("owner")}
        if method == "WS":
            trial.answer = await attacker._talk(path, parts["body"], headers, "")
        else:
            listens = route.endswith("/stream/events") or (method == "GET" and route.endswith("/stream"))
            trial.answer = await self._answer(method, path, headers, parts["body"], LISTEN_SECONDS if listens else READ_SECONDS)
        await attacker.clear_away()

    async def _answer(self, method: str, path: str, headers: dict[str, str], body: Any, seconds: float) -> Answer:
        """The answer, as far as it comes within `seconds` of its beginning."""
        status, text = 0, ""
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS) as limit,
                self.http.stream(method, path, json=body, headers=headers) as response,
            ):
                status, text = response.status_code, f"{response.headers}\n\n"
                limit.reschedule(asyncio.get_running_loop().time() + seconds)
                async for part in response.aiter_text():
                    text += part
        except (TimeoutError, httpx.TransportError) as error:
            text += repr(error) if status == 0 else ""
        return Answer(status, text)

    async def _snapshot(self, victims: Sequence[Victim]) -> list[dict[str, Any]]:
        """What each has, as an operator sees it."""
        items: list[dict[str, Any]] = []
        while len(items) % 1000 == 0:
            body = {"namespace_prefix": [], "limit": 1000, "offset": len(items)}
            page = (await self._studio("/store/items/search", body))["items"]
            items += page
            if not page:
                break
        return await _each(victim.everything(items) for victim in victims)

    async def _studio(self, path: str, body: dict[str, Any]) -> Any:
        return await World(self.server, self.http).api("studio", "POST", path, body)

    async def _endless(self, trials: Sequence[Trial]) -> list[Finding]:
        """Wait until none of their runs goes on; those that still do when none has ended for a while."""
        people = {(trial.attacker.owner, trial.attacker.org): trial for trial in trials}
        planned = {trial.attacker.victim.names["planned thread"] for trial in trials}
        busy: dict[str, Trial] = {}
        quiet = 0.0
        while quiet < STUCK_SECONDS:
            threads = await self._studio(
                "/threads/search", {"status": "busy", "limit": 1000, "select": ["thread_id", "metadata"]}
            )
            owners = {of["thread_id"]: (of["metadata"].get("user_id"), of["metadata"].get("org_id")) for of in threads}
            now = {thread: people[owner] for thread, owner in owners.items() if owner in people and thread not in planned}
            if quiet:  # a thread stays busy when its last run was rolled back before it began
                now = {thread: trial for thread, trial in now.items() if await self._goes_on(thread)}
            if not now:
                return []
            quiet = quiet + 0.25 if now.keys() <= busy.keys() else 0.0
            busy = now
            await asyncio.sleep(0.25)
        return [Finding("a run never ends", [trial], f"thread {thread} is busy") for thread, trial in busy.items()]

    async def _goes_on(self, thread: str) -> bool:
        answer = await self.http.get(f"/threads/{thread}/runs?limit=1000", headers={"x-auth-scheme": "langsmith"})
        return answer.is_success and any(run["status"] not in ENDED for run in answer.json())

    async def _shown(self, trial: Trial) -> list[Finding]:
        """What is wrong with an answer, and with what the attacker sees of their own afterwards."""
        attacker, headers = trial.attacker, trial.attacker.headers("owner")
        threads = await self.http.post("/threads/search", json={"limit": 1000}, headers=headers)
        runs = await self.http.get(f"/threads/{attacker.names['mine']}/runs?limit=1000", headers=headers)
        texts = {"the answer": trial.answer.text, "the attacker's threads": threads.text, "the attacker's runs": runs.text}
        secrets = attacker.victim.secrets_from(trial.case.elsewhere)
        shown = [(where, secret) for where, text in texts.items() for secret in secrets if secret in text]
        findings = [Finding(f"shown in {where}: {_kind(secret)}", [trial], texts[where][-1500:]) for where, secret in shown]
        if runs.is_success and any(run["status"] not in ENDED for run in runs.json()):
            findings.append(Finding("a run never ends", [trial], runs.text[:1500]))
        status, known = trial.answer.status, PLATFORM_ERRORS.get(trial.case.route)
        if status == 0 or (status >= 500 and not (known and known(trial.request["body"]))):
            findings.append(Finding(f"status {status} of {trial.case.route}", [trial], trial.answer.text[-1500:]))
        return findings

    def _told(self, trials: Sequence[Trial], prompts: Sequence[Any]) -> list[Finding]:
        """What the model is shown of hers: in a run of a request's, which what was asked tells, or in nobody knows whose."""
        by_tag = {trial.attacker.names["said"]: trial for trial in trials}
        findings = []
        for prompt in prompts:
            tags = _TAG.findall(last_user_text(prompt)) or _TAG.findall(json.dumps(prompt["messages"]))
            suspects = [by_tag[tag] for tag in tags[-1:] if tag in by_tag] if tags else list(trials)
            secrets = {mark for of in suspects for mark in of.attacker.victim.secrets_from(of.case.elsewhere)}
            marks = secrets & set(_MARK.findall(json.dumps(prompt)))
            findings += [Finding(f"shown to the model: {_kind(mark)}", suspects) for mark in marks]
        return findings

    async def smallest(self, finding: Finding) -> str:
        """The smallest request that still does what was found."""

        async def again(cases: Sequence[Case]) -> list[Trial]:
            _, findings = await self.examine(cases, group=1)
            return [one.suspects[0] for one in findings if one.what == finding.what and len(one.suspects) == 1]

        cases, smallest = [trial.case for trial in finding.suspects], None
        for _ in range(ROUNDS):
            failing = await again(cases) if cases else []
            if not failing:
                break
            smallest = min(failing, key=lambda trial: len(trial.case.edits))
            cases = list(_smaller(smallest.case))
        return json.dumps(smallest.request) if smallest else f"none of {len(finding.suspects)} suspects does it alone"


async def _each(coroutines: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results of all, some of them at once."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(coroutine: Coroutine[Any, Any, Result]) -> Result:
        async with room:
            return await coroutine

    return await asyncio.gather(*map(one, coroutines))


def _smaller(case: Case) -> Iterator[Case]:
    """The case with nothing put into it, one thing, half of them, or all but one."""
    edits, half = case.edits, len(case.edits) // 2
    smaller = [(edit,) for edit in edits] + [edits[:half], edits[half:]]
    smaller += [edits[:left] + edits[left + 1 :] for left in range(len(edits))] if len(edits) < 9 else []
    yield from (case.only(*fewer) for fewer in [(), *smaller] if len(fewer) < len(edits))


def _anonymous(name: str) -> str:
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "...", name)


def _difference(old: Any, new: Any) -> str:
    """Both, from a little before the first character in which they differ."""
    texts = json.dumps(old), json.dumps(new)
    begin = max(0, next((n for n, pair in enumerate(zip(*texts, strict=False)) if len(set(pair)) > 1), 0) - 100)
    return " became ".join(text[begin : begin + 600] for text in texts)


def _kind(secret: str) -> str:
    return f"what she has as {secret.partition('-')[0]!r}" if _MARK.fullmatch(secret) else "an id of hers that nobody was told"


def _texts(values: dict[str, Any]) -> dict[str, str]:
    """Values as a query or as headers hold them."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedAnthropic]:
    with ScriptedAnthropic() as model:
        yield model


@pytest.fixture(scope="module")
def fuzzed(scripted: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A server of the fuzz's own."""
    with DevServer(tmp_path_factory.mktemp("fuzz"), env=model_env(scripted)) as server:
        yield server


def connection(server: DevServer) -> httpx.AsyncClient:
    """A client with a connection for every request: the server may close one on which it refused a body unread."""
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False, limits=limits)


def rates(trials: Sequence[Trial]) -> dict[str, tuple[int, int]]:
    """How many requests each route was sent, and how many of them it accepted."""
    sent = Counter(trial.case.route for trial in trials)
    accepted = Counter(trial.case.route for trial in trials if trial.accepted)
    return {route: (sent[route], accepted[route]) for route in sorted(sent)}


@pytest.fixture(scope="module")
def document(fuzzed: DevServer) -> Any:
    """What the running server says of itself."""
    return httpx.get(f"{fuzzed.url}/openapi.json", trust_env=False).json()


@pytest.mark.parametrize(("count", "seed"), [(150, 13), pytest.param(1500, 2, marks=pytest.mark.proof)])
async def test_no_request_shows_or_changes_what_is_another_s_and_every_run_ends(
    fuzzed: DevServer, scripted: ScriptedAnthropic, document: Any, count: int, seed: int
) -> None:
    requests = Requests(document, seed)
    async with connection(fuzzed) as http:
        fuzz = Fuzz(fuzzed, scripted, http)
        trials, findings = await fuzz.examine([*requests.cases(count), *requests.plain(OPEN)])
        kinds = {finding.what: finding for finding in reversed(findings)}
        order = sorted(kinds.values(), key=lambda finding: (finding.what.startswith("status"), len(finding.suspects)))
        smallest = await asyncio.gather(*map(fuzz.smallest, order[:SHRUNK]))
    lines = [f"{sum(finding.what == what for finding in findings)} times {what}" for what in kinds]
    lines += [f"{of.what}\n  {request}\n  {of.detail[:1500]}" for of, request in zip(order, smallest, strict=False)]
    if findings:
        pytest.fail("\n".join(lines), pytrace=False)
    # Else nothing was tried: the server takes most of what people may do, and of every such route something.
    taken = rates(trials)
    print(*(f"{accepted} of {sent} accepted: {route}" for route, (sent, accepted) in taken.items()), sep="\n")  # noqa: T201
    sent, accepted = (sum(numbers) for numbers in zip(*(taken[route] for route in OPEN), strict=True))
    assert accepted >= 0.6 * sent, taken
    assert [route for route in OPEN if taken[route][1] == 0] == []


def test_every_route_with_a_body_is_tried(document: Any) -> None:
    requests = Requests(document, 1)
    assert sum(operation.schema is not None for operation in requests.operations) > 30, "the document describes no bodies"
    tried = {case.route for case in requests.cases(1500)}
    assert {operation.route for operation in requests.operations} == tried


def test_a_field_and_a_route_that_a_new_version_adds_are_tried(document: Any) -> None:
    house = {"type": "object", "properties": {"within": {"type": "object", "properties": {"house_id": {"type": "string"}}}}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/House"}}}}
    added = {
        "paths": document["paths"] | {"/houses": {"post": {"requestBody": body}}},
        "components": {"schemas": document["components"]["schemas"] | {"House": house}},
    }
    requests = Requests({**document, **added}, 1)
    places = {edit.where for case in requests.cases(1500) if case.route == "POST /houses" for edit in case.edits}
    assert {place[:-1] for place in places} >= {("body",), ("body", "within"), ("body", "config", "configurable"), ("headers",)}
    assert any("house_id" in names for names in requests.keys.values())
