"""`make upgrade-engine`: another engine in place of the one in use; `make upgrade`: one set of
versions in each file.
"""

import json
import shutil
import subprocess
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from lasting_memory.dev.engine_source import UpgradeError
from lasting_memory.dev.upgrade import main, upgrade_engine
from lasting_memory.dev.upper_bounds import without_upper_bounds

ENGINE = Path(__file__).parents[2]

TEMPLATE = {
    "langgraph.json": '{\n  "dependencies": ["./engine", "."],\n  "graphs": {}\n}\n',
    "pyproject.toml": '[project]\nname = "mine"\n# My\ndependencies = [\n  "a[b]>=1",  #\n]\n\n[tool.mypy]\npretty = true\n',
    "agent.py": "mine = True\n",
    "engine/pyproject.toml": '[project]\nname = "lasting-memory"\nversion = "0.2.0"\n',
    "engine/CHANGELOG.md": "# Changelog\n\n## 0.2.0\n\nOld.\n",
    "engine/src/lasting_memory/__init__.py": "",
    "engine/src/lasting_memory/gone.py": "",
}
OWN = {name: text for name, text in TEMPLATE.items() if not name.startswith("engine/")}
NEWER = {
    "pyproject.toml": '[project]\nname = "lasting-memory"\nversion = "0.3.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## 0.3.0\n\nRename `a`.\n\n## 0.2.1\n\nMended.\n\n## 0.2.0\n\nOld.\n",
    "src/lasting_memory/__init__.py": "new = True\n",
    "src/lasting_memory/__pycache__/x.pyc": "",
}
METADATA = "Metadata-Version: 2.4\nName: lasting-memory\nVersion: 0.3.0\n\n# Lasting memory\n\nWhat it is.\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def committed(folder: Path) -> Path:
    """A folder as a git repository: an upgrade wants to be able to go back."""
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Mine"]):
        command = ["git", "-c", "user.name=me", "-c", "user.email=me@example.com", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def template(tmp_path: Path) -> Path:
    return committed(write(tmp_path / "mine", TEMPLATE))


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    return write(tmp_path / "newer", NEWER)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "lasting_memory-0.3.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "lasting_memory-0.3.0.dist-info/METADATA", METADATA + NEWER["CHANGELOG.md"]
        )
    return path


def held(folder: Path) -> dict[str, str]:
    """The files of a folder, but git's."""
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts and path.suffix != ".whl"
    )
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}


@pytest.mark.parametrize("whole", [False, True], ids=["the engine", "a whole template"])
def test_a_folder_takes_the_engines_place_and_nothing_else_changes(
    template: Path, newer: Path, whole: bool
) -> None:
    source = (
        write(newer.parent / "whole", {f"engine/{name}": text for name, text in NEWER.items()})
        if whole
        else newer
    )
    said = upgrade_engine(template, source, "0.2.0")
    assert held(template) == OWN | {
        f"engine/{name}": text for name, text in NEWER.items() if "__pycache__" not in name
    }
    assert said.startswith("## 0.3.0\n\nRename `a`.\n\n## 0.2.1\n\nMended.")
    assert "Old." not in said


@pytest.mark.parametrize(
    "of_a_fork", ["", "\n[tool.uv]\nmanaged = false\n"], ids=["no table of uv", "a fork's own"]
)
def test_a_wheel_takes_the_folders_place_and_is_pinned_and_a_folder_brings_everything_back(
    template: Path, wheel: Path, newer: Path, of_a_fork: str
) -> None:
    pyproject = template / "pyproject.toml"
    pyproject.write_text(TEMPLATE["pyproject.toml"] + of_a_fork)
    said = upgrade_engine(template, wheel, "0.2.0")
    assert said.startswith("## 0.3.0\n\nRename `a`.")
    assert "Old." not in said
    assert not (template / "engine").exists()
    assert [path.name for path in (template / "wheels").iterdir()] == [wheel.name]
    assert json.loads((template / "langgraph.json").read_text())["dependencies"] == ["."]
    pinned = pyproject.read_text()
    project = tomllib.loads(pinned)
    assert project["project"]["dependencies"] == ["lasting-memory==0.3.0", "a[b]>=1"]
    assert project["tool"]["uv"] == {
        "find-links": ["./wheels"],
        **({"managed": False} if of_a_fork else {}),
    }
    upgrade_engine(template, wheel, "0.3.0")
    assert pyproject.read_text() == pinned
    upgrade_engine(template, newer, "0.3.0")
    own = {name: text for name, text in held(template).items() if not name.startswith("engine/")}
    assert own == {**OWN, "pyproject.toml": TEMPLATE["pyproject.toml"] + of_a_fork}
    assert (template / "engine/src/lasting_memory/__init__.py").read_text() == "new = True\n"


OF_UV = """
[dependency-groups]
dev = ["lasting-memory[tests]", "mine"]

[tool.uv]
constraint-dependencies = [
  "a==1",
]

[tool.uv.sources]
mine = {path = "../mine"}
lasting-memory = {path = "./engine", editable = true}
"""


def test_uv_is_told_of_the_wheel_in_place_of_the_folder_and_back(
    template: Path, wheel: Path, newer: Path
) -> None:
    pyproject = template / "pyproject.toml"
    as_folder = TEMPLATE["pyproject.toml"] + OF_UV
    pyproject.write_text(as_folder)
    upgrade_engine(template, wheel, "0.2.0")
    project = tomllib.loads(pyproject.read_text())
    assert project["project"]["dependencies"] == ["lasting-memory==0.3.0", "a[b]>=1"]
    assert project["dependency-groups"] == {"dev": ["lasting-memory[dev]", "mine"]}
    assert project["tool"]["uv"] == {
        "find-links": ["./wheels"],
        "constraint-dependencies": ["a==1"],
        "sources": {
            "mine": {"path": "../mine"},
            "lasting-memory": {"path": f"./wheels/{wheel.name}"},
        },
    }
    upgrade_engine(template, newer, "0.3.0")
    assert pyproject.read_text() == as_folder


def test_an_engine_that_cannot_be_replaced_is_left_alone(
    template: Path, newer: Path, tmp_path: Path
) -> None:
    before = held(template)
    for source in (Path(), tmp_path / "nowhere", template / "agent.py"):
        with pytest.raises(
            UpgradeError, match=r"name a folder or a wheel \(\.whl\) of lasting-memory"
        ):
            upgrade_engine(template, source, "0.2.0")
    edited = template / "engine" / "notes.md"
    edited.write_text("edited = True\n")
    with pytest.raises(UpgradeError, match="changes that are not committed"):
        upgrade_engine(template, newer, "0.2.0")
    edited.unlink()
    (template / "langgraph.json").write_text("{}")
    with pytest.raises(UpgradeError, match="write them so"):
        upgrade_engine(template, newer, "0.2.0")
    assert held(template) == {**before, "langgraph.json": "{}"}


# --- What changes for this fork

FORK = {
    "prompts/agent.md": "Mine.\n",
    "prompts/gone.md": "Mine.\n",
    "prompts/same.md": "Mine.\n",
    "prompts/own.md": "Mine.\n",
    "agent.py": "from lasting_memory import build_model, kept, old_name, soon\nfrom lasting_memory.recall import find\n",
    "tools/deep.py": "def tool():\n    import lasting_memory.vanished\n",
    "broken.py": "def (\n",
    ".venv/x.py": "from lasting_memory import old_name\n",
    "engine/src/lasting_memory/__init__.py": """from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from lasting_memory.models import build_model, old_name
    from lasting_memory.models import kept, soon
__all__ = ["build_model", "kept", "old_name", "soon"]
""",
    "engine/src/lasting_memory/models.py": "def build_model(): ...\nold_name = 1\nkept = 1\ndef soon(): ...\n",
    "engine/src/lasting_memory/recall/__init__.py": "from lasting_memory.recall.index import find\n",
    "engine/src/lasting_memory/recall/index.py": "def find(): ...\n",
    "engine/src/lasting_memory/vanished.py": "",
    "engine/src/lasting_memory/prompts/agent.md": "Be kind.\nBe short.\n",
    "engine/src/lasting_memory/prompts/gone.md": "Old.\n",
    "engine/src/lasting_memory/prompts/same.md": "Same.\n",
}
CHANGED = {
    **NEWER,
    "src/lasting_memory/__init__.py": """from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from lasting_memory.models import build_model, kept, soon
""",
    "src/lasting_memory/models.py": """from warnings import deprecated
def build_model(): ...
try:
    kept = 1
except ImportError:
    pass
@deprecated("use later,\\nit is the same")
class soon: ...
""",
    "src/lasting_memory/recall/__init__.py": FORK["engine/src/lasting_memory/recall/__init__.py"],
    "src/lasting_memory/recall/index.py": FORK["engine/src/lasting_memory/recall/index.py"],
    "src/lasting_memory/prompts/agent.md": "Be kind.\nBe brief.\n",
    "src/lasting_memory/prompts/same.md": "Same.\n",
    "src/lasting_memory/prompts/own.md": "New.\n",
}
POINTS = """For this fork:
- prompts/agent.md stands in place of the engine's, which changed:
    --- was
    +++ is
    @@ -1,2 +1,2 @@
     Be kind.
    -Be short.
    +Be brief.
- prompts/gone.md: the engine no longer has a file of this name, so yours may be read by nobody.
- prompts/own.md: the engine has a file of this name now; yours stands in its place.
- agent.py imports old_name from lasting_memory, which is gone.
- agent.py imports soon from lasting_memory, which is deprecated: use later, it is the same
- broken.py cannot be read as Python; look yourself what it imports.
- tools/deep.py imports lasting_memory.vanished, which is gone.
- What it imports comes from files that changed: models.py (build_model, kept).
"""


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    return committed(write(tmp_path / "fork", {**TEMPLATE, **FORK}))


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "wheel"])
def test_an_upgrade_lists_changes_of_what_the_fork_overrides_and_imports(
    fork: Path, tmp_path: Path, packed: bool
) -> None:
    source = write(tmp_path / "changed", CHANGED)
    if packed:
        packages = {
            name.removeprefix("src/"): text
            for name, text in CHANGED.items()
            if name.startswith("src/")
        }
        source = tmp_path / "lasting_memory-0.3.0-py3-none-any.whl"
        wheel_of(
            source,
            {name: text.encode() for name, text in packages.items()} | {INFO: METADATA.encode()},
        )
    before = everything(fork)
    tried = upgrade_engine(fork, source, "0.2.0", dry_run=True)
    assert everything(fork) == before
    said = upgrade_engine(fork, source, "0.2.0")
    assert POINTS in said
    listed, points, done = said.partition(POINTS)
    assert (
        tried
        == f"{listed}{points}\nNothing was changed. Without DRY_RUN one would read here: {done.strip()}"
    )
    committed(fork)
    again = upgrade_engine(fork, source, "0.3.0")
    assert "For this fork: nothing that it overrides or imports has changed." not in again, (
        "what is gone stays gone"
    )
    assert "prompts/" not in again
    assert "agent.py imports old_name from lasting_memory, which is in neither engine." in again


def test_an_upgrade_that_changes_nothing_for_the_fork_says_so(template: Path, newer: Path) -> None:
    assert "For this fork: nothing that it overrides or imports has changed." in upgrade_engine(
        template, newer, "0.2.0"
    )


def test_a_dry_run_refuses_what_the_upgrade_would(
    used: Path, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(newer, {"src/lasting_memory/local.cfg": "theirs\n"})
    before = everything(used)
    monkeypatch.chdir(used)
    monkeypatch.setattr("sys.argv", ["upgrade", "--dry-run", "--", str(newer)])
    with pytest.raises(SystemExit, match="git ignores "):
        main()
    assert everything(used) == before


# --- Nothing is lost, and a step that fails changes nothing

IGNORED = {
    ".env": "KEY=1\n",
    "notes/private.txt": "mine\n",
    ".venv/bin/x": "",
    "src/lasting_memory/local.cfg": "a\n",
}
CACHES = {
    "src/lasting_memory/__pycache__/a.pyc": "",
    ".mypy_cache/x": "",
    "a.egg-info/PKG-INFO": "",
    "build/lib/x": "",
}
GITIGNORE = ".env\nnotes/\n.venv\n*.cfg\n__pycache__/\n.mypy_cache/\n*.egg-info/\nbuild/\n"


def everything(folder: Path) -> dict[str, str | None]:
    """Each path below a folder but git's, with a file's text and where a link leads."""
    found = dict[str, str | None]()
    for path in folder.rglob("*"):
        if ".git" not in path.relative_to(folder).parts:
            text = (
                str(path.readlink())
                if path.is_symlink()
                else path.read_bytes().decode("latin-1")
                if path.is_file()
                else None
            )
            found[path.relative_to(folder).as_posix()] = text
    return found


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A template whose engine's folder holds what git ignores."""
    template = committed(write(tmp_path / "used", {**TEMPLATE, ".gitignore": GITIGNORE}))
    return write(template, {f"engine/{name}": text for name, text in {**IGNORED, **CACHES}.items()})


def test_files_that_git_ignores_are_kept_and_caches_are_not(
    used: Path, newer: Path, wheel: Path
) -> None:
    link = used / "engine" / "notes" / "link"
    link.symlink_to("nowhere")
    own = {f"engine/{name}": text for name, text in IGNORED.items()}
    said = upgrade_engine(used, newer, "0.2.0")
    engine = {f"engine/{name}": text for name, text in NEWER.items() if "__pycache__" not in name}
    assert held(used) == OWN | {".gitignore": GITIGNORE} | engine | own
    assert "was kept: .env, .venv, notes, src/lasting_memory/local.cfg" in said
    assert link.is_symlink()
    committed(used)
    upgrade_engine(used, wheel, "0.3.0")
    assert {name for name in held(used) if name.startswith("engine/")} == {*own}
    committed(used)
    upgrade_engine(used, newer, "0.3.0")
    assert {
        name: text for name, text in held(used).items() if name.startswith("engine/")
    } == engine | own


def test_an_ignored_file_that_the_new_engine_has_is_named(used: Path, newer: Path) -> None:
    write(newer, {"src/lasting_memory/local.cfg": "theirs\n"})
    before = everything(used)
    with pytest.raises(
        UpgradeError,
        match=r"^git ignores .*/engine/src/lasting_memory/local\.cfg, and the new engine .*$",
    ):
        upgrade_engine(used, newer, "0.2.0")
    assert everything(used) == before


def broken_sources(folder: Path, used: Path) -> dict[str, tuple[Path, str]]:
    """What is no engine, and the beginning of what is said of it."""
    for name in ("dangling", "outside", "folder", "half", "toml", "bare"):
        write(folder / name, NEWER)
    (folder / "dangling/src/lasting_memory/gone.py").symlink_to("nowhere.py")
    (folder / "outside/docs.md").symlink_to(used / "engine/.env")
    (folder / "folder/docs").symlink_to(used)
    (folder / "half/src/lasting_memory/__init__.py").unlink()
    (folder / "toml/pyproject.toml").write_text("[project\n")
    (folder / "bare/CHANGELOG.md").unlink()
    (folder / "no.whl").write_text("no zip")
    (folder / "text.txt").write_text("no wheel")
    with zipfile.ZipFile(folder / "empty.whl", "w"):
        pass
    cannot = {
        name: (folder / name, "FROM is ")
        for name in ("toml", "bare", "no.whl", "text.txt", "empty.whl")
    }
    links = {
        name: (folder / name, f"{folder / name}/") for name in ("dangling", "outside", "folder")
    }
    return {**cannot, **links, "half": (folder / "half", f"{folder / 'half'} has no ")}


@pytest.mark.parametrize(
    "name", ["dangling", "outside", "folder", "half", "toml", "bare", "no.whl", "text.txt", "empty.whl"]
)  # fmt: skip
def test_an_incomplete_engine_changes_nothing(
    used: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source, said = broken_sources(tmp_path / "broken", used)[name]
    before = everything(used)
    monkeypatch.chdir(used)
    monkeypatch.setattr("sys.argv", ["upgrade", str(source)])
    with pytest.raises(SystemExit) as refused:
        main()
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
    assert everything(used) == before


def wheel_of(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


INFO = "lasting_memory-0.3.0.dist-info/METADATA"
IN_WORDS = [
    ("no-toml", "pyproject.toml is no TOML ("),
    ("latin", "pyproject.toml is not UTF-8 text"),
    ("number", "pyproject.toml has version = 5; use a text, e.g. version = "),
    ("no-version", "pyproject.toml has no version; use a text"),
    ("bare", "CHANGELOG.md is not there; name a whole engine"),
    ("latin-changes", "CHANGELOG.md is not UTF-8 text"),
    ("no.whl", "it is no zip file"),
    ("empty.whl", "it has 0 files *.dist-info/METADATA"),
    ("two.whl", "it has 2 files *.dist-info/METADATA"),
    ("latin.whl", "its METADATA is not UTF-8 text"),
    ("no-version.whl", "its METADATA has no Version"),
    ("no-project", "name a folder or a wheel (.whl) of lasting-memory"),
    ("no-name", "name a folder or a wheel (.whl) of lasting-memory"),
    ("no-table", "name a folder or a wheel (.whl) of lasting-memory"),
]


def unreadable(folder: Path) -> None:
    head = '[project]\nname = "lasting-memory"\n'
    projects = {
        "no-toml": "[project\n", "number": f"{head}version = 5\n", "no-version": head, "no-project": "a = 1\n",
        "no-name": "[project]\n", "no-table": "project = 1\n", "latin": f'{head}version = "\xff"\n',
    }  # fmt: skip
    for name, text in projects.items():
        write(folder / name, NEWER)
        (folder / name / "pyproject.toml").write_text(text, "latin-1")
    for name in ("bare", "latin-changes"):
        write(folder / name, NEWER)
    (folder / "bare/CHANGELOG.md").unlink()
    (folder / "latin-changes/CHANGELOG.md").write_bytes(b"\xff")
    (folder / "no.whl").write_text("no zip")
    wheel_of(folder / "empty.whl", {})
    wheel_of(folder / "two.whl", {INFO: b"", f"other/{INFO}": b""})
    wheel_of(folder / "latin.whl", {INFO: b"\xff"})
    wheel_of(folder / "no-version.whl", {INFO: b"Name: lasting-memory\n"})


@pytest.mark.parametrize(("name", "said"), IN_WORDS)
def test_an_unreadable_engine_is_refused_in_plain_words(
    used: Path, tmp_path: Path, name: str, said: str
) -> None:
    unreadable(tmp_path / "broken")
    before = everything(used)
    with pytest.raises(UpgradeError) as refused:
        upgrade_engine(used, tmp_path / "broken" / name, "0.2.0")
    assert said in str(refused.value)
    for word in ("Error", "codec", "Errno", "Traceback", "\n"):
        assert word not in str(refused.value)
    assert everything(used) == before


class Breaks:
    """Lets so many steps of an upgrade be made, and raises once in place of the next, or right
    after it.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, error: BaseException, steps: int, *, after: bool
    ) -> None:
        self.error, self.left, self.after = error, steps, after
        for place, name in (
            (shutil, "copy2"),
            (shutil, "copyfile"),
            (Path, "write_text"),
            (Path, "rename"),
        ):
            patch.setattr(place, name, self.step(getattr(place, name)))

    def step(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            is_next = self.left == 0
            self.left -= 1
            if is_next and not self.after:
                raise self.error
            done = real(*args, **options)
            if is_next:
                raise self.error
            return done

        return made


@pytest.mark.proof
@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), KeyboardInterrupt()],
    ids=["full disk", "Ctrl-C"],
)
@pytest.mark.parametrize(
    "source", ["newer", "lasting_memory-0.3.0-py3-none-any.whl"], ids=["folder", "wheel"]
)
@pytest.mark.usefixtures("newer", "wheel")
def test_a_step_that_fails_changes_nothing(
    used: Path, monkeypatch: pytest.MonkeyPatch, source: str, error: BaseException
) -> None:
    """Each copy, each text and each renaming in turn."""
    before, after, steps = everything(used), False, 0
    while True:
        with monkeypatch.context() as patch:
            breaks = Breaks(patch, error, steps, after=after)
            try:
                upgrade_engine(used, used.parent / source, "0.2.0")
            except UpgradeError as refused:
                said = str(refused)
        if breaks.left >= 0:
            break
        assert said.startswith(("Nothing was changed: ", "Stopped; nothing was changed."))
        assert "\n" not in said
        assert everything(used) == before, (steps, after)
        steps += after
        after = not after
    assert steps > 6, "all steps that an upgrade takes"
    assert everything(used) != before


@pytest.mark.parametrize("kind", ["a link", "a git repository of its own"])
def test_an_engine_that_is_not_this_repository_s_is_left_alone(
    used: Path, newer: Path, kind: str
) -> None:
    if kind == "a link":
        shutil.move(used / "engine", used.parent / "elsewhere")
        (used / "engine").symlink_to(used.parent / "elsewhere")
    else:
        (used / "engine/.git").write_text("gitdir: elsewhere\n")
    before = everything(used)
    with pytest.raises(UpgradeError, match=f"^engine/ is {kind}, which cannot be replaced; "):
        upgrade_engine(used, newer, "0.2.0")
    assert everything(used) == before


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
    monkeypatch.setattr("tests.dev.test_upgrade.PROJECT", PROJECT + listed)
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
