"""The new turns of conversations, and how many of them one run reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from lasting_memory.consolidation.positions import Position, hash_of
from lasting_memory.days import WORLDS
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.recall import Conversation, Turn
from lasting_memory.vouching import Evidence, ShownMessages

CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Due:
    """The new turns of one conversation, beyond its position. `whole`: no new turn is left out."""

    conversation: Conversation
    position: Position = Position()  # noqa: RUF009  # frozen
    whole: bool = True
    # All messages of the thread, as the platform gives them.
    messages: Sequence[Any] = field(default=(), repr=False, compare=False)

    @property
    def thread_id(self) -> str:
        return self.conversation.thread_id

    def evidence(self) -> Evidence:
        """What the person said in these turns, and the texts from elsewhere in the thread. Blocks."""
        said_in = set[str]()
        for turn in self.conversation.turns:
            if turn.speaker == "user":
                said_in.add(turn.message_id)
        shown = ShownMessages.of_values(self.messages, said_in)
        return shown.evidence()

    def advanced(self) -> Position:
        """The position once these turns are consolidated."""
        talk = self.conversation
        known = self.position.seen
        seen = known.union(map(hash_of, talk.turns))
        updated_at = talk.updated_at if self.whole else ""
        return Position(updated_at, seen)

    @property
    def tokens(self) -> int:
        """The tokens of the new turns, about."""
        turns = self.conversation.turns
        return sum(map(tokens_of, turns))

    def transcript(
        self, rules: Consolidation = DEFAULT_CONSOLIDATION, zone: ZoneInfo = WORLDS
    ) -> str:
        """The turns as the model reads them: a line each, under their days and the thread."""
        max_chars = rules.batch_tokens * CHARS_PER_TOKEN
        talk = self.conversation
        lines = list[str]()
        last_day = ""
        for turn in talk.turns:
            day = talk.day_of(turn, zone)
            if day != last_day:
                lines.append(f"{day} thread_id={talk.thread_id}")
                last_day = day
            line = _line_of(turn, max_chars)
            lines.append(line)
        return "\n".join(lines)


def tokens_of(turn: Turn) -> int:
    """The tokens of a turn, about."""
    chars = len(turn.text)
    return chars // CHARS_PER_TOKEN


def _line_of(turn: Turn, max_chars: int) -> str:
    """A turn as one line, which says how much of a long one is left out."""
    words = turn.text[:max_chars].split()
    text = " ".join(words)
    line = f"{turn.speaker}: {text}"
    left_out = len(turn.text) - max_chars
    if left_out > 0:
        line += f" [{left_out:,} more characters are left out]"
    return line


def batch(due: Sequence[Due], tokens: int) -> list[Due]:
    """The oldest conversations that fit into a batch, of the last one perhaps its first turns only.

    At least one turn. Blocks.

    A conversation that was undone, or about which the model gave no answer, comes last and alone:
    it does not block others.
    """
    chosen = list[Due]()
    oldest_first = sorted(
        due, key=lambda item: (item.position.setbacks, item.conversation.updated_at)
    )
    for item in oldest_first:
        if chosen and item.position.setbacks:
            break
        turns = item.conversation.turns
        fitting = 0
        for turn in turns:
            tokens -= tokens_of(turn)
            if tokens < 0 and (chosen or fitting):
                break
            fitting += 1
        if fitting:
            part = replace(item.conversation, turns=turns[:fitting])
            is_whole = item.whole and fitting == len(turns)
            chosen.append(replace(item, conversation=part, whole=is_whole))
        if tokens < 0:
            break
    return chosen
