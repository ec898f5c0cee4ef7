"""All items of a namespace, page by page: a store gives a search a limited number of them."""

from collections.abc import Sequence
from typing import cast

from langgraph.store.base import BaseStore, Item, Op, Result, SearchOp

from lasting_memory.people.namespaces import Namespace

# Items of one search.
_PAGE_ITEMS = 500


async def all_items(store: BaseStore, namespace: Namespace) -> list[Item]:
    """All items of a namespace and those below, sorted by key."""
    (items,) = await all_items_of(store, [namespace])
    return items


async def all_items_of(store: BaseStore, places: Sequence[Namespace]) -> list[list[Item]]:
    """All items of each of these namespaces and those below, sorted by key.

    It takes one batch for as many items of each as one search finds.
    """
    items, _ = await all_items_and(store, places, [])
    return items


async def all_items_and(
    store: BaseStore, places: Sequence[Namespace], further_ops: Sequence[Op]
) -> tuple[list[list[Item]], list[Result]]:
    """All items as `all_items_of`, and the results of other operations, which are in the first
    batch: the caller knows by its operations of which kind each is.
    """
    listings = [_Listing(place) for place in places]
    results = list[Result]()
    other_ops = list(further_ops)
    unfinished_listings = listings
    while unfinished_listings or other_ops:
        searches = [listing.next_page() for listing in unfinished_listings]
        ops = [*searches, *other_ops]
        answers = await store.abatch(ops)
        count = len(searches)
        pages = cast("list[list[Item]]", answers[:count])
        results += answers[count:]
        other_ops = []
        incomplete = list[_Listing]()
        for listing, page in zip(unfinished_listings, pages, strict=True):
            listing.add(page)
            if not listing.is_complete:
                incomplete.append(listing)
        unfinished_listings = incomplete
    items = [listing.by_key() for listing in listings]
    return items, results


class _Listing:
    """The items of a namespace, as far as they are read."""

    def __init__(self, place: Namespace) -> None:
        self._place = place
        self._items = list[Item]()
        self.is_complete = False

    def next_page(self) -> SearchOp:
        """The operation whose result `add` takes."""
        offset = len(self._items)
        return SearchOp(self._place, limit=_PAGE_ITEMS, offset=offset)

    def add(self, page: Sequence[Item]) -> None:
        """Add the items of the next page. A page that is not full is the last one."""
        self._items += page
        self.is_complete = len(page) < _PAGE_ITEMS

    def by_key(self) -> list[Item]:
        """The items that are read, sorted by key."""
        return sorted(self._items, key=lambda item: item.key)
