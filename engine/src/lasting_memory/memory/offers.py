"""Offers: lines of a person's own memory that they offer to the folder of a group of theirs.

What crosses is an item in the group's namespace (`GroupOffer`): the text, its author and the day. The
person's own item (`Offer`) says from which file the line is. An offer counts only while both items
are there. So whoever is forgotten, or has left the group, offers nothing from that moment.

An offer is prepared until its person confirms it, then open until somebody in the group accepts or
declines it. Then it is decided. What its person does with it is in `own_offers.py`, what becomes of
it in the group in `offer_decisions.py`.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from deepagents.backends.protocol import FileData
from langgraph.store.base import GetOp, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import days
from lasting_memory.memory import journal
from lasting_memory.memory.dated_lines import end_of
from lasting_memory.memory.group_folders import GroupFolder
from lasting_memory.memory.journal import lines_of
from lasting_memory.memory.one_fact import wording
from lasting_memory.memory.proposals import UnknownProposalError
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.people.namespaces import Namespace

# An offer goes so many days after a token of its author's has proved last that they are in the
# group: nobody tells a server who left.
PROVED_DAYS = 30
Decision = Literal["accepted", "declined"]
Status = Literal["prepared", "open", Decision]
DECIDED: tuple[Decision, ...] = get_args(Decision)


class UnknownOfferError(UnknownProposalError):
    """No offer has this id, or it counts no more."""

    def __init__(self, offer_id: str) -> None:
        super().__init__(
            f"There is no open offer {offer_id[:40]!r}: it was withdrawn, or its author left or was forgotten."
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer, as its author's own namespace has it. Times are ISO in UTC."""

    id: str
    at: str
    status: Status
    text: str
    line: str  # as it stands in the file
    memory: Namespace  # of the file
    key: str
    route: str  # of the group's folder when it was offered
    claim: str
    group: str
    keep: bool  # whether the author's own line stays when the offer is accepted
    proved_at: str  # when a token proved last that the author is in the group
    unconfirmed: bool = False  # whether nobody vouched for the line when it was offered

    @property
    def path(self) -> str:
        """The file of the line, as the agent sees it."""
        return f"/memories{self.key}"

    def place(self, author: Actor) -> Namespace:
        """Namespace of what is offered to the group."""
        files = namespaces.group_files(author.org_id, self.claim, self.group)
        return namespaces.group_offers(files)

    def read_group_item(self, author: Actor) -> GetOp:
        """The operation that reads the group's item."""
        place = self.place(author)
        return GetOp(place, self.id)

    def delete_group_item(self, author: Actor) -> PutOp:
        """The operation that deletes the group's item."""
        place = self.place(author)
        return PutOp(place, self.id, None)

    def is_for(self, folder: GroupFolder) -> bool:
        """Whether this is an offer to the group of a folder."""
        if self.claim != folder.claim:
            return False
        return self.group == folder.group

    def is_proved(self) -> bool:
        """Whether the author's membership was proved lately."""
        days_ago = timedelta(days=PROVED_DAYS)
        long_ago = datetime.now(UTC) - days_ago
        return self.proved_at >= journal.iso_time(long_ago)


@dataclass(frozen=True, slots=True)
class GroupOffer:
    """An offer, as the group's namespace has it: all that crosses.

    After the decision it has neither text nor author, only which one it was.
    """

    id: str
    author: str  # the id of the user
    text: str
    day: str  # when it was offered, ISO, UTC
    decided: Literal["", Decision] = ""  # "" while it waits
    unconfirmed: bool = False  # whether nobody vouched for it: offering it does not confirm it

    def is_over(self) -> bool:
        """Whether the day until which the line holds has passed in UTC since it was offered.

        A day that had passed before is no end: the text only tells of it. A line without an end is
        not over.
        """
        end = end_of(self.text)
        if end is None:
            return False
        was_over_before = end.isoformat() < self.day
        today = days.today(days.WORLDS)
        return end < today and not was_over_before

    def after_decision(self, decision: Decision) -> "GroupOffer":
        """What the group keeps of the offer: that this one was decided."""
        return GroupOffer(id=self.id, author="", text="", day=self.day, decided=decision)


_OFFERS = TypeAdapter(Offer)
_GROUP_OFFERS = TypeAdapter(GroupOffer)


def offers_in(items: Iterable[object]) -> list[Offer]:
    """The offers in a person's items, oldest first. A damaged one is left out."""
    offers = list[Offer]()
    for item in items:
        if isinstance(item, Item):
            with suppress(ValidationError):
                offer = _OFFERS.validate_python(item.value)
                offers.append(offer)
    offers.sort(key=_age)
    return offers


def _age(offer: Offer) -> tuple[str, str]:
    """By which offers are sorted, oldest first."""
    return offer.at, offer.id


def group_offer_in(item: object) -> GroupOffer | None:
    """What an item of a group's namespace says; None where there is none, or a damaged one."""
    if not isinstance(item, Item):
        return None
    try:
        return _GROUP_OFFERS.validate_python(item.value)
    except ValidationError:
        return None


def put_offer(author: Actor, offer: Offer) -> PutOp:
    """The operation that puts a person's own item of an offer."""
    place = namespaces.offers(author)
    value = _OFFERS.dump_python(offer, mode="json")
    return PutOp(place, offer.id, value, index=False)


def put_group_offer(place: Namespace, group_offer: GroupOffer) -> PutOp:
    """The operation that puts the group's item of an offer."""
    value = _GROUP_OFFERS.dump_python(group_offer, mode="json")
    if not group_offer.unconfirmed:  # nothing crosses that need not
        del value["unconfirmed"]
    return PutOp(place, group_offer.id, value, index=False)


def with_status(offers: Iterable[Offer], *statuses: Status) -> list[Offer]:
    return [offer for offer in offers if offer.status in statuses]


def added_line(file: FileData | None, path: str, text: str) -> FileData:
    """A file of a group with a line at its end. What stands there already is not added again.

    Raises `RefusedWrite` for a file that is no text.
    """
    content = ""
    if file is not None:
        if file["encoding"] != "utf-8":
            raise RefusedWrite(f"{path} is not text, so no line can be added to it.")
        content = file["content"]
        wordings = map(wording, lines_of(content))
        if wording(text) in wordings:
            return file
    if content and not content.endswith("\n"):
        content = f"{content}\n"
    with_line = f"{content}- {text}\n"
    return FileData(content=with_line, encoding="utf-8")
