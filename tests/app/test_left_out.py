"""What the page leaves out or will soon refuse, it says: lines, parts of the prompt, and a memory that is nearly full."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from memory.controls import NEARLY_FULL
from settings import MAX_FILE_BYTES, MAX_MEMORY_BYTES, MEMORY_BUDGET_BYTES
from tests.app.conftest import Elsewhere, Visit
from tests.app.test_person import PREFERENCES

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.proof]


def test_where_a_file_is_long_it_is_said_how_many_lines_are_left_out(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    elsewhere.write(PREFERENCES, "".join(f"- {n}\n" for n in range(450)))
    page = visitor.sign_in(me)
    visitor.button(PREFERENCES).click()
    visitor.button("Why").click()
    lines = page.get_by_role("list", name="Why each line is known").get_by_role("listitem")
    expect(lines).to_have_count(400)
    expect(page.get_by_text("50 more lines of this file are left out here.")).to_be_visible()
    elsewhere.write(PREFERENCES, "".join(f"- {n}\n" for n in range(400)))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_text("left out here")).to_have_count(0)
    expect(lines).to_have_count(400)


def test_what_the_model_does_not_see_of_a_memory_is_named(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    elsewhere.write(PREFERENCES, "- tea\n" * MEMORY_BUDGET_BYTES)
    page = visitor.sign_in(me)
    visitor.button("What the model sees").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Left out: {PREFERENCES}: ")


def test_that_memory_is_nearly_full_is_said_while_there_is_room(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.button(PREFERENCES).or_(page.get_by_text("Nothing yet.")).wait_for()
    full = page.get_by_text("Memory is nearly full: ")
    expect(full).to_have_count(0)
    for number in range(int(NEARLY_FULL * MAX_MEMORY_BYTES / MAX_FILE_BYTES) + 1):
        elsewhere.write(f"/memories/{number}.md", "x" * MAX_FILE_BYTES)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(full).to_contain_text("kB of 4,194.3 kB")
