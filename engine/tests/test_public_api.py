"""The names and arguments that projects are written against."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any, assert_type

import pytest
from deepagents import SubAgent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

import lasting_memory
from lasting_memory import Deployment, build_model, conversation_tools, memory_tools, middleware, subagents

SIGNATURES = {
    "build_model": ["d", "consolidating"],
    "memory_tools": ["d"],
    "conversation_tools": ["d"],
    "file_system": ["d", "interrupt_on"],
    "middleware": ["d", "extra"],
    "skills": ["d", "tools"],
    "consolidated": ["d"],
    "subagents": ["d", "own"],
    "person": [],
    "assistant": [],
    "organization": [],
}


def typed(d: Deployment, spec: SubAgent) -> None:
    """Checked by mypy, never called."""
    assert_type(build_model(d), BaseChatModel)
    assert_type([*memory_tools(d), *conversation_tools(d)], list[BaseTool])
    assert_type(middleware(d, None), list[AgentMiddleware[Any, Any, Any]])
    assert_type(subagents(d, spec), list[SubAgent])


@pytest.mark.parametrize("name", lasting_memory.__all__)
def test_each_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(lasting_memory, name))


@pytest.mark.parametrize(("name", "arguments"), SIGNATURES.items())
def test_arguments_keep_their_names(name: str, arguments: list[str]) -> None:
    assert list(inspect.signature(getattr(lasting_memory, name)).parameters) == arguments


def test_a_command_of_this_machine_loads_no_agent() -> None:
    code = "import sys, lasting_memory.settings; sys.exit('deepagents' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lasting_memory.nothing
