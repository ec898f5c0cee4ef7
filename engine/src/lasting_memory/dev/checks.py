"""The checks and tests of a folder, by the tools of this environment. Exit codes are the tools'.

The engine's are run, too, while it is the folder `engine/`.
"""

import shutil
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from lasting_memory.dev.processes import INTERRUPTED, run

_ENGINE = Path("engine")
# The template as it is shipped is for its own CI: the other tests of the engine hold in a fork
# whatever its root says, these need not.
_AS_SHIPPED = ["--ignore=tests/template"]
# More workers than two cores: a server test also waits. But each worker loads all tests and has
# servers of its own, which takes 15 seconds of a core. The tests of a module share its servers.
_PARALLEL = ["-n", "5", "--dist", "loadfile", "--no-loadscope-reorder"]
_QUICK = "not proof and not server and not postgres and not browser"


class MissingToolError(RuntimeError):
    """A tool is not in this environment. The message is one line with the fix."""


def check() -> int:
    """Lint, types, and the engine's import contracts, up to the first that fails."""
    folders = [Path()]
    if _has_engine():
        folders.append(_ENGINE)
    for folder in folders:
        code = _lint(folder)
        if code:
            return code
    code = _check_types(folders)
    if code or not _has_engine():
        return code
    return run([_tool("lint-imports"), "--no-logo", "--no-cache"], _ENGINE)


def test_fork() -> int:
    """The tests of this folder alone; green where it has none."""
    if not Path("tests").is_dir():
        return 0
    return run(_pytest("-n", "2", "tests"))


def test(*, template: bool) -> int:
    """`check`, the tests of this folder, and the engine's but the long proofs.

    `template` also holds the files of the folder to what this project ships.
    """
    return _check_and_test("-m", "not proof", *_PARALLEL, template=template)


def proof(*, template: bool) -> int:
    """As `test`, with the engine's long proofs."""
    return _check_and_test(*_PARALLEL, template=template, DRAW_ANEW="1")


def test_quick(*, template: bool) -> int:
    """The engine's tests without a server, Postgres or a browser: five of six."""
    three_processes = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
    return _test_engine("-q", "-m", _QUICK, *three_processes, template=template)


def judge_model() -> int:
    """The cases of `evals/`, with the model in `.env`."""
    return run(_pytest("evals", "-q", "-n", "2", "--dist", "load"))


def _check_and_test(*options: str, template: bool, **environ: str) -> int:
    """`check`, the tests of this folder and the engine's with these options, up to the first that
    fails.
    """
    for step in (check, test_fork):
        code = step()
        if code:
            return code
    return _test_engine(*options, template=template, **environ)


def _test_engine(*options: str, template: bool, **environ: str) -> int:
    """The engine's tests with these options; green where there is no folder of it."""
    if not _has_engine():
        return 0
    if not template:
        options = (*options, *_AS_SHIPPED)
    return run(_pytest(*options), _ENGINE, **environ)


def _lint(folder: Path) -> int:
    """ruff in a folder, up to what fails first."""
    ruff = _tool("ruff")
    for command in ([ruff, "check", "."], [ruff, "format", "--check", "."]):
        code = run(command, folder)
        if code:
            return code
    return 0


def _check_types(folders: Sequence[Path]) -> int:
    """mypy in all of these folders at once, each on a core: it takes half a minute. Returns the
    first exit code that is not 0.
    """
    mypy = _tool("mypy")
    try:
        with ThreadPoolExecutor() as threads:
            codes = list(threads.map(partial(run, [mypy]), folders))
    except KeyboardInterrupt:  # which ended them, too
        return INTERRUPTED
    return next(filter(None, codes), 0)


def _has_engine() -> bool:
    return (_ENGINE / "pyproject.toml").is_file()


def _pytest(*options: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *options]


def _tool(name: str) -> str:
    """The path of a tool of this environment. Raises `MissingToolError`."""
    path = shutil.which(name, path=sysconfig.get_path("scripts"))
    if path is None:
        raise MissingToolError(
            f"{name} is not in {sys.prefix}; install it with `uv sync`, or with `make install`."
        )
    return path
