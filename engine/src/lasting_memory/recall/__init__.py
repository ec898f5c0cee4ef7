"""Past conversations: found by what was said in them, and when; quoted turn by turn.

`search` is never older than the last thing a person said: what is not indexed yet it indexes. The
index is derived data in the store: `catch_up` brings it up to date, `drop` takes conversations out.
Behind this door: `conversations.py` (a thread as turns, and as numbers) with `repetition.py` (what
is no turn, or counts less), `index.py` with `meaning.py`, `retrieval.py` with `ranking.py` (search,
its answer, the model's tools), `lexical.py`.
"""

from lasting_memory.recall.conversations import (
    Conversation,
    Turn,
    conversation,
    message_text,
    owned_by,
    piece_text,
    threads_by_id,
)
from lasting_memory.recall.index import (
    MODEL,
    catch_up,
    changed_since,
    drop,
    drop_deleted,
    stop_embedding,
)
from lasting_memory.recall.lexical import language, rank, search_stems, stems
from lasting_memory.recall.meaning import nearest
from lasting_memory.recall.retrieval import (
    Match,
    conversation_tools,
    excerpts,
    fused,
    results_text,
    search,
    zone_of_person,
)

__all__ = [
    "MODEL", "Conversation", "Match", "Turn", "catch_up", "changed_since", "conversation", "conversation_tools", "drop",
    "drop_deleted", "excerpts", "fused", "language", "message_text", "nearest", "owned_by", "piece_text", "rank",
    "results_text", "search", "search_stems", "stems", "stop_embedding", "threads_by_id", "zone_of_person",
]  # fmt: skip
