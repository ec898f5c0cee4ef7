"""The yardstick for the start: a graph of one node that does nothing."""

from __future__ import annotations

from typing import TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict):
    """Nothing to remember."""


def nothing(state: State) -> None:
    """Return no update."""


graph = StateGraph(State).add_node(nothing).add_edge(START, "nothing").compile()
