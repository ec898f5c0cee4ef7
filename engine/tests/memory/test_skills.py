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

from lasting_memory import file_system, middleware, skills
from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import Author, Context
from lasting_memory.recall.conversations import conversation
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.hostile import BOMB, HOSTILE_SKILLS, skill
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import Text, ToolCall
from lasting_memory.validation import RefusedWrite, before_write, read_skill
from tests.conftest import BuildGraph, Scripted
from tests.memory.test_prompt import SKILL

OWN = ("memories", "acme:alice")
SHARED = ("skills", AGENT)


async def test_skills_of_the_user_win_and_an_invalid_one_is_named_in_the_prompt(agent: Scripted) -> None:
    agent.put(SHARED, "/letters/SKILL.md", SKILL.format(name="letters", description="the assistant's way"))
    agent.put(OWN, "/skills/letters/SKILL.md", SKILL.format(name="letters", description="alice's way"))
    agent.put(SHARED, "/broken/SKILL.md", "---\nname: broken\n---\nno description")
    text = await agent.shown()
    assert "alice's way" in text
    assert "the assistant's way" not in text.replace("&#x27;", "'")
    assert "/skills/broken/SKILL.md is no valid skill" in text


@pytest.mark.parametrize("text", HOSTILE_SKILLS.values(), ids=HOSTILE_SKILLS)
async def test_an_invalid_skill_is_refused_in_a_moment_and_left_out_where_it_is(agent: Scripted, text: str) -> None:
    began = time.thread_time()
    with pytest.raises(RefusedWrite) as refusal:
        before_write(deployed(), "/skills/letters/SKILL.md", text, Author("person"))
    assert time.thread_time() - began < 1  # they took up to hours
    reason = str(refusal.value)
    assert "\n" not in reason
    assert len(reason) < 300
    agent.put(SHARED, "/letters/SKILL.md", text)
    agent.put(OWN, "/skills/mine/SKILL.md", skill(name="mine"))
    shown = await agent.shown(pinned_skills=["letters"])
    assert "**mine**: Write letters." in shown
    assert "**letters**" not in shown
    (warning,) = [html.unescape(line) for line in shown.splitlines() if "is no valid skill" in line]
    assert json.loads(warning.removeprefix("- ")) == reason
    assert len(agent.model.requests[0]["messages"]) == 1, "what is invalid cannot be pinned"


async def test_a_pinned_skill_follows_the_person_s_message_once_and_is_nothing_that_they_said(agent: Scripted) -> None:
    agent.put(SHARED, "/letters/SKILL.md", SKILL.format(name="letters", description="the assistant's way"))
    forged = {"name": "forged", "path": "/memories/preferences.md", "description": "", "allowed_tools": []}
    agent.put(OWN, "/preferences.md", "Likes fennel.")
    agent.model.script("/letters", [ToolCall("ls", {"path": "/"})], [Text("done")])
    await agent.turn("/letters to Bob", pinned_skills=["letters", "forged", "nothing"], skills_metadata=[forged])
    await agent.turn("and now?")
    first, *_, second = (json.dumps(request["messages"]) for request in agent.model.requests)
    assert first.count("Do it well.") == second.count("Do it well.") == 1
    assert first.index("to Bob") < first.index("Do it well.")
    assert "fennel" not in first + second
    state = await agent.graph.aget_state({"configurable": {"thread_id": "1"}})
    messages = [message.model_dump() for message in state.values["messages"]]
    said = conversation({"thread_id": "1", "values": {"messages": messages}}, ["user"])
    assert [turn.text for turn in said.turns] == ["/letters to Bob", "and now?"]


@pytest.mark.parametrize("pinned", [True, False])
async def test_a_skill_s_tool_is_there_once_the_skill_was_read(graph: BuildGraph, *, pinned: bool) -> None:
    @tool
    def stamp(place: str) -> str:
        """Stamp a letter."""
        return f"stamped in {place}"

    def build(d: Deployment, model: BaseChatModel) -> Any:
        with_tools = middleware(d, skills(d, tools=[stamp]))
        return create_deep_agent(model, middleware=with_tools, context_schema=Context, **file_system(d))

    agent, front = graph(build=build), "name: letters\ndescription: Write letters.\nmetadata:\n  include_tools: stamp"
    agent.put(SHARED, "/letters/SKILL.md", f"---\n{front}\n---\nStamp it.\n")
    read = [] if pinned else [ToolCall("read_file", {"file_path": "/skills/letters/SKILL.md"})]
    results = await agent.called(*read, ToolCall("stamp", {"place": "Rome"}), pinned_skills=["letters"] * pinned)
    assert results[-1] == "stamped in Rome"
    offered = ["stamp" in json.dumps([request["tools"], request["messages"]]) for request in agent.model.requests]
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


async def test_a_person_is_told_what_is_wrong_with_a_skill_when_they_write_it(graph: BuildGraph) -> None:
    agent = graph(deployed(shared_writes="allow"))
    agent.put(OWN, "/skills/old/SKILL.md", BOMB)
    results = await agent.called(
        ToolCall("write_file", {"file_path": "/memories/skills/letters/SKILL.md", "content": BOMB}),
        ToolCall("append_memory", {"path": "/memories/skills/letters/SKILL.md", "text": "Just text."}),
        ToolCall("write_file", {"file_path": "/skills/letters/SKILL.md", "content": BOMB}),
        ToolCall("delete", {"file_path": "/memories/skills/old/SKILL.md"}),
    )
    assert ["is no valid skill" in result for result in results] == [True, True, True, False]
    assert not [item for space in (OWN, SHARED) for item in agent.store.search(space) if item.key.endswith("SKILL.md")]


async def test_of_a_person_s_many_skills_no_more_are_read_than_there_is_room_for(agent: Scripted) -> None:
    for number in range(300):
        agent.put(OWN, f"/skills/s{number}/SKILL.md", skill("a: [" + "x," * 4_000 + "]", name=f"s{number}"))
    began = time.process_time()
    assert "more skills are not listed here" in await agent.shown()
    assert time.process_time() - began < 5  # all of them would take half a minute
