"""`make chat`: a conversation in the terminal, over the same HTTP API that any other client uses.

python -m dev.chat --as alice@example.com [--org acme] [--graph agent] [--url URL]
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from dev.commands import FORGET, Commands, out
from environment import SettingsError, check_server, dev_address
from memory.controls import TEMPORARY
from memory.identity import Actor
from memory.recall import message_text
from settings import Settings, agent_graphs, load_settings, local_environ


class Chat:
    """A person's conversation with an agent of a server (default: the first of langgraph.json). `client` acts as the person."""

    def __init__(self, client: LangGraphClient, actor: Actor, settings: Settings, graph: str | None = None) -> None:
        self._client = client
        self._graph = graph or agent_graphs()[0]
        self.commands = Commands(client, actor, settings, self._graph)
        self._thread: str | None = None
        self._temporary = False

    async def say(self, text: str) -> None:
        """Send a message and print the streamed answer, tool calls dimmed. The first message begins a conversation."""
        if self._thread is None:
            metadata = {TEMPORARY: True} if self._temporary else {}
            self._thread = str((await self._client.threads.create(metadata=metadata))["thread_id"])
        message: Any = {"messages": [{"role": "user", "content": text}]}
        seen: set[str] = set()
        async for part in self._client.runs.stream(
            self._thread, self._graph, input=message, stream_mode=["messages-tuple", "updates"], on_disconnect="cancel"
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
        content = message.get("content")
        text = content if isinstance(content, str) else message_text(content)  # the white space of a piece counts
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

    async def handle(self, line: str) -> bool:
        """One line of input. False when the conversation is over."""
        if line in {"/quit", "/exit"}:
            return False
        if line in {"/new", "/temporary"}:
            self._thread, self._temporary = None, line == "/temporary"
            left = " Nothing is remembered in it or of it." if self._temporary else ""
            out.print(f"A {line[1:]} conversation.{left}", style="dim")
        elif line.startswith("/"):
            if line.split() == FORGET:
                self._thread = None
            await self.commands.carry_out(line)
        elif line:
            await self.say(line)
        return True


def converse(chat: Chat, run: Callable[[Coroutine[Any, Any, bool]], bool]) -> None:
    """Read lines until the end of input. Ctrl-C stops a running answer; at the prompt it ends the chat."""
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
            told = f"The server answered {error.response.status_code}: {error.response.text[:300]}"
            out.print(told, style="red", markup=False)
        except (ValueError, TypeError) as error:
            out.print(f"This cannot be sent: {error}.", style="red", markup=False)
        except httpx.TransportError as error:
            out.print(f"The server does not answer any more ({type(error).__name__}).", style="red")


def main(identity: str, org: str, url: str, graph: str | None = None) -> int:
    """Check that a server answers, then converse. Returns 1 after printing the fix if none answers."""
    if not org.isascii() or not org.isprintable() or ":" in org:
        sys.stderr.write(f"ORG is {org!r}; a development token can only carry an organization in ASCII without a colon.\n")
        return 1
    if not identity.isprintable():
        sys.stderr.write(f"AS is {identity!r}; use letters that can be printed, in UTF-8.\n")
        return 1
    headers = {"Authorization": f"Bearer dev:{org}:{quote(identity, safe='')}"}
    with asyncio.Runner() as runner, ExitStack() as closing:
        try:
            check_server(url)
            client = get_client(url=url, api_key=None, headers=headers)
            closing.callback(lambda: runner.run(client.aclose()))
            runner.run(client.assistants.search(limit=1))
            chat = Chat(client, Actor(identity, org), load_settings(local_environ()), graph)
            told = runner.run(chat.commands.help())
            out.print(f"Talking to {url} as {identity} of {org}. {told}", style="dim", markup=False)
            converse(chat, runner.run)
        except httpx.HTTPStatusError as error:
            sys.stderr.write(f"{url} answered {error.response.status_code}: {error.response.text[:300]}\n")
            return 1
        except SettingsError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        except httpx.TransportError:
            sys.stderr.write(f"No server answers at {url}; start it with `make dev` in another terminal.\n")
            return 1
    return 0


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
