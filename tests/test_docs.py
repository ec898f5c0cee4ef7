"""What the documents say is there: files, settings, links, commands, and the code that langgraph.json names."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from settings import PROJECT, VARIABLES, load_settings
from testing.parts import CONSOLIDATION, POSTGRES

README = PROJECT / "README.md"
SETTINGS_PAGE = PROJECT / "docs" / "settings.md"
CONFIGS = sorted(PROJECT.glob("langgraph*.json"))

_FENCE = re.compile(r"^ *(`{3,}|~{3,})[^\n]*\n(.*?)^ *\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)>\s]+)>?[^)]*\)")
_BRANCH = re.compile(r"^[\s│├└─|`+-]*")
# A file with an extension, a dotfile, a folder, or one of the two customary names without either.
_PATH = re.compile(r"^(?:[\w.*<>-]+/)*(?:[\w.*<>-]*\.\w+|[\w.*<>-]+/|LICENSE|Makefile)$")


def documents() -> list[Path]:
    return [README, *sorted((PROJECT / "docs").glob("**/*.md"))]


@cache
def tracked_files() -> frozenset[str]:
    """Files of the project that are, or would be, under version control: paths from its root."""
    if git := shutil.which("git"):
        command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return frozenset(name for name in done.stdout.split("\0") if name and (PROJECT / name).is_file())
    ignored = {".venv", ".git", "build", "__pycache__", ".env"}
    paths = (path.relative_to(PROJECT) for path in PROJECT.rglob("*") if path.is_file())
    return frozenset(
        str(path)
        for path in paths
        if not any(
            part in ignored or part.endswith((".egg-info", "_cache", "_api", ".postgres")) or part == ".hypothesis"
            for part in path.parts
        )
    )


def folders_of(files: frozenset[str]) -> set[str]:
    return {str(parent) for name in files for parent in PurePosixPath(name).parents} - {"."}


def section(heading: str, document: Path = README) -> str:
    """The text of a document below this heading, up to the next of its level or above; empty without one."""
    level = heading.partition(" ")[0]
    pattern = rf"^{re.escape(heading)}[ \t]*$(.*?)(?=^#{{1,{len(level)}}} |\Z)"
    match = re.search(pattern, document.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return match[1] if match else ""


def entries(line: str) -> list[str]:
    """The paths a line of the tree begins with, up to its description; several may share a line."""
    first, *others = re.split(r",?\s+", line.strip())
    return [first, *itertools.takewhile(_PATH.match, others)]


def tree_paths() -> list[str]:
    """The paths of README's tree, from the project's root, folders without their slash."""
    fence = _FENCE.search(section("## What is where"))
    lines = [line for line in fence[2].splitlines() if _BRANCH.sub("", line)] if fence else []
    depths = [len(_BRANCH.match(line)[0]) for line in lines]  # type: ignore[index]  # it matches the empty string
    if depths and all(depth > depths[0] for depth in depths[1:]):  # the project's own folder
        lines, depths = lines[1:], depths[1:]
    paths: list[str] = []
    above: list[tuple[int, str]] = []
    for line, depth in zip(lines, depths, strict=True):
        above = [(column, folder) for column, folder in above if column < depth]
        prefix = above[-1][1] if above else ""
        first, *others = entries(_BRANCH.sub("", line))
        paths.append(prefix + first)
        if first.endswith("/"):
            above.append((depth, prefix + first))
        # What shares a line with a folder is in it, or beside it.
        inside = prefix + first if first.endswith("/") else prefix
        paths += [inside + name if exists(inside + name) else prefix + name for name in others]
    return [path.rstrip("/") for path in paths]


def exists(path: str) -> bool:
    pattern = re.sub(r"<[^>]*>", "*", path)
    files = tracked_files()
    return any(PurePosixPath("/" + name).match("/" + pattern) for name in files | folders_of(files))


def code_of(text: str) -> str:
    """The fenced blocks and inline code of a Markdown text, a line each."""
    fenced = [match[2] for match in _FENCE.finditer(text)]
    return "\n".join(fenced + re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)))


def links(document: Path) -> Iterator[str]:
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", document.read_text("utf-8")))
    reference_style = re.findall(r"^\[[^\]]+\]:\s*<?([^\s>]+)", text, re.MULTILINE)
    for target in [*_LINK.findall(text), *reference_style]:
        if not re.match(r"[a-z][a-z0-9+.-]*:|#", target):
            yield target.partition("#")[0]


def settings_rows() -> list[list[str]]:
    """The cells of the settings tables, without their heads."""
    lines = SETTINGS_PAGE.read_text("utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def names_defined(module: Path) -> set[str]:
    """What a module binds at its top level, imports aside."""
    bound: set[str] = set()
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.Assign):
            bound |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            bound.add(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
    return bound


# --- README's tree ---------------------------------------------------------------------------------------------------


def test_the_tree_in_readme_lists_only_what_exists() -> None:
    paths = tree_paths()
    assert paths, "README.md has no fenced tree under '## What is where'"
    assert [path for path in paths if not exists(path)] == []


def test_the_tree_in_readme_lists_every_module_prompt_and_folder() -> None:
    files = tracked_files()
    listed = {path.removeprefix("./") for path in tree_paths()}
    listed |= folders_of(frozenset(listed))
    modules = {name for name in files if re.fullmatch(r"(memory/)?\w+\.py", name) and not name.endswith("__init__.py")}
    prompts = {name for name in files if re.fullmatch(r"prompts/[\w-]+\.md", name)}
    folders = {name.partition("/")[0] for name in files if "/" in name}
    assert {"agent.py", "memory/namespaces.py"} <= modules
    assert {"prompts/agent.md"} <= prompts
    assert sorted((modules | prompts | folders) - listed) == [], "say in README's tree what these are"


# --- Settings --------------------------------------------------------------------------------------------------------


def test_the_settings_page_names_exactly_the_variables_that_are_read_once_each() -> None:
    assert sorted(row[0] for row in settings_rows()) == sorted(f"`{variable}`" for variable in VARIABLES)


def test_the_settings_page_gives_the_defaults_that_the_code_has() -> None:
    defaults = load_settings({})
    values = {variable: getattr(defaults, variable.lower()) for variable in VARIABLES}
    expected = {f"`{name}`": f"`{value}`" if value else "unset" for name, value in values.items()}
    assert {row[0]: row[1] for row in settings_rows()} == expected


def test_the_settings_page_says_what_every_variable_changes() -> None:
    rows = settings_rows()
    assert rows
    assert [row for row in rows if len(row) != 3 or not row[2].endswith(".")] == []


@pytest.mark.skipif(not (CONSOLIDATION and POSTGRES), reason="settings of a part that is taken off stay")
def test_every_variable_is_acted_on() -> None:
    beside = ("tests/", "testing/", "benchmarks/")
    code = [
        (PROJECT / name).read_text("utf-8") for name in tracked_files() if name.endswith(".py") and not name.startswith(beside)
    ]
    assert [name for name in VARIABLES if not any(re.search(rf"\.{name.lower()}\b", text) for text in code)] == []


# --- langgraph.json --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: str(path.name))
def test_every_object_a_configuration_names_is_defined_in_the_file_it_names(config: Path) -> None:
    named = [text.rsplit(":", 1) for text in strings(json.loads(config.read_text())) if re.search(r"\.py:\w+$", text)]
    assert named
    missing = [file for file, _ in named if not (PROJECT / file).is_file()]
    assert missing == []
    undefined = [f"{file}:{name}" for file, name in named if name not in names_defined(PROJECT / file)]
    assert undefined == []


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: str(path.name))
def test_every_other_path_a_configuration_names_is_there(config: Path) -> None:
    """Every other path a configuration names is there after a checkout and make."""
    content = json.loads(config.read_text())
    paths = [*content["dependencies"], content.get("env", ".")]
    made_by_make = {".env": ".env.example"}
    assert [path for path in paths if not (PROJECT / made_by_make.get(path, path)).exists()] == []


def test_every_configuration_has_the_graphs_that_clients_name() -> None:
    """The platform is given the graphs that forks and clients name, and every configuration the same."""
    graphs = [json.loads(config.read_text())["graphs"] for config in CONFIGS]
    assert {"agent", *["consolidation_agent"] * CONSOLIDATION} <= set(graphs[0])
    assert all(others == graphs[0] for others in graphs), "name the same graphs in every langgraph*.json"


# --- Links and commands ----------------------------------------------------------------------------------------------


def test_every_relative_link_points_to_a_file_of_the_project() -> None:
    targets = {(document, target) for document in documents() for target in links(document)}
    assert targets
    broken = [
        f"{document.relative_to(PROJECT)}: {target}"
        for document, target in sorted(targets)
        if not (document.parent / target).resolve().is_relative_to(PROJECT) or not (document.parent / target).resolve().exists()
    ]
    assert broken == []


def test_readme_leads_to_every_page_of_docs() -> None:
    pages = {path.resolve() for path in documents() if path != README}
    assert pages <= {(PROJECT / target).resolve() for target in links(README)}


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE))


def test_every_make_command_in_readme_is_a_target() -> None:
    mentioned = set(re.findall(r"\bmake ([a-z][a-z-]*)", code_of(README.read_text("utf-8"))))
    assert "dev" in mentioned, "README.md never says `make dev`"
    assert mentioned - make_targets() == set()
