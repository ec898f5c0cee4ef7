"""The graphs as deployed, with a shorter patience for the model: what the server under test loads."""

from dataclasses import replace

from deployment import DEPLOYMENT

from lasting_memory.agent import models
from lasting_memory.testing.parts import graph_builders

LIMITS = models.LIMITS = replace(models.LIMITS, silence_seconds=4, retry_delay_seconds=0.05, run_seconds=15)

globals().update({name: build(DEPLOYMENT) for name, build in graph_builders().items()})
