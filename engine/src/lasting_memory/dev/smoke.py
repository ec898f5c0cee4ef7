"""`make smoke`: tests a deployment of this folder from outside as one person, and forgets that
person at the end.

python -m lasting_memory.dev.smoke --url URL, with the token in the variable TOKEN or on standard
input. One line for each claim that holds; at the first that does not, the reason. The person must
have no memory, because the test deletes everything of theirs.

The answers that it gets are described as far as it looks at them.
"""

import argparse
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import NotRequired, TypeVar

import httpx
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from lasting_memory.settings import check_server, given_token

# Marks a person of the smoke test, also after an interrupted test.
MARK = "/memories/smoke-test.md"
# Seconds for a model's answer.
TURN_SECONDS = 180.0


class _Route(TypedDict):
    shared: bool
    namespace: object


class _Person(TypedDict):
    agents: list[str]
    routes: dict[str, _Route]


class _File(TypedDict):
    path: str


class _Folder(_File):
    files: list[object]


class _Memory(TypedDict):
    files: list[_File]
    shared: list[_Folder]


class _Text(TypedDict):
    content: str


class _Items(TypedDict):
    items: list[object]


class _Conversations(TypedDict):
    conversations: list[object]


class _Thread(TypedDict):
    thread_id: str


@with_config(ConfigDict(extra="allow"))
class _State(TypedDict):
    messages: NotRequired[list[dict[str, object]] | None]


_Answer = TypeVar("_Answer")


class SmokeTest:
    """A deployment as the person whom `client` signs in. Its methods exit at what does not hold."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._word = f"smoke{uuid.uuid4().hex[:8]}"
        person = self._ask(_Person, "GET", "/memory/me")
        self._routes = person["routes"]
        self._agent = person["agents"][0]
        # Nobody has files of their own.
        self._is_shared = self._routes["/memories/"]["shared"]

    def check_newcomer(self) -> None:
        """The person has no memory, but what an earlier test has left."""
        paths = list[str]()
        if not self._is_shared:
            paths = [file["path"] for file in self._files()]
        query = {"limit": 1, "metadata": {"graph_id": self._agent}}
        conversations = self._ask(list[object], "POST", "/threads/search", query)
        has_memory = paths or conversations
        is_of_earlier_test = MARK in paths
        hold(
            is_of_earlier_test or not has_memory,
            "TOKEN is of somebody who has memory, which would be deleted; use another's.",
        )

    def claims(self) -> Iterator[str]:
        """Tries writing, a turn, consolidation, search and export. Yields the name of each that
        works.
        """
        if not self._is_shared:
            self._check_write()
            yield "write"
            yield from self._check_groups()
        thread, _ = self._say(f"My word of today is {self._word}. Answer with OK.")
        yield "turn"
        if self._consolidates():
            yield "consolidation"
        self._check_search(thread)
        yield "search"
        export = self._ask(_Conversations, "GET", "/memory/export")
        exported_text = str(export["conversations"])
        hold(thread in exported_text, "The export lacks the conversation.")
        yield "export"

    def delete(self) -> None:
        """Forgets the person, and looks for what is still there."""
        self._ask(object, "DELETE", "/memory")
        leftovers = self._ask(list[object], "POST", "/threads/search", {"limit": 1})
        search = self._ask(_Conversations, "GET", "/memory/search", q=self._word)
        leftovers += search["conversations"]
        if not self._is_shared:
            leftovers += self._files()
        shown_text = str(leftovers)[:200]
        hold(not leftovers, f"After DELETE /memory this is still there: {shown_text}")

    def _check_write(self) -> None:
        """What the person writes can be read."""
        body = {"content": f"- {self._word}\n"}
        self._ask(object, "PUT", "/memory/file", body, path=MARK)
        file = self._ask(_Text, "GET", "/memory/file", path=MARK)
        hold(self._word in file["content"], f"{MARK} lacks what was written.")

    def _check_groups(self) -> Iterator[str]:
        """The folders of groups list what their namespaces hold. Yields a claim for each."""
        memory = self._ask(_Memory, "GET", "/memory")
        for folder in memory["shared"]:
            path = folder["path"]
            route = self._routes[path]
            query = {"namespace_prefix": route["namespace"], "limit": 1_000}
            items = self._ask(_Items, "POST", "/store/items/search", query)
            hold(
                len(items["items"]) == len(folder["files"]),
                f"{path} lists other files than its namespace holds.",
            )
            yield f"group {path}"

    def _consolidates(self) -> bool:
        """Whether consolidation works. False where the deployment has none."""
        answer = self._client.post("/memory/consolidate", params={"dry_run": "true"})
        if self._is_shared or answer.status_code == httpx.codes.NOT_FOUND:
            return False
        report = answer.json() if answer.is_success else {}
        has_failed = report.get("status") == "failed"
        shown_text = answer.text[:200]
        hold(not has_failed and report.get("conversations"), f"Consolidation: {shown_text}")
        return True

    def _check_search(self, thread: str) -> None:
        """The model finds the turn in this thread."""
        question = f"What did we say about {self._word}? Use the tool search_past_conversations."
        _, messages = self._say(question)
        results = list[str]()
        for message in messages:
            if message.get("name") == "search_past_conversations":
                content = message["content"]
                results.append(str(content))
        hold(results, "The model did not search.")
        hold(thread in str(results), "The search did not find the turn.")

    def _files(self) -> list[_File]:
        """The person's files."""
        memory = self._ask(_Memory, "GET", "/memory")
        return memory["files"]

    def _ask(
        self,
        kind: type[_Answer],
        method: str,
        url: str,
        body: Mapping[str, object] | None = None,
        **parameters: str,
    ) -> _Answer:
        """The JSON of an answer. Exits if the answer is no success, or not of this kind."""
        answer = self._client.request(method, url, json=body, params=parameters)
        shown_text = answer.text[:200]
        hold(answer.is_success, f"{method} {url} answered {answer.status_code}: {shown_text}")
        try:
            return TypeAdapter(kind).validate_json(answer.content)
        except ValidationError:
            sys.exit(
                f"FAILED  {method} {url} answered in a form that is not known here: {shown_text}"
            )

    def _say(self, text: str) -> tuple[str, list[dict[str, object]]]:
        """Says something in a new thread. Returns the thread's id, and its messages afterwards."""
        thread = self._ask(_Thread, "POST", "/threads", {})["thread_id"]
        message = {"role": "user", "content": text}
        body = {"assistant_id": self._agent, "input": {"messages": [message]}}
        values = self._ask(_State, "POST", f"/threads/{thread}/runs/wait", body)
        messages = values.get("messages") or [{}]
        hold(
            messages[-1].get("type") == "ai",
            f"The run ended without an answer: {str(values)[:200]}",
        )
        return thread, messages


def smoke(client: httpx.Client) -> Iterator[str]:
    """Tries everything as the person whom `client` signs in, and yields what holds. Exits at what
    does not.

    Once the person is known to have no memory, the deletion follows whatever fails, also Ctrl-C.
    """
    check_health(client)
    yield "health"
    test = SmokeTest(client)
    test.check_newcomer()
    yield "newcomer"
    try:
        yield from test.claims()
    finally:
        test.delete()
    yield "deletion"


def check_health(client: httpx.Client) -> None:
    """The deployment and its database answer, and nobody gets in without a token."""
    answer = client.get("/ok", params={"check_db": "1"})
    shown_text = answer.text[:200]
    hold(answer.is_success, f"GET /ok answered {answer.status_code}: {shown_text}")
    address = client.base_url.join("/memory")
    refusal = httpx.get(address, timeout=30)
    status = refusal.status_code
    hold(status in {401, 403}, f"/memory without a token answered {status}, not 401.")


def hold(holds: object, reason: str) -> None:
    """Exits with the reason unless something holds."""
    if not holds:
        sys.exit(f"FAILED  {reason}")


def main(arguments: Sequence[str] | None = None) -> str | None:
    """The command. Its arguments are by default those of the process.

    Returns the reason if a claim does not hold.
    """
    parser = argparse.ArgumentParser(
        prog="python -m lasting_memory.dev.smoke", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--url", required=True)
    url = parser.parse_args(arguments).url
    token = given_token()
    if not token and sys.stdin.isatty():
        return "TOKEN is empty; give that of somebody without memory, e.g. TOKEN=dev:acme:smoke."
    try:
        if not token:
            token = sys.stdin.read().strip()
        check_server(url)
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=TURN_SECONDS) as client:
            for claim in smoke(client):
                print(f"ok      {claim}", flush=True)
    except (httpx.HTTPError, ValueError, KeyError) as error:
        return f"FAILED  {error!r}"
    except KeyboardInterrupt:
        return "Stopped. What this made may still be there; run it again, which deletes that."
    return None


if __name__ == "__main__":
    sys.exit(main())
