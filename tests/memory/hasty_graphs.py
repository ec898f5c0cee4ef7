"""The two graphs as deployed, where temporary conversations are over after three seconds, and all after ten.

The server under test loads them.
"""

import settings

settings.TEMPORARY_HOURS = 3 / 3600  # type: ignore[assignment]
settings.CONVERSATION_DAYS = 10 / 86_400  # type: ignore[assignment]

from agent import agent  # noqa: E402  # the constant is changed first
from consolidation_agent import consolidation_agent  # noqa: E402

__all__ = ["agent", "consolidation_agent"]
