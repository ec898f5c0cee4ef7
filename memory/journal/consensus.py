"""How the next revision of a file is chosen among its writers, and published.

A file has a log, whose slots fill in order. Slot `n` holds revision `n`: the whole content after it, its author, and the id of
the revision it was made from. The file itself is a copy of the newest revision.

**Choosing a revision** is Disk Paxos with one disk (Gafni and Lamport, 2003; doi 10.1007/s00446-002-0070-8). Each writer that
wants slot `n` has a block of its own there, an item that no other writer puts. It puts the block with a ballot, lists the slot,
and gives way to a higher ballot. Otherwise it takes over the revision accepted with the highest ballot; if there is none, it
makes its own from revision `n - 1`. It puts its block with that revision, accepted, and lists again. An accepted revision is
chosen once any writer's listing shows its block and no higher ballot: a writer with a higher ballot after that listing sees the
accepted block in its own, and takes the revision over. The only requirement is that a listing shows all puts that ended before
it began. Clocks play no part, nor does it matter which writers are still alive. A listing need not show that a revision is
chosen: a ballot that came later, or too late, hides it. A writer that must know takes a ballot of its own, and sees it. So:

- A change is made from the revision it follows, and never replayed: its outcome cannot change. A refused change is in no block.
- A change is in one slot only: a writer that wants the next slot knows the revision chosen in the one before.
- An acknowledged change is chosen; every later revision was made from it.

**Publishing.** The store can only put the file, and the last put wins. Alone in a slot, a writer puts the block, then the file,
then lists: without a rival there, its revision is chosen and published. With rivals it goes the careful way: it marks the file
as unsettled, waits until its change is chosen, puts the best revision of the newest slot, lists, and repeats until the listing
shows the revision it has put. Chosen or not, that revision was made from all acknowledged ones before. So after the last live
writer's last listing the file is right, unless a writer died between putting an old revision and listing. The writer that
overtook it had seen its block, and left the mark. A new run (`memory/prompt.py`) looks for marks, and the next writer at the
log; they repair the file.
"""

import logging
import random

from memory.identity import Author
from memory.journal.revisions import NOTHING, Block, Change, Log, LoggedFile, MovedError, Revision, Steps, taken_by
from memory.validation import RefusedWriteError

_logger = logging.getLogger(__name__)
_FIRST_SLEEP, _LONGEST_SLEEP = 0.03, 0.25  # seconds; measured with benchmarks/journal.py


class Writer:
    """One change on its way into one file's log.

    Args:
        change: makes the new content; None only publishes the chosen revision.
        expect: id of the only revision that the change may follow, "" for none yet. None: any.
        adopted: see `Revision`.
    """

    def __init__(
        self, file: LoggedFile, change: Change | None, author: Author, expect: str | None = None, adopted: str = ""
    ) -> None:
        self._file, self._change, self._author, self._expect, self._adopted = file, change, author, expect, adopted
        self._id, self._changed_once, self._blocks = file.new_id(), False, dict[int, Block]()
        self._made: Revision | None = None
        self._put_early = False  # whether the file may hold this writer's revision without its being chosen
        self.proposed = 0  # the slot in which this writer's revision may have been chosen

    def commit_uncontended(self, base: Revision) -> Steps[Revision | None]:
        """The short way, which works without rivals; None if there are some."""
        slot, ballot = base.number + 1, (1, self._id)
        try:
            revision = self._revision(base)
        except ValueError:
            if (yield from self._file.listed(base.number)).ends_with(base):
                raise
            return None
        yield from self._put(Block(slot, ballot))
        log = yield from self._file.listed(base.number)
        if self._rivals(log, slot) or not log.ends_with(base):
            return None
        yield from self._put(Block(slot, ballot, ballot, revision))
        self.proposed, self._put_early = slot, True
        try:
            yield from self._file.put_file(revision)
            return None if self._rivals((yield from self._file.listed(slot)), slot) else revision
        except Exception:  # the change may be made by now: the careful way finds out, or fails, too
            _logger.warning(
                "The store failed at the end of a change of %r; it is looked at again.", self._file.path, exc_info=True
            )
            return None

    def commit_contended(self, floor: int) -> Steps[Revision]:
        """The careful way. `floor`: a slot not above the newest one known to be chosen."""
        try:
            return (yield from self._until_chosen(floor))
        except (ValueError, MovedError):
            best = (yield from self._file.listed(floor)).best if self._put_early else None
            if best is not None:
                yield from self._file.publish(best)
            raise

    def _until_chosen(self, floor: int) -> Steps[Revision]:
        yield from self._file.mark()
        tried = waited_at = tries = 0
        while True:
            log = yield from self._file.listed(floor)
            if self.proposed and (log.top > self.proposed or log.chosen):
                chosen = self._chosen(log)
                if chosen:
                    yield from self._file.publish(log.best or chosen)
                    return chosen
                self.proposed = 0
            head, free = log.head(), log.chosen or log.best is None
            if self._change is None and free:
                if head is None:
                    raise MovedError
                yield from self._file.publish(head)
                return head
            slot = log.top + 1 if free else log.top
            floor = min(self.proposed or log.top, log.top) if free else floor
            if self._rivals(log, slot) and waited_at != slot:
                waited_at, won = slot, False  # most rivals are alive, and done in a moment
            else:
                won = yield from self._compete(slot, log, head or NOTHING)
            if not won:
                tries, tried = tries + 1 if tried == slot else 1, slot  # counts attempts at this slot
                yield random.uniform(0, min(_LONGEST_SLEEP, _FIRST_SLEEP * 2 ** min(tries, 10)))  # noqa: S311

    def _compete(self, slot: int, log: Log, head: Revision) -> Steps[bool]:
        """One ballot for a slot. Returns whether a revision, this writer's or an earlier one, was accepted with it."""
        highest = max((block.ballot[0] for block in log.blocks if block.slot == slot), default=0)
        ballot, mine = (highest + 1, self._id), self._blocks.get(slot)
        yield from self._put(Block(slot, ballot, mine.accepted if mine else None, mine.revision if mine else None))
        log = yield from self._file.listed(slot)
        if log.top > slot or any(block.slot == slot and block.ballot > ballot for block in log.blocks):
            return False
        revision = log.best if log.top == slot else None
        if revision is None:
            revision = self._revision(head)
        yield from self._put(Block(slot, ballot, ballot, revision))
        if revision.id == self._id:
            self.proposed = slot
        return True

    def _chosen(self, log: Log) -> Revision | None:
        """This writer's revision, if it was chosen where it was proposed; None if another was. Raises `RefusedWriteError` if
        too many changes followed to know.
        """
        mine = self._made  # the block may by now hold another writer's revision, which this writer helped to choose
        if log.top == self.proposed:
            return mine if log.best and log.best.id == self._id else None
        following = next((block.revision for block in log.blocks if block.slot == self.proposed + 1 and block.revision), None)
        if following is None:
            raise RefusedWriteError("So many others changed this file that nobody knows if this change is in it; read it.")
        return mine if following.previous == self._id else None

    def _revision(self, base: Revision) -> Revision:
        """The revision that the change makes of another."""
        if self._change is None or (self._expect is not None and base.id != self._expect):
            raise MovedError
        try:
            file = self._change(base.file())
        except ValueError as error:
            if self._changed_once:
                raise RefusedWriteError(f"{error} Somebody else changed the file meanwhile: read it again.") from None
            raise
        self._changed_once, now = True, self._file.clock().isoformat()
        self._made = Revision(
            number=base.number + 1,
            id=self._id,
            previous=base.id,
            content=None if file is None else file["content"],
            encoding=file["encoding"] if file else "utf-8",
            created_at=(base.created_at if base.content is not None else file.get("created_at", "") if file else "") or now,
            at=now,
            author=self._author,
            adopted=self._adopted or base.adopted,
            written=base.written + taken_by(None if file is None else file["content"]),
        )
        return self._made

    def _put(self, block: Block) -> Steps[None]:
        self._blocks[block.slot] = block
        yield from self._file.put_block(block)

    def _rivals(self, log: Log, slot: int) -> bool:
        return any(block.slot >= slot and block.ballot[1] != self._id for block in log.blocks)
