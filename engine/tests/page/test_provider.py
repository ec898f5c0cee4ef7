"""People sign in on the page at their identity provider, in a real browser."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import ServerWith
from tests.page.browser import Held, Visitor
from tests.page.openid import AUDIENCE, CLIENT, OpenIDProvider

pytestmark = [pytest.mark.server, pytest.mark.browser]


@pytest.fixture(scope="module")
def opened() -> Iterator[OpenIDProvider]:
    with OpenIDProvider() as provider:
        yield provider


@pytest.fixture
def provider(opened: OpenIDProvider, me: str) -> OpenIDProvider:
    opened.start_over()
    opened.person = me
    return opened


@pytest.fixture(scope="module")
def url(server_with: ServerWith, opened: OpenIDProvider) -> str:
    return (
        server_with({"http": {"mount_prefix": "/below"}}, AGENT_MODEL="", **opened.environ).url
        + "/below"
    )


@pytest.fixture
def visitor(browser: Browser, url: str, provider: OpenIDProvider) -> Iterator[Visitor]:
    visitor = Visitor.arrive(browser, url, provider.url)
    yield visitor
    visitor.leave()


def sign_in(visitor: Visitor, at: str = "") -> Page:
    page = visitor.page
    page.goto(f"{visitor.url}/app{at}")
    visitor.button("Sign in").click()
    page.get_by_role("link", name="Sign in at the provider").click()
    page.get_by_label("Message").wait_for()
    return page


def test_people_sign_in_at_the_provider_and_a_reload_finds_them_and_their_conversation_again(
    visitor: Visitor, provider: OpenIDProvider, me: str
) -> None:
    page = sign_in(visitor)
    expect(page.get_by_role("banner")).to_contain_text(me)
    asked = provider.asked["authorize"][0]
    expected = {
        "client_id": CLIENT,
        "response_type": "code",
        "code_challenge_method": "S256",
        "audience": AUDIENCE,
    }
    assert {
        **asked,
        **expected,
        "redirect_uri": f"{visitor.url}/app",
        "scope": "openid offline_access",
    } == asked
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
    visitor.say("hello")
    address = page.url
    assert re.fullmatch(re.escape(f"{visitor.url}/app#") + r"[0-9a-f-]{36}", address)
    kept = json.dumps(visitor.kept())
    assert "eyJ" not in kept
    assert not [token for token in provider.refresh_tokens if token in kept]
    page.reload()
    expect(
        page.get_by_role("group", name="What was said").get_by_text("hello", exact=True)
    ).to_be_visible()
    assert page.url == address
    assert provider.asked["authorize"][-1]["prompt"] == "none"
    assert "sign-in under way" not in visitor.kept()


def test_a_conversation_s_address_is_opened_after_the_sign_in(
    visitor: Visitor, browser: Browser, provider: OpenIDProvider
) -> None:
    sign_in(visitor)
    visitor.say("hello")
    at = "#" + visitor.page.url.partition("#")[2]
    other = Visitor.arrive(browser, visitor.url, provider.url)
    provider.is_known = False
    page = sign_in(other, at)
    expect(
        page.get_by_role("group", name="What was said").get_by_text("hello", exact=True)
    ).to_be_visible()
    assert page.url.endswith(at)
    other.leave()


@pytest.mark.proof
def test_the_page_says_where_one_signs_in_before_and_why_one_was_not(
    visitor: Visitor, provider: OpenIDProvider
) -> None:
    page, host = visitor.page, provider.url.partition("//")[2]
    page.goto(f"{visitor.url}/app")
    expect(page.get_by_text(f"You sign in at {host}, and come back here.")).to_be_visible()
    expect(page.get_by_role("textbox")).to_have_count(0)
    assert visitor.inaccessible() == []
    visitor.button("Sign in").click()
    page.get_by_role("link", name="Refuse").click()
    expect(page.get_by_role("alert")).to_have_text(
        f"You were not signed in: it was refused at {host}."
    )
    assert page.url == f"{visitor.url}/app"
    page.reload()
    expect(visitor.button("Sign in")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    provider.is_down = True
    visitor.button("Sign in").click()
    expect(page.get_by_role("alert")).to_have_text(
        f"{host} cannot be reached from here; try again."
    )


@pytest.mark.proof
def test_a_person_who_comes_back_by_the_browser_s_button_may_sign_in_again(
    visitor: Visitor, me: str
) -> None:
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    visitor.button("Sign in").click()
    page.get_by_role("link", name="Sign in at the provider").wait_for()
    page.go_back()
    visitor.button("Sign in").click()
    page.get_by_role("link", name="Sign in at the provider").click()
    expect(page.get_by_role("banner")).to_contain_text(me)


@pytest.mark.proof
def test_an_answer_that_this_page_did_not_ask_for_signs_nobody_in(
    visitor: Visitor, provider: OpenIDProvider
) -> None:
    """Neither one that somebody else began, nor one with another state, nor the same one twice."""
    page = visitor.page
    stale = "This sign-in did not begin on this page, or was used before; sign in again."
    provider.codes["theirs"] = {"redirect_uri": f"{visitor.url}/app", "client_id": CLIENT}
    page.goto(f"{visitor.url}/app?code=theirs&state=x")
    expect(page.get_by_role("alert")).to_have_text(stale)
    assert page.url == f"{visitor.url}/app"
    visitor.button("Sign in").click()
    page.get_by_role("link", name="Refuse").wait_for()
    page.goto(f"{visitor.url}/app?code=theirs&state=x")
    expect(page.get_by_role("alert")).to_have_text(stale)
    visitor.button("Sign in").click()
    with page.expect_request(re.compile(r"/app\?code=")) as answer:
        page.get_by_role("link", name="Sign in at the provider").click()
    page.get_by_label("Message").wait_for()
    provider.is_known = False
    page.goto("about:blank")
    page.goto(answer.value.url)
    expect(page.get_by_role("alert")).to_have_text(stale)
    assert len(provider.asked["token"]) == 1


@pytest.mark.proof
@pytest.mark.parametrize(
    "wrong", [{"nonce": "another"}, {"aud": "another"}, {"iss": "https://evil.example"}, {"exp": 1}]
)
def test_a_proof_that_is_not_for_this_sign_in_signs_nobody_in(
    visitor: Visitor, provider: OpenIDProvider, wrong: dict[str, str]
) -> None:
    provider.answers = wrong
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    visitor.button("Sign in").click()
    page.get_by_role("link", name="Sign in at the provider").click()
    expect(page.get_by_role("alert")).to_contain_text(
        "cannot be used; ask whoever runs this server"
    )
    expect(visitor.button("Sign in")).to_be_visible()


@pytest.mark.proof
def test_a_token_that_the_server_refuses_is_no_endless_way(
    visitor: Visitor, provider: OpenIDProvider
) -> None:
    provider.claims = {"aud": "another"}
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    visitor.button("Sign in").click()
    page.get_by_role("link", name="Sign in at the provider").click()
    expect(page.get_by_role("alert")).to_contain_text("claim 'aud' is a text of 7 bytes")
    page.reload()
    expect(visitor.button("Sign in")).to_be_visible()
    assert len(provider.asked["authorize"]) == 1


@pytest.mark.proof
def test_tokens_are_renewed_before_they_end_once_for_all_requests_and_where_the_server_refuses_one(
    visitor: Visitor, provider: OpenIDProvider, me: str
) -> None:
    provider.seconds = 2
    page = sign_in(visitor)
    visitor.say("hello")
    page.wait_for_timeout(2_000)
    provider.seconds = 300
    used = len(provider.asked["token"])
    visitor.look()
    visitor.say("hello again")
    expect(page.get_by_role("banner")).to_contain_text(me)
    renewals = [
        asked for asked in provider.asked["token"] if asked["grant_type"] == "refresh_token"
    ]
    assert len(provider.asked["token"]) == used + 1
    assert len({asked["refresh_token"] for asked in renewals}) == len(renewals), (
        "none is used twice"
    )
    assert len(provider.refresh_tokens) == 1
    held = Held(page, "**/memory/facts")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    held.next().fulfill(status=401, json={"detail": "The token is over."})
    held.next().continue_()
    held.end()
    assert len(provider.asked["token"]) == used + 2
    expect(page.get_by_role("banner")).to_contain_text(me)


@pytest.mark.proof
def test_a_session_that_cannot_be_renewed_says_so_and_goes_on_in_the_same_view(
    visitor: Visitor, provider: OpenIDProvider
) -> None:
    page = sign_in(visitor)
    visitor.say("hello")
    address = page.url
    provider.refresh_tokens.clear()
    page.route(
        "**/memory/facts",
        lambda route: route.fulfill(status=401, json={"detail": "The token is over."}),
    )
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_role("alert")).to_have_text("Your sign-in is over; sign in again.")
    page.unroute("**/memory/facts")
    visitor.button("Sign in").click()
    expect(
        page.get_by_role("group", name="What was said").get_by_text("hello", exact=True)
    ).to_be_visible()
    assert page.url == address


@pytest.mark.proof
def test_a_session_without_a_refresh_token_ends_with_the_server_s_reason(
    visitor: Visitor, provider: OpenIDProvider
) -> None:
    provider.has_refresh_tokens = False
    page = sign_in(visitor)
    page.route(
        "**/memory/facts",
        lambda route: route.fulfill(status=401, json={"detail": "The token is over."}),
    )
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_role("alert")).to_have_text("The token is over.")
    expect(visitor.button("Sign in")).to_be_visible()


@pytest.mark.proof
def test_a_person_stays_signed_in_while_the_provider_is_away(
    visitor: Visitor, provider: OpenIDProvider, me: str
) -> None:
    provider.seconds = 2
    page = sign_in(visitor)
    page.wait_for_timeout(2_000)
    provider.is_down = True
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_role("alert").first).to_contain_text(
        "cannot be reached from here; try again."
    )
    provider.is_down = False
    provider.seconds = 300
    visitor.look()
    visitor.say("hello")
    expect(page.get_by_role("banner")).to_contain_text(me)


@pytest.mark.proof
def test_a_sign_out_is_one_at_the_provider_too_and_leaves_nothing(
    visitor: Visitor, provider: OpenIDProvider
) -> None:
    page = sign_in(visitor)
    visitor.say("hello")
    with page.expect_request(re.compile("/leave")) as left:
        visitor.button("Sign out").click()
    expect(visitor.button("Sign in")).to_be_visible()
    assert page.url == f"{visitor.url}/app"
    assert provider.asked["leave"] == [
        {"client_id": CLIENT, "post_logout_redirect_uri": f"{visitor.url}/app"}
    ]
    assert "eyJ" not in left.value.url
    assert provider.refresh_tokens == set()
    page.reload()
    visitor.button("Sign in").click()
    expect(
        page.get_by_role("link", name="Sign in at the provider"), "the provider asks again"
    ).to_be_visible()


@pytest.mark.proof
def test_a_reload_asks_nobody_whom_the_provider_knows_no_more(
    visitor: Visitor, provider: OpenIDProvider
) -> None:
    page = sign_in(visitor)
    provider.is_known = False
    page.reload()
    expect(visitor.button("Sign in")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.reload()
    expect(visitor.button("Sign in")).to_be_visible()
    assert len(provider.asked["authorize"]) == 2


@pytest.mark.proof
def test_the_id_token_signs_in_where_the_access_token_is_no_json_web_token(
    visitor: Visitor, provider: OpenIDProvider, me: str
) -> None:
    provider.has_opaque_tokens = True
    page = sign_in(visitor)
    expect(page.get_by_role("banner")).to_contain_text(me)


@pytest.mark.proof
def test_a_token_in_the_address_replaces_nobody_whom_the_provider_knows(
    visitor: Visitor, me: str
) -> None:
    page = sign_in(visitor)
    page.goto("about:blank")
    page.goto(f"{visitor.url}/app#token=junk")
    expect(page.get_by_role("banner")).to_contain_text(me)
    assert "junk" not in page.url
