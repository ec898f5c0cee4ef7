"""A fork's root may be anything: the engine's own tests read nothing of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2]
# Those that start a server stand on the same project as these, `tests/project`, and take minutes.
QUICK = "not proof and not server and not postgres and not browser"
_SKIPPED = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "*.egg-info", "build")


@pytest.mark.proof
def test_the_engine_s_own_tests_pass_in_a_folder_without_a_template(tmp_path: Path) -> None:
    engine = shutil.copytree(ENGINE, tmp_path / "engine", ignore=_SKIPPED)
    command = [sys.executable, "-m", "pytest", "--ignore=tests/template", "-q", "-m", QUICK, "-n", "2", "--dist", "loadfile"]
    env = {**os.environ, "PYTHONPATH": str(engine / "src")}
    done = subprocess.run(command, cwd=engine, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8_000:]
