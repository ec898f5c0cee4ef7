"""What must stay true whatever this fork changes. Each further agent has a line of its own."""

from lasting_memory.testing import contract

from agent import build_agent
from deployment import DEPLOYMENT

TestContract = contract(DEPLOYMENT, build_agent)
