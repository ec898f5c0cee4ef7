"""Past conversations: found by what was said in them, and when; quoted turn by turn.

`search` ranks a person's conversations and is never older than the last thing they said: what is not indexed yet it indexes.
The index is derived data in the store: `catch_up` brings it up to date, `forget`
drops it, `drop` some conversations of it. Behind this door: `conversations.py` (a thread as turns), `index.py` with
`documents.py` (how it is stored), `retrieval.py` with `ranking.py` (how it is searched, and the answer as text), `lexical.py`
(words and times), `semantic.py` (meaning, where the store has an index), `tools.py` (the model's tools).
"""

from lasting_memory.recall.conversations import Conversation, Turn, conversation, message_text, owned_by, threads_by_id
from lasting_memory.recall.index import catch_up, drop, forget
from lasting_memory.recall.lexical import language, normalized, rank, stems
from lasting_memory.recall.retrieval import DENSE_WEIGHT, Match, excerpts, fused, page_text, results_text, search
from lasting_memory.recall.semantic import MODEL, nearest
from lasting_memory.recall.tools import conversation_tools

__all__ = [
    "DENSE_WEIGHT", "MODEL", "Conversation", "Match", "Turn", "catch_up", "conversation", "conversation_tools", "drop",
    "excerpts", "forget", "fused", "language", "message_text", "nearest", "normalized", "owned_by", "page_text", "rank",
    "results_text", "search", "stems", "threads_by_id",
]  # fmt: skip
