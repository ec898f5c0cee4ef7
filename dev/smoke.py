"""`make smoke`: tests a deployment from outside as one person, and forgets that person at the end.

python -m dev.smoke --url URL, with the person's token on standard input. One line per claim; exits with 1 if one fails. The
person must have no memory, because the test deletes everything of theirs.
"""

import argparse
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from settings import agent_graphs

AGENT = agent_graphs()[0]
# Marks a person of the smoke test, also after an interrupted test.
MARK = "/memories/smoke-test.md"
# Seconds for a model's answer.
TURN_SECONDS = 180.0


class FailedError(Exception):
    """A claim that fails, with the reason in one line."""


class Smoke:
    """The claims in their order, and whether one has failed. `client` signs in as the person."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.failed = False

    def test(self) -> None:
        """Try everything. Once the person is known to have no memory, the deletion follows whatever fails, also Ctrl-C."""
        with self._claim("health"):
            self._ask("GET", "/ok", check_db="1")
            status = httpx.get(self._client.base_url.join("/memory"), timeout=30).status_code
            _hold(status in {401, 403}, f"/memory without a token answered {status}, not 401.")
        with self._claim("newcomer"):
            shared = self._ask("GET", "/memory/me")["memory_scope"] == "assistant"  # nobody has files of their own
            paths = [] if shared else [file["path"] for file in self._ask("GET", "/memory")["files"]]
            talked = self._ask("POST", "/threads/search", {"limit": 1, "metadata": {"graph_id": AGENT}})
            is_new = MARK in paths or not (paths or talked)
            _hold(is_new, "TOKEN is of somebody who has memory, and all of it would be deleted; use another person's.")
        if self.failed:
            return
        word = f"smoke{uuid.uuid4().hex[:8]}"
        try:
            if not shared:
                self._files(word)
            self._conversations(word)
        finally:
            with self._claim("deletion"):
                self._ask("DELETE", "/memory")
                _hold(not self._ask("POST", "/threads/search", {"limit": 1}), "A conversation is still there.")

    def _files(self, word: str) -> None:
        with self._claim("write"):
            self._ask("PUT", "/memory/file", {"content": f"- {word}\n"}, path=MARK)
            _hold(word in self._ask("GET", "/memory/file", path=MARK)["content"], f"{MARK} lacks what was written.")
        with self._claim("consolidation"):
            answer = self._client.post("/memory/consolidate", params={"dry_run": "true"})
            _hold(answer.status_code == httpx.codes.NOT_FOUND or answer.json().get("status") != "failed", answer.text)

    def _conversations(self, word: str) -> None:
        first = self._ask("POST", "/threads", {})["thread_id"]
        with self._claim("turn"):
            self._say(first, f"My word of today is {word}. Answer with OK.")
        with self._claim("search"):
            question = f"What did we say about {word}? Use the tool search_past_conversations."
            messages = self._say(self._ask("POST", "/threads", {})["thread_id"], question)
            results = [str(message["content"]) for message in messages if message.get("name") == "search_past_conversations"]
            _hold(results, "The model did not search.")
            _hold(any(first in result for result in results), "The search did not find the turn.")
        with self._claim("export"):
            conversations = self._ask("GET", "/memory/export")["conversations"]
            _hold(first in [conversation["thread_id"] for conversation in conversations], "It lacks the conversation.")

    @contextmanager
    def _claim(self, name: str) -> Iterator[None]:
        """Prints the claim with its duration, or with the reason why it fails."""
        began = time.monotonic()
        try:
            yield
            print(f"ok      {name}, {time.monotonic() - began:.1f} s")
        except (FailedError, httpx.HTTPError, ValueError, KeyError) as error:
            self.failed = True
            print(f"FAILED  {name}: {error if isinstance(error, FailedError) else repr(error)}", file=sys.stderr)

    def _say(self, thread: str, text: str) -> list[dict[str, Any]]:
        body = {"assistant_id": AGENT, "input": {"messages": [{"role": "user", "content": text}]}}
        values = self._ask("POST", f"/threads/{thread}/runs/wait", body)
        messages: list[dict[str, Any]] = values.get("messages") or []
        _hold(
            "__error__" not in values and messages and messages[-1].get("type") == "ai",
            f"The run ended without an answer: {str(values)[:200]}",
        )
        return messages

    def _ask(self, method: str, url: str, body: Any = None, **parameters: str) -> Any:
        """The JSON of the answer."""
        answer = self._client.request(method, url, json=body, params=parameters)
        _hold(answer.is_success, f"{method} {url} answered {answer.status_code}: {answer.text[:200]}")
        return answer.json()


def _hold(holds: object, reason: str) -> None:
    if not holds:
        raise FailedError(reason)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.smoke", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True)
    url, token = parser.parse_args().url, sys.stdin.read().strip()
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=TURN_SECONDS) as client:
        (smoke := Smoke(client)).test()
    sys.exit(smoke.failed)


if __name__ == "__main__":
    main()
