"""The commands of `make chat`: a person's own memory in the terminal, over `/memory`."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

import httpx
from langgraph_sdk.client import LangGraphClient
from rich.console import Console

from memory import namespaces
from memory.identity import Actor, assistant_of
from memory.journal import lines_of
from settings import Settings

HELP = """/new starts another conversation, /temporary one that leaves nothing behind.
/quit (or Ctrl-D) ends, Ctrl-C stops an answer.
What is remembered: /memory shows it, /files lists it, /history <path> tells what became of a file, /why <path> where
each line comes from, /undo <path> <revision>
makes it what it was, /pause and /resume decide whether anything new is remembered,
/export [file] writes everything of yours to a file, /forget deletes it all."""
# Only for a server with consolidation.
REVIEW_HELP = """
/review on|off decides whether consolidation proposes first: /proposals, /accept <id> [path], /decline <id> [path]."""
REVIEW = {"/review", "/proposals", "/accept", "/decline"}
ROUTE = "/memories/"
# The words that delete everything.
FORGET = ["/forget", "everything"]

out = Console(highlight=False, soft_wrap=True)


class Commands:
    """One person's commands to a server, about their memory with an agent (`graph`). `client` acts as the person."""

    def __init__(self, client: LangGraphClient, actor: Actor, settings: Settings, graph: str) -> None:
        self._client, self._actor, self._settings, self._graph = client, actor, settings, graph
        by_assistant = settings.memory_scope == "user+assistant"
        self._about = {"assistant_id": assistant_of(graph)} if by_assistant else {}

    async def help(self) -> str:
        """The commands that this server can carry out."""
        return HELP + REVIEW_HELP * await self._reviews()

    async def _reviews(self) -> bool:
        """Whether consolidation can be reviewed: a server without it has no such route."""
        answer = await self._client.http.client.get("/memory/proposals")
        return answer.status_code != httpx.codes.NOT_FOUND

    async def show_memory(self) -> None:
        """Print every file of the person's memory, read through the store API."""
        namespace = namespaces.memories(self._actor, assistant_of(self._graph), self._settings)
        items = (await self._client.store.search_items(namespace, limit=100))["items"]
        for item in sorted(items, key=lambda item: str(item["key"])):
            out.print(f"/memories{item['key']}", style="bold", markup=False)
            out.print(str(item["value"].get("content", "")).rstrip(), markup=False)
        if not items:
            out.print("Nothing is remembered yet.")

    async def list_files(self) -> None:
        for file in (await self._client.http.get("/memory", params=self._about))["files"]:
            said = (
                file.get("error")
                or f"{file['bytes']:,} bytes, revision {file['revision'] or '-'}, {file.get('modified_at', '')}"
            )
            out.print(f"{file['path']}  {said}", markup=False)

    async def show_history(self, path: str) -> None:
        """Print a file's revisions, the newest last."""
        history = await self._client.http.get("/memory/history", params={"path": _path(path), **self._about})
        if history["revisions_dropped"]:
            out.print(f"({history['revisions_dropped']} older revisions were removed to make room)")
        for entry in reversed(history["revisions"]):
            out.print(f"revision {entry['revision']}, {entry['at']}, by {entry['author']['kind']}", style="bold", markup=False)
            out.print("(deleted)" if entry["deleted"] else (entry["diff"] or "").rstrip(), markup=False)

    async def why(self, path: str) -> None:
        """Print each line of a file with its time, author and conversations."""
        file = await self._client.http.get("/memory/file", params={"path": _path(path), **self._about})
        for line, came in zip_longest(lines_of(file["content"]), file["lines"]):
            about = f"{came['at'][:10]}, {came['author']['kind']}, {' '.join(came['threads']) or '-'}" if came else "unknown"
            out.print(f"{line}  ({about})", markup=False)

    async def undo(self, path: str, revision: str) -> None:
        body = {"path": _path(path), "revision": int(revision) if revision.isdecimal() else revision}
        done = await self._client.http.post("/memory/undo", json=body, params=self._about)
        told = f"{done['path']} is what it was at revision {revision}; that is revision {done['revision']} now."
        out.print(told, markup=False)

    async def export(self, name: str = "memory.json") -> None:
        """Write the person's export to a new file, part by part."""
        async with self._client.http.client.stream("GET", "/memory/export") as answer:
            if answer.is_error:
                await answer.aread()
            answer.raise_for_status()
            with await asyncio.to_thread(open, name, "xb") as file:
                async for part in answer.aiter_bytes():
                    file.write(part)
        out.print(f"Written to {name}, without temporary conversations.", markup=False)

    async def forget(self, confirmed: str = "") -> None:
        """Delete everything of the person once they have confirmed it."""
        if confirmed != FORGET[1]:
            out.print("This deletes your memory, its history and your conversations, for good. If so: /forget everything")
            return
        answer = await self._client.http.client.delete("/memory", timeout=600)
        answer.raise_for_status()
        result = answer.json()
        out.print(", ".join(f"{number} {kind}" for kind, number in result["deleted"].items()) + " deleted. What stays:")
        for reason in result["kept"]:
            out.print(f"- {reason}", markup=False)

    async def decide(self, **given: bool) -> None:
        """Change the person's controls, and print them."""
        now = await self._client.http.put("/memory/controls", json=given)
        out.print("Memory is paused: nothing new is remembered." if now["paused"] else "What you say is remembered.")
        if await self._reviews():
            out.print("Consolidation proposes its changes." if now["review"] else "Consolidation makes its changes.")

    async def review(self, wanted: str) -> None:
        if wanted in {"on", "off"}:
            await self.decide(review=wanted == "on")
        else:
            out.print("/review on, or /review off")

    async def show_proposals(self) -> None:
        """Print the undecided proposals, as diffs."""
        proposals = (await self._client.http.get("/memory/proposals", params=self._about))["proposals"]
        for proposal in proposals:
            out.print(f"{proposal['id']}, {proposal['at']}", style="bold", markup=False)
            for path, diff in proposal["files"].items():
                out.print(f"{path}\n{diff.rstrip()}", markup=False)
        if not proposals:
            out.print("Nothing is proposed.")

    async def answer(self, proposal: str, path: str | None = None, *, accept: bool) -> None:
        body = {"accept": accept, **({"files": [_path(path)]} if path else {})}
        route = f"/memory/proposals/{quote(proposal, safe='')}"
        result = await self._client.http.post(route, json=body, params=self._about)
        for refused, reason in result["refused"].items():
            out.print(f"{refused} still waits: {reason}", style="red", markup=False)
        out.print("Accepted." if accept else "Declined.")

    async def carry_out(self, line: str) -> None:
        """Carry out a line that begins with a slash. Prints the help for an unknown one."""
        name, *given = line.split()
        commands: dict[str, tuple[Callable[..., Coroutine[Any, Any, None]], range]] = {
            "/memory": (self.show_memory, range(1)),
            "/files": (self.list_files, range(1)),
            "/history": (self.show_history, range(1, 2)),
            "/why": (self.why, range(1, 2)),
            "/undo": (self.undo, range(2, 3)),
            "/pause": (partial(self.decide, paused=True), range(1)),
            "/resume": (partial(self.decide, paused=False), range(1)),
            "/review": (self.review, range(1, 2)),
            "/proposals": (self.show_proposals, range(1)),
            "/accept": (partial(self.answer, accept=True), range(1, 3)),
            "/decline": (partial(self.answer, accept=False), range(1, 3)),
            "/export": (self.export, range(2)),
            "/forget": (self.forget, range(2)),
        }
        do, takes = commands.get(name, (None, range(0)))
        if do is None or len(given) not in takes or (name in REVIEW and not await self._reviews()):
            out.print(await self.help(), markup=False)
            return
        try:
            await do(*given)
        except OSError as error:
            out.print(f"{error.filename}: {error.strerror}.", style="red", markup=False)


def _path(path: str) -> str:
    """The path as the agent sees it. The person may leave out the folder."""
    return path if path.startswith("/") else f"{ROUTE}{path}"
