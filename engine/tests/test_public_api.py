"""The names, arguments and types that projects are written against."""

import inspect
import operator
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

import lasting_memory as lm
from lasting_memory import testing
from lasting_memory.settings import SettingsError

Middleware = AgentMiddleware[Any, Any, Any]

# Fields with their kinds; "..." is a default, whose value may change. Functions' arguments are held
# by what is written below.
FIELDS = {
    "Actor": "(user_id, org_id)",
    "Author": "(kind, user_id=..., run_id=..., thread_id=...)",
    "Change": "(path, before, after, author, source=...)",
    "Consolidation": "(*, batch_tokens=..., topic_files_shown=..., max_steps=..., removable_share=..., fact_words_kept=..., "
    "may=..., records_kept=..., at_once=..., tidy_days=...)",
    "Context": "(user_id=..., org_id=..., assistant_id=..., dry_run=...)",
    "Deployment": "(folder, settings=..., schemas=..., checks=..., routes=..., limits=..., consolidation=..., "
    "offline_model=..., first_files=..., offers=..., ends=..., unconfirmed=..., dream=...)",
    "FoundMemory": "(path, text, lines=..., unconfirmed=...)",
    "Limits": "(*, memory_files=..., memory_block_bytes=..., policy_block_bytes=..., skills_block_bytes=..., max_files=..., "
    "max_bytes=..., revisions_kept=..., temporary_hours=..., conversation_days=..., search_result_chars=..., "
    "requests_per_second=..., requests_at_once=..., open_streams=..., busy_threads=..., waiting_runs=..., "
    "model_silence_seconds=..., model_retries=..., max_run_seconds=...)",
    "Profile": "(*, name=..., role=..., language=..., timezone=..., units=...)",
}


class MyProfile(lm.Profile):
    pronouns: str | None = Field(None, max_length=50, description="How to refer to them.")


def my_check(path: str, content: str | None, author: lm.Author) -> None:
    """As forks write them."""
    assert_type(
        (author.kind, author.user_id, author.run_id, author.thread_id), tuple[str, str, str, str]
    )
    raise lm.RefusedWrite(f"{path} was not written: leave {content} out.")


def my_change(change: lm.Change) -> None:
    """The other form."""
    assert_type(
        (change.path, change.before, change.after, change.author),
        tuple[str, str | None, str | None, lm.Author],
    )
    change.path = "/other.md"  # type: ignore[misc]


def my_files(person: lm.Actor) -> dict[str, str]:
    """As forks write them."""
    assert_type((person.user_id, person.org_id), tuple[str, str])
    return {"/memories/profile.json": "{}"}


async def my_tool(d: lm.Deployment) -> None:
    """What a fork's own tool finds."""
    found = await lm.find_memories(d, "leek", limit=3)
    assert_type(found, list[lm.FoundMemory])
    assert_type(
        [(each.path, each.text, each.lines) for each in found],
        list[tuple[str, str, tuple[tuple[int, str], ...]]],
    )
    await lm.find_memories(d, "leek", 3)  # type: ignore[call-arg]


def decided(folder: Path) -> lm.Deployment:
    """`deployment.py`, checked by mypy, never called. The errors that are ignored here must be
    errors.
    """
    assert_type([lm.person(), lm.assistant(), lm.organization()], list[lm.Scope])
    assert_type(lm.group("team_id", writes="members", over_http=False), lm.Scope)
    lm.group("team_id", writes="everybody")  # type: ignore[arg-type]
    lm.group("team_id", "members")  # type: ignore[call-arg]
    lm.Limits(busy_threads="two")  # type: ignore[arg-type]
    lm.Limits(busy_people=2)  # type: ignore[call-arg]
    lm.Consolidation(may={"add", "update"})
    lm.Consolidation(may={"delete"})  # type: ignore[arg-type]
    lm.Consolidation(batch_tokens=None)  # type: ignore[arg-type]
    lm.Deployment(folder, checks=[len])  # type: ignore[list-item]
    lm.Deployment(folder, checks=[operator.contains])  # type: ignore[list-item]
    lm.Deployment(folder, first_files=my_change)  # type: ignore[arg-type]
    lm.Deployment(folder, routes={"/team/": "team_id"})  # type: ignore[dict-item]
    lm.Deployment(folder, consolidation=False)  # type: ignore[arg-type]
    lm.Deployment(folder).offline_model = False  # type: ignore[misc]
    return lm.Deployment(
        folder,
        settings=lm.Settings(memory_scope="user"),
        schemas={"/memories/profile.json": MyProfile},
        checks=[my_check, my_change],
        routes={"/memories/": lm.person(), "/team/": lm.group("team_id")},
        limits=lm.Limits(busy_threads=2),
        consolidation=None,
        first_files=my_files,
        offers=False,
        offline_model=False,
    )


def built(
    d: lm.Deployment,
    *,
    spec: SubAgent,
    model: BaseChatModel,
    tool: BaseTool,
    own: Middleware,
    route: Route,
) -> None:
    """The other files of a fork, checked by mypy, never called."""
    assert_type(d.prompt("agent.md"), str)
    assert_type(d.agents, tuple[str, ...])
    assert_type((d.folder, d.settings, d.limits), tuple[Path, lm.Settings, lm.Limits])
    assert_type((d.consolidation, d.offline_model), tuple[lm.Consolidation | None, bool])
    assert_type((d.offers, d.has_offers), tuple[bool, bool])
    assert_type(lm.build_model(d), BaseChatModel)
    assert_type(lm.build_model(d, consolidating=True), BaseChatModel)
    assert_type([tool, *lm.memory_tools(d), *lm.conversation_tools(d)], list[BaseTool])
    assert_type(lm.memory_tools(d, descriptions={"append_memory": "Remember."}), list[BaseTool])
    lm.memory_tools(d, descriptions=["append_memory"])  # type: ignore[arg-type]
    listed: Middleware | None = lm.skills(d, tools=[tool])
    assert_type(lm.consolidated(d), Middleware | None)
    assert_type(lm.middleware(d, listed, lm.consolidated(d), own, None), list[Middleware])
    lm.middleware(d, tool)  # type: ignore[arg-type]
    assert_type(lm.subagents(d, spec, spec), list[SubAgent])
    lm.subagents(d, "writer")  # type: ignore[arg-type]
    assert_type(lm.file_system(d, {"send_mail": True})["memory"], list[str])
    assert_type(
        lm.build_consolidation_agent(d, model), CompiledStateGraph[Any, lm.Context, Any, Any]
    )
    assert_type(lm.build_auth(d, open_to_people={"threads:create"}), Auth)
    assert_type(lm.build_http(d, routes=[route], page=False), FastAPI)
    lm.build_http(d, [route])  # type: ignore[call-arg]
    assert_type(d.settings.memory_scope, Literal["user", "user+assistant", "assistant"])


def arguments(called: object) -> str:
    """A signature without types and values."""
    assert callable(called)
    empty = inspect.Parameter.empty
    given = inspect.signature(called).parameters.values()
    shown = [
        each.replace(annotation=empty, default=empty if each.default is empty else ...)
        for each in given
    ]
    return str(inspect.Signature(shown)).replace("Ellipsis", "...")


def test_each_name_is_there_and_documented() -> None:
    assert [name for name in lm.__all__ if not inspect.getdoc(getattr(lm, name))] == []


def test_fields_keep_their_names_kinds_and_defaults() -> None:
    assert {name: arguments(getattr(lm, name)) for name in FIELDS} == FIELDS
    assert arguments(testing.contract) == "(deployment, build_agent)"


def test_a_command_of_this_machine_loads_no_agent() -> None:
    code = "import sys, lasting_memory.settings; sys.exit('deepagents' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "odd", [{"max_files": 0}, {"model_retries": -1}, {"memory_files": ("/policies/a.md",)}]
)
def test_a_limit_that_cannot_be_meant_is_an_error_that_names_it(odd: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=f"^Limits.{next(iter(odd))}[^\n]*$"):
        lm.Limits(**odd)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lm.nothing
