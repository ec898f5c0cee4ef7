"""Answers about who the caller is, their switches, and what the model is shown of them."""

from operator import not_
from typing import Literal

from pydantic import Field

from lasting_memory.http.models.base import Answer
from lasting_memory.memory.controls import Controls as OwnControls
from lasting_memory.settings import MemoryScope, SharedWrites


class MemoryRoute(Answer):
    """A folder of the agent's."""

    shared: bool = Field(description="with others")
    writes: SharedWrites = Field(
        description="whether your agent writes there; interrupt: an operator approves"
    )
    namespace: tuple[str, ...] | None = Field(
        description="where the store API reads it for you; null: nowhere"
    )


class Me(Answer):
    user_id: str
    org_id: str
    agents: list[str] = Field(description="ids of the graphs that people talk to")
    memory_scope: MemoryScope
    routes: dict[str, MemoryRoute] = Field(description="by folder")
    own_memory: bool = Field(description="false where memory is shared, or there is none")
    ends: bool = Field(description="whether lines of memory can be over after a day")
    memory_writes: Literal["both", "background"]
    sign_in: Literal["dev", "token", "provider"]
    pictures: bool = Field(description="whether the model looks at pictures")
    temporary_hours: int | float = Field(description="how long a temporary conversation stays")
    operator: bool
    writes_policies: bool


class PromptBlock(Answer):
    """A part of the system prompt."""

    name: str = Field(description="agent (its own), policies, memory, or skills")
    text: str
    budget: int | None = Field(description="bytes that its files may have; null: any")
    left_out: list[str] = Field(description="a line for each omission")
    bytes: int
    tokens: int = Field(description="estimated")


class Prompt(Answer):
    blocks: list[PromptBlock]
    tools: list[str] = Field(
        description="names of those that the first agent's model is offered; empty where the "
        "server does not tell"
    )
    tools_tokens: int = Field(description="an estimate of what these tools have in each request")


class PolicyFile(Answer):
    path: str
    key: str
    content: str | None = Field(description="null where it is not text")
    bytes: int
    in_prompt: bool


class Policies(Answer):
    namespace: tuple[str, ...] = Field(description="where the store API changes them")
    writable: bool = Field(description="whether you may")
    files: list[PolicyFile]


class Controls(Answer):
    """What a person decided about their memory."""

    paused: bool = Field(description="nothing new is remembered")
    review: bool = Field(description="consolidation proposes its changes to you")
    review_agent: bool = Field(
        default=False,
        exclude_if=not_,
        description="the agent proposes what it would write; absent where it is off",
    )


def controls_of(controls: OwnControls) -> Controls:
    """A person's controls, for an answer."""
    return Controls(
        paused=controls.paused, review=controls.review, review_agent=controls.review_agent
    )
