"""`lasting-memory forget USER ORG`: an operator deletes all that is kept of a person who left.

It comes in as `python -m seeds` does: a deployment on LangSmith wants a LangSmith API key in the
environment, `langgraph dev` wants none. With the variable TOKEN it comes in with that token, which
has to be an operator's. `DELETE /memory` does the deletion, and logs who asked for it.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence

import httpx
from langgraph_sdk import get_sync_client

from lasting_memory import settings

# Seconds. Everything is deleted while the request waits.
_FORGET_SECONDS = 600
_MAX_COUNTED_THREADS = 1_000  # that are counted


def forget(client: httpx.Client, person: Mapping[str, str], *, confirmed: bool) -> str | None:
    """Deletes all that is kept of a person, and prints how much that was. Returns the reason in one
    line if it did not.

    Args:
        client: acts as an operator.
        person: `user_id` and `org_id`.
        confirmed: whether to delete without asking in the terminal.
    """
    user_id = person["user_id"]
    org_id = person["org_id"]
    amount = _amount_kept(client, person)
    print(f"{user_id} of {org_id} has {amount}.", flush=True)  # noqa: T201  # a command's answer
    if not confirmed:
        if not sys.stdin.isatty():
            return "Nothing was deleted: add --yes, because nobody is at a terminal to be asked."
        answer = input("All of it is deleted for good. Type the user again to delete it: ")
        if answer.strip() != user_id:
            return "Nothing was deleted: the user was typed differently."
    response = client.delete("/memory", params=dict(person), timeout=_FORGET_SECONDS)
    response.raise_for_status()
    report = response.json()
    counts_by_kind: dict[str, int] = report["deleted"]
    counts = [f"{number} {kind}" for kind, number in counts_by_kind.items()]
    listed_counts = ", ".join(counts)
    what_stays = "\n".join(report["kept"])
    print(f"Deleted: {listed_counts}. What stays:\n{what_stays}", flush=True)  # noqa: T201
    return None


def _amount_kept(client: httpx.Client, person: Mapping[str, str]) -> str:
    """How many files and threads the deployment has of a person, in words. An operator sees by it
    whether it is the right one.
    """
    response = client.get("/memory", params=dict(person))
    files = "no files of their own"  # as everybody where memory is shared, or there is none
    has_files = response.status_code not in {httpx.codes.NOT_FOUND, httpx.codes.CONFLICT}
    if has_files:
        response.raise_for_status()
        memory = response.json()
        file_count = len(memory["files"])
        files = f"{file_count} files"
    query = {"metadata": dict(person), "limit": _MAX_COUNTED_THREADS, "select": ["thread_id"]}
    response = client.post("/threads/search", json=query)
    response.raise_for_status()
    thread_count = len(response.json())
    if thread_count == _MAX_COUNTED_THREADS:
        return f"{files} and {thread_count} or more threads"
    return f"{files} and {thread_count} threads"


def main(arguments: Sequence[str] | None = None) -> str | None:
    """The command. Its arguments are by default those of the process.

    Returns the reason in one line if the person was not forgotten.
    """
    parser = argparse.ArgumentParser(
        prog="lasting-memory forget", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("user", metavar="USER", help="as tokens name the person")
    parser.add_argument("org", metavar="ORG", help="the person's organization")
    parser.add_argument(
        "--url",
        default=settings.dev_address(),
        help="the deployment's address (default: that of the server that runs here)",
    )
    parser.add_argument("--yes", action="store_true", help="delete without asking")
    args = parser.parse_args(arguments)
    token = settings.given_token()
    sign_in = {"x-auth-scheme": "langsmith"}
    if token:
        sign_in = {"authorization": f"Bearer {token}"}
    person = {"user_id": args.user, "org_id": args.org}
    try:
        settings.check_server(args.url)
        with get_sync_client(url=args.url, headers=sign_in) as client:
            return forget(client.http.client, person, confirmed=args.yes)
    except settings.SettingsError as error:
        return f"{error} Nothing was deleted."
    except (httpx.TransportError, httpx.HTTPStatusError) as error:
        return settings.unanswered(error)
    except KeyboardInterrupt:
        return "Stopped. What was deleted is gone; run it again for the rest."
    except EOFError:
        return "Nothing was deleted: the user was not typed."


if __name__ == "__main__":
    sys.exit(main())
