"""Who is in the fuzz: a victim with something of every kind, and attackers who have next to nothing."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from memory import identity, namespaces
from memory.identity import DEFAULT_AGENT_ASSISTANT as AGENT
from settings import Settings
from tests.access.world import World, filled


class Victim(World):
    """Somebody with conversations, memory, a planned run, a cron, policies, and an assistant with a skill."""

    hidden: tuple[str, ...] = ()  # ids of a conversation that no request names

    async def settle_in(self) -> None:
        await self.furnish()
        await self.make("assistant")
        skill = f"---\nname: hers\ndescription: {self.names['skill']}\n---\n{self.names['skill']}"
        value = {"content": skill, "encoding": "utf-8"}
        item = {"namespace": self.names["skills"], "key": "/hers/SKILL.md", "value": value}
        await self.api("studio", "PUT", "/store/items", item)
        await self.make("revised")
        await self.make("cron")
        await self.make("run")
        self.names |= {"planned thread": self.names["thread"], "planned run": self.names["run"]}
        await self.make("finished")
        self.hidden = (self.names["thread"], self.names["run"], self.names["checkpoint"])
        await self.make("finished")

    def spelled(self) -> dict[str, Any]:
        """Her names as requests spell them: also in capitals, without hyphens, and as a URN."""
        spelled = {f"her {name}": value for name, value in self.names.items()}
        for name, value in self.names.items():
            text = str(value)
            spelled |= {f"HER {name}": text.upper(), f"hex {name}": text.replace("-", ""), f"urn {name}": f"urn:uuid:{text}"}
        return spelled

    def secrets_from(self, elsewhere: bool) -> list[str]:
        """What of hers an attacker must not be shown; her organization's policies are her colleagues', too."""
        return [*(self.names[name] for name in ("said", "kept", "skill")), *self.hidden, *[self.names["rule"]] * elsewhere]

    async def everything(self, store: list[dict[str, Any]]) -> dict[str, Any]:
        """All that she has, as an operator sees it; `store` is all there is in the server's store."""
        labels = {self.names["memory:1"], self.names["policies"][1], self.names["skills"][1]}
        views: dict[str, Any] = {"the store": sorted(json.dumps(item) for item in store if labels & set(item["namespace"]))}
        mine = {"metadata": {"user_id": self.owner, "org_id": self.org}, "limit": 1000}
        views["threads"] = await self._seen("POST", "/threads/search", mine)
        for thread in (self.names["thread"], self.names["planned thread"], self.hidden[0]):
            views |= {path: await self._seen("GET", path) for path in _paths_of(thread)}
            views[f"history of {thread}"] = await self._seen("POST", f"/threads/{thread}/history", {"limit": 1000})
        for path in ("/assistants/<assistant>", "/runs/crons/<cron>"):
            views[path] = await self._seen("GET", filled(path, self.names))
        return views


def _paths_of(thread: str) -> list[str]:
    return [f"/threads/{thread}{part}" for part in ("", "/state", "/runs?limit=1000")]


@dataclass
class Attacker(World):
    """Somebody in her organization, or (`elsewhere`) her namesake in another, with a conversation of their own."""

    victim: Victim = field(kw_only=True)
    elsewhere: bool = field(kw_only=True)

    @property
    def owner(self) -> str:
        return self.victim.owner if self.elsewhere else f"mallory-{self.id[:8]}"

    @property
    def org(self) -> str:
        return self.other_org if self.elsewhere else self.victim.org

    async def settle_in(self, text: str) -> None:
        """Make what a request with this text needs of one's own."""
        memory = namespaces.memories(identity.Actor(self.owner, self.org), AGENT, Settings())
        rooms = {"memory": memory, "policies": namespaces.policies(self.org), "skills": namespaces.skills(AGENT)}
        for name, namespace in {**rooms, "policies-elsewhere": ("policies", "x")}.items():
            self.names |= {name: list(namespace), f"{name}.": ".".join(namespace)}
        self.names |= {"owner": self.owner, "org": self.org, "memory:1": memory[1], "assistant": AGENT}
        self.names |= {"said": f"ask-{self.id}", "cron": str(uuid.uuid4())}
        if "kept.md" in text:
            await self.api("owner", "PUT", "/memory/file?path=/memories/kept.md", {"content": "mine"})
        # A run that waits, for requests that cancel runs; for others one that has ended.
        cancels = "cancel" in text
        await self.make("run" if cancels or "<run>" in text else "thread")
        self.names["mine"] = self.names["thread"]
        if not cancels:
            await self.clear_away()

    async def clear_away(self) -> None:
        """End the run that was made for the request, if it is still there."""
        if "run" in self.names:
            path = f"/threads/{self.names['thread']}/runs/{self.names['run']}/cancel"
            await self.http.post(path, headers=self.headers("owner"))
