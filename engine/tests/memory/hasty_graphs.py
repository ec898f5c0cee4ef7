"""The two graphs as deployed, where temporary conversations are over after three seconds, and all after ten.

The server under test loads them.
"""

from lasting_memory import settings

settings.TEMPORARY_HOURS = 3 / 3600  # type: ignore[assignment]
settings.CONVERSATION_DAYS = 10 / 86_400  # type: ignore[assignment]

from deployment import DEPLOYMENT  # noqa: E402  # the constant is changed first

from lasting_memory.testing.parts import graph_builders  # noqa: E402

globals().update({name: build(DEPLOYMENT) for name, build in graph_builders().items()})
