"""Long answers, and those whose Markdown is costly to read, keep nobody waiting."""

import pytest
from playwright.sync_api import expect

from tests.page.browser import Elsewhere, Visitor
from tests.page.conftest import answered

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.begins_first]

# Of each 20,000 characters at most: what the library that reads Markdown takes seconds or minutes
# for.
COSTLY = [
    "a." * 9_999 + "@",
    "-a" * 9_999 + "@",
    "a" * 19_999 + "@",
    "http://a" + ")" * 19_000,
    "http://a" + ",." * 9_000,
    "a@b." * 4_900 + "\n",
    "*a_b" * 250 + "**",
    "[a](" + "\\" * 19_000,
    "`a" * 9_000,
    "[" * 9_000 + "]" * 9_000,
    "~~" + "\U0001f600" * 9_000,
    '<a b="' * 3_000,
    "  - a\n" * 400,
    "_ _ " * 4_000 + "|\n|-|",
    "[a]: b\n" * 2_000 + "===",
    "> - " * 16 + "a",
]
WORDS = "The quick brown fox jumps over the lazy dog. " * 20
LONGEST_TASK = """() => {
  window.longest = 0;
  const note = (list) => list.getEntries().forEach(({ duration }) => (window.longest = Math.max(window.longest, duration)));
  new PerformanceObserver(note).observe({ type: "longtask" });
}"""
NOTICED_MILLISECONDS = 50  # the shortest task that a browser calls long


def longest_task(visitor: Visitor, thread: str) -> float:
    """Milliseconds of the longest task while the page opens and shows this conversation; the least
    of three times.
    """
    tries = list[float]()
    for _ in range(3):
        visitor.page.goto("about:blank")
        visitor.page.goto(f"{visitor.url}/app#{thread}")
        expect(visitor.page.get_by_role("heading", name="The end")).to_be_visible()
        tries.append(
            visitor.page.evaluate(
                "() => new Promise((done) => setTimeout(() => done(window.longest), 0))"
            )
        )
    return max(min(tries), NOTICED_MILLISECONDS)


@pytest.mark.proof
def test_no_text_of_an_answer_keeps_the_page_waiting(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    costly = "\n\n".join(COSTLY)
    harmless = "\n\n".join(WORDS for _ in range(len(costly) // len(WORDS)))
    end = "\n\n# The end\n"
    visitor.context.add_init_script(f"({LONGEST_TASK})()")
    usual = longest_task(visitor, answered(elsewhere, harmless + end))
    longest = longest_task(visitor, answered(elsewhere, costly + end))
    assert longest < 10 * usual
    answer = visitor.page.get_by_role("article").last
    for text in COSTLY[:8]:
        assert text.strip() in str(answer.text_content()), "it is shown as the text it is"


def test_a_long_answer_is_made_of_markdown_in_slices(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    parts = [
        f"## Part {n}\n\nSome **strong** words [of it][site], and `code`.\n\n- one\n- two\n"
        for n in range(300)
    ]
    fenced = "```\n" + "let a = [1, 2]; // *no* [sign](x) counts here\n" * 1_000 + "```\n"
    text = "\n".join([*parts, fenced, "[site]: https://site.example/"])
    # A clock by which a slice is over after two blocks, and the times at which headings came.
    visitor.context.add_init_script("""
      let time = 0;
      performance.now = () => (time += 4);
      window.batches = 0;
      const isHeading = (node) => node.role === "heading" || node.querySelector?.("[role=heading]");
      const look = (changes) => (window.batches += changes.some(({ addedNodes }) => [...addedNodes].some(isHeading)));
      new MutationObserver(look).observe(document, { childList: true, subtree: true });
    """)
    page = visitor.page
    page.goto("about:blank")
    page.goto(f"{visitor.url}/app#{answered(elsewhere, text)}")
    answer = page.get_by_role("article").last
    expect(answer.get_by_role("heading")).to_have_count(
        301
    )  # with the unseen one that says whose answer it is
    expect(answer.locator("strong")).to_have_count(300)
    expect(answer.get_by_role("link", name="of it").last).to_have_attribute(
        "href", "https://site.example/"
    )
    expect(answer.locator("pre")).to_contain_text("*no* [sign](x)")
    assert page.evaluate("() => window.batches") > 50
    log = page.get_by_role("group", name="What was said")
    end = log.evaluate("(log) => log.scrollHeight - log.scrollTop - log.clientHeight")
    assert end < 60, "who was at the end stays there"
