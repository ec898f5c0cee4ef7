"""The project's agent, but no turn of it plans a consolidation."""

from __future__ import annotations

from dataclasses import replace

from agent import build_agent
from deployment import DEPLOYMENT

settings = replace(DEPLOYMENT.settings, consolidate_after_seconds=0)
agent_without_trigger = build_agent(replace(DEPLOYMENT, settings=settings))
