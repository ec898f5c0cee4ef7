"""A person's own offers: they prepare, confirm, withdraw and erase them, and prove that they are in
the groups.

An agent can only prepare an offer, in its person's own namespace. The person confirms the text and
the group outside of runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import uuid4

from langgraph.store.base import BaseStore, GetOp, PutOp

from lasting_memory import days
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.folder import check_write, vouch_of
from lasting_memory.memory.group_folders import ACCEPTED_KEY, GroupFolder
from lasting_memory.memory.journal import Writer
from lasting_memory.memory.offer_claims import deciding
from lasting_memory.memory.offer_text import check_offer_text
from lasting_memory.memory.offers import (
    DECIDED,
    GroupOffer,
    Offer,
    Status,
    UnknownOfferError,
    added_line,
    group_offer_in,
    offers_in,
    put_group_offer,
    put_offer,
    with_status,
)
from lasting_memory.memory.one_fact import Fact, wording
from lasting_memory.memory.proposals import DecidedError
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
# How old a noted proof is before a newer one is noted.
_NOTED_AGAIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class OwnLine:
    """A line of a person's own memory."""

    files: Namespace  # of the memory
    key: str  # of the file
    line: str  # as it stands in the file
    text: str  # what it says to people
    unconfirmed: bool = False  # whether nobody vouches for it
    is_over: bool = False  # whether the day until which it holds has passed


class _Counted(NamedTuple):
    """A person's offers: those that count, and those that count no more, each oldest first."""

    counting: list[Offer]
    stale: list[Offer]


@dataclass(frozen=True, slots=True)
class OffersOfPerson:
    """What one person offers, and may do with their offers.

    `writer` is the run or the request that does it: it writes nothing if its person was
    forgotten since then. None: nobody can be forgotten meanwhile.
    """

    store: BaseStore
    author: Actor
    deployment: Deployment
    writer: Writer | None = None

    async def all(self) -> list[Offer]:
        """Those that are prepared or open, and the last that were decided, oldest first."""
        offers = await self._counted()
        return offers.counting

    async def _counted(self) -> _Counted:
        """The offers by whether they count. An open one counts no more if its item in the group's
        namespace is gone, or if membership was not proved for long. A decided one has its decision.
        """
        own_offers = await self._stored()
        group_offers = await self._group_offers(own_offers)
        counting = list[Offer]()
        stale = list[Offer]()
        for offer in own_offers:
            group_offer = group_offers.get(offer.id)
            if offer.status != "open":
                counting.append(offer)
            elif group_offer and group_offer.decided:
                decided_offer = replace(offer, status=group_offer.decided)
                counting.append(decided_offer)
            elif group_offer and offer.is_proved():
                counting.append(offer)
            else:
                stale.append(offer)
        return _Counted(counting, stale)

    async def _group_offers(self, offers: Iterable[Offer]) -> dict[str, GroupOffer | None]:
        """What the groups' namespaces say of the open ones of these offers, by their ids. None of an
        offer whose item is gone.
        """
        open_offers = with_status(offers, "open")
        gets = list[GetOp]()
        for offer in open_offers:
            get = offer.read_group_item(self.author)
            gets.append(get)
        items = await self.store.abatch(gets)
        group_offers = dict[str, GroupOffer | None]()
        for offer, item in zip(open_offers, items, strict=True):
            group_offers[offer.id] = group_offer_in(item)
        return group_offers

    @property
    def _place(self) -> Namespace:
        """Namespace of the person's own items."""
        return namespaces.offers(self.author)

    async def _stored(self) -> list[Offer]:
        """All own items, whether they count or not, with the status that is stored."""
        items = await journal.all_items(self.store, self._place)
        return offers_in(items)

    async def prepare(self, folder: GroupFolder, own_line: OwnLine) -> Offer:
        """Keep an offer for the person to confirm, and return it. Nothing crosses.

        The same text for the same group is kept once. Raises `RefusedWrite` for what may not be
        offered, and if too many wait for the person.
        """
        await self._check(folder, own_line)
        async with lock_of("offers", self.author):
            own_offers = await self._stored()
            prepared_offers = with_status(own_offers, "prepared")
            same_offers = _same(prepared_offers, folder, own_line)
            if same_offers:
                return same_offers[0]
            count = len(prepared_offers)
            if count >= MAX_PREPARED:
                raise RefusedWrite(
                    f"{count} prepared offers wait for the person, and {MAX_PREPARED} may; tell them so."
                )
            offer = _new_offer(folder, own_line, "prepared", keep=True)
            op = put_offer(self.author, offer)
            await self._put([op])
            return offer

    async def offer(self, folder: GroupFolder, own_line: OwnLine, *, keep: bool) -> Offer:
        """Offer a line to a group, and return the offer. The person has confirmed the text and the
        group.

        With `keep` their own line stays when it is accepted. The same text is offered once: the open
        offer is returned. Raises `RefusedWrite` for what may not be offered, and if too many wait for
        the group.
        """
        await self._check(folder, own_line)
        async with lock_of("offers", self.author):
            offers = await self._counted()
            open_offers = self._open_to(folder, offers.counting)
            same_offers = _same(open_offers, folder, own_line)
            if same_offers:
                return same_offers[0]
            if len(open_offers) >= MAX_OPEN:
                raise _too_many(folder)
            offer = _new_offer(folder, own_line, "open", keep=keep)
            group_offer = self._group_offer(offer)
            place = offer.place(self.author)
            # The person's own first: what is offered does not count without it.
            own_op = put_offer(self.author, offer)
            group_op = put_group_offer(place, group_offer)
            replaced_offers = _replaced(offers.counting, folder, own_line)
            needless_offers = offers.stale + replaced_offers
            deletions = self._deletions(needless_offers)
            await self._put([own_op, group_op, *deletions])
            await self._take_back_if_too_many(folder, offer)
            return offer

    def _group_offer(self, offer: Offer) -> GroupOffer:
        """The group's item of an offer that is made now: its text, its author and the day in UTC.

        `unconfirmed` is about the line: nobody vouches for what it says.
        """
        present_time = days.now()
        return GroupOffer(
            id=offer.id,
            author=self.author.user_id,
            text=offer.text,
            day=f"{present_time:%Y-%m-%d}",
            unconfirmed=offer.unconfirmed,
        )

    def _open_to(self, folder: GroupFolder, offers: Iterable[Offer]) -> list[Offer]:
        """Those of these offers that wait for a group."""
        group = folder.files[-1]
        open_offers = with_status(offers, "open")
        waiting_offers = list[Offer]()
        for offer in open_offers:
            place = offer.place(self.author)
            if place[-1] == group:
                waiting_offers.append(offer)
        return waiting_offers

    async def _take_back_if_too_many(self, folder: GroupFolder, offer: Offer) -> None:
        """Delete an offer that was just put, and raise `RefusedWrite`, if another process put the
        last one that may wait meanwhile.
        """
        counting_offers = await self.all()
        open_offers = self._open_to(folder, counting_offers)
        oldest = open_offers[:MAX_OPEN]
        if len(oldest) < MAX_OPEN:
            return
        may_wait = {waiting_offer.id for waiting_offer in oldest}
        if offer.id not in may_wait:
            await self._delete([offer])
            raise _too_many(folder)

    async def withdraw(self, offer_id: str) -> Offer:
        """Withdraw an open offer, or drop a prepared one. Returns it as it was.

        Raises `UnknownOfferError` if the person has no such offer, and `DecidedError` if it was
        decided.
        """
        offer = await self._undecided(offer_id)
        if offer.status == "prepared":  # no group knows of it
            await self._delete([offer])
            return offer
        place = offer.place(self.author)
        async with deciding(self.store, place, offer_id):
            offer = await self._undecided(offer_id)
            await self._delete([offer])
            return offer

    async def _undecided(self, offer_id: str) -> Offer:
        """The prepared or open offer with this id. Raises as `withdraw`."""
        for offer in await self.all():
            if offer.id != offer_id:
                continue
            if offer.status in DECIDED:
                start = offer_id[:40]
                raise DecidedError(f"The offer {start!r} was {offer.status} already.")
            return offer
        raise UnknownOfferError(offer_id)

    async def withdraw_all(self) -> None:
        """Take all that is offered out of the groups' namespaces. The person is being forgotten."""
        own_offers = await self._stored()
        deletions = self._group_deletions(own_offers)
        await self.store.abatch(deletions)

    async def prove(self, claims: Mapping[str, str]) -> None:
        """Note to which groups a token has just proved that the person belongs.

        Open offers to groups to which they do not belong any more go.
        """
        own_offers = await self._stored()
        offers_to_groups_left = list[Offer]()
        proved_offers = list[Offer]()
        for offer in with_status(own_offers, "open"):
            value = claims.get(offer.claim)
            if value == offer.group:
                proved_offers.append(offer)
            else:
                offers_to_groups_left.append(offer)
        await self._delete(offers_to_groups_left)
        present_time = datetime.now(UTC)
        noted_lately = journal.iso_time(present_time - _NOTED_AGAIN)
        for offer in proved_offers:
            if offer.proved_at < noted_lately:
                await self._note_proof(offer, journal.iso_time(present_time))

    async def _note_proof(self, offer: Offer, at: str) -> None:
        """Note in an own item when membership was proved, unless the item was changed meanwhile."""
        place = self._place
        async with lock_of("offer", offer.id):
            item = await self.store.aget(place, offer.id)
            present_offers = offers_in([item])
            if present_offers != [offer]:
                return
            proved_offer = replace(offer, proved_at=at)
            op = put_offer(self.author, proved_offer)
            await journal.put_unless_forgotten(self.store, [op], self.writer)

    async def erase(self, fact: Fact, *, dry_run: bool = False) -> int:
        """Delete the offers that say a fact, prepared, open or decided. Returns their number.

        With `dry_run` it only counts. What a group has accepted is the group's.
        """
        offers_of_fact = list[Offer]()
        for offer in await self._stored():
            texts = (offer.text, offer.line)
            if any(map(fact.is_in, texts)):
                offers_of_fact.append(offer)
        if not dry_run:
            await self._delete(offers_of_fact)
        return len(offers_of_fact)

    async def _delete(self, offers: Sequence[Offer]) -> None:
        """Delete both items of these offers, whatever was forgotten meanwhile."""
        deletions = self._deletions(offers)
        await self.store.abatch(deletions)

    def _deletions(self, offers: Sequence[Offer]) -> list[PutOp]:
        """The deletions of offers. What a group knows of a decided one has no text of it."""
        place = self._place
        own_deletions = [PutOp(place, offer.id, None) for offer in offers]
        return own_deletions + self._group_deletions(offers)

    def _group_deletions(self, offers: Sequence[Offer]) -> list[PutOp]:
        """The deletions of the groups' items of the open ones of these offers."""
        open_offers = with_status(offers, "open")
        return [offer.delete_group_item(self.author) for offer in open_offers]

    async def _put(self, ops: Sequence[PutOp]) -> None:
        """Raises `RefusedWrite` if the person was forgotten since this began, or a fact deleted."""
        await journal.put_or_refuse(self.store, ops, self.writer)

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
        file_before = await read_file(self.store, folder.files, ACCEPTED_KEY)
        path = folder.accepted_path
        file_after = added_line(file_before, path, text)
        author = Author("person", self.author.user_id)
        vouch = vouch_of(author)
        check_write(self.deployment, path, file_before, file_after, author, vouch=vouch)


async def note_groups(
    store: BaseStore,
    author: Actor,
    deployment: Deployment,
    user: User,
    writer: Writer | None = None,
) -> None:
    """Note to which groups a person belongs, by the token of their request that was just verified.

    What they offer to a group that they have left goes. A token that has expired meanwhile says
    nothing.
    """
    if not deployment.has_offers:
        return
    membership = membership_of(user)
    if not membership.is_over:
        offers = OffersOfPerson(store, author, deployment, writer)
        await offers.prove(membership.claims)


def _too_many(folder: GroupFolder) -> RefusedWrite:
    return RefusedWrite(
        f"{MAX_OPEN} offers of yours wait for {folder.group}, and no more may; withdraw one, or wait.",
        kind="too_many_offers",
    )


def _new_offer(folder: GroupFolder, own_line: OwnLine, status: Status, *, keep: bool) -> Offer:
    at = journal.iso_time(datetime.now(UTC))
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


def _replaced(offers: Sequence[Offer], folder: GroupFolder, own_line: OwnLine) -> list[Offer]:
    """Those of these offers that a new one takes the place of, and the oldest decided ones."""
    prepared_offers = with_status(offers, "prepared")
    same_offers = _same(prepared_offers, folder, own_line)
    decided_offers = with_status(offers, *DECIDED)
    oldest = decided_offers[:-_DECIDED_KEPT]
    return same_offers + oldest


def _same(offers: Iterable[Offer], folder: GroupFolder, own_line: OwnLine) -> list[Offer]:
    """Those of these offers that have the text of a line, for a group."""
    line_wording = wording(own_line.text)
    same_offers = list[Offer]()
    for offer in offers:
        is_same_text = wording(offer.text) == line_wording
        if is_same_text and offer.is_for(folder):
            same_offers.append(offer)
    return same_offers
