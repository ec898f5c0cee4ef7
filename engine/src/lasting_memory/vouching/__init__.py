"""Who vouches for a line that is written: whether its person said it, by what a run or a batch
showed.

`Evidence.source_of` answers for one line. It compares words, numbers and negations, not meanings,
and errs on one side: what it does not find in the person's own words it does not confirm.
"""

from lasting_memory.vouching.evidence import Evidence, evidence_of
from lasting_memory.vouching.own_words import MessageParts, parts_of
from lasting_memory.vouching.shown_messages import (
    ShownMessages,
    messages_shown_now,
    noting_shown_messages,
)

__all__ = [
    "Evidence", "MessageParts", "ShownMessages", "evidence_of", "messages_shown_now", "noting_shown_messages",
    "parts_of",
]  # fmt: skip
