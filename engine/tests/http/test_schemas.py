"""A fork's schemas are all that a field needs."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore
from pydantic import BaseModel, ValidationError

from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.days import is_zone, timezone_in
from lasting_memory.memory.validation import RefusedWrite, before_write
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Text,
    ToolCall,
    system_text,
    tool_results,
)
from tests.conftest import BuildGraph
from tests.http.conftest import MEMORIES
from tests.http.fork import MyProfile, forked

VALUES = st.dictionaries(
    st.sampled_from([*MyProfile.model_fields, "seats", "nmae"]),
    st.none() | st.text(max_size=12) | st.integers(-1, 14),
)


@given(VALUES | st.text('{}[]:"a', max_size=5), st.sampled_from([*forked().schemas.items()]))
def test_a_file_with_a_schema_is_written_with_what_the_schema_takes_alone(
    value: object, place: tuple[str, type[BaseModel]]
) -> None:
    content = value if isinstance(value, str) else json.dumps(value)
    path, schema = place
    try:
        schema.model_validate_json(content)
    except ValidationError:
        with pytest.raises(
            RefusedWrite, match=f"with these fields: {', '.join(schema.model_fields)}"
        ):
            before_write(forked(), path, content, Author("agent"))
    else:
        zone = timezone_in(content) if schema is MyProfile else ""
        if zone and not is_zone(zone):
            with pytest.raises(RefusedWrite, match="is no time zone"):
                before_write(forked(), path, content, Author("agent"))
        else:
            before_write(forked(), path, content, Author("agent"))
    before_write(forked(), "/memories/topics/other.json", content, Author("agent"))


async def test_a_fork_s_field_is_offered_saved_and_kept(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore
) -> None:
    agent = graph(forked())
    for number, profile in enumerate(
        ({"tone": "dry", "name": "Al"}, {"pronouns": "they"}, {"pronouns": "x" * 11})
    ):
        model.script(
            f"go {number}", [ToolCall("save_profile", {"profile": profile})], [Text("done")]
        )
        await agent.turn(f"go {number}", thread=str(number))
    assert "at most 10" in tool_results(model.requests[-1])[0]
    item = await store.aget(MEMORIES, "/profile.json")
    assert item
    assert json.loads(item.value["content"]) == {"tone": "dry", "name": "Al", "pronouns": "they"}
    (tool,) = (tool for tool in model.requests[0]["tools"] if tool["name"] == "save_profile")
    assert "name, role, language, timezone, units, pronouns, tone" in tool["description"]
    fields = json.dumps(tool["input_schema"])
    assert all(
        about.description in fields
        for about in MyProfile.model_fields.values()
        if about.description
    )
    assert "`units`, `pronouns`, `tone`" in system_text(model.requests[0])


async def test_consolidation_is_told_the_fields_and_what_they_hold(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    await graph(forked(), build=build_consolidation_agent).turn("go")
    shown = system_text(model.requests[0])
    assert all(
        f"  - `{name}`: {about.description}\n" in shown
        for name, about in MyProfile.model_fields.items()
    )
    assert "{profile" not in shown


async def test_prompts_and_tools_without_a_profile_do_not_speak_of_one(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    fork = replace(deployed(), schemas={})
    await graph(fork).turn("one")
    await graph(fork, build=build_consolidation_agent).turn("two")
    for body in model.requests:
        assert "profile" not in system_text(body).split("<memory>")[0].replace(
            "the preferences, the profile", ""
        )
        assert "save_profile" not in {tool["name"] for tool in body["tools"]}
