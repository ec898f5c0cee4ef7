"""What the model in `.env` remembers of conversations, and what it does not: the engine's cases,
and yours in cases.yaml.
"""

from pathlib import Path

import pytest

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.evals.cases import Case
from lasting_memory.testing.evals.quality import judge, judged


@pytest.mark.parametrize("case", judged(Path(__file__).parent / "cases.yaml"))
async def test_memory_after_consolidation_is_as_the_case_says(
    case: Case, server: DevServer
) -> None:
    await judge(server, case)
