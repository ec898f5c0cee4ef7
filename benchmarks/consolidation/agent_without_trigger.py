"""The project's agent, but no turn of it plans a consolidation."""

from __future__ import annotations

from dataclasses import replace

from agent import build_agent
from settings import load_settings

agent_without_trigger = build_agent(replace(load_settings(), consolidate_after_seconds=0))
