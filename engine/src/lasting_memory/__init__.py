"""Long-term memory for a Deep Agent on LangGraph Platform. What a project imports is here;
everything else may move.

A name's module is loaded when the name is first asked for: commands that talk to a server need no
agent.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lasting_memory.agent.memory_search import FoundMemory, find_memories
    from lasting_memory.agent.models import build_model
    from lasting_memory.agent.skills import skills
    from lasting_memory.agent.stack import file_system, middleware, subagents
    from lasting_memory.agent.tools import memory_tools
    from lasting_memory.auth.handlers import build_auth
    from lasting_memory.consolidation import build_consolidation_agent, consolidated
    from lasting_memory.deployment import Change, Consolidation, Deployment, Limits, Profile, Source
    from lasting_memory.http.app import build_http
    from lasting_memory.memory.validation import RefusedWrite
    from lasting_memory.people.identity import Actor, Author, Context
    from lasting_memory.people.scopes import Scope, assistant, group, organization, person
    from lasting_memory.recall import conversation_tools
    from lasting_memory.settings import Settings, SettingsError

__all__ = [
    "Actor", "Author", "Change", "Consolidation", "Context", "Deployment", "FoundMemory", "Limits", "Profile",
    "RefusedWrite", "Scope", "Settings", "SettingsError", "Source", "assistant", "build_auth", "build_consolidation_agent",
    "build_http", "build_model", "consolidated", "conversation_tools", "file_system", "find_memories", "group",
    "memory_tools", "middleware", "organization", "person", "skills", "subagents",
]  # fmt: skip

_MODULES = {
    "agent.memory_search": ["FoundMemory", "find_memories"],
    "agent.models": ["build_model"],
    "agent.skills": ["skills"],
    "agent.stack": ["file_system", "middleware", "subagents"],
    "agent.tools": ["memory_tools"],
    "auth.handlers": ["build_auth"],
    "consolidation": ["build_consolidation_agent", "consolidated"],
    "deployment": ["Change", "Consolidation", "Deployment", "Limits", "Profile", "Source"],
    "http.app": ["build_http"],
    "memory.validation": ["RefusedWrite"],
    "people.identity": ["Actor", "Author", "Context"],
    "people.scopes": ["Scope", "assistant", "group", "organization", "person"],
    "recall": ["conversation_tools"],
    "settings": ["Settings", "SettingsError"],
}


def __getattr__(name: str) -> object:
    for module_name, names in _MODULES.items():
        if name in names:
            module = import_module(f"{__name__}.{module_name}")
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
