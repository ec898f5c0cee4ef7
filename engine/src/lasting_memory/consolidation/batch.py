"""The new turns of conversations, and how many of them one run reads.

A conversation is *due* while it has turns that no run has consolidated. A *batch* is what one run
reads of those that are due.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from lasting_memory.consolidation.positions import Position, hash_of
from lasting_memory.days import WORLDS
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.recall import Conversation, Turn
from lasting_memory.vouching import Evidence, ShownMessages

CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class DueConversation:
    """The new turns of one conversation, beyond its position.

    `conversation` has these turns alone. With `is_whole` no new turn is left out.
    """

    conversation: Conversation
    position: Position = Position()  # noqa: RUF009  # frozen
    is_whole: bool = True
    # All messages of the thread, as the platform gives them.
    messages: Sequence[object] = field(default=(), repr=False, compare=False)

    @property
    def thread_id(self) -> str:
        """The id of the conversation."""
        return self.conversation.thread_id

    def evidence(self) -> Evidence:
        """What the person said in these turns, and the texts from elsewhere in the thread. Blocks."""
        own_message_ids = set[str]()
        for turn in self.conversation.turns:
            if turn.speaker == "user":
                own_message_ids.add(turn.message_id)
        shown_messages = ShownMessages.of_values(self.messages, own_message_ids)
        return shown_messages.evidence()

    def advanced(self) -> Position:
        """The position once these turns are consolidated. Its setbacks are over."""
        talk = self.conversation
        new_hashes = map(hash_of, talk.turns)
        seen_hashes = self.position.seen.union(new_hashes)
        if self.is_whole:
            return Position(talk.updated_at, seen_hashes)
        # Without a time it stays due.
        return Position(updated_at="", seen=seen_hashes)

    @property
    def tokens(self) -> int:
        """The tokens of the new turns, about."""
        turns = self.conversation.turns
        return sum(map(tokens_of, turns))

    def transcript(
        self, rules: Consolidation = DEFAULT_CONSOLIDATION, zone: ZoneInfo = WORLDS
    ) -> str:
        """The turns as the model reads them: a line each, under their days in this time zone and
        the thread's id. Of a turn that is longer than a batch, the beginning.
        """
        max_chars = rules.batch_tokens * CHARS_PER_TOKEN
        talk = self.conversation
        lines = list[str]()
        last_day = ""
        for turn in talk.turns:
            day = talk.day_of(turn, zone)
            if day != last_day:
                heading = f"{day} thread_id={talk.thread_id}"
                lines.append(heading)
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
    beginning = turn.text[:max_chars]
    words = beginning.split()
    text = " ".join(words)
    line = f"{turn.speaker}: {text}"
    left_out = len(turn.text) - max_chars
    if left_out > 0:
        line += f" [{left_out:,} more characters are left out]"
    return line


def batch(due_conversations: Sequence[DueConversation], tokens: int) -> list[DueConversation]:
    """The oldest conversations that fit into so many tokens, of the last one perhaps its first turns
    only. One turn is chosen even if it does not fit; [] if nothing is due. Blocks.

    A conversation that was undone, or about which the model gave no answer, comes last and alone:
    it does not block others.
    """
    chosen_conversations = list[DueConversation]()
    for item in sorted(due_conversations, key=_order):
        if chosen_conversations and item.position.setbacks:
            break
        turns = item.conversation.turns
        number_fitting = 0
        for turn in turns:
            tokens -= tokens_of(turn)
            is_first_turn = not chosen_conversations and not number_fitting
            if tokens < 0 and not is_first_turn:
                break
            number_fitting += 1
        if number_fitting:
            part = _first_turns(item, number_fitting)
            chosen_conversations.append(part)
        if tokens < 0:
            break
    return chosen_conversations


def _order(item: DueConversation) -> tuple[int, str]:
    """Those without setbacks come first, and of these the oldest."""
    return item.position.setbacks, item.conversation.updated_at


def _first_turns(item: DueConversation, number: int) -> DueConversation:
    """So many of the first new turns of a conversation."""
    turns = item.conversation.turns
    conversation = replace(item.conversation, turns=turns[:number])
    has_all_turns = number == len(turns)
    is_whole = item.is_whole and has_all_turns
    return replace(item, conversation=conversation, is_whole=is_whole)
