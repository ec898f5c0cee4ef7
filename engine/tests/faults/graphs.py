"""The graphs as deployed, with a shorter patience for the model: what the server under test loads."""

from dataclasses import replace

from deployment import DEPLOYMENT

from lasting_memory import Limits
from lasting_memory.agent import models
from lasting_memory.testing.parts import graph_builders

LIMITS = Limits(model_silence_seconds=4, max_run_seconds=15)
models.RETRY_DELAY_SECONDS = 0.05

globals().update({name: build(replace(DEPLOYMENT, limits=LIMITS)) for name, build in graph_builders().items()})
