"""JavaScript for tests: a folder with the packages of `package.json`, and node in it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
INSTALL_SECONDS = 300
NODE_SECONDS = 120

Node = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="session")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages and the scripts."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node or npm is not installed")
    folder = tmp_path_factory.mktemp("javascript")
    for file in (HERE / "package.json", *HERE.glob("*.mjs")):
        shutil.copy(file, folder)
    install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(install, cwd=folder, check=True, timeout=INSTALL_SECONDS)
    return folder


@pytest.fixture
def node(javascript: Path) -> Node:
    """`await node(script, name, **given)`: what the script printed for these: `ok`, or `status` and `error`."""

    async def run(script: str, name: str, **given: Any) -> Any:
        command = ["node", script, name, json.dumps(given)]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=javascript, capture_output=True, text=True, timeout=NODE_SECONDS, check=True
        )
        return json.loads(done.stdout.splitlines()[-1])

    return run
