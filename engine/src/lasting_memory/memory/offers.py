"""Offers of a person: lines of their own memory that they offer to the folder of a group of theirs.

An agent can only prepare an offer, in its person's own namespace. The person confirms the text and
the group outside of runs. What crosses then is an item in the group's namespace: the text, its
author and the day (`offer_decisions.py` has what becomes of it there). The person's own item says from which
file the line is. An offer counts only while both items are there. So whoever is forgotten, or has
left the group, offers nothing from that moment.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, GetOp, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import days
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.ends import end_of
from lasting_memory.memory.folder import check_write, vouch_of
from lasting_memory.memory.group_folders import ACCEPTED_KEY, GroupFolder
from lasting_memory.memory.journal import Began, lines_of
from lasting_memory.memory.offer_text import check_offer_text
from lasting_memory.memory.one_fact import Fact, wording
from lasting_memory.memory.proposals import DecidedError, UnknownProposalError
from lasting_memory.memory.stored_files import read_file
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author, User, membership_of
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of

# Open offers of a person to one group; offers that agents have prepared for a person; and offers of
# a person whose decision is known.
MAX_OPEN = 5
MAX_PREPARED = 10
_DECIDED_KEPT = 20
# An offer goes so many days after a token of its author's has proved last that they are in the group:
# nobody tells a server who left. And how often a proof is noted.
PROVED_DAYS = 30
_NOTED_AGAIN = timedelta(days=1)
# For how long whoever decides about an offer keeps others from it: a process that dies, keeps on.
_CLAIMED = timedelta(minutes=1)
# Claims of one offer that are looked at.
_CLAIMS = 100
Status = Literal["prepared", "open", "accepted", "declined"]


class UnknownOfferError(UnknownProposalError):
    """No offer has this id, or it counts no more."""

    def __init__(self, offer_id: str) -> None:
        super().__init__(
            f"There is no open offer {offer_id[:40]!r}: it was withdrawn, or its author left or was forgotten."
        )


@dataclass(frozen=True, slots=True)
class OwnLine:
    """A line of a person's own memory."""

    files: Namespace  # of the memory
    key: str  # of the file
    line: str  # as it stands in the file
    text: str  # what it says to people
    unconfirmed: bool = False  # whether nobody vouches for it
    is_over: bool = False  # whether the day until which it holds has passed


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

    def is_proved(self) -> bool:
        """Whether the author's membership was proved lately."""
        long_ago = datetime.now(UTC) - timedelta(days=PROVED_DAYS)
        return self.proved_at >= _iso(long_ago)


@dataclass(frozen=True, slots=True)
class GroupOffer:
    """An offer, as the group's namespace has it: all that crosses.

    After the decision it has neither text nor author, only which one it was.
    """

    id: str
    author: str
    text: str
    day: str  # ISO, UTC
    decided: Literal["", "accepted", "declined"] = ""
    unconfirmed: bool = False  # whether nobody vouched for it: offering it does not confirm it

    def is_over(self) -> bool:
        """Whether the day until which it held, when it was offered, has passed in UTC."""
        end = end_of(self.text)
        if end is None or end.isoformat() < self.day:
            return False
        return end < days.today(days.WORLDS)


_OFFERS = TypeAdapter(Offer)
_GROUP_OFFERS = TypeAdapter(GroupOffer)


def offers_in(items: Iterable[object]) -> list[Offer]:
    """The offers in a person's items, oldest first. A damaged one is left out."""
    found = list[Offer]()
    for item in items:
        if isinstance(item, Item):
            with suppress(ValidationError):
                offer = _OFFERS.validate_python(item.value)
                found.append(offer)
    return sorted(found, key=lambda offer: (offer.at, offer.id))


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
    value = _OFFERS.dump_python(offer, mode="json")
    return PutOp(namespaces.offers(author), offer.id, value, index=False)


def put_group_offer(place: Namespace, group_offer: GroupOffer) -> PutOp:
    """The operation that puts the group's item of an offer."""
    value = _GROUP_OFFERS.dump_python(group_offer, mode="json")
    if not group_offer.unconfirmed:  # nothing crosses that need not
        del value["unconfirmed"]
    return PutOp(place, group_offer.id, value, index=False)


@asynccontextmanager
async def deciding(store: BaseStore, place: Namespace, offer_id: str) -> AsyncIterator[None]:
    """Decides about an open offer, or withdraws it, alone among all processes. `place` is the
    namespace of what is offered to its group.

    Each puts a claim, then looks for others': of two at least one sees the other. Raises
    `DecidedError` where somebody else's is there.
    """
    async with lock_of("offer", offer_id):
        now = datetime.now(UTC)
        own = f"{offer_id} {uuid4().hex}"
        claim = {"claims": offer_id, "at": _iso(now)}
        try:
            await store.aput(place, own, claim, index=False)
            found = await store.asearch(place, filter={"claims": offer_id}, limit=_CLAIMS)
            others = [item for item in found if item.key != own]
            old = [item for item in others if str(item.value.get("at", "")) < _iso(now - _CLAIMED)]
            await store.abatch([PutOp(place, item.key, None) for item in old])
            if len(others) > len(old):
                raise DecidedError(
                    f"Somebody else decides about the offer {offer_id[:40]!r} at this moment; look again."
                )
            yield
        finally:
            await asyncio.shield(store.adelete(place, own))


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds")  # one width, so that texts compare as times


def added_line(before: FileData | None, path: str, text: str) -> FileData:
    """A file of a group with a line at its end. What stands there already is not added again.

    Raises `RefusedWrite` for a file that is no text.
    """
    if before is not None and before["encoding"] != "utf-8":
        raise RefusedWrite(f"{path} is not text, so no line can be added to it.")
    content = before["content"] if before else ""
    present = map(wording, lines_of(content))
    if before is not None and wording(text) in present:
        return before
    if content and not content.endswith("\n"):
        content = f"{content}\n"
    return FileData(content=f"{content}- {text}\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class OffersOfPerson:
    """A person's offers, for a run or a request that began at a time; None: nobody can be forgotten
    meanwhile.
    """

    store: BaseStore
    author: Actor
    deployment: Deployment
    began: Began | None = None

    async def all(self) -> list[Offer]:
        """Those that are prepared or open, and the last that were decided, oldest first."""
        shown, _ = await self._shown_and_gone()
        return shown

    async def _shown_and_gone(self) -> tuple[list[Offer], list[Offer]]:
        """The same, and those that count no more: their items in the groups' namespaces are gone, or
        membership was not proved for long.
        """
        known = await self._known()
        outcomes = await self._outcomes(known)
        shown = list[Offer]()
        gone = list[Offer]()
        for offer in known:
            group_offer = outcomes.get(offer.id)
            if offer.status != "open":
                shown.append(offer)
            elif group_offer and (group_offer.decided or offer.is_proved()):
                status = group_offer.decided or "open"
                shown.append(replace(offer, status=status))
            else:
                gone.append(offer)
        return shown, gone

    async def _outcomes(self, offers: Iterable[Offer]) -> dict[str, GroupOffer | None]:
        """What the groups' namespaces say of the open ones of these offers, by their ids."""
        opened = _with_status(offers, "open")
        gets = [GetOp(offer.place(self.author), offer.id) for offer in opened]
        items = await self.store.abatch(gets)
        outcomes = dict[str, GroupOffer | None]()
        for offer, item in zip(opened, items, strict=True):
            outcomes[offer.id] = group_offer_in(item)
        return outcomes

    @property
    def _place(self) -> Namespace:
        return namespaces.offers(self.author)

    async def _known(self) -> list[Offer]:
        items = await journal.all_items(self.store, self._place)
        return offers_in(items)

    async def prepare(self, folder: GroupFolder, own_line: OwnLine) -> Offer:
        """Keep an offer for the person to confirm. Nothing crosses.

        The same one is kept once. Raises `RefusedWrite` for what may not be offered, and if too many
        wait for the person.
        """
        await self._check(folder, own_line)
        async with lock_of("offers", self.author):
            prepared = _with_status(await self._known(), "prepared")
            same = _same(prepared, folder, own_line)
            if same:
                return same[0]
            if len(prepared) >= MAX_PREPARED:
                raise RefusedWrite(
                    f"{len(prepared)} prepared offers wait for the person, and {MAX_PREPARED} may; tell them so."
                )
            offer = _offer(folder, own_line, "prepared", keep=True)
            await self._put([put_offer(self.author, offer)])
            return offer

    async def offer(self, folder: GroupFolder, own_line: OwnLine, *, keep: bool) -> Offer:
        """Offer a line to a group. The person has confirmed the text and the group.

        With `keep` their own line stays when it is accepted. The same text is offered once: the open
        offer is returned. Raises `RefusedWrite` for what may not be offered, and if too many wait for
        the group.
        """
        await self._check(folder, own_line)
        async with lock_of("offers", self.author):
            known, gone = await self._shown_and_gone()
            opened = self._open_to(folder, known)
            same = _same(opened, folder, own_line)
            if same:
                return same[0]
            if len(opened) >= MAX_OPEN:
                raise _too_many(folder)
            offer = _offer(folder, own_line, "open", keep=keep)
            group_offer = GroupOffer(
                id=offer.id,
                author=self.author.user_id,
                text=offer.text,
                day=f"{days.now():%Y-%m-%d}",
                unconfirmed=offer.unconfirmed,
            )
            # The person's own first: what is offered does not count without it.
            own_op = put_offer(self.author, offer)
            group_op = put_group_offer(offer.place(self.author), group_offer)
            gone += _replaced(known, folder, own_line)
            deletions = self._deletions(gone)
            await self._put([own_op, group_op, *deletions])
            await self._take_back_if_too_many(folder, offer)
            return offer

    def _open_to(self, folder: GroupFolder, offers: Iterable[Offer]) -> list[Offer]:
        """Those of these offers that wait for a group."""
        waiting = list[Offer]()
        for offer in _with_status(offers, "open"):
            place = offer.place(self.author)
            if place[-1] == folder.files[-1]:
                waiting.append(offer)
        return waiting

    async def _take_back_if_too_many(self, folder: GroupFolder, offer: Offer) -> None:
        """Delete an offer that was just put, and raise `RefusedWrite`, if another process put the
        last one that may wait meanwhile.
        """
        known, _ = await self._shown_and_gone()
        opened = self._open_to(folder, known)
        may_wait = [other.id for other in opened[:MAX_OPEN]]
        if len(may_wait) == MAX_OPEN and offer.id not in may_wait:
            await self.store.abatch(self._deletions([offer]))
            raise _too_many(folder)

    async def withdraw(self, offer_id: str) -> Offer:
        """Withdraw an open offer, or drop a prepared one.

        Raises `UnknownOfferError` if the person has no such offer, and `DecidedError` if it was
        decided.
        """
        offer = await self._undecided(offer_id)
        if offer.status == "prepared":  # no group knows of it
            await self.store.abatch(self._deletions([offer]))
            return offer
        async with deciding(self.store, offer.place(self.author), offer_id):
            offer = await self._undecided(offer_id)
            await self.store.abatch(self._deletions([offer]))
            return offer

    async def _undecided(self, offer_id: str) -> Offer:
        """The offer with this id. Raises as `withdraw`."""
        known = {offer.id: offer for offer in await self.all()}
        offer = known.get(offer_id)
        if offer is None:
            raise UnknownOfferError(offer_id)
        if offer.status in ("accepted", "declined"):
            raise DecidedError(f"The offer {offer_id[:40]!r} was {offer.status} already.")
        return offer

    async def withdraw_all(self) -> None:
        """Take all that is offered out of the groups' namespaces. The person is being forgotten."""
        known = await self._known()
        await self.store.abatch(self._of_groups(known))

    async def prove(self, claims: Mapping[str, str]) -> None:
        """Note to which groups a token has just proved that the person belongs.

        Open offers to groups to which they do not belong any more go.
        """
        left = list[Offer]()
        proved = list[Offer]()
        for offer in _with_status(await self._known(), "open"):
            belongs = claims.get(offer.claim) == offer.group
            if belongs:
                proved.append(offer)
            else:
                left.append(offer)
        await self.store.abatch(self._deletions(left))
        now = datetime.now(UTC)
        noted_lately = _iso(now - _NOTED_AGAIN)
        for offer in proved:
            if offer.proved_at < noted_lately:
                await self._note_proof(offer, _iso(now))

    async def _note_proof(self, offer: Offer, at: str) -> None:
        async with lock_of("offer", offer.id):
            item = await self.store.aget(self._place, offer.id)
            if offers_in([item]) == [offer]:
                proved = replace(offer, proved_at=at)
                op = put_offer(self.author, proved)
                await journal.put_unless_forgotten(self.store, [op], self.began)

    async def erase(self, fact: Fact, *, dry_run: bool = False) -> int:
        """Delete the offers that say a fact, prepared, open or decided. Returns their number.

        With `dry_run` it only counts. What a group has accepted is the group's.
        """
        saying = list[Offer]()
        for offer in await self._known():
            if fact.is_in(offer.text) or fact.is_in(offer.line):
                saying.append(offer)
        if not dry_run:
            await self.store.abatch(self._deletions(saying))
        return len(saying)

    def _deletions(self, offers: Sequence[Offer]) -> list[PutOp]:
        """The deletions of offers. What a group knows of a decided one has no text of it."""
        own = [PutOp(self._place, offer.id, None) for offer in offers]
        return [*own, *self._of_groups(offers)]

    def _of_groups(self, offers: Sequence[Offer]) -> list[PutOp]:
        opened = _with_status(offers, "open")
        return [PutOp(offer.place(self.author), offer.id, None) for offer in opened]

    async def _put(self, ops: Sequence[PutOp]) -> None:
        """Raises `RefusedWrite` if the person was forgotten since this began, or a fact deleted."""
        await journal.put_or_refuse(self.store, ops, self.began)

    async def _check(self, folder: GroupFolder, own_line: OwnLine) -> None:
        """Raises `RefusedWrite` for a line that may not stand in the group's folder."""
        text = own_line.text
        check_offer_text(text)
        if own_line.is_over:
            raise RefusedWrite(
                "The day until which the line holds has passed; give it another one, or none, then "
                "offer it.",
                kind="offer_over",
            )
        before = await read_file(self.store, folder.files, ACCEPTED_KEY)
        path = folder.accepted_path
        after = added_line(before, path, text)
        author = Author("person", self.author.user_id)
        vouch = vouch_of(author)
        check_write(self.deployment, path, before, after, author, vouch=vouch)


async def note_groups(
    store: BaseStore,
    author: Actor,
    deployment: Deployment,
    user: User,
    began: Began | None = None,
) -> None:
    """Note to which groups a person belongs, by the token of their request that was just verified.

    What they offer to a group that they have left goes. A token that has expired meanwhile says
    nothing.
    """
    if not deployment.has_offers:
        return
    membership = membership_of(user)
    if not membership.is_over:
        await OffersOfPerson(store, author, deployment, began).prove(membership.claims)


def _too_many(folder: GroupFolder) -> RefusedWrite:
    return RefusedWrite(
        f"{MAX_OPEN} offers of yours wait for {folder.group}, and no more may; withdraw one, or wait.",
        kind="too_many_offers",
    )


def _offer(folder: GroupFolder, own_line: OwnLine, status: Status, *, keep: bool) -> Offer:
    at = _iso(datetime.now(UTC))
    return Offer(
        id=str(uuid4()),
        at=at,
        status=status,
        text=own_line.text,
        line=own_line.line,
        memory=own_line.files,
        key=own_line.key,
        route=folder.route,
        claim=folder.claim,
        group=folder.group,
        keep=keep,
        proved_at=at,
        unconfirmed=own_line.unconfirmed,
    )


def _replaced(known: Sequence[Offer], folder: GroupFolder, own_line: OwnLine) -> list[Offer]:
    """Those of these offers that a new one takes the place of, and the oldest decided ones."""
    prepared = _with_status(known, "prepared")
    decided = _with_status(known, "accepted", "declined")
    same = _same(prepared, folder, own_line)
    return same + decided[:-_DECIDED_KEPT]


def _with_status(offers: Iterable[Offer], *statuses: Status) -> list[Offer]:
    return [offer for offer in offers if offer.status in statuses]


def _same(offers: Iterable[Offer], folder: GroupFolder, own_line: OwnLine) -> list[Offer]:
    """Those of these offers that have the text of a line, for a group."""
    said = wording(own_line.text)
    same = list[Offer]()
    for offer in offers:
        is_for_group = offer.claim == folder.claim and offer.group == folder.group
        if is_for_group and wording(offer.text) == said:
            same.append(offer)
    return same
