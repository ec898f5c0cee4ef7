"""The parts that come off, each taken off as README's "Making it yours" says."""

from __future__ import annotations

import re

from tests.forks.fork import Fork


def no_offline_model(fork: Fork) -> None:
    fork.delete("offline_model.py", "tests/test_offline_model.py")
    fork.edit(
        "models.py",
        ("from offline_model import OfflineModel\n", ""),
        ("BaseChatModel] | None = OfflineModel", "BaseChatModel] | None = None"),
    )


def no_writer(fork: Fork) -> None:
    fork.delete("writer.py", "prompts/writer.md", "tests/test_writer.py")
    call = ", build_writer(settings, files, bounded)"
    fork.edit("agent.py", ("from writer import build_writer\n", ""), (call, ""))


def no_episodes(fork: Fork) -> None:
    fork.delete("memory/recall/tools.py", "tests/memory/recall/test_tools.py")
    fork.take("agent.py", "from memory.recall import build_episode_tools\n", ", *build_episode_tools(settings)")
    fork.take(
        "memory/recall/__init__.py",
        "from memory.recall.tools import build_episode_tools\n",
        ' "build_episode_tools",',
        ", `tools.py` (the model's tools)",
    )


def no_semantic_search(fork: Fork) -> None:
    fork.delete("memory/recall/semantic.py", "tests/memory/recall/test_meaning.py")
    fork.take("memory/recall/index.py", "from memory.recall import semantic\n")
    nothing = "ops: list[PutOp] = []"
    for call in (
        "text_ops(store, actor, {key_of(talk.thread_id): talk for talk in talks})",
        "text_ops(store, actor, gone)",
    ):
        fork.edit("memory/recall/index.py", (f"ops = await semantic.{call}", nothing))
    call = "near = await semantic.similar(store, actor, query[: ranking.MAX_QUERY_CHARS])"
    fork.edit(
        "memory/recall/retrieval.py",
        ("import lexical, ranking, semantic\n", "import lexical, ranking\n"),
        (call, "near: dict[int, tuple[float, int]] = {}"),
    )


def no_skills(fork: Fork) -> None:
    fork.delete("memory/skills.py", "prompts/skills_block.md", "seeds/skills", "tests/memory/test_skills.py")
    fork.take(
        "agent.py",
        "from memory.skills import build_skills\n",
        "    middleware.append(build_skills(settings, backend))\n",
    )
    fork.take(
        "api/views.py",
        "from memory.skills import preview_skills\n",
        "    shown.append(await preview_skills(caller.store, actor, assistant, settings))\n",
    )
    told = re.findall(r"- `/skills/` .*\n", fork.text("prompts/agent.md"))
    fork.take("prompts/agent.md", *told)


def no_page(fork: Fork) -> None:
    fork.delete("app", "api/page.py", "tests/app", "tests/api/test_page.py", "benchmarks/page.py")
    fork.take("api/app.py", "from api.page import Page\n", "        Middleware(Page, settings=settings),\n")
    fork.edit(
        "dev/server.py",
        ("Open {url}/app to talk to the agent, and to see what it remembers. Ctrl-C", "The server is at {url}. Ctrl-C"),
    )
    fork.take("Makefile", " screenshots", *re.findall(r"(?m)^screenshots: .*\n.*\n\n", fork.text("Makefile")))
    fork.take("README.md", "; `make screenshots` takes README's picture anew")
    fork.run("-m", "tests.access.matrix")


def no_postgres(fork: Fork) -> None:
    fork.delete("memory/postgres", "testing/postgres.py", "tests/postgres")
    fork.take("Makefile", " dev-postgres", *re.findall(r"(?m)^dev-postgres: (?:.+\n)+\n", fork.text("Makefile")))
    fork.take("pyproject.toml", *re.findall(r"(?m)^  .*# for make dev-postgres\n", fork.text("pyproject.toml")))
    why = "; on `make dev-postgres` not ([why](docs/architecture.md#what-lasts-where))"
    fork.take("README.md", " (`make dev-postgres`: pgvector)", why)


def no_consolidation(fork: Fork) -> None:
    fork.delete(*fork.folders("consolidation"))
    prompts = sorted((fork.folder / "prompts").glob("consolidation*.md"))
    fork.delete("consolidation_agent.py", *(f"prompts/{path.name}" for path in prompts))
    fork.delete("api/consolidation.py", "docs/consolidation.md")
    fork.take("agent.py", "from memory.consolidation import agent_hooks\n", "*agent_hooks(settings), ")
    graph = '    "consolidation_agent": "./consolidation_agent.py:consolidation_agent"\n'
    fork.edit("langgraph.json", (f'agent.py:agent",\n{graph}', 'agent.py:agent"\n'))
    fork.take(
        "api/app.py",
        "from api.consolidation import router as consolidation\n",
        "from api.consolidation import shown_proposals\n",
        "        *consolidation.routes,\n",
    )
    fork.edit("api/app.py", ('exported = {"proposals": shown_proposals}', "exported = {}"))
    fork.take("README.md", " ([docs/consolidation.md](docs/consolidation.md))")
    fork.run("-m", "tests.access.matrix")
