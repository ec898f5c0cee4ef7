"""Past conversations: found by what was said in them, and when; quoted turn by turn.

`search` is never older than the last thing a person said: what is not indexed yet it indexes. The
index is derived data in the store: `catch_up` brings it up to date, `drop` takes conversations out.

Behind this door, from below: `bengali.py` and `lexical.py` (words), `arrays.py` and `format.py`
(arrays), `repetition.py` (what is no turn, or counts less), `threads.py` (a thread as turns),
`documents.py` (turns as arrays); `index.py`, `meaning.py`, `embedding.py` and `catching_up.py` (the index);
`cue_words.py`, `question.py`, `bm25.py`, `corpus.py`, `echoes.py`, `ranking.py` and `candidates.py`
(the order of conversations); `retrieval.py`, `answers.py` and `tools.py`.
"""

from lasting_memory.recall.answers import excerpts, results_text
from lasting_memory.recall.catching_up import catch_up, drop_deleted
from lasting_memory.recall.embedding import MODEL, stop_embedding
from lasting_memory.recall.index import drop
from lasting_memory.recall.lexical import language, rank, search_stems, stems
from lasting_memory.recall.meaning import nearest
from lasting_memory.recall.retrieval import Match, fused, search
from lasting_memory.recall.threads import (
    Conversation,
    Turn,
    changed_since,
    conversation,
    message_text,
    owned_by,
    piece_text,
    threads_by_id,
)
from lasting_memory.recall.tools import conversation_tools, zone_of_person

__all__ = [
    "MODEL",
    "Conversation",
    "Match",
    "Turn",
    "catch_up",
    "changed_since",
    "conversation",
    "conversation_tools",
    "drop",
    "drop_deleted",
    "excerpts",
    "fused",
    "language",
    "message_text",
    "nearest",
    "owned_by",
    "piece_text",
    "rank",
    "results_text",
    "search",
    "search_stems",
    "stems",
    "stop_embedding",
    "threads_by_id",
    "zone_of_person",
]
