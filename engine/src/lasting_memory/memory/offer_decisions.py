"""What is offered to groups: what waits for whoever may write in their folders, and the decision.

An accepted line is a revision of the group's file, by the author of the offer. It is the group's from
then on.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from lasting_memory.deployment import Deployment, Source
from lasting_memory.memory import journal
from lasting_memory.memory.folder import Folder
from lasting_memory.memory.group_folders import ACCEPTED_KEY, GroupFolder, folder_of
from lasting_memory.memory.journal import Began, Change
from lasting_memory.memory.offers import (
    GroupOffer,
    Offer,
    UnknownOfferError,
    added_line,
    deciding,
    group_offer_in,
    offers_in,
    put_group_offer,
    put_offer,
)
from lasting_memory.memory.one_fact import wording
from lasting_memory.memory.proposals import DecidedError
from lasting_memory.memory.sources import always
from lasting_memory.memory.stored_files import deletions, read_file
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Decided offers of a group of which it is known that they were decided.
_DECIDED_KEPT = 200
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenOffer:
    """An offer that waits for a decision."""

    group_offer: GroupOffer
    folder: GroupFolder
    own_offer: Offer  # its author's item

    @property
    def author(self) -> Actor:
        return Actor(self.group_offer.author, self.folder.org_id)


async def open_offers(
    store: BaseStore, deployment: Deployment, places: Iterable[Namespace]
) -> list[OpenOffer]:
    """The undecided offers in these namespaces of offers, or below, oldest first.

    What counts no more, since its author left or was forgotten, is deleted.
    """
    undecided = await _undecided(store, deployment, places)
    gets = [_own_item(group_offer, folder) for group_offer, folder in undecided]
    own_items = await store.abatch(gets)
    found = list[OpenOffer]()
    gone = list[PutOp]()
    for (group_offer, folder), own_item in zip(undecided, own_items, strict=True):
        own = _counting(group_offer, own_item)
        if own is not None:
            found.append(OpenOffer(group_offer, folder, own))
        else:
            place = namespaces.group_offers(folder.files)
            gone.append(PutOp(place, group_offer.id, None))
    await store.abatch(gone)
    return sorted(found, key=lambda waiting: (waiting.own_offer.at, waiting.group_offer.id))


async def _undecided(
    store: BaseStore, deployment: Deployment, places: Iterable[Namespace]
) -> list[tuple[GroupOffer, GroupFolder]]:
    """The undecided offers in these namespaces of offers, or below, whether they count or not."""
    undecided = list[tuple[GroupOffer, GroupFolder]]()
    for place in places:
        for item in await journal.all_items(store, place):
            group_offer = group_offer_in(item)
            folder = folder_of(deployment, item.namespace)
            if group_offer and folder and not group_offer.decided:
                undecided.append((group_offer, folder))
    return undecided


def _own_item(group_offer: GroupOffer, folder: GroupFolder) -> GetOp:
    """The operation that reads the author's own item of an offer."""
    author = Actor(group_offer.author, folder.org_id)
    return GetOp(namespaces.offers(author), group_offer.id)


def _counting(group_offer: GroupOffer, item: object) -> Offer | None:
    """The author's own item of an offer that counts; None for one that does not."""
    for own in offers_in([item]):
        is_same = own.status == "open" and own.text == group_offer.text
        if is_same and own.is_proved():
            return own
    return None


async def folder_of_offer(
    store: BaseStore, deployment: Deployment, places: Sequence[Namespace], offer_id: str
) -> GroupFolder:
    """The folder to which something with this id is offered, in these namespaces of offers or below.

    Raises `UnknownOfferError` if there is nothing.
    """
    if not _ID.fullmatch(offer_id):  # no store is asked for any text
        raise UnknownOfferError(offer_id)
    found = list[Item]()
    for place in places:
        found += await store.asearch(place, filter={"id": offer_id}, limit=1)
    for item in found:
        folder = folder_of(deployment, item.namespace)
        if folder and item.key == offer_id:
            return folder
    raise UnknownOfferError(offer_id)


async def decide_offer(
    store: BaseStore,
    deployment: Deployment,
    folder: GroupFolder,
    offer_id: str,
    *,
    accept: bool,
    came: str,
) -> GroupOffer:
    """Accept or decline an offer to a group. Returns the offer as it was.

    `came` is the time of the request, in ISO format, UTC. An accepted line is put at the end of
    `folder.accepted_path`. If its author wants so, it goes from their own memory.

    Raises `UnknownOfferError` for one that does not count any more, `DecidedError` if it was decided,
    and `RefusedWrite` if the folder cannot take the line: the offer waits on.
    """
    place = namespaces.group_offers(folder.files)
    # Two deciders, or one and the author who withdraws it.
    async with deciding(store, place, offer_id):
        group_offer = group_offer_in(await store.aget(place, offer_id))
        if group_offer is None:
            raise UnknownOfferError(offer_id)
        if group_offer.decided:
            raise DecidedError(f"The offer {offer_id[:40]!r} was {group_offer.decided} already.")
        waiting = await _waiting(store, folder, group_offer)
        if accept and group_offer.is_over():
            raise RefusedWrite(
                "The day until which the line held has passed since it was offered; decline it.",
                kind="offer_over",
            )
        if accept:
            await _put_line(store, deployment, waiting)
            if not waiting.own_offer.keep:
                await _take_own_line_out(store, deployment, waiting, came)
        await _note_decision(store, waiting, accept=accept, came=came)
        return group_offer


async def _waiting(store: BaseStore, folder: GroupFolder, group_offer: GroupOffer) -> OpenOffer:
    """An undecided offer, whose author is still a member. Raises `UnknownOfferError` if it goes."""
    (item,) = await store.abatch([_own_item(group_offer, folder)])
    own = _counting(group_offer, item)
    if own:
        waiting = OpenOffer(group_offer, folder, own)
        # Forgetting writes its time before it deletes.
        began = Began(waiting.author, own.at)
        since = await journal.ended(store, began)
        if not since.all_of_it:
            return waiting
    await store.adelete(namespaces.group_offers(folder.files), group_offer.id)
    raise UnknownOfferError(group_offer.id)


async def _put_line(store: BaseStore, deployment: Deployment, waiting: OpenOffer) -> None:
    """Put the offered line at the end of the group's file, unless it stands there. One for which
    nobody vouched stays so.

    Raises `RefusedWrite` as `Folder.change`.
    """
    folder = waiting.folder
    author = Author("person", waiting.author.user_id)
    path = folder.accepted_path

    def with_line(before: FileData | None) -> FileData:
        return added_line(before, path, waiting.group_offer.text)

    present = await read_file(store, folder.files, ACCEPTED_KEY)
    if present is not None and with_line(present) == present:
        return
    # Without a time: the file is the group's, and stays when its author is forgotten.
    route = folder.route[:-1]
    files = Folder(deployment, store, folder.files, route, author)
    source = Source.UNCONFIRMED if waiting.group_offer.unconfirmed else Source.CONFIRMED
    await files.change(ACCEPTED_KEY, with_line, vouch=always(source))


async def _take_own_line_out(
    store: BaseStore, deployment: Deployment, waiting: OpenOffer, came: str
) -> None:
    """Take the line out of its author's own file, as they decided when they offered it.

    What they changed since then stays, and so does a line that their deployment's checks keep.
    """
    own = waiting.own_offer
    author = Author("person", waiting.author.user_id)
    # In another wording of its source it is the same line.
    wanted = wording(own.line)

    def without_line(before: FileData | None) -> FileData | None:
        if before is None or before["encoding"] != "utf-8":
            return before
        lines = before["content"].split("\n")
        kept = [line for line in lines if wording(line) != wanted]
        return FileData(content="\n".join(kept), encoding="utf-8")

    if not await _changes_something(store, own, without_line):
        return
    began = Began(waiting.author, came)
    files = Folder(deployment, store, own.memory, "/memories", author, began)
    try:
        await files.change(own.key, without_line, bounded=False)
    except RefusedWrite:
        logger.warning("A line that was offered and accepted stays in its author's memory too.")


async def _changes_something(store: BaseStore, own: Offer, change: Change) -> bool:
    """Whether a change of the file from which a line was offered changes something. True where
    no file stands there: the write says so.
    """
    try:
        present = await read_file(store, own.memory, own.key)
    except RefusedWrite:
        return True
    after = change(present)
    if present is None or after is None:
        return False
    return after["content"] != present["content"]


async def _note_decision(store: BaseStore, waiting: OpenOffer, *, accept: bool, came: str) -> None:
    """Note the decision: for the group that there was one, for the author which one."""
    decided: Literal["accepted", "declined"] = "accepted" if accept else "declined"
    place = namespaces.group_offers(waiting.folder.files)
    group_offer = waiting.group_offer
    known = GroupOffer(id=group_offer.id, author="", text="", day=group_offer.day, decided=decided)
    group_op = put_group_offer(place, known)
    old = await _old_decisions(store, place)
    await store.abatch([group_op, *deletions(old)])
    own = replace(waiting.own_offer, status=decided)
    own_op = put_offer(waiting.author, own)
    began = Began(waiting.author, came)
    await journal.put_unless_forgotten(store, [own_op], began, quotes_facts=True)


async def _old_decisions(store: BaseStore, place: Namespace) -> list[Item]:
    """The oldest decisions of a group, beyond those that are kept."""
    decided = list[Item]()
    for item in await journal.all_items(store, place):
        group_offer = group_offer_in(item)
        if group_offer is not None and group_offer.decided:
            decided.append(item)
    decided.sort(key=lambda item: item.updated_at)
    return decided[:-_DECIDED_KEPT]
