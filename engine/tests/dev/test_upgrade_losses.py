"""`make upgrade-engine` loses nothing, and a step of it that fails changes nothing."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lasting_memory.dev.engine_source import UpgradeError
from lasting_memory.dev.upgrade import main, upgrade_engine
from tests.dev.conftest import (
    GITIGNORE,
    IGNORED,
    INFO,
    NEWER,
    OWN,
    committed,
    everything,
    held,
    wheel_of,
    write,
)


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
