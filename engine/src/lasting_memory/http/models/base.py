"""What several answers have in common: an author, a note, the use of tokens, a refusal."""

from collections.abc import Mapping
from typing import Annotated, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from lasting_memory.people import identity

# A typed dict with it has no other keys.
closed = with_config(ConfigDict(extra="forbid"))


_AUTHORS = [
    "agent",
    "subagent",
    "consolidation",
    "person",
    "client",
    "operator",
    "seed",
    "outside",
]


Outcome = Literal["accepted", "declined"]


class Answer(BaseModel, extra="forbid"):
    pass


class Refusal(Answer):
    """Every answer that is no success."""

    detail: str = Field(description="what is wrong, for people")


@closed
class Author(TypedDict):
    """Who made a revision."""

    kind: Annotated[
        str,
        Field(
            description="client: another program of the person's; outside: written past the "
            "journal",
            json_schema_extra={"enum": _AUTHORS},
        ),
    ]
    user_id: Annotated[str, Field(description='the person; "" where nobody knows')]
    run_id: str
    thread_id: Annotated[
        str,
        Field(
            description="the run's thread; of consolidation the conversations that it read, "
            "separated by spaces"
        ),
    ]
    client: NotRequired[
        Annotated[str, Field(description="what the program says it is called; only of a client")]
    ]


def author_of(author: identity.Author) -> Author:
    """The author of a revision, for an answer."""
    entry: Author = {
        "kind": author.kind,
        "user_id": author.user_id,
        "run_id": author.run_id,
        "thread_id": author.thread_id,
    }
    if isinstance(author, identity.ClientAuthor):
        entry["client"] = author.client
    return entry


class Note(Answer):
    """Why something was left out or did not happen."""

    kind: str = Field(description="the reason in a word, for which the page has a sentence")
    texts: list[str] = Field(description="lines that it is about")


@closed
class Usage(TypedDict):
    """How much of a memory's limits is used."""

    files: int
    bytes: int
    max_files: int
    max_bytes: int
    nearly_full: Annotated[bool, Field(description="from 80% of one of the limits on")]


def usage_from(counts: Mapping[str, int]) -> Usage:
    """What a memory uses of its limits, for an answer, as `stored_files.usage_of` counts it."""
    return {
        "files": counts["files"],
        "bytes": counts["bytes"],
        "max_files": counts["max_files"],
        "max_bytes": counts["max_bytes"],
        "nearly_full": bool(counts["nearly_full"]),
    }
