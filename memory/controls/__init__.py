"""A person's controls over their memory.

`decided.py`: paused memory and reviewed changes. `marks.py`: threads without memory, and threads kept out of memory.
`temporary_tools.py`: no tools for memory in the former. `usage.py`: the used share of the quota.
"""

from memory.controls.decided import (
    NAMES,
    PAUSED,
    Controls,
    check_not_paused,
    controls,
    controls_of,
    read_controls,
    set_controls,
)
from memory.controls.marks import (
    HELD_WHILE_PAUSED,
    RUN_METADATA,
    TEMPORARY,
    creating_run,
    delete_idle,
    delete_temporary,
    in_temporary_conversation,
    is_temporary,
    keep_out,
    stamping,
    stays_out,
)
from memory.controls.temporary_tools import TemporaryTools
from memory.controls.usage import NEARLY_FULL, SHORTEN_ABOVE_BYTES, Usage, usage_of

__all__ = [
    "HELD_WHILE_PAUSED", "NAMES", "NEARLY_FULL", "PAUSED", "RUN_METADATA", "SHORTEN_ABOVE_BYTES", "TEMPORARY",
    "Controls", "TemporaryTools", "Usage", "check_not_paused", "controls", "controls_of", "creating_run", "delete_idle",
    "delete_temporary", "in_temporary_conversation", "is_temporary", "keep_out", "read_controls",
    "set_controls", "stamping", "stays_out", "usage_of",
]  # fmt: skip
