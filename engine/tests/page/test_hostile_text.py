"""What anybody may have written is shown as the text it is: nothing of it runs, loads, or leads
elsewhere.
"""

import json
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect

from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from tests.page.browser import Elsewhere
from tests.page.conftest import Visit, put_item

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.proof]

# A right-to-left override, an isolate that never ends, and a mark of direction.
TURNED = "invoice\u202efdp.exe \u2067never ends \u200f"
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "<svg onload=alert(1)><a href=javascript:alert(1)>x</a></svg>",
    "[click](javascript:alert(1)) ![p](https://evil.example/p.png) https://evil.example/q",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe><base href=//evil.example/>",
    "</div></main></body><style>*{display:none}</style><meta http-equiv=refresh content=0;url=//evil.example>",
    "${alert(1)} {{7*7}} <!--ko--> &lt;b&gt; &#x3c;",
    TURNED,
]
ALL = " | ".join(HOSTILE)
# Elements that only somebody's text could have made.
MADE = """() => [...document.querySelectorAll('img, svg, iframe, object, embed, video, base, style, b[onclick], script')]
    .map((element) => element.outerHTML).filter((made) => made !== '<script type="module" src="app/main.js"></' + 'script>')"""
# Links that lead elsewhere in another way than apart, without saying from where.
LINKS = """() => [...document.querySelectorAll('a')].filter((link) => link.getAttribute('href')[0] !== '#')
    .filter((link) => !/^https?:/.test(link.href) || link.target !== '_blank' || link.rel !== 'noopener noreferrer nofollow')
    .map((link) => link.outerHTML)"""


def nothing_was_made_of_it(page: Page) -> None:
    assert page.evaluate(MADE) == []
    assert page.evaluate(LINKS) == []


def test_hostile_text_in_identity_chat_tool_calls_diffs_titles_and_search_is_text(
    visit: Visit, me: str
) -> None:
    visitor = visit()
    identity = f"<img src=x onerror=alert(1)> {TURNED} {me}"
    page = visitor.sign_in(identity)
    expect(page.get_by_role("banner")).to_contain_text(identity)
    visitor.say(f"Remember that {ALL}")
    expect(page.get_by_role("article").first).to_contain_text(ALL)
    for text in HOSTILE[:4]:
        expect(page.get_by_role("article").last).to_contain_text(text)
    call = page.locator("details", has_text="append_memory")
    call.locator("summary").click()
    expect(call).to_contain_text("onerror=alert(1)")
    expect(page.get_by_role("list", name="Memory")).to_contain_text(ALL.replace("<!--ko-->", ""))
    visitor.go("Changes")
    expect(page.get_by_role("list", name="Changes")).to_contain_text(f"+ {ALL}")
    title = page.get_by_role("list", name="Conversations").get_by_role("button").first
    expect(title).to_contain_text("<img src=x onerror=alert(1)>")
    nothing_was_made_of_it(page)
    page.get_by_label("Search past conversations").fill("<img src=x onerror=alert(1)>")
    results = page.get_by_role("list", name="Found")
    expect(results).to_contain_text("<img src=x onerror=alert(1)>")
    nothing_was_made_of_it(page)
    visitor.button("What the model sees").click()
    expect(page.get_by_role("dialog")).to_contain_text("<img src=x onerror=alert(1)>")
    nothing_was_made_of_it(page)


def test_hostile_text_in_paths_files_and_their_history_is_text(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    visitor = visit()
    texts = [text for text in HOSTILE if text != TURNED]
    paths = [f"/memories/{text.replace('//', '/ /').replace('/.', '/ .')}.md" for text in texts]
    for path, text in zip(paths, texts, strict=True):
        elsewhere.write(path, f"# {text}\n\n- {text}\n")
    entries = yaml.safe_load((Path(__file__).parents[1] / "injections.yaml").read_text("utf-8"))
    everything = "\n".join(entry["text"] for entry in entries)
    memory = deployed().memory.namespace(Actor(me, "acme"), AGENT)
    # The routes refuse such a name, and credentials; other code may not.
    put_item(visitor.url, memory, "/injections.md", f"{everything}\n{TURNED}")
    put_item(visitor.url, memory, f"/{TURNED}.md", "x")
    page = visitor.sign_in(me)
    visitor.button("Files").click()
    visitor.button(f"/memories/{TURNED}.md").wait_for()
    for path, text in zip(paths, texts, strict=True):
        visitor.button(path).click()
        expect(page.locator(".file .text")).to_have_text(f"# {text} - {text}")
        visitor.button("History").click()
        visitor.button("Revision 1").click()
        expect(page.locator(".history .diff")).to_contain_text(f"+- {text}")
        nothing_was_made_of_it(page)
    visitor.button("/memories/injections.md").click()
    expect(page.locator(".file .text")).to_have_text(f"{everything}\n{TURNED}")
    nothing_was_made_of_it(page)
    isolated = page.evaluate(
        "() => getComputedStyle(document.querySelector('button.path')).unicodeBidi"
    )
    assert isolated == "isolate", "a path could turn around what is beside it"


def test_hostile_text_in_policies_imports_and_refusals_is_text(
    visit: Visit, me: str, tmp_path: Path
) -> None:
    visitor = visit()
    organization = f"org-{me}"
    put_item(
        visitor.url, namespaces.policies(organization), "/<img src=x onerror=alert(1)>.md", ALL
    )
    page = visitor.sign_in(me, organization)
    visitor.button("Policies").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("/policies/<img src=x onerror=alert(1)>.md")
    expect(dialog).to_contain_text(ALL)
    nothing_was_made_of_it(page)
    visitor.button("Close").click()
    document = tmp_path / "memory.json"
    files = [{"path": "/memories/<script>alert(1)</script>.md", "content": "<b onclick=alert(1)>"}]
    document.write_text(json.dumps({"version": 1, "files": files}))
    page.get_by_label("Import").set_input_files(document)
    expect(dialog).to_contain_text("<script>alert(1)</script>")
    nothing_was_made_of_it(page)
    visitor.button("Close").click()
    visitor.go("Facts")
    expect(page.get_by_role("list", name="Memory")).to_contain_text("<b onclick=alert(1)>")
    nothing_was_made_of_it(page)
    visitor.go("Settings")
    twice = [{"path": f"/memories/{HOSTILE[0]}.md", "content": ""}] * 2
    document.write_text(json.dumps({"version": 1, "files": twice}))
    page.get_by_label("Import").set_input_files(document)
    expect(page.get_by_role("alert")).to_contain_text("<img src=x onerror=alert(1)>")
    nothing_was_made_of_it(page)
