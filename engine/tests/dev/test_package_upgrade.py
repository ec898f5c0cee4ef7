"""`make upgrade`: one set of versions in each file."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lasting_memory.dev.upgrade import main
from lasting_memory.dev.upper_bounds import without_upper_bounds
from tests.dev.conftest import write

ENGINE = Path(__file__).parents[2]
PROJECT = """[project]
dependencies = ["lasting-memory==0.2.0", "deepagents==0.7.32", "pyjwt[crypto]==2.15.1", "mine>=1", "gone==3"]
[project.optional-dependencies]
google_genai = ["Langchain_Google.GenAI==4.4.2"]
"""
SERVER = '{"api_version": "0.16.7", "python_version": "3.12"}'
RESOLVED = "deepagents==0.8.0\nlanggraph-api==0.17.1\nlangchain-google-genai==4.5.0\nmine==2.1\npyjwt==2.16.0\n"
ASKED = [
    "lasting-memory[dev]==0.2.0",
    "deepagents",
    "pyjwt[crypto]",
    "mine>=1",
    "gone",
    "Langchain_Google.GenAI",
]


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, uv: str, *options: str) -> None:
    """`make upgrade` with this script as uv."""
    write(folder, {"pyproject.toml": PROJECT, "langgraph.json": SERVER, "uv": f"#!/bin/sh\n{uv}\n"})
    (folder / "uv").chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("shutil.which", lambda _: str(folder / "uv"))
    monkeypatch.setattr("sys.argv", ["upgrade", *options])
    main()


def test_resolved_versions_are_pinned_in_each_file_but_for_the_engine_s_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resolved").write_text(RESOLVED)
    run(tmp_path, monkeypatch, "cat > asked; cat resolved")
    expected = (
        PROJECT.replace("0.7.32", "0.8.0").replace("2.15.1", "2.16.0").replace("4.4.2", "4.5.0")
    )
    assert (tmp_path / "asked").read_text().splitlines() == ASKED
    assert (tmp_path / "pyproject.toml").read_text() == expected
    assert json.loads((tmp_path / "langgraph.json").read_text())["api_version"] == "0.17.1"
    assert (tmp_path / "constraints.txt").read_text() == RESOLVED


def test_uv_s_own_list_is_that_of_constraints_txt_and_holds_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv reads it also where it resolves. What a group asks for is in the list, too."""
    listed = (
        "[dependency-groups]\ndev = ['lasting-memory[tests]', 'tool==1', {include-group = 'x'}]\n"
    )
    listed += '[tool.uv]\nconstraint-dependencies = [\n  "deepagents==0.7.32",\n]\n'
    monkeypatch.setattr("tests.dev.test_package_upgrade.PROJECT", PROJECT + listed)
    (tmp_path / "resolved").write_text(RESOLVED)
    run(tmp_path, monkeypatch, "cp pyproject.toml while; cat > asked; cat resolved")
    assert (tmp_path / "asked").read_text().splitlines() == [*ASKED, "tool"]
    resolving = tomllib.loads((tmp_path / "while").read_text())
    assert resolving["tool"]["uv"]["constraint-dependencies"] == []
    written = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert written["tool"]["uv"]["constraint-dependencies"] == RESOLVED.split()


def test_versions_that_do_not_fit_together_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="Nothing was changed"):
        run(tmp_path, monkeypatch, "exit 1")
    assert (tmp_path / "pyproject.toml").read_text() == PROJECT
    assert not (tmp_path / "constraints.txt").exists()


def test_uv_is_found_beside_the_interpreter_where_make_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resolved").write_text(RESOLVED)
    write(
        tmp_path,
        {
            "pyproject.toml": PROJECT,
            "langgraph.json": SERVER,
            ".venv/bin/uv": "#!/bin/sh\ncat resolved\n",
        },
    )
    (tmp_path / ".venv/bin/uv").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cat").symlink_to(str(shutil.which("cat")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("sys.executable", str(tmp_path / ".venv/bin/python"))
    monkeypatch.setattr("sys.argv", ["upgrade"])
    main()
    assert (tmp_path / "constraints.txt").read_text() == RESOLVED


BOUNDED_ENGINE = """[project]
name = "lasting-memory"
dependencies = [
  "deepagents>=0.7.32,<0.8",  # 0.8 renames its middlewares
  "fastapi>=0.165,!=0.166.1,<=0.170; python_version < '3.13'",
  "pyjwt[crypto]~=2.15",
  "pyyaml>=6",
]
[project.optional-dependencies]
dev = ["langgraph-cli[inmem]==0.4.40"]
"""


def test_an_upgrade_beyond_bounds_takes_the_upper_bounds_alone_out_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"engine/pyproject.toml": BOUNDED_ENGINE, "resolved": RESOLVED})
    run(tmp_path, monkeypatch, "cp engine/pyproject.toml while; cat resolved", "--beyond-bounds")
    project = tomllib.loads((tmp_path / "while").read_text())["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    expected = [
        "deepagents>=0.7.32",
        "fastapi!=0.166.1,>=0.165; python_version < '3.13'",
        "pyjwt[crypto]>=2.15",
        "pyyaml>=6",
        "langgraph-cli[inmem]",
    ]
    assert [Requirement(each) for each in requirements] == [Requirement(each) for each in expected]
    assert "# 0.8 renames its middlewares" in (tmp_path / "engine/pyproject.toml").read_text()
    assert (tmp_path / "constraints.txt").read_text() == RESOLVED


def test_bounds_come_back_where_nothing_fits_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"engine/pyproject.toml": BOUNDED_ENGINE})
    with pytest.raises(SystemExit, match="Nothing was changed"):
        run(tmp_path, monkeypatch, "exit 1", "--beyond-bounds")
    assert (tmp_path / "engine/pyproject.toml").read_text() == BOUNDED_ENGINE


@pytest.mark.parametrize(
    ("engine", "error"),
    [
        (None, r"^engine/ is not here: the engine is a wheel, .*; leave out --beyond-bounds\.$"),
        ("[project]\ndependencies = ['mcp<3']\n", r"^'mcp<3' of engine/pyproject\.toml cannot be "),
    ],
    ids=["a wheel", "single quotes"],
)
def test_bounds_that_cannot_be_changed_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str | None, error: str
) -> None:
    if engine is not None:
        write(tmp_path, {"engine/pyproject.toml": engine})
    with pytest.raises(SystemExit, match=error):
        run(tmp_path, monkeypatch, "touch asked", "--beyond-bounds")
    assert not (tmp_path / "asked").exists()
    assert (tmp_path / "pyproject.toml").read_text() == PROJECT


@pytest.mark.parametrize("options", [["--dry-run"], ["--beyond-bounds", "engine.whl"]])
def test_an_option_of_packages_or_of_an_engine_is_refused_with_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["upgrade", *options])
    with pytest.raises(SystemExit):
        main()
    assert f"{options[0]} is of " in capsys.readouterr().err


def test_the_engines_own_requirements_can_be_without_upper_bounds() -> None:
    """As the nightly run upgrades it."""
    text = (ENGINE / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(without_upper_bounds(text))["project"]
    names = {Requirement(each).name for each in project["dependencies"]}
    assert {"deepagents", "langgraph", "fastapi"} <= names
    for requirement in project["dependencies"]:
        assert "<" not in requirement
