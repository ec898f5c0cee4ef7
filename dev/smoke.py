"""`make smoke`: tests a deployment from outside as one person, and forgets that person at the end.

python -m dev.smoke --url URL, with the person's token on standard input. One line per claim; exits with 1 if one fails. The
person must have no memory, because the test deletes everything of theirs.
"""

import argparse
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx

from settings import agent_graphs

AGENT = agent_graphs()[0]
# Marks a person of the smoke test, also after an interrupted test.
MARK = "/memories/smoke-test.md"
# Seconds for a model's answer.
TURN_SECONDS = 180.0
NOT_TRIED = "not tried: memory is shared here"


class FailedError(Exception):
    """A claim that fails, with the reason in one line."""


class Smoke:
    """The claims, in their order; some return a note. `client` signs in as the person."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._word = f"smoke{uuid.uuid4().hex[:8]}"
        self._thread = ""
        self._shared = False  # MEMORY_SCOPE=assistant: nobody has files of their own

    def health(self) -> None:
        """The server and its database answer, and refuse whoever has no token."""
        self._ask("GET", "/ok", check_db="1")
        answer = httpx.get(self._client.base_url.join("/memory"), timeout=30)
        if answer.status_code not in {401, 403}:
            raise FailedError(f"/memory without a token answered {answer.status_code}, not 401.")

    def newcomer(self) -> None:
        """The person has no memory that the test could delete."""
        self._shared = self._ask("GET", "/memory/me")["memory_scope"] == "assistant"
        paths = [] if self._shared else [file["path"] for file in self._ask("GET", "/memory")["files"]]
        talked = self._ask("POST", "/threads/search", {"limit": 1, "metadata": {"graph_id": AGENT}})
        if (paths or talked) and MARK not in paths:
            raise FailedError("TOKEN is of somebody who has memory, and all of it would be deleted; use another person's.")

    def write(self) -> str | None:
        """A file is written, is there, and has a history."""
        if self._shared:
            return NOT_TRIED
        self._ask("PUT", "/memory/file", {"content": f"- {self._word}\n"}, path=MARK)
        if self._word not in self._ask("GET", "/memory/file", path=MARK)["content"]:
            raise FailedError(f"{MARK} has another content than was written.")
        return f"{len(self._ask('GET', '/memory/history', path=MARK)['revisions'])} revisions"

    def turn(self) -> str:
        """The model answers."""
        self._thread = str(self._ask("POST", "/threads", {})["thread_id"])
        return f"{len(self._say(self._thread, f'My word of today is {self._word}. Answer with OK.'))} messages"

    def search(self) -> None:
        """The agent finds that conversation from another one."""
        question = f"What did we say about {self._word}? Use the tool search_past_conversations."
        messages = self._say(str(self._ask("POST", "/threads", {})["thread_id"]), question)
        results = [message for message in messages if message.get("name") == "search_past_conversations"]
        if not any(self._thread in str(message["content"]) for message in results):
            raise FailedError("search_past_conversations did not find the turn." if results else "The model did not search.")

    def consolidation(self) -> str:
        """A consolidation that applies nothing reads the conversations."""
        if self._shared:
            return NOT_TRIED
        report = self._ask("POST", "/memory/consolidate", none=404, dry_run="true")
        if report is None:
            return "not tried: consolidation is taken off"
        if report.get("status") == "failed":
            raise FailedError(str(report.get("reason")))
        return f"{report.get('model_calls', 0)} model calls"

    def deletion(self) -> str:
        """Everything that was made is in the export, and then deleted."""
        exported = {conversation["thread_id"] for conversation in self._ask("GET", "/memory/export")["conversations"]}
        deleted = self._ask("DELETE", "/memory")["deleted"]
        if self._ask("POST", "/threads/search", {"limit": 1}) or (not self._shared and self._ask("GET", "/memory")["files"]):
            raise FailedError("Something of the person's is still there; DELETE /memory deletes it.")
        if self._thread and self._thread not in exported:
            raise FailedError("The export lacks the conversation.")
        return ", ".join(f"{count} {what}" for what, count in deleted.items() if count)

    def _say(self, thread: str, text: str) -> list[dict[str, Any]]:
        body = {"assistant_id": AGENT, "input": {"messages": [{"role": "user", "content": text}]}}
        values = self._ask("POST", f"/threads/{thread}/runs/wait", body)
        messages: list[dict[str, Any]] = values.get("messages") or []
        if "__error__" in values or not messages or messages[-1].get("type") != "ai":
            raise FailedError(f"The run ended without an answer: {str(values.get('__error__', values))[:200]}")
        return messages

    def _ask(self, method: str, url: str, body: Any = None, none: int | None = None, **parameters: str) -> Any:
        """The JSON of the answer; None if its status is `none`. Raises `FailedError` for an error."""
        answer = self._client.request(method, url, json=body, params=parameters, timeout=TURN_SECONDS)
        if answer.status_code == none:
            return None
        if answer.is_error:
            raise FailedError(f"{method} {url} answered {answer.status_code}: {answer.text[:200]}")
        return answer.json()


def _hold(*claims: Callable[[], str | None]) -> bool:
    """Whether all claims hold. Prints of each its name, duration and note, or the reason why it fails."""
    failed = 0
    for claim in claims:
        began, name = time.monotonic(), claim.__name__
        try:
            note = claim()
        except (FailedError, httpx.HTTPError, ValueError, KeyError) as error:
            failed += 1
            print(f"FAILED  {name}: {error if isinstance(error, FailedError) else repr(error)}", file=sys.stderr)
        else:
            print(f"ok      {name}, {time.monotonic() - began:.1f} s{f' ({note})' if note else ''}")
    return not failed


def run(url: str, token: str) -> bool:
    """Test all claims; returns whether all hold. The deletion runs unless one of the first two fails."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as client:
        smoke = Smoke(client)
        if not _hold(smoke.health, smoke.newcomer):
            return False
        try:
            held = _hold(smoke.write, smoke.turn, smoke.search, smoke.consolidation)
        finally:  # also after Ctrl-C
            deleted = _hold(smoke.deletion)
    return held and deleted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.smoke", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True)
    url, token = parser.parse_args().url, sys.stdin.read().strip()
    if not token or not token.isascii() or not token.isprintable():
        sys.exit("TOKEN is empty, or no header can carry it; give one of somebody without memory, e.g. TOKEN=dev:acme:smoke")
    if not url.startswith(("http://", "https://")):
        sys.exit(f"URL is {url!r}; use the deployment's address, e.g. http://127.0.0.1:2024")
    sys.exit(0 if run(url, token) else 1)


if __name__ == "__main__":
    main()
