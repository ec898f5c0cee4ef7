"""The names, arguments and types that projects are written against."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, assert_type

import pytest
from deepagents import SubAgent
from fastapi import FastAPI
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk import Auth
from pydantic import Field
from starlette.routing import Route

import lasting_memory
from lasting_memory import (
    Author,
    Consolidation,
    Context,
    Deployment,
    Limits,
    Profile,
    RefusedWrite,
    Scope,
    Settings,
    assistant,
    build_auth,
    build_consolidation_agent,
    build_http,
    build_model,
    consolidated,
    conversation_tools,
    file_system,
    group,
    memory_tools,
    middleware,
    organization,
    person,
    skills,
    subagents,
    testing,
)

Middleware = AgentMiddleware[Any, Any, Any]

# Arguments with their kinds; "..." is a default, whose value may change. Of numbers that a fork decides each name counts.
SIGNATURES = {
    "Author": "(kind, user_id=..., run_id=..., thread_id=...)",
    "Consolidation": "(*, batch_tokens=..., topic_files_shown=..., max_steps=..., removable_share=..., fact_words_kept=..., "
    "records_kept=..., at_once=..., tidy_days=...)",
    "Context": "(user_id=..., org_id=..., assistant_id=..., dry_run=...)",
    "Deployment": "(folder, settings=..., schemas=..., checks=..., routes=..., limits=..., consolidation=..., "
    "offline_model=...)",
    "Limits": "(*, memory_files=..., memory_block_bytes=..., policy_block_bytes=..., skills_block_bytes=..., max_files=..., "
    "max_bytes=..., revisions_kept=..., temporary_hours=..., conversation_days=..., search_result_chars=..., "
    "requests_per_second=..., requests_at_once=..., open_streams=..., busy_threads=..., waiting_runs=..., "
    "model_silence_seconds=..., model_retries=..., max_run_seconds=...)",
    "Profile": "(*, name=..., role=..., language=..., timezone=..., units=...)",
    "assistant": "()",
    "build_auth": "(deployment, *, open_to_people)",
    "build_consolidation_agent": "(d, model=...)",
    "build_http": "(deployment, *, routes=..., page=..., store=...)",
    "build_model": "(d, *, consolidating=...)",
    "consolidated": "(d)",
    "conversation_tools": "(d)",
    "file_system": "(d, interrupt_on=...)",
    "group": "(claim, *, writes=..., over_http=...)",
    "memory_tools": "(d, descriptions=...)",
    "middleware": "(d, *extra)",
    "organization": "()",
    "person": "()",
    "skills": "(d, tools=...)",
    "subagents": "(d, *own)",
}
# Errors; the environment, whose variables test_settings.py holds; and what the functions above make.
NOT_CALLED = {"RefusedWrite", "Scope", "Settings", "SettingsError"}


class MyProfile(Profile):
    pronouns: str | None = Field(None, max_length=50, description="How to refer to them.")


def my_check(path: str, content: str | None, author: Author) -> None:
    """As forks write them."""
    assert_type((author.kind, author.user_id, author.run_id, author.thread_id), tuple[str, str, str, str])
    raise RefusedWrite(f"{path} was not written: leave {content} out.")


def decided(folder: Path) -> Deployment:
    """`deployment.py`, checked by mypy, never called. The errors that are ignored here must be errors."""
    assert_type([person(), assistant(), organization()], list[Scope])
    assert_type(group("team_id", writes="members", over_http=False), Scope)
    group("team_id", writes="everybody")  # type: ignore[arg-type]
    group("team_id", "members")  # type: ignore[call-arg]
    Limits(busy_threads="two")  # type: ignore[arg-type]
    Limits(busy_people=2)  # type: ignore[call-arg]
    Consolidation(batch_tokens=None)  # type: ignore[arg-type]
    Deployment(folder, checks=[len])  # type: ignore[list-item]
    Deployment(folder, routes={"/team/": "team_id"})  # type: ignore[dict-item]
    Deployment(folder, consolidation=False)  # type: ignore[arg-type]
    Deployment(folder).offline_model = False  # type: ignore[misc]
    return Deployment(
        folder,
        settings=Settings(memory_scope="user"),
        schemas={"/memories/profile.json": MyProfile},
        checks=[my_check],
        routes={"/memories/": person(), "/team/": group("team_id")},
        limits=Limits(busy_threads=2),
        consolidation=None,
        offline_model=False,
    )


def built(d: Deployment, *, spec: SubAgent, model: BaseChatModel, tool: BaseTool, own: Middleware, route: Route) -> None:
    """The other files of a fork, checked by mypy, never called."""
    assert_type(d.prompt("agent.md"), str)
    assert_type(d.agents, tuple[str, ...])
    assert_type((d.folder, d.settings, d.limits), tuple[Path, Settings, Limits])
    assert_type((d.consolidation, d.offline_model), tuple[Consolidation | None, bool])
    assert_type(build_model(d), BaseChatModel)
    assert_type(build_model(d, consolidating=True), BaseChatModel)
    assert_type([tool, *memory_tools(d), *conversation_tools(d)], list[BaseTool])
    assert_type(memory_tools(d, descriptions={"append_memory": "Remember."}), list[BaseTool])
    memory_tools(d, descriptions=["append_memory"])  # type: ignore[arg-type]
    listed: Middleware | None = skills(d, tools=[tool])
    assert_type(consolidated(d), Middleware | None)
    assert_type(middleware(d, listed, consolidated(d), own, None), list[Middleware])
    middleware(d, tool)  # type: ignore[arg-type]
    assert_type(subagents(d, spec, spec), list[SubAgent])
    subagents(d, "writer")  # type: ignore[arg-type]
    assert_type(file_system(d, {"send_mail": True})["memory"], list[str])
    assert_type(build_consolidation_agent(d, model), CompiledStateGraph[Any, Context, Any, Any])
    assert_type(build_auth(d, open_to_people={"threads:create"}), Auth)
    assert_type(build_http(d, routes=[route], page=False), FastAPI)
    build_http(d, [route])  # type: ignore[call-arg]
    assert_type(d.settings.memory_scope, Literal["user", "user+assistant", "assistant"])


def arguments(called: object) -> str:
    """A signature without types and values."""
    assert callable(called)
    empty = inspect.Parameter.empty
    given = inspect.signature(called).parameters.values()
    shown = [each.replace(annotation=empty, default=empty if each.default is empty else ...) for each in given]
    return str(inspect.Signature(shown)).replace("Ellipsis", "...")


def test_each_name_is_there_and_documented() -> None:
    assert [name for name in lasting_memory.__all__ if not inspect.getdoc(getattr(lasting_memory, name))] == []


def test_arguments_keep_their_names_kinds_and_defaults() -> None:
    found = {name: arguments(getattr(lasting_memory, name)) for name in lasting_memory.__all__ if name not in NOT_CALLED}
    assert found == SIGNATURES
    assert arguments(testing.contract) == "(deployment, build_agent)"


def test_a_command_of_this_machine_loads_no_agent() -> None:
    code = "import sys, lasting_memory.settings; sys.exit('deepagents' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lasting_memory.nothing
