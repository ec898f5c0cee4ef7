"""The two graphs and the sign-in as deployed, where temporary conversations are over after two seconds, and all after six.

The server under test loads them.
"""

from dataclasses import replace

from agent import build_agent
from deployment import DEPLOYMENT

from lasting_memory import build_auth, build_consolidation_agent
from lasting_memory.limits import Limits

HASTY = replace(DEPLOYMENT, limits=Limits(temporary_hours=2 / 3600, conversation_days=6 / 86_400))
agent, consolidation_agent = build_agent(HASTY), build_consolidation_agent(HASTY)
auth = build_auth(
    HASTY, open_to_people={f"threads:{action}" for action in ("create", "create_run", "delete", "read", "search", "update")}
)
