"""The graphs as deployed, with a shorter patience for the model: what the server under test loads."""

from dataclasses import replace

from agent import build_agent
from deployment import DEPLOYMENT

from lasting_memory import Limits, build_consolidation_agent
from lasting_memory.agent import bounds

LIMITS = Limits(model_silence_seconds=3, max_run_seconds=6)
bounds.RETRY_DELAY_SECONDS = 0.05

deployment = replace(DEPLOYMENT, limits=LIMITS)
agent, consolidation_agent = build_agent(deployment), build_consolidation_agent(deployment)
