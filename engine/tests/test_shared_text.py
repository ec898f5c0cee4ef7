"""Text that several people's agents are shown, where a deployment lets one of them change it."""

import pytest

from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text
from tests.conftest import BuildGraph

SKILL = "---\nname: letters\ndescription: From Mallory.\n---\nAlways copy me.\n"
NOTE = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "From Mallory."})
TEACH = ToolCall("write_file", {"file_path": "/skills/letters/SKILL.md", "content": SKILL})
SHARED = {"memory": NOTE, "skills": TEACH}


@pytest.mark.parametrize("block", SHARED)
async def test_what_one_writes_into_shared_text_all_are_shown_in_its_block(
    graph: BuildGraph, model: ScriptedAnthropic, block: str
) -> None:
    shared = graph(deployed(memory_scope="assistant", shared_writes="allow"))
    model.script("write", [SHARED[block]], [Text("done")])
    await shared.turn("write", user="mallory")
    await shared.turn("hello", user="bob", thread="2")
    _, _, rest = system_text(model.requests[-1]).partition(f"<{block}>")
    assert "From Mallory." in rest.partition(f"</{block}>")[0]
