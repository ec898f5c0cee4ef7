"""A fork with checks and schemas of its own."""

from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from lasting_memory.deployment import PROFILE_PATH, Check, Deployment, Profile
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed

SECRET = "the launch code is 7"


class MyProfile(Profile):
    pronouns: str | None = Field(None, max_length=10, description="How to refer to them.")
    tone: Literal["dry", "warm"] = Field("warm", description="How to sound.")


class Table(BaseModel):
    seats: int = Field(ge=1, le=12)


def forked(*checks: Check, **settings: Any) -> Deployment:
    schemas: dict[str, type[BaseModel]] = {
        PROFILE_PATH: MyProfile,
        "/memories/topics/table.json": Table,
    }
    return replace(deployed(**settings), checks=checks, schemas=schemas)


def no_secret(path: str, content: str | None, author: Author) -> None:
    if SECRET in (content or ""):
        raise RefusedWrite(f"{path} names the launch code; leave it out.")
