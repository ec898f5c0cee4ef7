"""Lines of one's own memory that one offers to a group, and the decision of whoever may write there.

A person's own offers are those that they made (`memory/own_offers.py`). What is offered to a group
waits in the group's namespace until somebody decides (`memory/offer_decisions.py`).
"""

import logging
from typing import Annotated, Literal

from fastapi import Depends, Request
from pydantic import Field
from starlette.exceptions import HTTPException

from lasting_memory.agent.offers import own_line_of
from lasting_memory.http import requests
from lasting_memory.http.models.offers import (
    DecidedOffer,
    GroupToOffer,
    Offers,
    OfferToDecide,
    OwnOffer,
    WithdrawnOffer,
)
from lasting_memory.http.requests import Caller, MemoryQuery, NoBody, PersonRequest, Sent
from lasting_memory.memory import offer_decisions
from lasting_memory.memory.group_folders import GroupFolder, group_folders
from lasting_memory.memory.offer_decisions import OpenOffer
from lasting_memory.memory.offers import Offer
from lasting_memory.memory.own_offers import MAX_OPEN, OffersOfPerson
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import identity, namespaces
from lasting_memory.people.namespaces import Namespace

logger = logging.getLogger("api")
# Offers that one answer shows to whoever decides.
_MAX_SHOWN = 100


def _check_is_on(request: Request) -> None:
    """Raise `HTTPException` 404 where nobody can offer anything."""
    deployment = request.app.state.deployment
    if deployment.has_own_memory and not deployment.has_offers:
        raise HTTPException(
            404,
            "There are no offers here: deployment.py has offers=False, or no folder of a group that is read over HTTP.",
        )


router = requests.memory_router(Depends(_check_is_on), requests.IN_TURN)


@router.get("/memory/offers")
async def list_offers(caller: Caller, query: MemoryQuery) -> Offers:
    """What you offer to your groups, what your agent has prepared for that, and what waits for your
    decision.

    Of a group's folder in which members write at once, they decide; operators decide everywhere. An
    operator who asks about another person sees that person's own.
    """
    memory = caller.namespace
    all_offers = await _own_offers(caller).all()
    own_offers = list[Offer]()
    for offer in all_offers:
        # What an agent has prepared is shown beside the memory that it is of.
        is_shown_here = offer.status != "prepared" or offer.memory == memory
        if is_shown_here:
            own_offers.append(offer)
    folders = _folders(caller)
    open_offers = list[OpenOffer]()
    if caller.author.kind != "operator":
        decided_namespaces = _namespaces_to_decide(caller, folders)
        open_offers = await offer_decisions.open_offers(
            caller.store, caller.deployment, decided_namespaces
        )
    groups = [_group_entry(folder, own_offers) for folder in folders]
    own_entries = [_own_offer_entry(offer) for offer in own_offers]
    entries_to_decide = [_entry_to_decide(offer) for offer in open_offers[:_MAX_SHOWN]]
    return Offers(
        groups=groups,
        offers=own_entries,
        to_decide=entries_to_decide,
        more=len(open_offers) - len(entries_to_decide),
    )


class LineToOffer(Sent):
    path: requests.Path
    text: Annotated[str, Field(max_length=10_000, description="as `GET /memory/facts` shows it")]
    folder: Annotated[str, Field(max_length=200, examples=["/team/"])]
    group: Annotated[
        str, Field(max_length=300, description="the value of its claim, as you see it")
    ]
    keep: Annotated[bool, Field(description="whether your own line stays when it is accepted")]


@router.post("/memory/offers")
async def offer_line(caller: Caller, query: MemoryQuery, body: LineToOffer) -> OwnOffer:
    """Offer a line of your memory to a group of yours. What crosses is the text, with your identity
    and the day, for whoever decides there; no conversation, no history.

    You name the text and the group as you see them: the group's folder, and the value of its claim.
    At most five offers of yours wait for a group. 404: no line of the file says this, or you are not
    in this group. 422: it may not be offered (a credential, hidden characters, too long, its day has
    passed), or too many wait. A line for which nobody vouches stays so in the group's folder.
    """
    caller.check_own()
    caller.check_not_shared()
    folder = _find_folder(caller, body.folder, body.group)
    try:
        own_line = await own_line_of(
            caller.deployment, caller.store, caller.namespace, body.path, body.text
        )
    except RefusedWrite as error:
        raise HTTPException(404, str(error)) from None
    offer = await _own_offers(caller).offer(folder, own_line, keep=body.keep)
    _audit(caller, "made", folder, offer.id)
    return _own_offer_entry(offer)


class OfferDecision(Sent):
    accept: bool


@router.post("/memory/offers/{offer_id}")
async def decide_offer(
    caller: Caller, offer_id: str, query: MemoryQuery, body: OfferDecision
) -> DecidedOffer:
    """Accept an offer to a group, or decline it, if you may write in the group's folder.

    An accepted line is put at the end of `from-members.md` in the folder, by its author. 403: others
    decide here. 404: there is no such offer, or it counts no more, since its author left the group.
    409: it was decided already. 422: the folder cannot take it, and it waits on.
    """
    caller.check_own()
    caller.check_not_shared()
    is_operator = _is_operator(caller)
    searched_namespaces = [namespaces.GROUP_OFFERS]
    if not is_operator:
        folders = _folders(caller)
        searched_namespaces = [namespaces.group_offers(folder.files) for folder in folders]
    folder = await offer_decisions.folder_of_offer(
        caller.store, caller.deployment, searched_namespaces, offer_id
    )
    if not folder.members_decide and not is_operator:
        raise HTTPException(403, f"Operators decide what is put into {folder.route}.")
    await offer_decisions.decide_offer(
        caller.store,
        caller.deployment,
        folder,
        offer_id,
        accept=body.accept,
        requested_at=caller.writer.at,
    )
    if not body.accept:
        _audit(caller, "declined", folder, offer_id)
        return DecidedOffer(id=offer_id, accepted=False, path=None)
    _audit(caller, "accepted", folder, offer_id)
    return DecidedOffer(id=offer_id, accepted=True, path=folder.accepted_path)


@router.delete("/memory/offers/{offer_id}")
async def withdraw_offer(
    caller: Caller, offer_id: str, query: MemoryQuery, body: NoBody = None
) -> WithdrawnOffer:
    """Withdraw an offer of yours, or drop one that your agent has prepared.

    404: you have no such offer. 409: it was decided already.
    """
    caller.check_own()
    caller.check_not_shared()
    offer = await _own_offers(caller).withdraw(offer_id)
    return WithdrawnOffer(id=offer.id, status=offer.status)


def _own_offers(caller: PersonRequest) -> OffersOfPerson:
    """The offers of the person whom the request is about."""
    return OffersOfPerson(caller.store, caller.actor, caller.deployment, caller.writer)


def _folders(caller: PersonRequest) -> list[GroupFolder]:
    """The folders of the caller's groups. None for an operator who asks about another."""
    if caller.author.kind == "operator":
        return []
    claims = identity.claims_of(caller.http.user)
    return group_folders(caller.deployment, caller.actor, claims)


def _find_folder(caller: PersonRequest, route: str, group: str) -> GroupFolder:
    """The folder of a group of the caller's. Raises `HTTPException` 404 if they are not in it."""
    for folder in _folders(caller):
        if folder.route == route and folder.group == group:
            return folder
    raise HTTPException(404, f"You share no folder {route[:80]!r} with {group[:80]!r} now.")


def _is_operator(caller: PersonRequest) -> bool:
    """Whether an operator calls, about whomever."""
    return identity.is_operator(caller.http.user, caller.deployment.settings)


def _namespaces_to_decide(caller: PersonRequest, folders: list[GroupFolder]) -> list[Namespace]:
    """The namespaces of the offers about which the caller decides."""
    if _is_operator(caller):
        return [namespaces.GROUP_OFFERS]
    own_folders = [folder for folder in folders if folder.members_decide]
    return [namespaces.group_offers(folder.files) for folder in own_folders]


def _group_entry(folder: GroupFolder, own_offers: list[Offer]) -> GroupToOffer:
    """A group's folder as it is answered, with how many further offers the person may make to it."""
    open_count = 0
    for offer in own_offers:
        is_to_group = offer.claim == folder.claim and offer.group == folder.group
        if is_to_group and offer.status == "open":
            open_count += 1
    return GroupToOffer(
        folder=folder.route,
        claim=folder.claim,
        group=folder.group,
        decided_by="members" if folder.members_decide else "operators",
        left=max(MAX_OPEN - open_count, 0),
    )


def _own_offer_entry(offer: Offer) -> OwnOffer:
    """An offer as its author is answered."""
    return OwnOffer(
        id=offer.id,
        at=offer.at,
        status=offer.status,
        text=offer.text,
        path=offer.path,
        folder=offer.route,
        claim=offer.claim,
        group=offer.group,
        keep=offer.keep,
        source=_shown_source(offer.unconfirmed),
    )


def _shown_source(unconfirmed: bool) -> Literal["unconfirmed"] | None:
    """What is shown of who vouches for a line: that nobody does; None where somebody does."""
    if not unconfirmed:
        return None
    return "unconfirmed"


def _entry_to_decide(open_offer: OpenOffer) -> OfferToDecide:
    """An offer as whoever decides about it is answered."""
    line = open_offer.group_offer
    folder = open_offer.folder
    return OfferToDecide(
        id=line.id,
        author=line.author,
        text=line.text,
        day=line.day,
        folder=folder.route,
        claim=folder.claim,
        group=folder.group,
        org_id=folder.org_id,
        source=_shown_source(line.unconfirmed),
    )


def _audit(caller: PersonRequest, action: str, folder: GroupFolder, offer_id: str) -> None:
    """Log who crossed what border. A warning, so that no usual log level hides it."""
    logger.warning(
        "AUDIT memory.offer.%s org=%r %s=%r by=%r offer=%r",
        action,
        folder.org_id,
        folder.claim,
        folder.group,
        caller.author.user_id,
        offer_id,
    )
