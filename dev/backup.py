"""`make backup` and `make restore`: everybody's memory and conversations as files, and the memory of such files restored.

python -m dev.backup --url URL --folder FOLDER [--restore], with an operator's token on standard input; without one it signs in
as the seeds do, with LANGSMITH_API_KEY. A person's file is the answer of `GET /memory/export`. A restore merges memory files as
`POST /memory/import` does, and no conversations: a dump of the platform's Postgres has them.
"""

import argparse
import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError
from pydantic import BaseModel, ValidationError

from dev.smoke import read_token
from environment import check_server
from memory.identity import Actor, label, part_of

_PAGE = 1_000


async def people(client: LangGraphClient) -> set[Actor]:
    """All people with memory or conversations. Shared memory (`MEMORY_SCOPE=assistant`) belongs to nobody."""
    shared = (await client.http.get("/memory/me"))["memory_scope"] == "assistant"
    actors, read = set[Actor](), 0
    while page := (await client.store.list_namespaces(prefix=["memories"], limit=_PAGE, offset=read))["namespaces"]:
        labels = [namespace[-1].split(":") for namespace in page]
        # Two labels are an organization and its person; of shared memory an assistant and an organization.
        actors |= {Actor(part_of(names[-1]), part_of(names[-2])) for names in labels if len(names) > 1 + shared}
        read += len(page)
    read = 0
    while threads := await client.threads.search(limit=_PAGE, offset=read, sort_by="thread_id", select=["metadata"]):
        stamps = [thread["metadata"] or {} for thread in threads]
        actors |= {Actor(str(of["user_id"]), str(of["org_id"])) for of in stamps if {"user_id", "org_id"} <= of.keys()}
        read += len(threads)
    return actors


async def back_up(client: LangGraphClient, folder: Path) -> tuple[int, list[str]]:
    """Write a file per person, which appears once it is whole. Returns their number, and a line for each that failed."""
    everybody, failed = sorted(await people(client), key=lambda actor: (actor.org_id, actor.user_id)), list[str]()
    for actor in everybody:
        try:
            await _save(client, actor, folder / label(actor.org_id) / f"{label(actor.user_id)}.json")
        except httpx.HTTPError as error:
            failed.append(f"{actor.user_id} of {actor.org_id} could not be exported: {type(error).__name__} {error}")
    return len(everybody) - len(failed), failed


async def _save(client: LangGraphClient, actor: Actor, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part, named = path.with_suffix(".part"), {"user_id": actor.user_id, "org_id": actor.org_id}
    try:
        async with client.http.client.stream("GET", "/memory/export", params=named) as answer:
            answer.raise_for_status()
            with part.open("wb") as file:
                async for piece in answer.aiter_bytes():
                    file.write(piece)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)  # of a document that was cut off


class _File(BaseModel):
    """A file of a document; another code's value has no content, and stays behind."""

    path: str
    content: str | None = None
    encoding: str = "utf-8"
    assistant_id: str | None = None


class Document(BaseModel):
    """What a restore reads of a person's document."""

    version: int
    user_id: str
    org_id: str
    files: list[_File]


def read_documents(folder: Path) -> list[Document]:
    """All documents of a backup. Raises `ValueError` with one line about the first that is none."""
    documents = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            documents.append(Document.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "it"
            raise ValueError(f"{path} is no person's document: {where}: {first['msg']}; take it out, or repair it.") from None
    return documents


async def restore(client: LangGraphClient, documents: Iterable[Document]) -> int:
    """Merge the memory files of a backup's documents into people's memory; returns the number of people."""
    restored = 0
    for document in documents:
        by_assistant: defaultdict[str | None, list[dict[str, Any]]] = defaultdict(list)
        for file in document.files:
            if file.content is not None:
                by_assistant[file.assistant_id].append(file.model_dump(exclude={"assistant_id"}))
        for assistant, files in by_assistant.items():
            named = {"user_id": document.user_id, "org_id": document.org_id, "dry_run": "false"}
            parameters = named | ({"assistant_id": assistant} if assistant else {})
            await client.http.post("/memory/import", json={"version": document.version, "files": files}, params=parameters)
        restored += bool(by_assistant)
    return restored


async def _run(url: str, folder: Path, token: str, *, documents: Iterable[Document] | None) -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {"x-auth-scheme": "langsmith"}
    async with get_client(url=url, headers=headers, timeout=600) as client:
        if documents is not None:
            return f"The memory of {await restore(client, documents)} people is restored."
        saved, failed = await back_up(client, folder)
    if failed:
        raise ValueError("\n".join([*failed, f"{saved} people are in {folder}; {len(failed)} are not."]))
    return f"{saved} people are in {folder}."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.backup", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--restore", action="store_true")
    given = parser.parse_args()
    try:
        documents = read_documents(given.folder) if given.restore else None
        if documents == []:
            sys.exit(f"FROM is {str(given.folder)!r}, which has no backup in it; name a backup's folder.")
        token = read_token()
        check_server(given.url)
        print(asyncio.run(_run(given.url, given.folder, token, documents=documents)))
    except (APIStatusError, httpx.HTTPStatusError) as error:
        sys.exit(f"{error.request.url} answered {error.response.status_code}; is the token an operator's?")
    except httpx.TransportError as error:
        sys.exit(f"{given.url} does not answer: {type(error).__name__} {error}")
    except OSError as error:
        sys.exit(f"{error.filename or given.folder}: {error.strerror}; name another folder.")
    except ValueError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Interrupted; each file that is there is whole.")


if __name__ == "__main__":
    main()
