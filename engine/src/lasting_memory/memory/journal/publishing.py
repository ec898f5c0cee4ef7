"""Publishing revisions of a file: they are put, and merged with what others put meanwhile.

The file shows the revision of which it is a copy: all is merged when there is one tip, and the file
shows it.
"""

import asyncio
import logging
import random
from collections.abc import Sequence

from lasting_memory.memory.journal.journaled_file import JournaledFile
from lasting_memory.memory.journal.log import Log
from lasting_memory.memory.journal.revisions import Revision
from lasting_memory.memory.journal.withdrawing import withdraw
from lasting_memory.memory.validation import RefusedWrite

# Looks at the log after one change, and seconds before the second and each further one: of several
# writers one merges for all. Beyond these, others are writing so fast that one of them makes the
# next merge.
_ROUNDS = 50
_WAIT = 0.02
# A wait grows with each look, up to so many times the first one.
_LONGEST_WAITS = 10
# How many revisions before its own a writer looks at.
_BEFORE = 4
logger = logging.getLogger(__name__)


async def publish(
    file: JournaledFile, base: Revision, own_revisions: Sequence[Revision]
) -> Revision:
    """Put revisions that were made of `base`, and merge what others put meanwhile, until there is
    one newest revision, of which the file is a copy. Returns the newest one.

    Raises `RefusedWrite` if the writer may not write by now; its revisions are withdrawn then. After
    any other error of the store the change is made, and is merged later.
    """
    made_here = [base, *own_revisions]
    newest = made_here[-1]
    own_by_id = {revision.id: revision for revision in made_here if revision.id}
    since = max(base.number - _BEFORE, 0)
    await file.put(own_revisions, newest)
    try:
        for tries in range(_ROUNDS):
            log, shown_revision = await file.look(since)
            log.by_id = {**own_by_id, **log.by_id}
            tips = log.tips()
            has_one_tip = len(tips) == 1
            if has_one_tip:
                # The file shows what this writer put, or what it is read to show.
                shown_id = shown_revision.id if shown_revision else None
                is_shown = tips[0].id in (newest.id, shown_id)
                if is_shown:
                    return tips[0]
            if since and _lacks_parents(log, tips):
                since = 0  # all revisions, in the next round
                continue
            # Every second time it waits, in which another writer may merge for all.
            is_turn_of_others = tries % 2 == 0
            if is_turn_of_others and not has_one_tip:
                await _wait_for_merge(tries)
                continue
            merges = await log.merges(file.path, tips)
            newest = [*tips, *merges][-1]
            own_revisions = [*own_revisions, *merges]
            await file.put(merges, newest)
    except RefusedWrite:
        # The person was forgotten meanwhile, or the conversation or a fact deleted.
        await withdraw(file, own_revisions)
        raise
    except Exception:
        # The change is made, and whoever looks next merges it.
        logger.warning(
            "The store failed at the end of a change of %r, which is made.",
            file.path,
            exc_info=True,
        )
    return newest


async def _wait_for_merge(tries: int) -> None:
    """Wait at random, so that of several writers one merges first."""
    waits = min(tries + 1, _LONGEST_WAITS)
    seconds = random.uniform(0, _WAIT * waits)  # noqa: S311
    await asyncio.sleep(seconds)


def _lacks_parents(log: Log, tips: Sequence[Revision]) -> bool:
    """Whether a log that begins late lacks what some of its revisions to merge were made from."""
    parents = set[str]()
    for revision in log.missing(tips):
        parents.update(revision.parents)
    return not parents <= log.by_id.keys()
