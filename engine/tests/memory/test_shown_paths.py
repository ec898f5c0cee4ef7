"""An error names the path as the agent sees it, whatever the tool and the folder."""

import pytest

from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.conftest import Scripted

ODD = "/notes/odd.md"


def calls(path: str) -> list[ToolCall]:
    edit = {"file_path": path, "old_string": "a", "new_string": "b"}
    return [
        ToolCall("read_file", {"file_path": path}),
        ToolCall("edit_file", edit),
        ToolCall("write_file", {"file_path": path, "content": "a"}),
        ToolCall("delete", {"file_path": path}),
    ]


@pytest.mark.parametrize("route", ["/memories", "/skills", "/policies"])
async def test_a_missing_file_is_named_with_its_folder(agent: Scripted, route: str) -> None:
    path = f"{route}/pdf/nothing.md"
    read, edit, *_ = [answer for call in calls(path)[:2] for answer in await agent.called(call)]
    for answer in (read, edit):
        assert path in answer
        assert "'/pdf" not in answer


async def test_a_value_that_is_no_file_is_named_with_its_folder(agent: Scripted) -> None:
    agent.store.put(("memories", "acme:alice"), ODD, {"x": 1})
    agent.store.put(("skills", AGENT), ODD, {"x": 1})
    for call in calls(f"/memories{ODD}")[:3]:
        (answer,) = await agent.called(call)
        assert f"'/memories{ODD}' holds a value that is not a file" in answer, call
        assert f"'{ODD}" not in answer
    (answer,) = await agent.called(calls(f"/skills{ODD}")[0])
    assert f"'/skills{ODD}' holds a value that is not a file" in answer
