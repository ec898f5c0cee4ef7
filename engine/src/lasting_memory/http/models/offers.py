"""Answers about lines that people offer to their groups."""

from operator import not_
from typing import Literal

from pydantic import Field

from lasting_memory.http.models.base import Answer
from lasting_memory.http.models.facts import Vouched
from lasting_memory.memory.offers import Status as OfferStatus


class GroupToOffer(Answer):
    """A group's folder to which lines of one's own memory may be offered."""

    folder: str = Field(description="as the agent sees it, such as /team/")
    claim: str = Field(description="the claim of the token that makes somebody a member")
    group: str = Field(description="the claim's value")
    decided_by: Literal["members", "operators"] = Field(
        description="members, where their agents write there at once; operators decide everywhere"
    )
    left: int = Field(description="how many further offers of yours may wait there")


class OwnOffer(Answer):
    """A line of one's own memory that is offered to a group, or prepared for that by an agent."""

    id: str
    at: str
    status: OfferStatus = Field(description="prepared: by your agent; nothing of it is shared")
    text: str = Field(description="what the group gets, and nothing else")
    path: str = Field(description="your file that the line is from")
    folder: str
    claim: str
    group: str
    keep: bool = Field(description="whether your own line stays when it is accepted")
    source: Vouched | None = Field(default=None, exclude_if=not_)


class OfferToDecide(Answer):
    """An offer of somebody's to a group in whose folder you may write."""

    id: str
    author: str = Field(description="who offers it")
    text: str
    day: str = Field(description="when it was offered")
    folder: str
    claim: str
    group: str
    org_id: str
    source: Vouched | None = Field(default=None, exclude_if=not_)


class Offers(Answer):
    groups: list[GroupToOffer]
    offers: list[OwnOffer] = Field(description="yours, the oldest first")
    to_decide: list[OfferToDecide] = Field(description="the oldest first")
    more: int = Field(description="newer ones to decide, which are shown once these are decided")


class DecidedOffer(Answer):
    id: str
    accepted: bool
    path: str | None = Field(description="the group's file in which the line is now")


class WithdrawnOffer(Answer):
    id: str
    status: OfferStatus = Field(description="what it was")
