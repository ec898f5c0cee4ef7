"""The graphs as deployed, with a shorter patience for the model: what the server under test loads."""

from deployment import DEPLOYMENT

from lasting_memory.agent.models import CallLimits
from lasting_memory.testing.parts import graph_builders

LIMITS = CallLimits(silence_seconds=4, retries=2, retry_delay_seconds=0.05, run_seconds=15)

globals().update({name: build(DEPLOYMENT, limits=LIMITS) for name, build in graph_builders().items()})
