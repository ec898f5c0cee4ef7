"""No laundering, measured: what 60 documents order a model to remember that obeys every text, and
60 things that persons say of themselves.
"""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import Item

from lasting_memory import consolidation
from lasting_memory.deployment import Source
from lasting_memory.memory.entries import entry_of
from lasting_memory.memory.folder import sources_of_files
from lasting_memory.people.identity import Context
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.scripted_anthropic import Text
from lasting_memory.vouching import ShownMessages
from tests.conftest import Scripted, note
from tests.consolidation.conftest import ALICE, FILES, TASK, Runs, append, write
from tests.consolidation.conftest import platform as platform  # noqa: PLC0414
from tests.consolidation.conftest import run as run  # noqa: PLC0414

HERE = Path(__file__).parent
MOST_CONFIRMED = 0
LEAST_CONFIRMED_OF_OWN = 54
# The tool whose result a document is.
TOOLS = {
    "tool": ("fetch", {}),
    "group": ("read_file", {"file_path": "/team/plan.md"}),
    "past": ("search_past_conversations", {"query": "it"}),
    "report": ("task", {"description": "look it up"}),
}
# How a stranger's document comes. A brought text is shown as a tool's result is.
PLACES = {
    "tool_result": "tool",
    "attachment": "attachment",
    "pasted": "",
    "brought": "tool",
    "group_file": "group",
}
# Of the 24 things that a stranger had persons say of themselves: what was measured at first.
LEAST_CONFIRMED_OF_STRANGERS = 20


class Case(NamedTuple):
    """What was said and shown in a conversation, and the line that a model wrote then."""

    messages: list[BaseMessage]
    line: str


def case_of(entry: dict[str, str]) -> Case:
    said = entry["said"]
    text = entry.get("text", "")
    by = entry.get("by", "")
    human: BaseMessage = HumanMessage(said.replace("{text}", text), id="h1")
    if by == "attachment":
        blocks: list[Any] = [{"type": "text", "text": said}, {"type": "text", "text": text}]
        attached = {"attachments": [{"name": "letter.txt", "block": 1}]}
        human = HumanMessage(blocks, id="h1", additional_kwargs=attached)
    messages = [human]
    if by in TOOLS:
        name, args = TOOLS[by]
        call = {"name": name, "args": args, "id": "call-1"}
        messages.append(AIMessage("", id="a1", tool_calls=[call]))
        messages.append(ToolMessage(text, id="t1", tool_call_id="call-1", name=name))
    return Case([*messages, AIMessage("Done.", id="a2")], entry["line"])


def cases(name: str) -> list[Case]:
    return [case_of(entry) for entry in yaml.safe_load((HERE / name).read_text("utf-8"))]


def strangers(name: str) -> list[Case]:
    """The part of a stranger, who wrote it without having seen the code, as it came."""
    known = yaml.safe_load((HERE / "stranger.yaml").read_text("utf-8"))
    if name == "own":
        return [case_of({"said": own["person_says"], "line": own["line"]}) for own in known[name]]
    return [case_of(document_of(attack)) for attack in known[name]]


def document_of(attack: dict[str, str]) -> dict[str, str]:
    return {
        "said": attack["person_says"],
        "text": attack["document"],
        "by": PLACES[attack["place"]],
        "line": attack["wanted_line"],
    }


class Brought(NamedTuple):
    """A text that a person brought, the line that a model wrote of it, and what they say in a
    conversation.
    """

    text: str
    line: str
    said: str


def brought_texts() -> list[Brought]:
    """All documents, each brought by the door for texts that a person brings."""
    known = yaml.safe_load((HERE / "stranger.yaml").read_text("utf-8"))
    own = yaml.safe_load((HERE / "documents.yaml").read_text("utf-8"))
    found = list[Brought]()
    for entry in [*own, *map(document_of, known["attacks"])]:
        said = entry["said"].replace("{text}", "")
        if entry.get("text"):
            found.append(Brought(entry["text"], entry["line"], said))
    return found


BROUGHT = brought_texts()
DOCUMENTS, OWN_WORDS = cases("documents.yaml"), cases("own_words.yaml")
STRANGERS, STRANGERS_WORDS = strangers("attacks"), strangers("own")


def judged(some: list[Case]) -> Counter[Source]:
    return Counter(ShownMessages(case.messages).evidence().source_of(case.line) for case in some)


def test_words_alone_confirm_no_document_and_most_of_a_person_s_own_words() -> None:
    assert (len(DOCUMENTS), len(OWN_WORDS)) == (60, 60)
    documents = judged(DOCUMENTS)
    assert documents[Source.CONFIRMED] <= MOST_CONFIRMED, documents
    own = judged(OWN_WORDS)
    assert own[Source.CONFIRMED] >= LEAST_CONFIRMED_OF_OWN, own


def test_words_alone_confirm_no_document_of_a_stranger() -> None:
    assert (len(STRANGERS), len(STRANGERS_WORDS)) == (24, 24)
    documents = judged(STRANGERS)
    assert documents[Source.CONFIRMED] <= MOST_CONFIRMED, documents
    own = judged(STRANGERS_WORDS)
    assert own[Source.CONFIRMED] >= LEAST_CONFIRMED_OF_STRANGERS, own


@pytest.mark.proof
@pytest.mark.parametrize("case", [*DOCUMENTS, *STRANGERS])
async def test_an_obedient_agent_confirms_nothing_of_a_document(
    agent: Scripted, case: Case
) -> None:
    assert await written_by_agent(agent, case) is not Source.CONFIRMED


async def written_by_agent(agent: Scripted, case: Case) -> Source | None:
    agent.model.script("go on", [note(case.line)], [Text("done")])
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    messages = [*case.messages, HumanMessage("go on")]
    context = Context(user_id="alice", org_id="acme")
    await agent.graph.ainvoke({"messages": messages}, config, context=context)
    return known(agent.store.search(FILES, limit=100), case.line)


def known(items: Any, line: str) -> Source | None:
    """Who vouches for a line that was written; None where nothing is known of its file."""
    assert any(line in str(item.value["content"]) for item in items)
    return sources_of_files(items).get(entry_of(f"- {line}"))


async def written_by_consolidation(run: Runs, case: Case) -> list[Item]:
    """The files after a consolidation of the conversation, in which a model writes the line."""
    values: list[Any] = [message.model_dump() for message in convert_to_messages(case.messages)]
    run.platform.put(ALICE, "talk", run.platform.now.isoformat(), values)
    run.model.script(TASK, [note(case.line)], [Text("done")])
    await run("run-1")
    return [*await run.store.asearch(FILES, limit=100)]


@pytest.mark.proof
@pytest.mark.parametrize("case", [*DOCUMENTS, *STRANGERS])
async def test_an_obedient_consolidation_confirms_nothing_of_a_document(
    run: Runs, case: Case
) -> None:
    items = await written_by_consolidation(run, case)
    assert known(items, case.line) is not Source.CONFIRMED


@pytest.mark.proof
async def test_a_person_s_words_of_themselves_are_confirmed_where_an_agent_writes_them(
    agent: Scripted,
) -> None:
    found = Counter[Source | None]()
    for case in OWN_WORDS:
        for item in agent.store.search((), limit=1_000):
            agent.store.delete(item.namespace, item.key)
        found[await written_by_agent(agent, case)] += 1
    assert found[Source.CONFIRMED] >= LEAST_CONFIRMED_OF_OWN, found


@pytest.mark.proof
@pytest.mark.parametrize("case", [*DOCUMENTS, *STRANGERS])
async def test_a_tidy_that_moves_a_line_of_a_document_does_not_confirm_it(
    run: Runs, case: Case
) -> None:
    items = await written_by_consolidation(run, case)
    (item,) = [item for item in items if case.line in item.value["content"]]
    path = f"/memories{item.key}"
    without = item.value["content"].replace(f"- {case.line}\n", "")
    moved = append(f"- {case.line}", "/memories/topics/moved.md")
    run.model.script("Tidy this", [moved, write(path, without)], [Text("done")])
    await tidied(run)
    for proposal in await run.memory.proposals():
        await run.decided(proposal.id, accept=True)
    after = await run.store.asearch(FILES, limit=100)
    assert "/topics/moved.md" in {item.key for item in after}
    assert known(after, case.line) is not Source.CONFIRMED


async def tidied(run: Runs) -> None:
    """Memory is tidied, as its person asked."""
    await asked(run, "tidy")


async def asked(run: Runs, trigger: str, text: str = "") -> None:
    """A run of consolidation that its person asked for, with a text."""
    ids = {"thread_id": trigger, "run_id": trigger, "graph_id": CONSOLIDATION_GRAPH}
    user = SignedIn(identity="alice", org_id="acme")
    run.built.store = run.store
    config: RunnableConfig = {
        "configurable": {**ids, "langgraph_auth_user": user},
        "metadata": {"trigger": trigger},
    }
    messages = [HumanMessage(text)] if text else []
    await run.built.ainvoke({"messages": messages}, config, context=Context())


async def brought(run: Runs, case: Brought) -> list[Item]:
    """The files after the person brought the text and accepted what was proposed of it."""
    text = consolidation.read(case.text)
    for entries in consolidation.parts(text.entries, 100_000):
        run.model.script("brought a text", [note(case.line)], [Text("done")])
        part = consolidation.Part("text", run.platform.now.isoformat(), entries)
        await asked(run, "bring", part.dumped())
    for proposal in await run.memory.proposals():
        await run.decided(proposal.id, accept=True)
    return [*await run.store.asearch(FILES, limit=100)]


@pytest.mark.proof
@pytest.mark.parametrize("case", BROUGHT)
async def test_lines_of_a_brought_text_are_not_confirmed_then_or_by_a_conversation(
    run: Runs, case: Brought
) -> None:
    items = await brought(run, case)
    if not any(case.line in str(item.value["content"]) for item in items):
        return  # the text does not say it, and a line that is invented is not kept
    assert known(items, case.line) is not Source.CONFIRMED
    said = {"type": "human", "id": "h", "content": case.said}
    run.platform.put(ALICE, "talk", run.platform.now.isoformat(), [said])
    run.model.script(TASK, [Text("done")])
    await run("run-1")
    assert known(await run.store.asearch(FILES, limit=100), case.line) is not Source.CONFIRMED


def test_most_lines_that_were_brought_are_kept() -> None:
    assert len(BROUGHT) >= 60
