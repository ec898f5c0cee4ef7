"""What is offered to groups: what waits for whoever may write in their folders, and the decision.

An offer has two items: its author's (`Offer`) and the group's (`GroupOffer`). It is undecided until
somebody accepts or declines it, and open if it is undecided and counts: its author has their item
still, and was lately proved to be in the group.

An accepted line is a revision of the group's file, by the author of the offer. It is the group's from
then on.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from lasting_memory.deployment import Deployment, Source
from lasting_memory.memory import journal
from lasting_memory.memory.folder import Folder
from lasting_memory.memory.group_folders import ACCEPTED_KEY, GroupFolder, folder_of
from lasting_memory.memory.journal import Change, Writer
from lasting_memory.memory.offer_claims import deciding
from lasting_memory.memory.offers import (
    Decision,
    GroupOffer,
    Offer,
    UnknownOfferError,
    added_line,
    group_offer_in,
    offers_in,
    put_group_offer,
    put_offer,
)
from lasting_memory.memory.one_fact import wording
from lasting_memory.memory.proposals import DecidedError
from lasting_memory.memory.stored_files import deletions, read_file
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.memory.vouches import vouch_new_as
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Decided offers of a group of which it is known that they were decided.
_DECIDED_KEPT = 200
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenOffer:
    """An offer that waits for a decision, and the folder for which it is."""

    group_offer: GroupOffer
    folder: GroupFolder
    own_offer: Offer  # its author's item

    @property
    def author(self) -> Actor:
        return Actor(self.group_offer.author, self.folder.org_id)


class _Undecided(NamedTuple):
    """The group's item of an offer that nobody has decided about, whether it counts or not."""

    group_offer: GroupOffer
    folder: GroupFolder

    def read_own_item(self) -> GetOp:
        """The operation that reads the author's own item."""
        user_id = self.group_offer.author
        author = Actor(user_id, self.folder.org_id)
        place = namespaces.offers(author)
        return GetOp(place, self.group_offer.id)

    def delete(self) -> PutOp:
        """The operation that deletes the group's item."""
        place = namespaces.group_offers(self.folder.files)
        return PutOp(place, self.group_offer.id, None)

    def opened(self, own_item: object) -> OpenOffer | None:
        """The open offer, by its author's own item. None if it does not count: the item is gone or
        says something else, or nothing proved lately that its author is in the group.
        """
        for own_offer in offers_in([own_item]):
            if own_offer.status != "open":
                continue
            is_same = own_offer.text == self.group_offer.text
            if is_same and own_offer.is_proved():
                return OpenOffer(self.group_offer, self.folder, own_offer)
        return None


async def open_offers(
    store: BaseStore, deployment: Deployment, places: Iterable[Namespace]
) -> list[OpenOffer]:
    """The open offers in these namespaces of offers, or below, oldest first.

    What counts no more, since its author left or was forgotten, is deleted.
    """
    undecided_offers = await _undecided_in(store, deployment, places)
    gets = [offer.read_own_item() for offer in undecided_offers]
    own_items = await store.abatch(gets)
    waiting_offers = list[OpenOffer]()
    deletions_of_others = list[PutOp]()
    for offer, own_item in zip(undecided_offers, own_items, strict=True):
        open_offer = offer.opened(own_item)
        if open_offer:
            waiting_offers.append(open_offer)
        else:
            deletion = offer.delete()
            deletions_of_others.append(deletion)
    await store.abatch(deletions_of_others)
    waiting_offers.sort(key=_age)
    return waiting_offers


def _age(open_offer: OpenOffer) -> tuple[str, str]:
    """By which open offers are sorted, oldest first."""
    at = open_offer.own_offer.at
    return at, open_offer.group_offer.id


async def _undecided_in(
    store: BaseStore, deployment: Deployment, places: Iterable[Namespace]
) -> list[_Undecided]:
    """The undecided offers in these namespaces of offers, or below, whether they count or not."""
    undecided_offers = list[_Undecided]()
    for place in places:
        for item in await journal.all_items(store, place):
            group_offer = group_offer_in(item)
            folder = folder_of(deployment, item.namespace)
            if folder is None or group_offer is None:
                continue
            if not group_offer.decided:
                offer = _Undecided(group_offer, folder)
                undecided_offers.append(offer)
    return undecided_offers


async def folder_of_offer(
    store: BaseStore, deployment: Deployment, places: Sequence[Namespace], offer_id: str
) -> GroupFolder:
    """The folder to which something with this id is offered, in these namespaces of offers or below.

    Raises `UnknownOfferError` if there is nothing.
    """
    if not _ID.fullmatch(offer_id):  # no store is asked for any text
        raise UnknownOfferError(offer_id)
    filters = {"id": offer_id}
    for place in places:
        for item in await store.asearch(place, filter=filters, limit=1):
            folder = folder_of(deployment, item.namespace)
            is_offer = item.key == offer_id
            if folder and is_offer:
                return folder
    raise UnknownOfferError(offer_id)


async def decide_offer(
    store: BaseStore,
    deployment: Deployment,
    folder: GroupFolder,
    offer_id: str,
    *,
    accept: bool,
    requested_at: str,
) -> GroupOffer:
    """Accept or decline an offer to a group. Returns the offer as it was.

    `requested_at` is the time of the request, in ISO format, UTC. An accepted line is put at the end of
    `folder.accepted_path`. If its author wants so, it goes from their own memory.

    Raises `UnknownOfferError` for one that does not count any more, `DecidedError` if it was decided,
    and `RefusedWrite` if the folder cannot take the line: the offer waits on.
    """
    place = namespaces.group_offers(folder.files)
    # Two deciders, or one and the author who withdraws it.
    async with deciding(store, place, offer_id):
        item = await store.aget(place, offer_id)
        group_offer = group_offer_in(item)
        if group_offer is None:
            raise UnknownOfferError(offer_id)
        if group_offer.decided:
            start = offer_id[:40]
            raise DecidedError(f"The offer {start!r} was {group_offer.decided} already.")
        open_offer = await _opened(store, folder, group_offer)
        if accept:
            await _accept(store, deployment, open_offer, requested_at)
        decision: Decision = "accepted" if accept else "declined"
        await _note_decision(store, open_offer, decision, requested_at)
        return group_offer


async def _opened(store: BaseStore, folder: GroupFolder, group_offer: GroupOffer) -> OpenOffer:
    """The open offer that an undecided one is. One that does not count is deleted, and
    `UnknownOfferError` raised.
    """
    undecided_offer = _Undecided(group_offer, folder)
    get = undecided_offer.read_own_item()
    (own_item,) = await store.abatch([get])
    open_offer = undecided_offer.opened(own_item)
    if open_offer:
        is_forgotten = await _is_author_forgotten(store, open_offer)
        if not is_forgotten:
            return open_offer
    deletion = undecided_offer.delete()
    await store.abatch([deletion])
    raise UnknownOfferError(group_offer.id)


async def _is_author_forgotten(store: BaseStore, open_offer: OpenOffer) -> bool:
    """Whether the author was forgotten since they made the offer. Forgetting notes its time before
    it deletes their item.
    """
    writer = Writer(open_offer.author, open_offer.own_offer.at)
    deleted_parts = await journal.read_deleted(store, writer)
    return deleted_parts.everything


async def _accept(
    store: BaseStore, deployment: Deployment, open_offer: OpenOffer, requested_at: str
) -> None:
    """Put an offered line into the group's file, and out of its author's if they want so. Raises
    `RefusedWrite` if the line is over, or the file cannot take it.
    """
    if open_offer.group_offer.is_over():
        raise RefusedWrite(
            "The day until which the line held has passed since it was offered; decline it.",
            kind="offer_over",
        )
    await _put_line(store, deployment, open_offer)
    if not open_offer.own_offer.keep:
        await _take_own_line_out(store, deployment, open_offer, requested_at)


async def _put_line(store: BaseStore, deployment: Deployment, open_offer: OpenOffer) -> None:
    """Put the offered line at the end of the group's file, unless it stands there. One for which
    nobody vouched stays so.

    Raises `RefusedWrite` as `Folder.change`.
    """
    folder = open_offer.folder
    group_offer = open_offer.group_offer
    author = Author("person", group_offer.author)
    path = folder.accepted_path

    def with_line(file: FileData | None) -> FileData:
        return added_line(file, path, group_offer.text)

    present_file = await read_file(store, folder.files, ACCEPTED_KEY)
    new_file = with_line(present_file)
    if new_file == present_file:
        return
    source = Source.CONFIRMED
    if group_offer.unconfirmed:
        source = Source.UNCONFIRMED
    route = folder.route.removesuffix("/")
    # Without a time: the file is the group's, and stays when its author is forgotten.
    files = Folder(deployment, store, folder.files, route, author)
    vouch = vouch_new_as(source)
    await files.change(ACCEPTED_KEY, with_line, vouch=vouch)


async def _take_own_line_out(
    store: BaseStore, deployment: Deployment, open_offer: OpenOffer, requested_at: str
) -> None:
    """Take the line out of its author's own file, as they decided when they offered it.

    What they changed since then stays, and so does a line that their deployment's checks keep.
    """
    own_offer = open_offer.own_offer
    # In another wording of its source it is the same line.
    offered_wording = wording(own_offer.line)

    def without_line(file: FileData | None) -> FileData | None:
        if file is None or file["encoding"] != "utf-8":
            return file
        staying_lines = list[str]()
        for line in file["content"].split("\n"):
            if wording(line) != offered_wording:
                staying_lines.append(line)
        content = "\n".join(staying_lines)
        return FileData(content=content, encoding="utf-8")

    if not await _changes_something(store, own_offer, without_line):
        return
    actor = open_offer.author
    author = Author("person", actor.user_id)
    writer = Writer(actor, requested_at)
    files = Folder(deployment, store, own_offer.memory, "/memories", author, writer)
    try:
        await files.change(own_offer.key, without_line, is_bounded=False)
    except RefusedWrite:
        logger.warning("A line that was offered and accepted stays in its author's memory too.")


async def _changes_something(store: BaseStore, own_offer: Offer, change: Change) -> bool:
    """Whether a change of the file from which a line was offered changes something. False if there
    is no file. True if what is stored is no file: the write refuses it.
    """
    try:
        present_file = await read_file(store, own_offer.memory, own_offer.key)
    except RefusedWrite:
        return True
    new_file = change(present_file)
    if present_file is None or new_file is None:
        return False
    content = present_file["content"]
    return new_file["content"] != content


async def _note_decision(
    store: BaseStore, open_offer: OpenOffer, decision: Decision, requested_at: str
) -> None:
    """Note the decision in both items. The group's keeps neither text nor author. An author who was
    forgotten meanwhile has no item.
    """
    await _note_for_group(store, open_offer, decision)
    author = open_offer.author
    own_offer = replace(open_offer.own_offer, status=decision)
    own_op = put_offer(author, own_offer)
    writer = Writer(author, requested_at)
    await journal.put_unless_forgotten(store, [own_op], writer, quotes_facts=True)


async def _note_for_group(store: BaseStore, open_offer: OpenOffer, decision: Decision) -> None:
    """Note the decision in the group's item, and delete the oldest decided ones."""
    files = open_offer.folder.files
    place = namespaces.group_offers(files)
    group_offer = open_offer.group_offer.after_decision(decision)
    op = put_group_offer(place, group_offer)
    old_items = await _old_decisions(store, place)
    old_ops = deletions(old_items)
    await store.abatch([op, *old_ops])


async def _old_decisions(store: BaseStore, place: Namespace) -> list[Item]:
    """The oldest decisions of a group, beyond those that are kept."""
    decided_items = list[Item]()
    for item in await journal.all_items(store, place):
        group_offer = group_offer_in(item)
        if group_offer and group_offer.decided:
            decided_items.append(item)
    decided_items.sort(key=lambda item: item.updated_at)
    return decided_items[:-_DECIDED_KEPT]
