"""Offers of a person: lines of their own memory that they offer to the folder of a group of theirs.

An agent can only prepare an offer, in its person's own namespace. The person confirms the text and
the group outside of runs. What crosses then is an item in the group's namespace (`GroupOffer`): the
text, its author and the day. `offer_decisions.py` has what becomes of it there. The person's own item
(`Offer`) says from which file the line is. An offer counts only while both items are there. So whoever
is forgotten, or has left the group, offers nothing from that moment.

An offer is prepared until its person confirms it, then open until somebody in the group accepts or
declines it. Then it is decided.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, get_args
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, GetOp, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import days
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.dated_lines import end_of
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
# nobody tells a server who left.
PROVED_DAYS = 30
# How old a noted proof is before a newer one is noted.
_NOTED_AGAIN = timedelta(days=1)
# For how long a claim keeps others from an offer: the process that put it may have died.
_CLAIMED = timedelta(minutes=1)
# Claims of one offer that are looked at.
_CLAIMS = 100
Decision = Literal["accepted", "declined"]
Status = Literal["prepared", "open", Decision]
_DECIDED: tuple[Decision, ...] = get_args(Decision)


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
        return self.proved_at >= _iso(long_ago)


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


@asynccontextmanager
async def deciding(store: BaseStore, place: Namespace, offer_id: str) -> AsyncIterator[None]:
    """Decides about an open offer, or withdraws it, alone among all processes. `place` is the
    namespace of what is offered to its group.

    Each process puts a claim, which is an item beside the offers, then looks for others' claims. Of
    two at least one sees the other. Raises `DecidedError` where somebody else's is there.
    """
    async with lock_of("offer", offer_id):
        claim_key = f"{offer_id} {uuid4().hex}"
        present_time = datetime.now(UTC)
        claim = {"claims": offer_id, "at": _iso(present_time)}
        try:
            await store.aput(place, claim_key, claim, index=False)
            is_alone = await _drop_old_claims(store, place, offer_id, claim_key, present_time)
            if not is_alone:
                start = offer_id[:40]
                raise DecidedError(
                    f"Somebody else decides about the offer {start!r} at this moment; look again."
                )
            yield
        finally:
            deletion = store.adelete(place, claim_key)
            await asyncio.shield(deletion)


async def _drop_old_claims(
    store: BaseStore, place: Namespace, offer_id: str, claim_key: str, present_time: datetime
) -> bool:
    """Delete the claims of an offer that hold no more. Returns whether none but the one with this
    key is left.
    """
    holds_since = _iso(present_time - _CLAIMED)
    filters = {"claims": offer_id}
    is_alone = True
    deletions = list[PutOp]()
    for item in await store.asearch(place, filter=filters, limit=_CLAIMS):
        if item.key == claim_key:
            continue
        put_at = str(item.value.get("at", ""))
        if put_at < holds_since:
            deletions.append(PutOp(place, item.key, None))
        else:
            is_alone = False
    await store.abatch(deletions)
    return is_alone


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds")  # one width, so that texts compare as times


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


class _Counted(NamedTuple):
    """A person's offers: those that count, and those that count no more, each oldest first."""

    counting: list[Offer]
    stale: list[Offer]


@dataclass(frozen=True, slots=True)
class OffersOfPerson:
    """What one person offers, and may do with their offers.

    `began` is when the run or the request began that does it: it writes nothing if its person was
    forgotten since then. None: nobody can be forgotten meanwhile.
    """

    store: BaseStore
    author: Actor
    deployment: Deployment
    began: Began | None = None

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
        open_offers = _with_status(offers, "open")
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

        The same text for the same group is kept once. Raises `RefusedWrite` for what may not be offered, and if too many
        wait for the person.
        """
        await self._check(folder, own_line)
        async with lock_of("offers", self.author):
            own_offers = await self._stored()
            prepared_offers = _with_status(own_offers, "prepared")
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
        open_offers = _with_status(offers, "open")
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
            if offer.status in _DECIDED:
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
        for offer in _with_status(own_offers, "open"):
            value = claims.get(offer.claim)
            if value == offer.group:
                proved_offers.append(offer)
            else:
                offers_to_groups_left.append(offer)
        await self._delete(offers_to_groups_left)
        present_time = datetime.now(UTC)
        noted_lately = _iso(present_time - _NOTED_AGAIN)
        for offer in proved_offers:
            if offer.proved_at < noted_lately:
                await self._note_proof(offer, _iso(present_time))

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
            await journal.put_unless_forgotten(self.store, [op], self.began)

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
        open_offers = _with_status(offers, "open")
        return [offer.delete_group_item(self.author) for offer in open_offers]

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
        offers = OffersOfPerson(store, author, deployment, began)
        await offers.prove(membership.claims)


def _too_many(folder: GroupFolder) -> RefusedWrite:
    return RefusedWrite(
        f"{MAX_OPEN} offers of yours wait for {folder.group}, and no more may; withdraw one, or wait.",
        kind="too_many_offers",
    )


def _new_offer(folder: GroupFolder, own_line: OwnLine, status: Status, *, keep: bool) -> Offer:
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


def _replaced(offers: Sequence[Offer], folder: GroupFolder, own_line: OwnLine) -> list[Offer]:
    """Those of these offers that a new one takes the place of, and the oldest decided ones."""
    prepared_offers = _with_status(offers, "prepared")
    same_offers = _same(prepared_offers, folder, own_line)
    decided_offers = _with_status(offers, *_DECIDED)
    oldest = decided_offers[:-_DECIDED_KEPT]
    return same_offers + oldest


def _with_status(offers: Iterable[Offer], *statuses: Status) -> list[Offer]:
    return [offer for offer in offers if offer.status in statuses]


def _same(offers: Iterable[Offer], folder: GroupFolder, own_line: OwnLine) -> list[Offer]:
    """Those of these offers that have the text of a line, for a group."""
    line_wording = wording(own_line.text)
    same_offers = list[Offer]()
    for offer in offers:
        is_same_text = wording(offer.text) == line_wording
        if is_same_text and offer.is_for(folder):
            same_offers.append(offer)
    return same_offers
