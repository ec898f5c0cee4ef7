"""A subagent with memory of its own: it writes longer texts in a person's style, which it remembers.

To take it off, delete this file, prompts/writer.md, tests/test_writer.py, and what names it in agent.py and pyproject.toml.
"""

from collections.abc import Sequence
from typing import Any

from deepagents import SubAgent

from lasting_memory.agent.prompt import PromptBlocks
from lasting_memory.deployment import Deployment
from lasting_memory.settings import PROJECT

PROMPT = (PROJECT / "prompts" / "writer.md").read_text("utf-8")
# What this user wants of this subagent, kept and shown beside the rest.
MEMORY = "/memories/agents/writer/MEMORY.md"


def build_writer(deployment: Deployment, files: Sequence[str], bounded: Sequence[Any]) -> SubAgent:
    """The subagent, which is shown the agent's memory files and its own. `bounded` is the middleware that limits its calls."""
    return {
        "name": "writer",
        "description": "Writes longer texts (e-mails, articles, summaries) in the user's own style, which it remembers.",
        "system_prompt": PROMPT,
        "middleware": [PromptBlocks(deployment, [*files, MEMORY]), *bounded],
    }
