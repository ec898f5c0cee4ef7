"""What a fork decides: one frozen value, which every entry point passes on.

`deployment.py` has that value. Its parts are the numbers of `limits.py` and `consolidation.py`,
which `numbers.py` checks, the fork's own checks (`checks.py`), the profile (`profile.py`) and the
prompts (`prompts.py`).
"""

from lasting_memory.deployment.checks import Change, Check
from lasting_memory.deployment.consolidation import (
    DEFAULT_CONSOLIDATION,
    KINDS,
    Consolidation,
    Kind,
)
from lasting_memory.deployment.deployment import NO_MEMORY, Deployment, FirstFiles
from lasting_memory.deployment.limits import DEFAULTS, Limits
from lasting_memory.deployment.profile import PROFILE_PATH, Profile
from lasting_memory.deployment.source import Source, Unconfirmed

__all__ = [
    "DEFAULTS", "DEFAULT_CONSOLIDATION", "KINDS", "NO_MEMORY", "PROFILE_PATH", "Change", "Check", "Consolidation", "Deployment",
    "FirstFiles", "Kind", "Limits", "Profile", "Source", "Unconfirmed",
]  # fmt: skip
