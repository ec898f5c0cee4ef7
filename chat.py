"""`make chat`: a conversation in the terminal, over the same HTTP API that any other client uses.

python chat.py --as alice@example.com [--org acme] [--url URL]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from rich.console import Console

from memory import scopes
from memory.episodes import message_text
from settings import Settings, dev_address, load_settings, local_environ

HELP = """/new starts another conversation, /quit (or Ctrl-D) ends, Ctrl-C stops an answer.
What is remembered: /memory shows it, /files lists it, /history <path> tells what became of a file, /undo <path> <revision>
makes it what it was, /export [file] writes everything of yours to a file, /forget deletes it all."""
ROUTE = "/memories/"

out = Console(highlight=False, soft_wrap=True)


class Chat:
    """One person's conversation with the agent of a server."""

    def __init__(self, client: LangGraphClient, actor: scopes.Actor, settings: Settings) -> None:
        self._client = client
        self._actor = actor
        self._settings = settings
        self._thread: str | None = None

    async def say(self, text: str) -> None:
        """Send a message and print the answer as it comes, tool calls dimmed. A conversation begins with its first message."""
        self._thread = self._thread or str((await self._client.threads.create())["thread_id"])
        message: Any = {"messages": [{"role": "user", "content": text}]}
        seen: set[str] = set()
        async for part in self._client.runs.stream(
            self._thread, "agent", input=message, stream_mode=["messages-tuple", "updates"], on_disconnect="cancel"
        ):
            if part.event == "error":
                out.print(f"\n{json.dumps(part.data)[:500]}", style="red", markup=False)
            elif part.event == "messages":
                self._print_piece(part.data[0])
            elif part.event == "updates" and "__interrupt__" in part.data:
                out.print("\nThis waits for an operator's approval.", style="yellow")
            elif part.event == "updates":
                self._print_tool_calls(part.data, seen)
        out.print()

    def _print_piece(self, message: dict[str, Any]) -> None:
        text = message_piece(message.get("content"))
        if message.get("type") in {"ai", "AIMessageChunk"} and text:
            out.print(text, end="", markup=False)
        elif message.get("type") == "tool" and text:
            out.print(f"  {' '.join(text.split())[:200]}", style="dim", markup=False)

    def _print_tool_calls(self, update: dict[str, Any], seen: set[str]) -> None:
        for node in update.values():
            messages = node.get("messages") if isinstance(node, dict) else None
            for message in messages if isinstance(messages, list) else []:
                for call in message.get("tool_calls") or []:
                    if call["id"] not in seen:
                        seen.add(call["id"])
                        args = json.dumps(call["args"], ensure_ascii=False)[:200]
                        out.print(f"\n  {call['name']} {args}", style="dim", markup=False)

    async def show_memory(self) -> None:
        """Print every file of the person's own memory, as the store API gives it to them."""
        namespace = scopes.memories(self._actor, scopes.DEFAULT_AGENT_ASSISTANT, self._settings)
        items = (await self._client.store.search_items(namespace, limit=100))["items"]
        for item in sorted(items, key=lambda item: str(item["key"])):
            out.print(f"/memories{item['key']}", style="bold", markup=False)
            out.print(str(item["value"].get("content", "")).rstrip(), markup=False)
        if not items:
            out.print("Nothing is remembered yet.")

    async def list_files(self) -> None:
        for file in (await self._client.http.get("/memory"))["files"]:
            said = (
                file.get("error")
                or f"{file['bytes']:,} bytes, revision {file['revision'] or '-'}, {file.get('modified_at', '')}"
            )
            out.print(f"{file['path']}  {said}", markup=False)

    async def show_history(self, path: str) -> None:
        """Print what became of a file, the newest change last."""
        told = await self._client.http.get("/memory/history", params={"path": _path(path)})
        if told["revisions_dropped"]:
            out.print(f"({told['revisions_dropped']} older revisions were removed to make room)")
        for entry in reversed(told["revisions"]):
            out.print(f"revision {entry['revision']}, {entry['at']}, by {entry['author']['kind']}", style="bold", markup=False)
            out.print("(deleted)" if entry["deleted"] else (entry["diff"] or "").rstrip(), markup=False)

    async def undo(self, path: str, revision: str) -> None:
        body = {"path": _path(path), "revision": int(revision) if revision.isdecimal() else revision}
        done = await self._client.http.post("/memory/undo", json=body)
        out.print(
            f"{done['path']} is what it was at revision {revision}; that is revision {done['revision']} now.", markup=False
        )

    async def export(self, name: str = "memory.json") -> None:
        """Write everything of the person's to a new file, as it comes."""
        async with self._client.http.client.stream("GET", "/memory/export") as answer:
            if answer.is_error:
                await answer.aread()
            answer.raise_for_status()
            with await asyncio.to_thread(open, name, "xb") as file:
                async for part in answer.aiter_bytes():
                    file.write(part)
        out.print(f"Written to {name}.", markup=False)

    async def forget(self, confirmed: str = "") -> None:
        """Delete everything of the person's, when they have said so."""
        if confirmed != "everything":
            out.print("This deletes your memory, its history and your conversations, for good. If so: /forget everything")
            return
        self._thread = None
        answer = await self._client.http.client.delete("/memory", timeout=600)
        answer.raise_for_status()
        told = answer.json()
        out.print(", ".join(f"{number} {what}" for what, number in told["deleted"].items()) + " deleted. What stays:")
        for reason in told["kept"]:
            out.print(f"- {reason}", markup=False)

    async def command(self, line: str) -> None:
        """A line that begins with a slash."""
        name, *given = line.split()
        commands: dict[str, tuple[Callable[..., Coroutine[Any, Any, None]], range]] = {
            "/memory": (self.show_memory, range(1)),
            "/files": (self.list_files, range(1)),
            "/history": (self.show_history, range(1, 2)),
            "/undo": (self.undo, range(2, 3)),
            "/export": (self.export, range(2)),
            "/forget": (self.forget, range(2)),
        }
        do, takes = commands.get(name, (None, range(0)))
        if do is None or len(given) not in takes:
            out.print(HELP, markup=False)
            return
        try:
            await do(*given)
        except OSError as error:
            out.print(f"{error.filename}: {error.strerror}.", style="red", markup=False)

    async def handle(self, line: str) -> bool:
        """One line of input. False when the conversation is over."""
        if line in {"/quit", "/exit"}:
            return False
        if line == "/new":
            self._thread = None
            out.print("A new conversation.", style="dim")
        elif line.startswith("/"):
            await self.command(line)
        elif line:
            await self.say(line)
        return True


def _path(path: str) -> str:
    """As the agent sees it; the folder may be left out."""
    return path if path.startswith("/") else f"{ROUTE}{path}"


def message_piece(content: object) -> str:
    """The text of a streamed piece; unlike a whole message's, its white space counts."""
    return content if isinstance(content, str) else message_text(content)


def converse(chat: Chat, run: Callable[[Coroutine[Any, Any, bool]], bool]) -> None:
    """Read lines until the end of input. Ctrl-C stops the answer that is coming, and ends at the prompt."""
    while True:
        try:
            line = input("\n> ").strip()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            if not run(chat.handle(line)):
                return
        except KeyboardInterrupt:
            out.print("\n(stopped)", style="dim")
        except httpx.HTTPStatusError as error:
            out.print(
                f"The server answered {error.response.status_code}: {error.response.text[:300]}",
                style="red",
                markup=False,
            )
        except httpx.TransportError as error:
            out.print(f"The server does not answer any more ({type(error).__name__}).", style="red")


def main(identity: str, org: str, url: str) -> int:
    """Check that a server answers, then converse. 1 with a line that says what to do when it does not."""
    if not org.isascii():
        sys.stderr.write(f"ORG is {org!r}; a development token can only carry an organization in ASCII.\n")
        return 1
    client = get_client(url=url, api_key=None, headers={"Authorization": f"Bearer dev:{org}:{quote(identity, safe='')}"})
    with asyncio.Runner() as runner:
        try:
            runner.run(client.assistants.search(limit=1))
            out.print(f"Talking to {url} as {identity} of {org}. {HELP}", style="dim", markup=False)
            converse(Chat(client, scopes.Actor(identity, org), load_settings(local_environ())), runner.run)
        except httpx.HTTPStatusError as error:
            sys.stderr.write(f"{url} answered {error.response.status_code}: {error.response.text[:300]}\n")
            return 1
        except httpx.TransportError:
            sys.stderr.write(f"No server answers at {url}; start it with `make dev` in another terminal.\n")
            return 1
        finally:
            runner.run(client.aclose())
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--as", dest="identity", required=True, help="who to be, e.g. alice@example.com")
    parser.add_argument("--org", default=load_settings(local_environ()).default_org, help="of which organization")
    parser.add_argument("--url", default=dev_address(), help="the server's address (default: the one `make dev` started)")
    args = parser.parse_args()
    sys.exit(main(args.identity, args.org, args.url))
