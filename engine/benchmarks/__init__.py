"""What the template costs over a bare deep agent, measured here and now.

Every figure of time is a ratio of two things measured in turns within one run: seconds alone say
more about the machine than about the code. No key and no network is needed; the last line that each
script prints is JSON.

    python -m benchmarks.turn_overhead      a user's turn through the real server python -m
    benchmarks.store_operations   what the graph alone asks of the store, and its own time python -m
    benchmarks.start_time         from process start to 200 at /ok python -m benchmarks.walk
    what of the library a request passes, counted python -m benchmarks.recall_scale       a search
    of past conversations, from 10 to 10,000 of them python -m benchmarks.load               many
    people at once, then one who floods, on Postgres python -m benchmarks.small_requests
    somebody's small request beside one who floods python -m benchmarks.recall --set SET --data PATH
    how often the right past conversation is found (public data, not in here)
"""

import os
import sys
from pathlib import Path

from lasting_memory.testing.deployed import PROJECT

HERE = Path(__file__).parent
sys.path.insert(0, str(PROJECT))

# The graph modules build themselves when imported; the benchmarks give them their models.
os.environ.update(AGENT_MODEL="anthropic:claude-sonnet-4-6", ANTHROPIC_API_KEY="test")
