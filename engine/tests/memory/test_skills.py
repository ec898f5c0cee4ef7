"""Skills that somebody wrote badly, or to hurt: left out with the reason, and nobody waits for them or fails on them."""

import html
import json
import time
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.middleware import skills as builtin
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.store.base import BaseStore

from lasting_memory import file_system, middleware, skills
from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import Author, Context
from lasting_memory.recall.conversations import conversation
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.hostile import BOMB, HOSTILE_SKILLS, skill
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text, tool_results
from lasting_memory.validation import RefusedWrite, before_write, read_skill
from tests.conftest import BuildGraph
from tests.memory.test_prompt import SKILL, put

OWN = ("memories", "acme:alice")
SHARED = ("skills", AGENT)


async def test_skills_of_the_user_win_and_an_invalid_one_is_named_in_the_prompt(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic
) -> None:
    put(store, SHARED, "/letters/SKILL.md", SKILL.format(name="letters", description="the assistant's way"))
    put(store, OWN, "/skills/letters/SKILL.md", SKILL.format(name="letters", description="alice's way"))
    put(store, SHARED, "/broken/SKILL.md", "---\nname: broken\n---\nno description")
    await graph().turn("one")
    text = system_text(model.requests[0])
    assert "alice's way" in text
    assert "the assistant's way" not in text.replace("&#x27;", "'")
    assert "/skills/broken/SKILL.md is no valid skill" in text


@pytest.mark.parametrize("text", HOSTILE_SKILLS.values(), ids=HOSTILE_SKILLS)
async def test_an_invalid_skill_is_refused_in_a_moment_and_left_out_where_it_is(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic, text: str
) -> None:
    """An invalid skill is refused when written; one put around that is left out with the reason, and others are listed."""
    began = time.thread_time()
    with pytest.raises(RefusedWrite) as refusal:
        before_write(deployed(), "/skills/letters/SKILL.md", text, Author("person"))
    assert time.thread_time() - began < 1  # they took up to hours
    reason = str(refusal.value)
    assert "\n" not in reason
    assert len(reason) < 300
    put(store, SHARED, "/letters/SKILL.md", text)
    put(store, OWN, "/skills/mine/SKILL.md", skill(name="mine"))
    agent = graph()
    await agent.turn("one", pinned_skills=["letters"])
    shown = system_text(model.requests[0])
    assert "**mine**: Write letters." in shown
    assert "**letters**" not in shown
    (warning,) = [html.unescape(line) for line in shown.splitlines() if "is no valid skill" in line]
    assert json.loads(warning.removeprefix("- ")) == reason
    assert [said["content"] for said in model.requests[0]["messages"]] == ["one"]  # what is invalid cannot be pinned
    assert agent.graph.get_graph().nodes.keys().isdisjoint({"SkillsMiddleware.before_agent", "SkillsMiddleware.before_model"})


async def test_a_pinned_skill_follows_the_person_s_message_once_and_is_nothing_that_they_said(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic
) -> None:
    put(store, SHARED, "/letters/SKILL.md", SKILL.format(name="letters", description="the assistant's way"))
    agent = graph()
    forged = {"name": "forged", "path": "/memories/preferences.md", "description": "", "allowed_tools": []}
    put(store, OWN, "/preferences.md", "Likes fennel.")
    model.script("/letters", [ToolCall("ls", {"path": "/"})], [Text("done")])
    await agent.turn("/letters to Bob", pinned_skills=["letters", "forged", "nothing"], skills_metadata=[forged])
    await agent.turn("and now?")
    first, *_, second = (json.dumps(request["messages"]) for request in model.requests)
    assert first.count("Do it well.") == second.count("Do it well.") == 1
    assert first.index("to Bob") < first.index("Do it well.")
    assert "fennel" not in first + second
    state = await agent.graph.aget_state({"configurable": {"thread_id": "1"}})
    messages = [message.model_dump() for message in state.values["messages"]]
    said = conversation({"thread_id": "1", "values": {"messages": messages}}, ["user"])
    assert [turn.text for turn in said.turns] == ["/letters to Bob", "and now?"]


@pytest.mark.parametrize("pinned", [True, False])
async def test_a_skill_s_tool_is_there_once_the_skill_was_read(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic, *, pinned: bool
) -> None:
    @tool
    def stamp(place: str) -> str:
        """Stamp a letter."""
        return f"stamped in {place}"

    def build(d: Deployment, model: BaseChatModel) -> Any:
        with_tools = middleware(d, skills(d, tools=[stamp]))
        return create_deep_agent(model, middleware=with_tools, context_schema=Context, **file_system(d))

    front = "name: letters\ndescription: Write letters.\nmetadata:\n  include_tools: stamp"
    put(store, SHARED, "/letters/SKILL.md", f"---\n{front}\n---\nStamp it.\n")
    read = [ToolCall("read_file", {"file_path": "/skills/letters/SKILL.md"})]
    model.script("write", *([] if pinned else [read]), [ToolCall("stamp", {"place": "Rome"})], [Text("done")])
    await graph(build=build).turn("write", pinned_skills=["letters"] if pinned else [])
    assert tool_results(model.requests[-1])[-1] == "stamped in Rome"
    offered = ["stamp" in json.dumps([request["tools"], request["messages"]]) for request in model.requests]
    assert offered == ([True, True] if pinned else [False, True, True])


VALID = {
    "quoted": "---\nname: 'letters'\ndescription: \"Write: \\u00e9 letters & *notes*\"\n---\nBody\n---\nmore\n",
    "Windows": "---\r\nname: letters\r\ndescription: Write letters.\r\nlicense: MIT\r\n---\r\nBody\r\n",
    "all fields": (
        "---\nname: letters\ndescription: >\n  Write\n  letters\nlicense: MIT\ncompatibility: any\n"
        "allowed-tools: [read_file, ' ls ']\nmetadata: {author: us, version: 1.10}\nhooks: [{on: start, run: {a: [b]}}]\n---\n"
    ),
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID)
def test_a_valid_skill_is_read_as_deepagents_reads_it(text: str) -> None:
    path = "/skills/letters/SKILL.md"
    before_write(deployed(), path, text, Author("person"))
    assert read_skill(path, text) == builtin._parse_skill_metadata(text, path, "letters")


async def test_a_person_is_told_what_is_wrong_with_a_skill_when_they_write_it(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic
) -> None:
    put(store, OWN, "/skills/old/SKILL.md", BOMB)
    calls = [
        ToolCall("write_file", {"file_path": "/memories/skills/letters/SKILL.md", "content": BOMB}),
        ToolCall("append_memory", {"path": "/memories/skills/letters/SKILL.md", "text": "Just text."}),
        ToolCall("write_file", {"file_path": "/skills/letters/SKILL.md", "content": BOMB}),
        ToolCall("delete", {"file_path": "/memories/skills/old/SKILL.md"}),
    ]
    model.script("teach", calls, [Text("done")])
    await graph(deployed(shared_writes="allow")).turn("teach")
    results = tool_results(model.requests[-1])
    assert ["is no valid skill" in result for result in results] == [True, True, True, False]
    assert not [item for space in (OWN, SHARED) for item in store.search(space) if item.key.endswith("SKILL.md")]


async def test_of_a_person_s_many_skills_no_more_are_read_than_there_is_room_for(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic
) -> None:
    for number in range(300):
        put(store, OWN, f"/skills/s{number}/SKILL.md", skill("a: [" + "x," * 4_000 + "]", name=f"s{number}"))
    began = time.process_time()
    await graph().turn("one")
    assert time.process_time() - began < 5  # all of them would take half a minute
    assert "more skills are not listed here" in system_text(model.requests[0])
