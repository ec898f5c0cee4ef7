"""What a conversation waits for is shown as the data that it is, and is answered there by whom it
is for.
"""

import json
import uuid
from typing import Any

import pytest
from playwright.sync_api import expect

from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.auth.questions import GRAPH, HITL, HUMAN
from tests.conftest import ServerWith
from tests.page.browser import Elsewhere, Visitor
from tests.page.conftest import Visit

pytestmark = [pytest.mark.server, pytest.mark.browser]
HOSTILE = "<img src=x onerror=alert(1)> [click](javascript:alert(1)) https://evil.example/ **bold**"


@pytest.fixture(scope="module")
def url(server_with: ServerWith) -> str:
    """The server of tests/auth/test_interrupts.py: an agent with tools that ask."""
    return server_with(
        {"graphs": {"agent": GRAPH}}, OPERATORS="root", SHARED_WRITES="interrupt"
    ).url


def asked(visitor: Visitor, model: ScriptedAnthropic, *calls: ToolCall) -> None:
    """Say something at which the agent makes these calls at once."""
    said = f"do {uuid.uuid4()}"
    model.script(said, [*calls], [Text("All is done.")])
    visitor.say(said)


def ask(question: Any) -> ToolCall:
    return ToolCall("ask", {"question": question})


def results(elsewhere: Elsewhere, visitor: Visitor) -> list[str]:
    """What the tools of the conversation that is open have answered."""
    state = elsewhere.get(f"/threads/{visitor.page.url.partition('#')[2]}/state").json()
    return [
        message["content"] for message in state["values"]["messages"] if message["type"] == "tool"
    ]


def test_a_question_is_answered_in_words_after_a_reload_too(
    visitor: Visitor, model: ScriptedAnthropic, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    asked(visitor, model, ask(HOSTILE))
    question = page.get_by_label("The agent asks you")
    expect(question).to_contain_text(HOSTILE)
    expect(page.get_by_text("operator")).to_have_count(0)
    page.reload()
    expect(question).to_contain_text(HOSTILE)
    assert question.locator("a, img, strong").count() == 0
    assert question.locator(".text").get_attribute("dir") == "auto"
    assert visitor.inaccessible() == []
    question.get_by_label("Your answer").fill("شكرا")
    question.get_by_label("The answer is JSON").check()
    question.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("alert")).to_contain_text("This is not JSON")
    question.get_by_label("The answer is JSON").uncheck()
    question.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("All is done.")).to_be_visible()
    expect(question).to_have_count(0)
    assert results(elsewhere, visitor) == ['"\\u0634\\u0643\\u0631\\u0627"']


def test_json_answers_a_question_and_one_that_was_answered_meanwhile_says_so(
    visitor: Visitor, model: ScriptedAnthropic, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    asked(
        visitor,
        model,
        ask({"huge": "x" * 100_000, "__proto__": {"deep": [[[[[[[[[[["end"]]]]]]]]]]]}}),
    )
    question = page.get_by_label("The agent asks you")
    expect(question).to_contain_text("__proto__")
    assert len(question.inner_text()) < 25_000
    question.get_by_label("Your answer").fill('{"__proto__": {"a": 1}}')
    question.get_by_label("The answer is JSON").check()
    question.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("All is done.")).to_be_visible()
    assert results(elsewhere, visitor) == ['{"__proto__": {"a": 1}}']
    asked(visitor, model, ask("Again?"))
    thread = page.url.partition("#")[2]
    answer = {"assistant_id": "agent", "command": {"resume": "elsewhere"}}
    elsewhere.post(f"/threads/{thread}/runs/wait", json=answer).raise_for_status()
    question.get_by_label("Your answer").fill("here")
    question.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("does not wait for an answer")).to_be_visible()
    expect(question).to_have_count(0)


def test_langchain_s_questions_have_a_button_for_each_answer_and_arguments_can_be_changed(
    visitor: Visitor, model: ScriptedAnthropic, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    asked(visitor, model, ask(HITL), ask([HUMAN]), ToolCall("choose", {"question": "Which color?"}))
    expect(page.get_by_label("The agent asks you")).to_have_count(3)
    page.get_by_role("button", name="blue").click()
    expect(page.get_by_label("The agent asks you")).to_have_count(2)
    visitor.button("Send").wait_for()
    page.get_by_role("button", name="Approve: write_file").click()
    expect(page.get_by_label("The agent asks you")).to_have_count(1)
    visitor.button("Send").wait_for()
    page.get_by_role("button", name="Change: pay").click()
    field = page.get_by_label("With what it is done (JSON)")
    assert "5" in field.input_value()
    field.fill("[4]")
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("no JSON object")
    field.fill('{"euros": 4}')
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.get_by_text("All is done.")).to_be_visible()
    answers = [
        json.loads(result) if result != "blue" else result for result in results(elsewhere, visitor)
    ]
    edited = {"type": "edit", "args": {"action": "pay", "args": {"euros": 4}}}
    for answer in ("blue", {"decisions": [{"type": "approve"}]}, [edited]):
        assert answer in answers


def test_an_approval_says_truly_whose_it_is_and_goes_on_once_there_is_one(
    visitor: Visitor, visit: Visit, model: ScriptedAnthropic
) -> None:
    page = visitor.page
    asked(visitor, model, ToolCall("cleared", {"what": "everything"}))
    approval = page.get_by_label("Waits for an operator")
    expect(approval).to_contain_text("everything")
    expect(approval).to_contain_text("This waits for an operator's approval")
    assert approval.get_by_role("button").count() == 0
    operator = visit()
    operator.sign_in("root", at=f"#{page.url.partition('#')[2]}")
    operator.page.get_by_label("This waits for an operator's approval: yours").get_by_role(
        "button", name="Approve: cleared"
    ).click()
    expect(operator.page.get_by_text("All is done.")).to_be_visible()
    page.reload()
    expect(page.get_by_text("All is done.")).to_be_visible()
    expect(approval).to_have_count(0)


@pytest.mark.parametrize("decision", ["Accept", "Decline"])
def test_a_write_of_the_agent_is_accepted_or_declined_in_the_chat(
    visitor: Visitor, model: ScriptedAnthropic, elsewhere: Elsewhere, decision: str
) -> None:
    page = visitor.page
    elsewhere.put("/memory/controls", json={"review_agent": True}).raise_for_status()
    asked(
        visitor,
        model,
        ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- likes fennel"}),
    )
    proposed = page.get_by_label("Waits for your yes")
    expect(proposed).to_contain_text("likes fennel")
    expect(
        proposed.get_by_role("heading", name="Preferences"), "the title that the facts have"
    ).to_be_visible()
    assert "fennel" not in str(elsewhere.read("/memories/preferences.md"))
    proposed.get_by_role("button", name=decision).click()
    expect(proposed).to_have_count(0)
    assert ("fennel" in str(elsewhere.read("/memories/preferences.md"))) == (decision == "Accept")
    became = {
        "Accept": "Wrote to memory (you accepted it)",
        "Decline": "Wrote to memory (you declined it)",
    }
    for _ in range(2):
        expect(page.get_by_text(became[decision], exact=True)).to_be_visible()
        expect(page.get_by_text("waits for your yes)")).to_have_count(0)
        page.reload()
    other = {"Accept": "Decline", "Decline": "Accept"}[decision]
    asked(
        visitor,
        model,
        ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- likes dill"}),
    )
    expect(page.get_by_text("Wrote to memory (waits for your yes)", exact=True)).to_have_count(1)
    proposed.get_by_role("button", name=other).click()
    expect(page.get_by_text(became[other], exact=True)).to_have_count(1)
    expect(page.get_by_text(became[decision], exact=True)).to_have_count(1)
    assert elsewhere.get("/memory/proposals").json()["proposals"] == []
