"""The two graphs as deployed, with a shorter patience for the model: what the server under test loads."""

from agent import build_agent
from consolidation_agent import build_consolidation_agent
from models import CallLimits
from settings import load_settings

LIMITS = CallLimits(silence_seconds=4, retries=2, retry_delay_seconds=0.05, run_seconds=15)

agent = build_agent(load_settings(), limits=LIMITS)
consolidation_agent = build_consolidation_agent(load_settings(), limits=LIMITS)
