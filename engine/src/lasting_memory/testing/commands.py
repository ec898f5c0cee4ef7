"""The project's commands, run in the tests' own process: what they import takes longer than what they do."""

import io
import runpy
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

from lasting_memory.testing.deployed import PROJECT


def run_command(module: str, *args: str, stdin: str = "", folder: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    """`python -m module args`, whose file is executed anew; what it imports is there already."""
    with ThreadPoolExecutor(1) as own_thread:  # a test's event loop may run in this one
        return own_thread.submit(_run, module, args, stdin, folder).result()


def _run(module: str, args: tuple[str, ...], stdin: str, folder: Path) -> subprocess.CompletedProcess[str]:
    spec = find_spec(module)
    if spec and spec.submodule_search_locations:
        spec = find_spec(f"{module}.__main__")
    assert spec
    assert spec.origin
    out, err = io.StringIO(), io.StringIO()
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
    return subprocess.CompletedProcess([module, *args], int(bool(code)), out.getvalue(), err.getvalue())
