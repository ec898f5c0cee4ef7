"""Where operators approve calls of tools, and what people may not do there."""

from functools import cached_property

from langgraph_sdk import Auth

from lasting_memory import platform
from lasting_memory.agent.graph_parts import approved_calls, has_approvals
from lasting_memory.deployment import Deployment

HTTPException = Auth.exceptions.HTTPException


class Approvals:
    """Which calls of tools operators approve in a deployment.

    The graphs are looked at once, when the first request asks: the platform has loaded them then.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    @cached_property
    def exist(self) -> bool:
        """Whether an operator approves calls of tools somewhere.

        A graph that is made anew for each run cannot be looked at, so the deployment says it.
        """
        if self._deployment.has_approvals:
            return True
        for agent in self._deployment.agents:
            graph = platform.loaded_graph(agent)
            if graph is not None and has_approvals(graph):
                return True
        return False

    @cached_property
    def _calls(self) -> frozenset[str] | None:
        """Names of the tools whose calls, or calls in whose subagents, operators approve.

        None where a graph cannot be looked at: any tool may be one.
        """
        names = {"", "task"}
        for agent in self._deployment.agents:
            graph = platform.loaded_graph(agent)
            if graph is None:
                return None
            names |= approved_calls(graph)
        return frozenset(names)

    def concern(self, calls: set[str]) -> bool:
        """Whether operators may have to approve one of these calls of tools."""
        if not calls:
            return False
        if self._calls is None:
            return True
        return not self._calls.isdisjoint(calls)

    def check_state_write(self) -> None:
        """Raise `HTTPException` 403 if operators approve calls.

        Nobody else may change the state that an operator approves.
        """
        if self.exist:
            raise HTTPException(
                403,
                "Operators approve writes here: only they may go to a node or write a thread's state.",
            )
