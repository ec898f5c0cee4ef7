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
NOT_SIGNED_IN = {401, 403}
CONSOLIDATE = "/memory/consolidate"
NOT_TRIED = "not tried: memory is shared here"


class FailedError(Exception):
    """A claim that fails, with the reason in one line."""


class Smoke:
    """The claims, in their order; some return a note. `client` signs in as the person, and raises `FailedError` for errors."""

    def __init__(self, client: httpx.Client, anonymous: httpx.Client) -> None:
        self._client, self._anonymous = client, anonymous
        self._word = f"smoke{uuid.uuid4().hex[:8]}"
        self._thread = ""
        self._shared = False  # MEMORY_SCOPE=assistant: nobody has files of their own

    def health(self) -> None:
        """The server and its database answer."""
        self._get("/ok", check_db="1")

    def refusal(self) -> None:
        """Requests without a token are refused."""
        for answer in (self._anonymous.get("/memory"), self._anonymous.post("/threads/search", json={})):
            if answer.status_code not in NOT_SIGNED_IN:
                raise FailedError(f"{answer.request.url.path} without a token answered {answer.status_code}, not 401.")

    def newcomer(self) -> None:
        """The person has no memory that the test could delete."""
        self._shared = self._get("/memory/me")["memory_scope"] == "assistant"
        paths = [] if self._shared else [file["path"] for file in self._get("/memory")["files"]]
        talked = self._post("/threads/search", {"limit": 1, "metadata": {"graph_id": AGENT}})
        if (paths or talked) and MARK not in paths:
            raise FailedError("TOKEN is of somebody who has memory, and all of it would be deleted; use another person's.")

    def write(self) -> str | None:
        """A file is written, and is there."""
        if self._shared:
            return NOT_TRIED
        content = f"- {self._word}\n"
        self._client.put("/memory/file", params={"path": MARK}, json={"content": content})
        if self._get("/memory/file", path=MARK)["content"] != content:
            raise FailedError(f"{MARK} has another content than was written.")
        return None

    def turn(self) -> str:
        """The model answers."""
        self._thread = self._new_thread()
        return f"{len(self._say(self._thread, f'My word of today is {self._word}. Answer with OK.'))} messages"

    def search(self) -> str:
        """The agent finds that conversation from another one."""
        question = f"What did we say about {self._word}? Use the tool search_past_conversations."
        messages = self._say(self._new_thread(), question)
        results = [message for message in messages if message.get("name") == "search_past_conversations"]
        if not any(self._thread in str(message["content"]) for message in results):
            raise FailedError("search_past_conversations did not find the turn." if results else "The model did not search.")
        return ""

    def history(self) -> str:
        """A file's revisions are kept."""
        if self._shared:
            return NOT_TRIED
        revisions = self._get("/memory/history", path=MARK)["revisions"]
        if not revisions:
            raise FailedError(f"{MARK} has no revisions.")
        return f"{len(revisions)} revisions"

    def export(self) -> str:
        """The export has everything of the person."""
        document = self._get("/memory/export")
        if self._thread not in {conversation["thread_id"] for conversation in document["conversations"]}:
            raise FailedError("The export lacks the conversation.")
        return f"{len(document['files'])} files, {len(document['conversations'])} conversations"

    def consolidation(self) -> str:
        """A consolidation that applies nothing reads the conversations."""
        if self._shared:
            return NOT_TRIED
        answer = self._client.post(CONSOLIDATE, params={"dry_run": "true"}, timeout=10 * TURN_SECONDS)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return "not tried: consolidation is taken off"
        report = answer.json()
        if report.get("status") == "failed":
            raise FailedError(str(report.get("reason")))
        return f"{report.get('model_calls', 0)} model calls"

    def deletion(self) -> str:
        """Everything that was made is deleted."""
        deleted = self._client.delete("/memory", timeout=TURN_SECONDS).json()["deleted"]
        left = self._post("/threads/search", {"limit": 1})
        if left or (not self._shared and self._get("/memory")["files"]):
            raise FailedError("Something of the person's is still there; DELETE /memory deletes it.")
        return ", ".join(f"{count} {what}" for what, count in deleted.items() if count)

    def _new_thread(self) -> str:
        return str(self._post("/threads", {})["thread_id"])

    def _say(self, thread: str, text: str) -> list[dict[str, Any]]:
        body = {"assistant_id": AGENT, "input": {"messages": [{"role": "user", "content": text}]}}
        values = self._post(f"/threads/{thread}/runs/wait", body)
        messages: list[dict[str, Any]] = values.get("messages") or []
        if "__error__" in values or not messages or messages[-1].get("type") != "ai":
            raise FailedError(f"The run ended without an answer: {str(values.get('__error__', values))[:200]}")
        return messages

    def _get(self, route: str, /, **parameters: str) -> Any:
        return self._client.get(route, params=parameters).json()

    def _post(self, route: str, body: dict[str, Any]) -> Any:
        return self._client.post(route, json=body, timeout=TURN_SECONDS).json()


def _check(answer: httpx.Response) -> None:
    is_taken_off = answer.status_code == httpx.codes.NOT_FOUND and answer.url.path == CONSOLIDATE
    if answer.is_error and not is_taken_off:
        request, text = answer.request, answer.read().decode(errors="replace")
        raise FailedError(f"{request.method} {request.url.path} answered {answer.status_code}: {text[:200]}")


def _hold(*claims: Callable[[], str | None]) -> bool:
    """Whether all claims hold. Prints of each its name, duration and note, or the reason why it fails."""
    failed = 0
    for claim in claims:
        began, name = time.monotonic(), claim.__name__
        try:
            note = claim()
        except (FailedError, httpx.HTTPError, ValueError, KeyError) as error:
            failed += 1
            reason = str(error) if isinstance(error, FailedError) else f"{type(error).__name__}: {error}"
            print(f"FAILED  {name}: {reason}", file=sys.stderr)
        else:
            print(f"ok      {name}, {time.monotonic() - began:.1f} s{f' ({note})' if note else ''}")
    return not failed


def run(url: str, token: str) -> bool:
    """Test all claims; returns whether all hold. The deletion runs unless one of the first three fails."""
    hooks: dict[str, list[Callable[..., Any]]] = {"response": [_check]}
    signed_in = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30, event_hooks=hooks)
    with signed_in as client, httpx.Client(base_url=url, timeout=30) as anonymous:
        smoke = Smoke(client, anonymous)
        if not _hold(smoke.health, smoke.refusal, smoke.newcomer):
            return False
        try:
            held = _hold(smoke.write, smoke.turn, smoke.search, smoke.history, smoke.export, smoke.consolidation)
        finally:  # also after Ctrl-C
            deleted = _hold(smoke.deletion)
    return held and deleted


def read_token() -> str:
    """The token on standard input. Raises `SystemExit` for one that no header can carry, and shows nothing of it."""
    token = sys.stdin.read().strip()
    if not token.isascii() or not token.isprintable():
        sys.exit("TOKEN holds a character that no header can carry; give it as it was issued.")
    return token


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.smoke", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True)
    url, token = parser.parse_args().url, read_token()
    if not token:
        sys.exit("TOKEN is empty; give the token of somebody without memory, e.g. make smoke URL=... TOKEN=dev:acme:smoke")
    if not url.startswith(("http://", "https://")):
        sys.exit(f"URL is {url!r}; use the deployment's address, e.g. http://127.0.0.1:2024")
    sys.exit(0 if run(url, token) else 1)


if __name__ == "__main__":
    main()
