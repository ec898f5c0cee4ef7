"""`make smoke`: tests a deployment of this folder from outside as one person, and forgets that person at the end.

python -m lasting_memory.dev.smoke --url URL, with the token on standard input. One line for each claim that holds;
at the first that does not, the reason. The person must have no memory, because the test deletes everything of theirs.
"""

import argparse
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from lasting_memory.settings import agent_graphs

# Marks a person of the smoke test, also after an interrupted test.
MARK = "/memories/smoke-test.md"
# Seconds for a model's answer.
TURN_SECONDS = 180.0


def smoke(client: httpx.Client, agent: str) -> Iterator[str]:
    """Tries everything as the person whom `client` signs in, with an agent, and gives what holds. Exits at what does not.

    Once the person is known to have no memory, the deletion follows whatever fails, also Ctrl-C.
    """

    def ask(method: str, url: str, body: Any = None, **parameters: str) -> Any:
        answer = client.request(method, url, json=body, params=parameters)
        hold(answer.is_success, f"{method} {url} answered {answer.status_code}: {answer.text[:200]}")
        return answer.json()

    def say(text: str) -> tuple[str, list[dict[str, Any]]]:
        thread = ask("POST", "/threads", {})["thread_id"]
        body = {"assistant_id": agent, "input": {"messages": [{"role": "user", "content": text}]}}
        values = ask("POST", f"/threads/{thread}/runs/wait", body)
        messages = values.get("messages") or [{}]
        hold(messages[-1].get("type") == "ai", f"The run ended without an answer: {str(values)[:200]}")
        return thread, messages

    ask("GET", "/ok", check_db="1")
    status = httpx.get(client.base_url.join("/memory"), timeout=30).status_code
    hold(status in {401, 403}, f"/memory without a token answered {status}, not 401.")
    yield "health"
    shared = ask("GET", "/memory/me")["routes"]["/memories/"]["shared"]  # nobody has files of their own
    paths = [] if shared else [file["path"] for file in ask("GET", "/memory")["files"]]
    talked = ask("POST", "/threads/search", {"limit": 1, "metadata": {"graph_id": agent}})
    is_new = MARK in paths or not (paths or talked)
    hold(is_new, "TOKEN is of somebody who has memory, and all of it would be deleted; use another person's.")
    yield "newcomer"
    word = f"smoke{uuid.uuid4().hex[:8]}"
    try:
        if not shared:
            ask("PUT", "/memory/file", {"content": f"- {word}\n"}, path=MARK)
            hold(word in ask("GET", "/memory/file", path=MARK)["content"], f"{MARK} lacks what was written.")
            yield "write"
            for folder in ask("GET", "/memory")["shared"]:
                named = ask("GET", "/memory/me")["routes"][folder["path"]]["namespace"]
                kept = ask("POST", "/store/items/search", {"namespace_prefix": named, "limit": 1_000})["items"]
                hold(len(kept) == len(folder["files"]), f"{folder['path']} lists other files than its namespace holds.")
                yield f"group {folder['path']}"
        thread, _ = say(f"My word of today is {word}. Answer with OK.")
        yield "turn"
        if not shared:
            yield from _consolidation(client)
        _, messages = say(f"What did we say about {word}? Use the tool search_past_conversations.")
        results = [str(message["content"]) for message in messages if message.get("name") == "search_past_conversations"]
        hold(results, "The model did not search.")
        hold(any(thread in result for result in results), "The search did not find the turn.")
        yield "search"
        talks = [talk["thread_id"] for talk in ask("GET", "/memory/export")["conversations"]]
        hold(thread in talks, "The export lacks the conversation.")
        yield "export"
    finally:
        ask("DELETE", "/memory")
        hold(not ask("POST", "/threads/search", {"limit": 1}), "A conversation is still there after DELETE /memory.")
        hold(shared or not ask("GET", "/memory")["files"], "A file is still there after DELETE /memory.")
        found = ask("GET", "/memory/search", q=word)["conversations"]
        hold(not found, "The search still finds the turn after DELETE /memory.")
    yield "deletion"


def _consolidation(client: httpx.Client) -> Iterator[str]:
    """A rehearsal reads the turn that was made, unless consolidation was taken off."""
    answer = client.post("/memory/consolidate", params={"dry_run": "true"})
    if answer.status_code != httpx.codes.NOT_FOUND:
        said = answer.text[:200]
        hold(answer.is_success and answer.json().get("status") != "failed", f"Consolidation would fail: {said}")
        hold(answer.json().get("conversations"), f"Consolidation did not read the turn: {said}")
        yield "consolidation"


def hold(holds: object, reason: str) -> None:
    """Exits with the reason unless something holds."""
    if not holds:
        sys.exit(f"FAILED  {reason}")


def main() -> str | None:
    """The command. Returns the reason if a claim does not hold."""
    parser = argparse.ArgumentParser(prog="python -m lasting_memory.dev.smoke", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True)
    url, token = parser.parse_args().url, sys.stdin.read().strip()
    try:
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=TURN_SECONDS) as client:
            for claim in smoke(client, agent_graphs(Path())[0]):
                print(f"ok      {claim}", flush=True)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError) as error:
        return f"FAILED  {error!r}"
    return None


if __name__ == "__main__":
    sys.exit(main())
