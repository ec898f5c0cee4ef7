"""Deployments of the engine's own small project, whatever the environment says, and commands run in
it.
"""

import io
import runpy
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

from lasting_memory.deployment import Deployment
from lasting_memory.settings import Settings

# `engine/tests/project`, which is there beside the sources alone.
PROJECT = Path(__file__).parents[3] / "tests" / "project"


@cache  # one value for one set of settings, because graphs are built once for each
def deployed(**settings: Any) -> Deployment:
    """A deployment with these settings, in place of the environment's."""
    return Deployment(PROJECT, Settings(**settings))


def with_routes(routes: str, folder: Path) -> Path:
    """A copy of the tests' project in a folder, with more routes, given as Python source such as
    `"/team/": group("team_id")`.
    """
    ignored = shutil.ignore_patterns("__pycache__")
    project = folder / "project"
    shutil.copytree(PROJECT, project, ignore=ignored)
    deployment = project / "deployment.py"
    text = deployment.read_text("utf-8")
    without_routes = text
    text = text.replace(".parent)", f".parent, routes={{**ROUTES, {routes}}})")
    assert text != without_routes
    imported = "from lasting_memory.deployment import Deployment\n"
    also_imported = "from lasting_memory.people.scopes import ROUTES, group\n"
    text = text.replace(imported, imported + also_imported)
    deployment.write_text(text, "utf-8")
    return project


def run_command(
    module: str, *args: str, stdin: str = "", folder: Path = PROJECT
) -> subprocess.CompletedProcess[str]:
    """`python -m module args` in the tests' own process: its imports, which take longest, are there
    already.
    """
    with ThreadPoolExecutor(1) as own_thread:  # a test's event loop may run in this one
        return own_thread.submit(_run, module, args, stdin, folder).result()


def _run(
    module: str, args: tuple[str, ...], stdin: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    spec = find_spec(module)
    if spec and spec.submodule_search_locations:
        spec = find_spec(f"{module}.__main__")
    assert spec
    assert spec.origin
    out = io.StringIO()
    err = io.StringIO()
    with (
        chdir(folder),
        mock.patch("sys.argv", [spec.origin, *args]),
        mock.patch("sys.stdin", io.StringIO(stdin)),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            runpy.run_path(spec.origin, run_name="__main__")
            code: int | str | None = 0
        except SystemExit as end:
            code = end.code
    if isinstance(code, str):
        err.write(f"{code}\n")
    return subprocess.CompletedProcess(
        [module, *args], int(bool(code)), out.getvalue(), err.getvalue()
    )
