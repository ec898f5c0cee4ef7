"""`make chat`: a conversation in the terminal, over the same HTTP API that any other client uses.

python -m lasting_memory.dev.chat [--as alice@example.com [--org acme]] [--graph agent] [--url URL]

Without `--as`, the variable TOKEN has the person's token, as the deployment's identity provider
gives it.
"""

import argparse
import asyncio
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from io import TextIOWrapper
from typing import TypedDict
from urllib.parse import quote

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from rich.console import Console

from lasting_memory import settings
from lasting_memory.agent.answer_endings import CUT
from lasting_memory.agent.answer_errors import NO_ANSWER, SilentModelError
from lasting_memory.agent.bounds import RunTooLongError
from lasting_memory.agent.budget import TokenBudgetError
from lasting_memory.agent.provider_errors import ProviderError
from lasting_memory.people.identity import IdentityError
from lasting_memory.people.scopes import NotAMemberError
from lasting_memory.recall import message_text, piece_text

HELP = """/files lists what is remembered, /undo <path> <revision> makes a file what it was,
/forget everything deletes all that is yours. Ctrl-C stops an answer, Ctrl-D ends. More: /app in a browser."""
NOBODY = (
    "AS is empty; say who you are, e.g. make chat AS=alice@example.com ORG=acme, "
    "or give your token, make chat TOKEN=..."
)

# The platform gives their messages, as of every `RuntimeError`.
_OWN_ERROR_CLASSES = (
    *NO_ANSWER,
    SilentModelError,
    RunTooLongError,
    TokenBudgetError,
    IdentityError,
    NotAMemberError,
)
_ERRORS: list[type[Exception]] = [*_OWN_ERROR_CLASSES, *ProviderError.__subclasses__()]
OWN_ERRORS = {kind.__name__ for kind in _ERRORS}

out = Console(highlight=False, soft_wrap=True, markup=False)


class _RunInput(TypedDict):
    messages: list[dict[str, str]]


class Chat:
    """A person's conversation with an agent of a server. `client` acts as the person."""

    def __init__(self, client: LangGraphClient, graph: str) -> None:
        self._client = client
        self._graph = graph
        self._thread: str | None = None

    async def carry_out(self, line: str) -> None:
        """One line of input: a command, or a message."""
        match line.split():
            case []:
                pass
            case ["/files"]:
                await self._list_files()
            case ["/undo", path, revision]:
                await self._undo(path, revision)
            case ["/forget", "everything"]:
                await self._forget_everything()
            case [command, *_] if command.startswith("/"):
                out.print(HELP)
            case _:
                await self.say(line)

    async def _list_files(self) -> None:
        """Print the files that are remembered of the person."""
        memory = await self._client.http.get("/memory")
        for file in memory["files"]:
            description = file.get("error")
            if not description:
                size = file["bytes"]
                revision = file["revision"] or "-"
                description = f"{size:,} bytes, revision {revision}"
            path = file["path"]
            out.print(f"{path}  {description}")

    async def _undo(self, path: str, revision: str) -> None:
        """Makes a file what it was at a revision. A path may leave out its folder."""
        if not path.startswith("/"):
            path = f"/memories/{path}"
        body: dict[str, object] = {"path": path, "revision": revision}
        if revision.isdecimal():
            body["revision"] = int(revision)
        answer = await self._client.http.post("/memory/undo", json=body)
        new_revision = answer["revision"]
        out.print(f"{path} is what it was at {revision}; that is revision {new_revision} now.")

    async def _forget_everything(self) -> None:
        """Delete all that is the person's, and print how much that was and what stays."""
        http = self._client.http.client
        answer = await http.delete("/memory", timeout=600)
        answer.raise_for_status()
        report = answer.json()
        self._thread = None
        counts_by_kind: dict[str, int] = report["deleted"]
        counts = [f"{number} {kind}" for kind, number in counts_by_kind.items()]
        listed_counts = ", ".join(counts)
        what_stays = "\n".join(report["kept"])
        out.print(f"{listed_counts} deleted. What stays:")
        out.print(what_stays)

    async def say(self, text: str) -> None:
        """Send a message and print the streamed answer, tools dimmed. The first message begins a
        conversation.
        """
        if not self._thread:
            thread = await self._client.threads.create()
            self._thread = thread["thread_id"]
        message = {"role": "user", "content": text}
        async for part in self._client.runs.stream(
            self._thread,
            self._graph,
            input=_RunInput(messages=[message]),
            stream_mode=["messages-tuple", "updates"],
            on_disconnect="cancel",
        ):
            if part.event == "error":
                out.print(f"\n{_error_line(part.data)}", style="red")
            elif part.event == "messages":
                _print_chunk(part.data[0])
            elif part.event == "updates" and "__interrupt__" in part.data:
                out.print(
                    "\nThis waits: for your answer on the page (/app), or for an operator's approval there.",
                    style="yellow",
                )
        out.print()


def _print_chunk(message: Mapping[str, object]) -> None:
    """Print a chunk of a streamed message: its text, names of called tools, and why it was cut;
    of a tool's answer the beginning, in a line.
    """
    content = message["content"]
    if message["type"] == "tool":
        words = message_text(content).split()
        line = " ".join(words)
        out.print(f"  {line[:200]}", style="dim")
        return
    out.print(piece_text(content), end="")
    # The first chunk of a call has its name. A whole message has no chunks.
    calls = message.get("tool_call_chunks") or message.get("tool_calls")
    if isinstance(calls, list):
        for call in calls:
            name = call.get("name")
            if name:
                out.print(f"\n  {name}", style="dim")
    metadata = message.get("response_metadata")
    if isinstance(metadata, Mapping) and metadata.get(CUT):
        out.print(f"\n{metadata[CUT]}", style="yellow")


def _error_line(error: object) -> str:
    """What the platform says of a run that failed: the error's class, and its message where people
    may know it.

    The messages of this library's own errors are sentences for people, and need no class.
    """
    if not isinstance(error, dict):
        return str(error)
    class_name = error.get("error")
    message = error.get("message")
    if message and class_name in OWN_ERRORS:
        return str(message)
    parts = [str(part) for part in (class_name, message) if part]
    return ": ".join(parts)


def converse(chat: Chat, runner: asyncio.Runner) -> None:
    """Read lines until the end of input. Ctrl-C stops a running answer; at the prompt it ends the
    chat.
    """
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
            out.print(settings.unanswered(error), style="red")


def dev_token(identity: str, org: str | None) -> str:
    """A development token of somebody, of DEFAULT_ORG if no organization is given. Raises
    `SettingsError`.
    """
    if not org:
        environ = settings.local_environ()
        org = settings.load_settings(environ).fallback_org
    # With a colon the token would be another person's, of another organization.
    if ":" in org or not org.isascii():
        raise settings.SettingsError(
            f"ORG is {org!r}; in a development token it is ASCII without a colon."
        )
    return f"dev:{org}:{quote(identity, safe='')}"


def main(arguments: Sequence[str] | None = None) -> str | None:
    """The command. Its arguments are by default those of the process.

    Returns one line with the fix if no conversation can be.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--as",
        dest="identity",
        help="who to be, e.g. alice@example.com (default: whom TOKEN names)",
    )
    parser.add_argument("--org", help="of which organization (default: DEFAULT_ORG)")
    parser.add_argument(
        "--url",
        default=settings.dev_address(),
        help="the server's address (default: that of `make dev`)",
    )
    parser.add_argument("--graph", help="with which agent (default: the deployment's first one)")
    args = parser.parse_args(arguments)
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # bytes that are no text
    try:
        settings.check_server(args.url)
        token = dev_token(args.identity, args.org) if args.identity else settings.given_token()
        if not token:
            return NOBODY
        talk(args.url, token, args.graph)
    except (httpx.TransportError, httpx.HTTPStatusError) as error:
        return settings.unanswered(error)
    except settings.SettingsError as error:
        return str(error)
    except KeyboardInterrupt:
        # While it connects or ends, or a second one while an answer is stopped.
        pass
    return None


def talk(url: str, token: str, graph: str | None) -> None:
    """A conversation of whom the token names, with this agent or the deployment's first one, until
    the end of input.
    """
    headers = {"Authorization": f"Bearer {token}"}
    with asyncio.Runner() as runner, ExitStack() as exits:
        client = get_client(url=url, api_key=None, headers=headers)

        def close() -> None:
            runner.run(client.aclose())

        exits.callback(close)
        request = client.http.get("/memory/me")
        person = runner.run(request)
        user_id = person["user_id"]
        org_id = person["org_id"]
        out.print(f"Talking to {url} as {user_id} of {org_id}.\n{HELP}", style="dim")
        if not graph:
            graph = person["agents"][0]
        chat = Chat(client, graph)
        converse(chat, runner)


if __name__ == "__main__":
    ending = main()
    if threading.current_thread() is threading.main_thread():
        # The interpreter that ends would be killed by another Ctrl-C.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(ending)
