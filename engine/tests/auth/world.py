"""One owner's world on a server, everyone else who calls, and a model that says what it was shown."""

import asyncio
import json
import re
import uuid
from dataclasses import dataclass, field
from typing import Any

import httpx

from lasting_memory.people import identity, namespaces
from lasting_memory.people.scopes import group
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, dev_token
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import Body, Text
from tests.aegra.servers import AegraServer
from tests.auth.rules import CALLERS, LATER, YEARLY, Row

ANSWER_SECONDS = 300.0  # a limit, not a wait: an answer ends by itself, or holds what is looked for
ACCEPT = {"Accept": "application/json, text/event-stream"}
_MARKS = re.compile(r"(?:said|kept|plan|rule|skill)-[0-9a-f]{32}")
# Of server-sent events, such as `: heartbeat`.
_COMMENTS = re.compile(r"^:[^\r\n]*\r?\n\r?\n", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    status: int
    text: str  # headers and body


@dataclass
class World:
    """One owner with a conversation and memory, in an organization of their own, and everyone else
    who calls.
    """

    server: DevServer | AegraServer
    http: httpx.AsyncClient
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    names: dict[str, Any] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        return f"alice-{self.id[:8]}@example.com"

    @property
    def org(self) -> str:
        return f"acme-{self.id[:8]}"

    @property
    def other_org(self) -> str:
        return f"globex-{self.id[:8]}"

    @property
    def secrets(self) -> list[str]:
        return [self.names["said"], self.names["kept"], self.names["plan"]]

    def headers(self, caller: str) -> dict[str, str]:
        if caller == "studio":
            return {"x-auth-scheme": "langsmith"}
        if caller == "no token":
            return {}
        tokens = {
            "junk token": "junk",
            "another user": f"{dev_token(self.org, f'mallory-{self.id[:8]}')}?team_id=blue",
            "same identity, other organization": f"{dev_token(self.other_org, self.owner)}?team_id=red",
            "owner": f"{dev_token(self.org, self.owner)}?team_id=red",
            "root": dev_token("default", "root"),
        }
        return {"Authorization": f"Bearer {tokens[caller]}"}

    async def api(self, caller: str, method: str, path: str, body: Any = None) -> Any:
        """The answer to a request that must succeed."""
        response = await self.http.request(method, path, json=body, headers=self.headers(caller))
        assert response.is_success, (method, path, response.text)
        return response.json() if response.content else None

    async def furnish(self, named: str = "kept.md, team, elsewhere") -> None:
        """The owner's memory and the policies of their organization; of what else there can be,
        what is named.
        """
        kinds = ("said", "kept", "rule", "rule-elsewhere", "skill", "plan")
        self.names |= {
            kind: f"{kind}-{uuid.uuid4().hex}" for kind in kinds if kind not in self.names
        }
        owner = identity.Actor(self.owner, self.org)
        memory = deployed().memory.namespace(owner, AGENT)
        self.names |= {"memory:1": memory[1], "owner": self.owner, "org": self.org}
        await self.put("memory", memory, "kept")
        await self.put("policies", namespaces.policies(self.org), "rule")
        if any(name in named for name in ("kept.md", "revised", "offer")):
            await self.put("memory", memory, "kept", "/kept.md")
        if "team" in named:
            await self.put(
                "team", group("team_id").namespace(owner, "", {"team_id": "red"}), "plan"
            )
        if "elsewhere" in named:
            await self.put(
                "policies-elsewhere", namespaces.policies(self.other_org), "rule-elsewhere"
            )

    async def put(
        self,
        whose: str,
        namespace: namespaces.Namespace,
        content: str,
        key: str = "/preferences.md",
    ) -> None:
        self.names |= {whose: list(namespace), f"{whose}.": ".".join(namespace)}
        value = {"content": self.names[content], "encoding": "utf-8"}
        await self.api(
            "studio", "PUT", "/store/items", {"namespace": namespace, "key": key, "value": value}
        )

    async def wait_until_idle(self) -> None:
        """Until what the owner has queued themselves is done."""
        wanted = {"metadata": {"user_id": self.owner, "org_id": self.org}, "status": "busy"}
        while await self.api("studio", "POST", "/threads/count", wanted):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def make(self, kind: str) -> None:
        """Something of the owner's (or of what owners cannot have, an operator's) that a row acts
        on.
        """
        if kind == "assistant":
            body = {"graph_id": "agent", "name": f"assistant {uuid.uuid4().hex}"}
            assistant = (await self.api("studio", "POST", "/assistants", body))["assistant_id"]
            await self.furnish_assistant(assistant)
        elif kind == "offer":
            line = {"path": "/memories/kept.md", "text": self.names["kept"], "keep": True}
            asked = {**line, "folder": "/team/", "group": "red"}
            self.names["offered"] = ["offered", f"{self.org}:team_id:red"]
            self.names["offer"] = (await self.api("owner", "POST", "/memory/offers", asked))["id"]
        elif kind == "revised":
            content = {"content": f"revised {self.names['kept']}"}
            await self.api("owner", "PUT", "/memory/file?path=/memories/kept.md", content)
        elif kind:
            await self._make_thread(kind)

    async def furnish_assistant(self, assistant: str) -> None:
        """An assistant's skills."""
        self.names["assistant"] = assistant
        self.names["skill file"] = f"---\nname: hers\ndescription: {self.names['skill']}\n---\n"
        for named, key in (("skill", "/preferences.md"), ("skill file", "/hers/SKILL.md")):
            await self.put("skills", namespaces.skills(assistant), named, key)

    async def _make_thread(self, kind: str) -> None:
        said = {"messages": [{"role": "user", "content": self.names["said"]}]}
        metadata = {"graph_id": "agent", "note": self.names["said"]}
        thread = (await self.api("owner", "POST", "/threads", {"metadata": metadata}))["thread_id"]
        self.names["thread"] = thread
        if kind == "finished":
            body = {"assistant_id": "agent", "input": said, "stream_resumable": True}
            run = await self.api("owner", "POST", f"/threads/{thread}/runs", body)
            await self.api("owner", "GET", f"/threads/{thread}/runs/{run['run_id']}/join")
            await self.wait_until_idle()  # the run is over a little before the thread knows
            self.names["run"] = run["run_id"]
        else:
            await self.api(
                "studio",
                "POST",
                f"/threads/{thread}/state",
                {"values": said, "as_node": "__start__"},
            )
        if kind == "run":
            self.names["run"] = (
                await self.api("owner", "POST", f"/threads/{thread}/runs", {**LATER, "input": said})
            )["run_id"]
        if kind == "cron":
            cron = {**YEARLY, "input": said}
            self.names["cron"] = (
                await self.api("studio", "POST", f"/threads/{thread}/runs/crons", cron)
            )["cron_id"]
        state = await self.api("studio", "GET", f"/threads/{thread}/state")
        assert self.names["said"] in json.dumps(state)
        self.names["checkpoint"] = state["checkpoint"]["checkpoint_id"]

    async def owned(self) -> dict[str, Any]:
        """What the owner has, as an operator sees it: a change of any of it is seen here."""
        views: dict[str, Any] = {}
        mine = {"metadata": {"user_id": self.owner, "org_id": self.org}, "limit": 1000}
        views["threads"] = await self._seen("POST", "/threads/search", mine)
        shared = ("team", "offered", "policies", "policies-elsewhere", "skills")
        for whose in ("memory", *shared):
            if whose in self.names:
                query = {"namespace_prefix": self.names[whose], "limit": 1000}
                views[whose] = await self._seen("POST", "/store/items/search", query)
        paths = ["/assistants/<assistant>", "/runs/crons/<cron>"]
        paths += [f"/threads/<thread>{part}" for part in ("/state", "/runs?limit=100")]
        for path in paths:
            if path.split("<")[1].split(">")[0] in self.names:
                views[path] = await self._seen("GET", filled(path, self.names))
        return views

    async def stamp(self) -> list[str] | None:
        """Whom the thread says it is of; None where there is none."""
        if "thread" not in self.names:
            return None
        status, thread = await self._seen("GET", f"/threads/{self.names['thread']}")
        return (
            [thread["metadata"].get(key) for key in ("user_id", "org_id")]
            if status == 200
            else None
        )

    async def _seen(self, method: str, path: str, body: Any = None) -> Any:
        response = await self.http.request(method, path, json=body, headers=self.headers("studio"))
        return response.status_code, response.json()

    async def own_thread(self, caller: str, row: Row) -> str:
        """A thread of the caller's own, for rows that go by one; those who cannot sign in go by the
        owner's.
        """
        if "<mine>" not in f"{row.at}{row.body}" or caller in CALLERS[:2]:
            return str(self.names.get("thread"))
        return str(
            (await self.api(caller, "POST", "/threads", {"metadata": {"graph_id": "agent"}}))[
                "thread_id"
            ]
        )

    async def send(self, caller: str, row: Row, *, mine: str = "", until: str = "") -> Answer:
        """The answer to a row's request, read to its end; one that does not end by itself, until it
        holds `until`.

        Raises TimeoutError where neither comes within ANSWER_SECONDS.
        """
        names = {**self.names, "mine": mine}
        path = filled(row.at or _call(row), names) + (
            "?" + filled(row.query, names) if row.query else ""
        )
        headers = {**ACCEPT, **row.headers, **self.headers(caller)}
        # The server may close a connection on which it refused a body unread, so no other request
        # takes this one.
        headers, text = {"Connection": "close", **headers}, ""
        body = None if row.body is None else filled(row.body, names)
        stream = self.http.stream(row.method.replace("WS", "GET"), path, json=body, headers=headers)
        async with asyncio.timeout(ANSWER_SECONDS), stream as response:
            status = response.status_code
            head = str(response.headers)
            async for part in response.aiter_text():
                text += part
                if until and until in text and "event-stream" in head:  # which need not end
                    break
        return Answer(status, f"{head}\n\n{text}")


def _call(row: Row) -> str:
    """The path a row calls: the route's, with the owner's things in it."""
    path = re.sub(r"{(thread|run|checkpoint|cron)_id}", r"<\1>", row.path)
    path = path.replace("{assistant_id}", "<assistant>" if row.needs == "assistant" else AGENT)
    return re.sub(r"{\w+}", "agent", path)


def filled(template: Any, names: dict[str, Any]) -> Any:
    """The template with <name> replaced, in any depth; a text that is nothing else may become a
    list.
    """
    if isinstance(template, dict):
        return {key: filled(value, names) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, names) for value in template]
    if not isinstance(template, str):
        return template
    for name, value in names.items():
        if template == f"<{name}>":
            return value
        template = template.replace(f"<{name}>", str(value))
    return template


def body_of(answer: Answer) -> str:
    """The body, without the comments by which a stream says on a slow machine that its connection
    lives.
    """
    return _COMMENTS.sub("", answer.text.partition("\n\n")[2])


def echo(body: Body) -> list[Text]:
    """A model that says which of the owner's secrets it was shown."""
    return [Text(" ".join(["shown", *_MARKS.findall(json.dumps(body))]))]
