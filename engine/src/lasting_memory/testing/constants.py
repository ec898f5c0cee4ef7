"""The constants and the starting memory that tests are written for, set before anything reads them.

Tests prove the machine: a fork that sets constants of `settings.py` otherwise, or has other seeds, has not broken it.
`tests/conftest.py` imports this first, and the servers of tests start with it (`testing/dev_server.py`).
"""

from __future__ import annotations

from typing import Any

from lasting_memory import settings

CONSTANTS: dict[str, Any] = {
    "MEMORY_FILES": ("/memories/preferences.md", "/memories/profile.json", "/memories/topics/index.md"),
    "REVISIONS_KEPT": 50,
    "BATCH_TOKENS": 15_000,
    "TOPIC_FILES_SHOWN": 5,
    "MAX_CONSOLIDATION_STEPS": 40,
    "MAX_SHRINKING": 1 / 3,
    "FACT_WORDS_KEPT": 2 / 3,
    "CONSOLIDATIONS_KEPT": 100,
}
for _name, _value in CONSTANTS.items():
    setattr(settings, _name, _value)

from lasting_memory.files import starting  # noqa: E402  # it reads settings, too

_FILES = {"/preferences.md": "# Preferences\n\n<!-- One line each. This comment is not shown to the model. -->\n"}
starting._seeds = lambda _: (_FILES, {}, {})  # type: ignore[assignment]
