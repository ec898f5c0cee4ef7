"""Graph 2: turns finished conversations into memory, between them."""

from lasting_memory import build_consolidation_agent

from deployment import DEPLOYMENT

consolidation_agent = build_consolidation_agent(DEPLOYMENT)
