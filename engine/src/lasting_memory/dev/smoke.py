"""`make smoke`: tests a deployment of this folder from outside as one person, and forgets that
person at the end.

python -m lasting_memory.dev.smoke --url URL, with the token on standard input. One line for each
claim that holds; at the first that does not, the reason. The person must have no memory, because
the test deletes everything of theirs.
"""

import argparse
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import httpx

from lasting_memory.settings import check_server

# Marks a person of the smoke test, also after an interrupted test.
MARK = "/memories/smoke-test.md"
# Seconds for a model's answer.
TURN_SECONDS = 180.0


def smoke(client: httpx.Client) -> Iterator[str]:
    """Tries everything as the person whom `client` signs in, and gives what holds. Exits at what
    does not.

    Once the person is known to have no memory, the deletion follows whatever fails, also Ctrl-C.
    """

    def ask(method: str, url: str, body: Any = None, **parameters: str) -> Any:
        answer = client.request(method, url, json=body, params=parameters)
        hold(
            answer.is_success, f"{method} {url} answered {answer.status_code}: {answer.text[:200]}"
        )
        return answer.json()

    def say(text: str) -> tuple[str, list[dict[str, Any]]]:
        thread = ask("POST", "/threads", {})["thread_id"]
        body = {"assistant_id": agent, "input": {"messages": [{"role": "user", "content": text}]}}
        values = ask("POST", f"/threads/{thread}/runs/wait", body)
        messages = values.get("messages") or [{}]
        hold(
            messages[-1].get("type") == "ai",
            f"The run ended without an answer: {str(values)[:200]}",
        )
        return thread, messages

    ask("GET", "/ok", check_db="1")
    status = httpx.get(client.base_url.join("/memory"), timeout=30).status_code
    hold(status in {401, 403}, f"/memory without a token answered {status}, not 401.")
    yield "health"
    about = ask("GET", "/memory/me")
    agent, shared = (
        about["agents"][0],
        about["routes"]["/memories/"]["shared"],
    )  # shared: nobody has files of their own
    paths = [] if shared else [file["path"] for file in ask("GET", "/memory")["files"]]
    talked = ask("POST", "/threads/search", {"limit": 1, "metadata": {"graph_id": agent}})
    hold(
        MARK in paths or not (paths or talked),
        "TOKEN is of somebody who has memory, which would be deleted; use another's.",
    )
    yield "newcomer"
    word = f"smoke{uuid.uuid4().hex[:8]}"
    try:
        if not shared:
            ask("PUT", "/memory/file", {"content": f"- {word}\n"}, path=MARK)
            hold(
                word in ask("GET", "/memory/file", path=MARK)["content"],
                f"{MARK} lacks what was written.",
            )
            yield "write"
            for folder in ask("GET", "/memory")["shared"]:
                named = about["routes"][folder["path"]]["namespace"]
                kept = ask(
                    "POST", "/store/items/search", {"namespace_prefix": named, "limit": 1_000}
                )["items"]
                hold(
                    len(kept) == len(folder["files"]),
                    f"{folder['path']} lists other files than its namespace holds.",
                )
                yield f"group {folder['path']}"
        thread, _ = say(f"My word of today is {word}. Answer with OK.")
        yield "turn"
        rehearsed = client.post("/memory/consolidate", params={"dry_run": "true"})
        if (
            not shared and rehearsed.status_code != httpx.codes.NOT_FOUND
        ):  # unless consolidation was taken off
            read = rehearsed.json() if rehearsed.is_success else {}
            hold(
                read.get("status") != "failed" and read.get("conversations"),
                f"Consolidation: {rehearsed.text[:200]}",
            )
            yield "consolidation"
        _, messages = say(f"What did we say about {word}? Use the tool search_past_conversations.")
        results = [
            str(message["content"])
            for message in messages
            if message.get("name") == "search_past_conversations"
        ]
        hold(
            thread in str(results),
            "The search did not find the turn." if results else "The model did not search.",
        )
        yield "search"
        hold(
            thread in str(ask("GET", "/memory/export")["conversations"]),
            "The export lacks the conversation.",
        )
        yield "export"
    finally:
        ask("DELETE", "/memory")
        left = [
            *ask("POST", "/threads/search", {"limit": 1}),
            *ask("GET", "/memory/search", q=word)["conversations"],
        ]
        left += [] if shared else ask("GET", "/memory")["files"]
        hold(not left, f"After DELETE /memory this is still there: {str(left)[:200]}")
    yield "deletion"


def hold(holds: object, reason: str) -> None:
    """Exits with the reason unless something holds."""
    if not holds:
        sys.exit(f"FAILED  {reason}")


def main() -> str | None:
    """The command. Returns the reason if a claim does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m lasting_memory.dev.smoke", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--url", required=True)
    url, token = parser.parse_args().url, sys.stdin.read().strip()
    try:
        check_server(url)
        with httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=TURN_SECONDS
        ) as client:
            for claim in smoke(client):
                print(f"ok      {claim}", flush=True)
    except (httpx.HTTPError, ValueError, KeyError) as error:
        return f"FAILED  {error!r}"
    except KeyboardInterrupt:
        return "Stopped. What this made may still be there; run it again, which deletes that."
    return None


if __name__ == "__main__":
    sys.exit(main())
