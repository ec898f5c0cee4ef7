"""Dreams: memory is built anew from all conversations in a draft, and what would change of today's
memory is one proposal.
"""

import json
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from langgraph.store.base import BaseStore

from lasting_memory import platform as platform_module
from lasting_memory.auth import deletion
from lasting_memory.consolidation import (
    Owner,
    Trigger,
    dream_of,
    drop_threads,
    erase_from_dream,
    estimate_dream,
    exported_dream,
    go_on_with_dream,
    records,
    run_beginning,
    start_dream,
    stop_dream,
)
from lasting_memory.consolidation import run as run_module
from lasting_memory.consolidation.dream_files import SpokenTexts
from lasting_memory.consolidation.dream_progress import tokens_spent
from lasting_memory.consolidation.dream_threads import CALL_TOKENS
from lasting_memory.consolidation.dreams import Dream
from lasting_memory.consolidation.old_conversations import delete_old
from lasting_memory.consolidation.record import Record
from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.consolidation.slots import Slots
from lasting_memory.deployment import Consolidation, Deployment, Limits
from lasting_memory.memory import journal
from lasting_memory.memory.controls import set_controls
from lasting_memory.memory.journal import dropped, trimming
from lasting_memory.memory.one_fact import fact_of
from lasting_memory.memory.proposals import Changed, Proposal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author, Context
from lasting_memory.settings import CONSOLIDATION_GRAPH, SettingsError
from lasting_memory.testing.deployed import PROJECT, deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import Body, ScriptedAnthropic, tool_results
from tests.conftest import BuildGraph
from tests.consolidation.conftest import ALICE, FILES, FOOD, MY_FOOD, READY, Hers, append

OWNER = Owner(ALICE)
SAID = re.compile(r"^user: (Fact: .+)$", re.MULTILINE)


def notes_facts(body: Body) -> Any:
    """A model that notes each fact that its batch says and its files do not, once."""
    results = tool_results(body)
    if len(results) > 1:
        return READY
    talk, _, known = results[0].partition("# Files about the same")
    known = known.partition("# Taken back")[0]
    new = [f"- {fact}" for fact in SAID.findall(talk.partition("# Taken back")[0])]
    lines = [line for line in dict.fromkeys(new) if line not in known]
    return [append("\n".join(lines))] if lines else READY


@dataclass
class Dreaming(Hers):
    """Alice's dreams on a graph of her own, called as a server would."""

    built: Any
    model: ScriptedAnthropic
    platform: Platform
    deployment: Deployment

    @property
    def own_memory(self) -> Any:
        return replace(self.memory, deployment=self.deployment, writer=journal.Writer(ALICE))

    def says(self, thread_id: str, *texts: str, minutes: int = 0, **metadata: bool) -> None:
        """She has said this in a conversation."""
        messages = [
            {"type": "human", "id": f"{thread_id}-{number}", "content": text}
            for number, text in enumerate(texts)
        ]
        at = (self.platform.now + timedelta(minutes=minutes)).isoformat()
        thread = self.platform.put(ALICE, thread_id, at, messages)
        thread["metadata"] |= metadata

    async def begins(self, cap: int = 10_000_000) -> None:
        assert await start_dream(self.own_memory, self.platform, OWNER, cap)  # type: ignore[arg-type]

    async def run(self, store: BaseStore | None = None) -> str:
        """One run of her dream. What it says."""
        ids = {"thread_id": str(uuid4()), "run_id": str(uuid4()), "graph_id": CONSOLIDATION_GRAPH}
        user = SignedIn(identity="alice", org_id="acme")
        self.built.store = store or self.store
        result = await self.built.ainvoke(
            {"messages": []},
            {
                "configurable": {**ids, "langgraph_auth_user": user},
                "metadata": {"trigger": "dream"},
            },
            context=Context(),
        )
        return str(result["messages"][-1].text)

    async def runs_to_its_end(self, most: int = 400) -> Dream:
        """All runs of her dream."""
        for _ in range(most):
            await self.run()
            dream = await self.dream()
            if dream.status != "reading":
                return dream
        raise AssertionError("it did not end")

    async def dream(self) -> Dream:
        dream = await dream_of(self.store, ALICE)
        assert dream
        return dream

    async def draft(self) -> str:
        exported = await exported_dream(self.store, ALICE)
        return json.dumps(exported["files"]) if exported else ""

    async def kept(self) -> set[str]:
        """The keys of all that is kept of the dream."""
        items = await journal.all_items(self.store, namespaces.dream(ALICE))
        return {item.key for item in items}

    async def proposal(self) -> Proposal:
        (proposal,) = [each for each in await self.memory.proposals() if each.kind == "dream"]
        return proposal

    async def lines(self) -> dict[str, str]:
        """The signs of the proposed lines, by their text."""
        found = dict[str, str]()
        for change in (await self.proposal()).changes:
            found |= {text.removeprefix("- "): sign for sign, text in change.lines()}
        return found

    async def noted(self, content: str, thread_id: str, key: str = FOOD) -> None:
        """Consolidation wrote a file from this conversation."""
        file: Any = {"content": content, "encoding": "utf-8"}
        author = Author("consolidation", "alice", "r", thread_id)
        await journal.change(self.store, FILES, key, lambda _: file, author)


@pytest.fixture
def dreaming(
    graph: BuildGraph,
    store: BaseStore,
    model: ScriptedAnthropic,
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
) -> Dreaming:
    monkeypatch.setattr(run_module, "get_client", lambda: platform)
    monkeypatch.setattr(run_beginning, "SLOTS", Slots())
    few = Consolidation(at_once=1_000, batch_tokens=60)
    deployment = replace(deployed(), consolidation=few)
    built = graph(deployment, build=build_consolidation_agent).graph
    model.script(lambda _: True, *[notes_facts] * 5_000)
    return Dreaming(store, built, model, platform, deployment)


async def plants(dreaming: Dreaming, facts: int, conversations: int) -> list[str]:
    """Facts in conversations, among others that say nothing."""
    planted = list[str]()
    apart = conversations // facts
    for number in range(conversations):
        texts = ["How is the weather today?"]
        if number % apart == 0 and len(planted) < facts:
            planted.append(f"Fact: locker k{number}q has the code z{number * 7}w")
            texts.append(planted[-1])
        dreaming.says(f"t{number}", *texts, minutes=number - conversations)
    return planted


async def proves(dreaming: Dreaming, facts: int, conversations: int) -> None:
    planted = await plants(dreaming, facts, conversations)
    await dreaming.saved("- Fact: written by hand\n")
    await dreaming.begins()
    dream = await dreaming.runs_to_its_end()
    assert (dream.status, dream.read) == ("proposed", conversations)
    lines = await dreaming.lines()
    assert {text for text, sign in lines.items() if sign == "+"} == {*planted}
    assert "-" not in lines.values()


async def test_a_dream_proposes_all_that_consolidation_would_find_once(dreaming: Dreaming) -> None:
    await proves(dreaming, 10, 20)
    assert await dreaming.kept() == {"state"}
    (record,) = await records(dreaming.store, ALICE)
    assert (record["kind"], record["status"], record["conversations"]) == ("dream", "proposed", 20)


async def test_a_dream_proposes_all_of_100_facts_in_200_conversations(dreaming: Dreaming) -> None:
    await proves(dreaming, 100, 200)


async def test_memory_and_what_is_new_are_left_alone_meanwhile(dreaming: Dreaming) -> None:
    await dreaming.saved("- Likes tea\n")
    dreaming.says("t1", "Fact: likes leek")
    await dreaming.begins()
    await dreaming.run()
    assert "likes leek" in await dreaming.draft()
    assert await dreaming.text() == "- Likes tea\n"
    assert not await journal.all_items(dreaming.store, namespaces.positions(ALICE))
    assert not await dreaming.memory.proposals()


async def test_lines_not_found_again_would_go_and_lines_written_by_hand_stay(
    dreaming: Dreaming,
) -> None:
    dreaming.says("t1", "Fact: likes leek")
    await dreaming.noted("- Fact: likes leek\n- Fact: hates zeppelins\n", "t1")
    text = await dreaming.text()
    await dreaming.saved(f"{text}- Owns a tractor\n")
    await dreaming.noted("- From another conversation\n", "gone", "/topics/other.md")
    await dreaming.begins()
    await dreaming.runs_to_its_end()
    assert await dreaming.lines() == {"Fact: hates zeppelins": "-"}
    proposal = await dreaming.proposal()
    assert proposal.reasons == {MY_FOOD: {"- Fact: hates zeppelins": "not_again"}}
    await dreaming.decided(proposal.id, accept=True)
    assert await dreaming.text() == "- Fact: likes leek\n- Owns a tractor\n"


async def test_fields_that_the_person_wrote_stay(dreaming: Dreaming) -> None:
    dreaming.says("t1", "Fact: likes leek")
    profile = "/profile.json"
    await dreaming.noted('{"role": "baker"}', "t1", profile)
    await dreaming.saved('{"role": "baker", "name": "Alice"}', profile)
    await dreaming.begins()
    await dreaming.runs_to_its_end()
    (change,) = [each for each in (await dreaming.proposal()).changes if each.key == profile]
    assert json.loads(change.after) == {"name": "Alice"}


async def test_a_field_whose_value_the_draft_says_in_a_line_stays(dreaming: Dreaming) -> None:
    dreaming.says("t1", "Fact: their name is Anne")
    profile = "/profile.json"
    await dreaming.noted('{"role": "baker", "name": "Anne"}', "t1", profile)
    await dreaming.begins()
    await dreaming.runs_to_its_end()
    (change,) = [each for each in (await dreaming.proposal()).changes if each.key == profile]
    assert json.loads(change.after) == {"name": "Anne"}


@pytest.mark.parametrize("revisions", [1, 60])
async def test_lines_taken_back_stay_away_however_long_ago(
    dreaming: Dreaming, revisions: int
) -> None:
    dreaming.says("t1", "Fact: likes leek", "Fact: owns a red tractor")
    await dreaming.noted("- Fact: likes leek\n- Fact: owns a red tractor\n", "t1")
    await dreaming.saved("- Fact: likes leek\n")
    for number in range(revisions):
        await dreaming.saved(f"- Fact: likes leek\n- Counted to {number}\n")
    await trimming.trim(dreaming.store, FILES, dreaming.deployment.limits)
    shown = str(await journal.histories(dreaming.store, FILES))
    assert ("tractor" in shown) == (revisions == 1)
    await dreaming.begins()
    dream = await dreaming.runs_to_its_end()
    assert (dream.status, dream.reason) == ("ended", "same")
    assert not await dreaming.memory.proposals()


async def written_by_agent(dreaming: Dreaming, key: str, text: str) -> None:
    """The agent wrote a file in the conversation t."""
    file: Any = {"content": text, "encoding": "utf-8"}
    author = Author("agent", "alice", "r", "t")
    await journal.change(dreaming.store, FILES, key, lambda _: file, author)


async def test_a_line_that_was_moved_to_another_file_was_not_taken_back(
    dreaming: Dreaming,
) -> None:
    fact = "Fact: the spare key is with Ottilie"
    dreaming.says("t", fact)
    for key, text in ((FOOD, f"- {fact}\n"), ("/topics/home.md", f"- {fact}\n"), (FOOD, "\n")):
        await written_by_agent(dreaming, key, text)
    await dreaming.begins()
    await dreaming.runs_to_its_end()
    assert [each for each in await dreaming.memory.proposals() if each.changes] == []


async def test_lines_taken_back_long_ago_are_kept_up_to_a_number_the_newest_first(
    dreaming: Dreaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropped, "MAX_LINES", 3)
    limits = replace(dreaming.deployment.limits, revisions_kept=1)
    for number in range(8):
        await dreaming.saved(f"- line {number}\n")
        await trimming.trim(dreaming.store, FILES, limits)
    items = await journal.all_items(dreaming.store, namespaces.taken_back(FILES))
    texts = sorted(line.text for line in journal.taken_back_in(items))
    assert texts == ["- line 4", "- line 5", "- line 6"]


async def test_long_lines_taken_back_are_kept_up_to_a_size_the_newest_first(
    dreaming: Dreaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropped, "MAX_BYTES", 5_000)
    limits = replace(dreaming.deployment.limits, revisions_kept=1)
    for number in range(8):
        await dreaming.saved(f"- line {number}{' and' * 500}\n")
        await trimming.trim(dreaming.store, FILES, limits)
    items = await journal.all_items(dreaming.store, namespaces.taken_back(FILES))
    texts = sorted(line.text[:8] for line in journal.taken_back_in(items))
    assert texts == ["- line 5", "- line 6"]


async def test_a_fact_deleted_for_good_leaves_the_lines_taken_back_and_the_draft(
    dreaming: Dreaming,
) -> None:
    dreaming.says("t1", "Fact: likes leek", "Fact: owns a red tractor")
    await dreaming.saved("- Fact: owns a red tractor\n")
    for number in range(60):
        await dreaming.saved(f"- Counted to {number}\n")
    await trimming.trim(dreaming.store, FILES, dreaming.deployment.limits)
    place = namespaces.taken_back(FILES)
    assert "tractor" in str(await journal.all_items(dreaming.store, place))
    fact = fact_of("- Fact: owns a red tractor", [], [])
    await journal.erase(dreaming.store, FILES, fact.cleaned, journal.Writer(ALICE))
    assert "tractor" not in str(await journal.all_items(dreaming.store, place))
    await dreaming.begins()
    await dreaming.run()
    assert "tractor" in await dreaming.draft()
    erased = await erase_from_dream(dreaming.store, ALICE, fact, journal.Writer(ALICE))
    assert erased == 1
    draft = await dreaming.draft()
    assert "tractor" not in draft
    assert "likes leek" in draft


async def test_a_line_taken_back_during_a_dream_is_not_proposed(dreaming: Dreaming) -> None:
    dreaming.says("t1", "Fact: likes leek")
    dreaming.says("t2", "Fact: owns a red tractor")
    await dreaming.noted("- Fact: owns a red tractor\n", "t2")
    await dreaming.begins()
    await dreaming.run()
    await dreaming.run()
    await dreaming.saved("")
    await dreaming.runs_to_its_end()
    assert await dreaming.lines() == {"Fact: likes leek": "+"}


async def test_a_run_that_is_killed_is_gone_on_with_where_it_was(dreaming: Dreaming) -> None:
    planted = await plants(dreaming, 6, 6)
    await dreaming.begins()
    await dreaming.run()
    read = (await dreaming.dream()).read
    assert 0 < read < 6

    class KilledError(BaseException):
        pass

    async def kill(name: str, options: Any) -> None:
        if name == "threads.search" and "created_at" in str(options):
            raise KilledError
        if name == "threads.search" and options.get("ids"):
            raise KilledError

    dreaming.platform.before = kill
    with pytest.raises(KilledError):
        await dreaming.run()
    dreaming.platform.before = None
    assert (await dreaming.dream()).read == read
    dreaming.platform.runs.kept.clear()  # of a process that died nothing is planned
    dream = await dreaming.dream()
    going = go_on_with_dream(dreaming.own_memory, dreaming.platform, OWNER, dream)  # type: ignore[arg-type]
    assert await going
    before = len(dreaming.model.requests)
    await dreaming.runs_to_its_end()
    assert {*await dreaming.lines()} == {*planted}
    said = str(dreaming.model.requests[before:])
    assert f"user: {planted[0]}" not in said


async def test_a_dream_has_one_planned_run_at_a_time(dreaming: Dreaming) -> None:
    dreaming.says("t1", "Fact: likes leek")
    await dreaming.begins()
    dream = await dreaming.dream()
    assert not await go_on_with_dream(dreaming.own_memory, dreaming.platform, OWNER, dream)  # type: ignore[arg-type]
    (run,) = dreaming.platform.runs.all()
    assert run["metadata"]["trigger"] == Trigger.DREAM


async def test_pausing_has_it_wait_and_resuming_has_it_go_on(dreaming: Dreaming) -> None:
    planted = await plants(dreaming, 4, 4)
    await dreaming.begins()
    await dreaming.run()
    await set_controls(dreaming.store, ALICE, {"paused": True}, journal.Writer(ALICE))
    await dreaming.run()
    dream = await dreaming.dream()
    assert (dream.status, dream.reason) == ("paused", "paused")
    await set_controls(dreaming.store, ALICE, {"paused": False}, journal.Writer(ALICE))
    dreaming.platform.runs.kept.clear()
    assert await go_on_with_dream(dreaming.own_memory, dreaming.platform, OWNER, dream)  # type: ignore[arg-type]
    await dreaming.runs_to_its_end()
    assert {*await dreaming.lines()} == {*planted}


async def test_stopping_leaves_nothing_of_the_draft(dreaming: Dreaming) -> None:
    await plants(dreaming, 4, 4)
    await dreaming.begins()
    await dreaming.run()
    dream = await dreaming.dream()
    assert await stop_dream(dreaming.store, ALICE, dream, journal.Writer(ALICE))
    assert await dreaming.kept() == {"state", "stopped"}
    assert "No conversations" in await dreaming.run()
    assert (await dreaming.dream()).status == "ended"
    assert not await dreaming.memory.proposals()


async def test_a_forgetting_deletes_it(dreaming: Dreaming) -> None:
    files = [FILES]
    for place in (namespaces.dream(ALICE), namespaces.taken_back(FILES)):
        assert place in namespaces.namespaces_of(ALICE, files)
    dreaming.says("t1", "Fact: likes leek")
    await dreaming.begins()
    dream = await dreaming.dream()
    await journal.forget(dreaming.store, ALICE)
    old = replace(
        dreaming.own_memory, writer=journal.Writer(ALICE, "2026-01-01T00:00:00.000000+00:00")
    )
    assert not await start_dream(old, dreaming.platform, OWNER, 5)  # type: ignore[arg-type]
    assert (await dreaming.dream()).id == dream.id
    assert "forgotten" in await dreaming.run()  # its run began before
    assert await dreaming.draft() == "{}"


async def test_deleting_a_conversation_drops_what_came_of_it_and_reads_the_others_again(
    dreaming: Dreaming,
) -> None:
    dreaming.says("t1", "Fact: owns a red tractor", minutes=-3)
    dreaming.says("t2", "Fact: likes leek", minutes=-2)
    dreaming.says("t3", "Fact: " + "plays the cello " * 30, minutes=-1)
    await dreaming.begins()
    await dreaming.run()
    draft = await dreaming.draft()
    assert "tractor" in draft
    assert "leek" in draft
    dreaming.platform.remove("t1")
    await dreaming.runs_to_its_end()
    lines = await dreaming.lines()
    assert "Fact: likes leek" in lines
    assert "tractor" not in str(lines)


async def proposes_two(dreaming: Dreaming) -> Proposal:
    dreaming.says("t1", "Fact: owns a red tractor", minutes=-3)
    dreaming.says("t2", "Fact: likes leek", minutes=-2)
    dreaming.says("t3", "Fact: " + "plays the cello " * 30, minutes=-1)
    await dreaming.saved("- Fact: written by hand\n")
    await dreaming.begins()
    await dreaming.runs_to_its_end()
    return await dreaming.proposal()


async def test_a_conversation_that_is_deleted_later_takes_its_lines_out_of_the_proposal(
    dreaming: Dreaming,
) -> None:
    whole = await proposes_two(dreaming)
    assert "tractor" in str(whole)
    await drop_threads(dreaming.store, ALICE, ["t1"])
    left = await dreaming.proposal()
    assert "tractor" not in str(left)
    assert "t1" not in left.threads
    assert "cello" in str(left.changes)
    await dreaming.decided(left.id, accept=True)
    assert "written by hand" in await dreaming.text()
    await drop_threads(dreaming.store, ALICE, ["t3"])
    assert (await dreaming.proposal()).status() == "accepted"


async def test_a_line_of_a_batch_is_from_the_conversations_that_say_it(
    dreaming: Dreaming,
) -> None:
    dreaming.says("t1", "Fact: owns a red tractor", minutes=-3)
    dreaming.says("t2", "Fact: plays the cello", minutes=-2)
    dreaming.says("t3", "Fact: lives in Lisbon", minutes=-1)
    await dreaming.begins()
    await dreaming.runs_to_its_end()
    await drop_threads(dreaming.store, ALICE, ["t2"])
    left = str((await dreaming.proposal()).changes)
    said = {fact: fact in left for fact in ("red tractor", "cello", "Lisbon")}
    assert said == {"red tractor": True, "cello": False, "Lisbon": True}


def test_a_line_that_no_conversation_has_is_from_all_of_its_batch() -> None:
    spoken = SpokenTexts(
        {"t1": "I like leek soup", "t2": "I play the cello", "t3": "Leeks! I like soups"}
    )
    assert spoken.origins("likes leek soup") == {"t1", "t3"}
    assert spoken.origins("plays the violin") == {"t1", "t2", "t3"}
    assert spoken.origins("role\x1fcello") == {"t2"}


async def test_a_proposal_goes_with_the_last_of_its_conversations(
    dreaming: Dreaming,
) -> None:
    await proposes_two(dreaming)
    await drop_threads(dreaming.store, ALICE, ["t1", "t2", "t3"])
    assert not await dreaming.memory.proposals()


async def test_a_line_stays_whose_other_wording_goes_with_its_conversation() -> None:
    before = "- Owns a red tractor\n- Hates zeppelins\n"
    change = Changed(FOOD, before, "- Has got a tractor that is red\n- Likes leek\n")
    proposal = Proposal(
        "dream-1",
        "2026-01-01",
        "m",
        Author("consolidation", "alice"),
        [
            change,
            Changed("/profile.json", "{}", '{"name": "Ada"}'),
            Changed("/new.md", "", "# A\n- b\n"),
        ],
        ["t1", "t2"],
        kind="dream",
        reasons={MY_FOOD: {"- Owns a red tractor": "reworded", "- Hates zeppelins": "not_again"}},
        origins={
            MY_FOOD: {"Has got a tractor that is red": [0, 1], "Likes leek": [1]},
            "/memories/profile.json": {"name\x1fAda": [0]},
            "/memories/new.md": {"b": [0]},
        },
    )
    left = proposal.without_threads({"t1"})
    assert left.changes == [Changed(FOOD, before, "- Owns a red tractor\n- Likes leek\n")]
    assert left.origins[MY_FOOD] == {"Likes leek": [0]}


async def test_a_draft_that_waits_loses_the_lines_of_a_deleted_conversation_at_once(
    dreaming: Dreaming,
) -> None:
    dreaming.says("t1", "Fact: owns a red tractor", minutes=-3)
    dreaming.says("t3", "Fact: " + "plays the cello " * 30, minutes=-1)
    await dreaming.begins()
    await dreaming.run()
    assert "tractor" in await dreaming.draft()
    dreaming.platform.remove("t1")
    await drop_threads(dreaming.store, ALICE, ["t1"])
    assert "tractor" not in await dreaming.draft()
    await dreaming.runs_to_its_end()
    assert "tractor" not in str(await dreaming.lines())


async def test_a_deleted_conversation_takes_its_lines_out_of_the_proposal(
    dreaming: Dreaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    await proposes_two(dreaming)

    async def store() -> BaseStore:
        return dreaming.store

    monkeypatch.setattr(deletion, "get_client", lambda: dreaming.platform)
    monkeypatch.setattr(platform_module, "store", store)
    await deletion.end_threads({"t1"}, {"user_id": "alice", "org_id": "acme"})
    assert "tractor" not in str(await dreaming.proposal())
    monthly = replace(dreaming.deployment, limits=Limits(conversation_days=30))
    later = dreaming.platform.now + timedelta(days=60)
    for thread in dreaming.platform.kept.values():
        thread["metadata"] |= {"graph_id": monthly.agents[0]}
    assert await delete_old(monthly, dreaming.platform, dreaming.store, later) > 0  # type: ignore[arg-type]
    assert not await dreaming.memory.proposals()


async def test_a_conversation_that_is_being_deleted_is_not_proposed(dreaming: Dreaming) -> None:
    dreaming.says("t1", "Fact: owns a red tractor")
    await dreaming.begins()
    await dreaming.run()

    class Deleting:
        """Notes the deletion, and finds nothing, before the dream proposes."""

        is_over = False

        async def __call__(self, name: str, options: Any) -> None:
            if not self.is_over:
                self.is_over = True
                await journal.note_deleted(dreaming.store, ALICE, ["t1"])
                await drop_threads(dreaming.store, ALICE, ["t1"])

    dreaming.platform.before = Deleting()
    await dreaming.run()
    assert not [each for each in await dreaming.memory.proposals() if "tractor" in str(each)]


async def test_temporary_and_marked_conversations_are_left_out(dreaming: Dreaming) -> None:
    dreaming.says("t1", "Fact: likes leek")
    dreaming.says("t2", "Fact: likes fennel", temporary=True)
    dreaming.says("t3", "Fact: likes dill", held_while_paused=True)
    dreaming.says("t4", "Fact: likes kale", imported=True)
    dreaming.platform.put(Actor("bob", "acme"), "t5", dreaming.platform.now.isoformat())
    await dreaming.begins()
    await dreaming.runs_to_its_end()
    assert await dreaming.lines() == {"Fact: likes leek": "+"}


async def test_a_dream_at_its_cap_proposes_the_lines_it_has_and_removes_none(
    dreaming: Dreaming,
) -> None:
    planted = await plants(dreaming, 6, 6)
    await dreaming.noted("- Fact: hates zeppelins\n", "t5")
    await dreaming.begins(cap=1)
    dream = await dreaming.runs_to_its_end()
    assert (dream.status, dream.reason) == ("proposed", "cap")
    assert 0 < dream.read < dream.conversations
    lines = await dreaming.lines()
    assert {*lines.values()} == {"+"}
    assert {*lines} < {*planted}


def test_tokens_for_the_cap_are_estimated_where_a_provider_counts_none() -> None:
    record = Record("run", "2026-01-01T00:00:00+00:00", model_calls=2)
    assert tokens_spent(record, "x" * 400) == 2 * (CALL_TOKENS + 100)
    assert tokens_spent(replace(record, input_tokens=7, output_tokens=3), "x" * 400) == 10
    assert tokens_spent(replace(record, model_calls=0), "x" * 400) == 0


async def test_the_estimate_counts_what_would_be_read(dreaming: Dreaming) -> None:
    await plants(dreaming, 5, 10)
    dreaming.says("x", "Fact: likes fennel", temporary=True)
    estimate = await estimate_dream(dreaming.deployment, dreaming.platform, dreaming.store, OWNER)  # type: ignore[arg-type]
    assert (estimate.conversations, estimate.messages) == (10, 15)
    assert estimate.tokens > 0
    assert await dream_of(dreaming.store, ALICE) is None


async def test_a_dream_takes_no_slot_while_somebody_else_waits() -> None:
    slots = Slots()
    bob = Actor("bob", "acme")
    how: dict[str, Any] = {"is_asked": False, "is_dry": False, "seconds": 0}
    async with slots.taken(Actor("carl", "acme"), 1, **how) as has_slot:
        assert has_slot
        async with slots.taken(bob, 1, **how) as has_another:
            assert not has_another
    async with slots.taken(ALICE, 1, **how, is_behind=True) as has_slot:
        assert not has_slot
    async with slots.taken(bob, 1, **how) as has_slot:
        assert has_slot
    async with slots.taken(ALICE, 1, **how, is_behind=True) as has_slot:
        assert has_slot


def test_the_argument_dream_turns_dreams_off() -> None:
    d = deployed()
    assert d.has_dream
    assert not replace(d, dream=False).has_dream
    assert not replace(d, consolidation=None).has_dream
    odd: Any = "yes"
    with pytest.raises(SettingsError, match="dream is 'yes'; use True or False"):
        Deployment(PROJECT, d.settings, dream=odd)


async def test_turned_off_no_run_goes_on(dreaming: Dreaming, graph: BuildGraph) -> None:
    dreaming.says("t1", "Fact: likes leek")
    await dreaming.begins()
    off = replace(dreaming.deployment, dream=False)
    dreaming.built = graph(off, build=build_consolidation_agent).graph
    assert "No conversations" in await dreaming.run()
    assert not dreaming.model.requests
