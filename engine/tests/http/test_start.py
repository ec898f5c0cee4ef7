"""What the app says when a server starts that nobody has seeded."""

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from langgraph.store.base import BaseStore

from lasting_memory.deployment import Deployment
from lasting_memory.http.app import build_http
from lasting_memory.people import namespaces
from lasting_memory.testing.deployed import PROJECT, deployed

LOCAL = {"local_dev": True, "served_at": "http://127.0.0.1:2024"}
PAGE = "The page is at http://127.0.0.1:2024/app."
SEED = "though its folder does. `make seed URL=http://127.0.0.1:2024` puts them there."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fork's folder with rules of an organization and a skill."""
    shutil.copy(PROJECT / "langgraph.json", tmp_path)
    (tmp_path / "policies/acme").mkdir(parents=True)
    (tmp_path / "policies/acme/rules.md").write_text("Be kind.\n")
    (tmp_path / "seeds/skills/notes").mkdir(parents=True)
    (tmp_path / "seeds/skills/notes/SKILL.md").write_text(
        "---\nname: notes\ndescription: Notes.\n---\n"
    )
    return tmp_path


async def said_at_start(
    deployment: Deployment,
    store: BaseStore,
    caplog: pytest.LogCaptureFixture,
    *,
    page: bool = True,
    by_make_dev: bool = False,
) -> list[str]:
    async def opened() -> BaseStore:
        return store

    app = build_http(deployment, page=page, store=opened)
    app.state.by_make_dev = by_make_dev
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="start"):
        async with app.router.lifespan_context(app):
            pass
    return [
        f"{record.levelname} {record.getMessage()}".strip()
        for record in caplog.records
        if record.name == "start"
    ]


async def test_the_start_says_in_one_line_what_is_not_seeded_and_where_the_page_is(
    folder: Path, store: BaseStore, caplog: pytest.LogCaptureFixture
) -> None:
    local = replace(deployed(**LOCAL), folder=folder)
    nothing = f"WARNING Not seeded: this server has no policies and no skills, {SEED}"
    assert await said_at_start(local, store, caplog) == [f"{nothing} {PAGE}"]
    assert await said_at_start(local, store, caplog, page=False) == [nothing]
    assert await said_at_start(local, store, caplog, by_make_dev=True) == [], (
        "`make dev` seeds after the start"
    )
    await store.aput(namespaces.policies("acme"), "/rules.md", {"content": "Be kind.\n"})
    assert await said_at_start(local, store, caplog) == [
        f"WARNING Not seeded: this server has no skills, {SEED} {PAGE}"
    ]
    await store.aput(namespaces.skills("an assistant"), "/notes/SKILL.md", {"content": ""})
    assert await said_at_start(local, store, caplog) == [f"INFO {PAGE}"]


async def test_the_start_misses_no_policies_or_skills_that_a_fork_does_not_have(
    folder: Path, store: BaseStore, caplog: pytest.LogCaptureFixture
) -> None:
    away = replace(deployed(), folder=folder)
    routes = {route: scope for route, scope in away.routes.items() if route != "/skills/"}
    address = (
        "though its folder does. `make seed URL=<the address of this deployment>` puts them there."
    )
    assert await said_at_start(replace(away, routes=routes), store, caplog) == [
        f"WARNING Not seeded: this server has no policies, {address}"
    ]
    shutil.rmtree(folder / "policies")
    shutil.rmtree(folder / "seeds")
    assert await said_at_start(away, store, caplog) == []


async def test_a_folder_that_cannot_be_seeded_is_named(
    folder: Path, store: BaseStore, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "policies/acme/link.md").symlink_to(folder / "langgraph.json")
    (line,) = await said_at_start(replace(deployed(**LOCAL), folder=folder), store, caplog)
    assert "link.md is a link; " in line
    assert line.endswith(f"Nothing can be seeded before. {PAGE}")
