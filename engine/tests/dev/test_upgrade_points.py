"""What `make upgrade-engine` says of changes to what the fork overrides and imports."""

from pathlib import Path

import pytest

from lasting_memory.dev.upgrade import main, upgrade_engine
from tests.dev.conftest import (
    INFO,
    METADATA,
    NEWER,
    TEMPLATE,
    committed,
    everything,
    wheel_of,
    write,
)

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
