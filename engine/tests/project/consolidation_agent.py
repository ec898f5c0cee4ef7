"""Graph 2: turns finished conversations into memory, between them."""

from deployment import DEPLOYMENT

from lasting_memory import build_consolidation_agent

consolidation_agent = build_consolidation_agent(DEPLOYMENT)
