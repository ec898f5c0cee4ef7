"""The engine as a wheel, without which a template runs as well as with the folder; and the engine
without a template.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.dev.conftest import committed
from tests.template.test_deploy import CLEAN, ENGINE, MODEL, PROJECT, copied, load

# That of the machine, or the one beside this Python.
UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's wheel, built from a copy: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("wheel")
    copied(ENGINE, folder / "engine", "tests", "benchmarks", "docs")
    installed = ["--no-build-isolation"] if find_spec("setuptools") else []
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *installed]
    build = [UV, "build", "--quiet", "--wheel"] if UV else pip
    out = ["--out-dir"] if UV else ["--wheel-dir"]
    subprocess.run([*build, *out, folder, folder / "engine"], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.proof
def test_a_source_distribution_has_what_a_wheel_is_built_from_and_no_tests(
    tmp_path: Path,
) -> None:
    """The tests need the whole repository: there they could not be run."""
    if not UV:
        pytest.skip("uv builds it; this machine has none")
    engine = copied(ENGINE, tmp_path / "engine")
    subprocess.run([UV, "build", "--quiet", "--sdist", "--out-dir", tmp_path, engine], check=True)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= held
    assert "src/lasting_memory/py.typed" in held
    assert {name.partition("/")[0] for name in held} & {"tests", "benchmarks", "docs"} == set()


def forked(folder: Path) -> Path:
    shutil.copy(PROJECT / ".gitignore", copied(PROJECT, folder))
    return committed(folder)


def test_a_wheel_holds_all_that_the_engine_reads_and_tells_its_changes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        (metadata,) = (
            archive.read(name).decode() for name in held if name.endswith(".dist-info/METADATA")
        )
    source = ENGINE / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "lasting_memory").rglob("*")
        if path.is_file()
    }
    assert {name for name in files if "__pycache__" not in name} - held == set()
    for kind in (
        "py.typed",
        "prompts/agent.md",
        "http/static/index.html",
        "http/static/lib/preact.js",
    ):
        assert f"lasting_memory/{kind}" in held
    assert any(name.endswith(".yaml") for name in held)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in held)
    assert (ENGINE / "LICENSE").read_text("utf-8") == (PROJECT / "LICENSE").read_text("utf-8")
    assert {name.partition("/")[0].partition("-")[0] for name in held} == {"lasting_memory"}
    version = tomllib.loads((ENGINE / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert "\n# Changelog\n" in metadata
    assert f"\n## {version}" in metadata


@pytest.mark.proof
def test_the_template_runs_on_the_wheel_without_the_folder(wheel: Path, tmp_path: Path) -> None:
    """`make upgrade-engine FROM=<wheel>` in a copy with an environment of its own: its tests pass,
    and the graphs load.
    """
    fork = forked(tmp_path / "fork")
    own = {
        path: path.read_bytes()
        for path in fork.rglob("*")
        if path.is_file() and path.parts[len(fork.parts)] not in {"engine", ".git"}
    }
    command = ["make", "upgrade-engine", f"FROM={wheel}"]
    subprocess.run(command, cwd=fork, env={**CLEAN, **MODEL}, check=True)
    assert not (fork / "engine").exists()
    changed = {
        path.relative_to(fork).as_posix()
        for path, before in own.items()
        if path.read_bytes() != before
    }
    assert changed == {"langgraph.json", "pyproject.toml"}
    python = str(fork / ".venv" / "bin" / "python")
    load(python, fork)
    where = subprocess.run(
        [python, "-c", "import lasting_memory as m; print(m.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "site-packages" in where.stdout


@pytest.mark.proof
def test_the_image_installs_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """The image's own command, in the folder that it gets, finds the pinned wheel beside it."""
    if not UV:
        pytest.skip("the image has uv; this machine does not")
    fork = forked(tmp_path / "fork")
    subprocess.run(
        [sys.executable, "-m", "lasting_memory.dev.upgrade", wheel], cwd=fork, env=CLEAN, check=True
    )
    subprocess.run(
        [UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True
    )
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [
        UV,
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "-c",
        str(PROJECT / "constraints.txt"),
        "-e",
        ".",
    ]
    subprocess.run(install, cwd=fork, env=CLEAN, check=True)
    load(python, fork)


# Those that start a server stand on the same project as these, `tests/project`, and take minutes.
QUICK = "not proof and not server and not postgres and not browser"


@pytest.mark.proof
def test_the_engine_s_own_tests_pass_in_a_folder_without_a_template(tmp_path: Path) -> None:
    engine = copied(ENGINE, tmp_path / "engine")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--ignore=tests/template",
        "-q",
        "-m",
        QUICK,
        "-n",
        "2",
        "--dist",
        "loadfile",
    ]
    env = {**os.environ, "PYTHONPATH": str(engine / "src")}
    done = subprocess.run(command, cwd=engine, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8_000:]
