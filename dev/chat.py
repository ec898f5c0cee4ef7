"""`make chat`: a conversation in the terminal, over the same HTTP API that any other client uses.

python -m dev.chat --as alice@example.com [--org acme] [--graph agent] [--url URL]
"""

import argparse
import asyncio
import json
import sys
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from rich.console import Console

from memory.identity import assistant_of
from memory.recall import message_text
from seeds.remote import unanswered
from settings import Settings, SettingsError, agent_graphs, check_server, dev_address, load_settings, local_environ

HELP = """/files lists what is remembered, /undo <path> <revision> makes a file what it was,
/forget everything deletes all that is yours. Ctrl-C stops an answer, Ctrl-D ends. More: /app in a browser."""

out = Console(highlight=False, soft_wrap=True)


class Chat:
    """A person's conversation with an agent of a server (default: the first of langgraph.json). `client` acts as the person."""

    def __init__(self, client: LangGraphClient, settings: Settings, graph: str | None = None) -> None:
        self._client = client
        self._graph = graph or agent_graphs()[0]
        by_assistant = settings.memory_scope == "user+assistant"
        self._about = {"assistant_id": assistant_of(self._graph)} if by_assistant else {}
        self._thread: str | None = None

    async def carry_out(self, line: str) -> None:
        """One line of input: a command, or a message."""
        match line.split():
            case []:
                pass
            case ["/files"]:
                for file in (await self._client.http.get("/memory", params=self._about))["files"]:
                    said = file.get("error") or f"{file['bytes']:,} bytes, revision {file['revision'] or '-'}"
                    out.print(f"{file['path']}  {said}", markup=False)
            case ["/undo", path, revision]:
                path = path if path.startswith("/") else f"/memories/{path}"
                body = {"path": path, "revision": int(revision) if revision.isdecimal() else revision}
                done = await self._client.http.post("/memory/undo", json=body, params=self._about)
                out.print(f"{path} is what it was at {revision}; that is revision {done['revision']} now.", markup=False)
            case ["/forget", "everything"]:
                answer = await self._client.http.client.delete("/memory", timeout=600)
                done, self._thread = answer.raise_for_status().json(), None
                out.print(", ".join(f"{number} {kind}" for kind, number in done["deleted"].items()) + " deleted. What stays:")
                out.print("\n".join(f"- {reason}" for reason in done["kept"]), markup=False)
            case [command, *_] if command.startswith("/"):
                out.print(HELP, markup=False)
            case _:
                await self.say(line)

    async def say(self, text: str) -> None:
        """Send a message and print the streamed answer, tools dimmed. The first message begins a conversation."""
        if self._thread is None:
            self._thread = str((await self._client.threads.create())["thread_id"])
        message: Any = {"messages": [{"role": "user", "content": text}]}
        async for part in self._client.runs.stream(
            self._thread, self._graph, input=message, stream_mode=["messages-tuple", "updates"], on_disconnect="cancel"
        ):
            if part.event == "error":
                out.print(f"\n{json.dumps(part.data)[:500]}", style="red", markup=False)
            elif part.event == "messages":
                self._print_piece(part.data[0])
            elif part.event == "updates" and "__interrupt__" in part.data:
                out.print("\nThis waits for an operator's approval.", style="yellow")
        out.print()

    def _print_piece(self, message: dict[str, Any]) -> None:
        content = message.get("content")
        text = content if isinstance(content, str) else message_text(content)  # the white space of a piece counts
        if message.get("type") == "tool":
            out.print(f"  {' '.join(text.split())[:200]}", style="dim", markup=False)
        elif message.get("type") in {"ai", "AIMessageChunk"}:
            out.print(text, end="", markup=False)
            for call in message.get("tool_call_chunks") or message.get("tool_calls") or []:
                if call.get("name"):
                    out.print(f"\n  {call['name']}", style="dim", markup=False)


def converse(chat: Chat, runner: asyncio.Runner, url: str) -> None:
    """Read lines until the end of input. Ctrl-C stops a running answer; at the prompt it ends the chat."""
    while True:
        try:
            line = input("\n> ").strip()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            runner.run(chat.carry_out(line))
        except KeyboardInterrupt:
            out.print("\n(stopped)", style="dim")
        except (httpx.TransportError, httpx.HTTPStatusError) as error:
            out.print(unanswered(error, url), style="red", markup=False)
        except (ValueError, TypeError) as error:
            out.print(f"This cannot be sent: {error}.", style="red", markup=False)


def main(identity: str, org: str, url: str, graph: str | None = None) -> str | None:
    """Check that a server answers, then converse. Returns one line with the fix if that cannot be."""
    if not org.isascii() or not org.isprintable() or ":" in org:
        return f"ORG is {org!r}; a development token can only carry an organization in ASCII without a colon."
    if not identity.isprintable():
        return f"AS is {identity!r}; use letters that can be printed, in UTF-8."
    with asyncio.Runner() as runner, ExitStack() as closing:
        try:
            check_server(url)
            token = f"dev:{org}:{quote(identity, safe='')}"
            client = get_client(url=url, api_key=None, headers={"Authorization": f"Bearer {token}"})
            closing.callback(lambda: runner.run(client.aclose()))
            runner.run(client.assistants.search(limit=1))
            out.print(f"Talking to {url} as {identity} of {org}.\n{HELP}", style="dim", markup=False)
            converse(Chat(client, load_settings(local_environ()), graph), runner, url)
        except (httpx.TransportError, httpx.HTTPStatusError) as error:
            return unanswered(error, url)
        except SettingsError as error:
            return str(error)
    return None


if __name__ == "__main__":
    try:
        default_org = load_settings(local_environ()).default_org
    except SettingsError as error:
        sys.exit(str(error))
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--as", dest="identity", required=True, help="who to be, e.g. alice@example.com")
    parser.add_argument("--org", default=default_org, help="of which organization")
    parser.add_argument("--url", default=dev_address(), help="the server's address (default: the one `make dev` started)")
    parser.add_argument("--graph", choices=agent_graphs(), help="with which agent (default: the first of langgraph.json)")
    args = parser.parse_args()
    sys.exit(main(args.identity, args.org, args.url, args.graph))
