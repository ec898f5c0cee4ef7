"""The page's files as they are served, and what they say of the sign-in."""

import hashlib
import html
import json
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from lasting_memory.deployment import Deployment
from lasting_memory.http.app import FOLDER, HEADERS, build_http
from lasting_memory.testing.deployed import deployed


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(build_http(deployed())), base_url="http://test"
    ) as client:
        yield client


async def test_every_answer_has_the_headers_that_keep_others_text_from_doing_anything(
    http: httpx.AsyncClient,
) -> None:
    policy = HEADERS["content-security-policy"]
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ):
        assert part in policy
    assert "unsafe" not in policy
    files = [path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()]
    missing = ["/app/none.js", "/app/lib", "/app/..%2fauth.py", "/app//etc/passwd"]
    for path in ["/app", *(f"/app/{name}" for name in files), *missing]:
        for method in ("GET", "HEAD", "POST"):
            answer = await http.request(method, path)
            assert answer.status_code == (
                405 if method == "POST" else 404 if path in missing else 200
            ), path
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


BROWSERS = (
    # Firefox, Safari
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "text/html, */*;q=0.1",
    "TEXT/HTML ; Q=0.5 , application/json;q=0.4",
    "text/*, application/json;q=0.9",
    "text/html;level=1, */*;q=0.5",
)
OTHERS = (
    "", "*/*", "application/json", "application/json, text/plain, */*", "text/html;q=0.5, application/json",
    "text/html, */*", "text/html;q=0", "text/html;q=0, */*;q=0.1", "text/html;q=nan", "text/html;q=2", "text/plain", ",;,=;q",
    "text/html;q=0.1, */*;q=0.9", ",".join([*("a/b" for _ in range(50)), "text/html"]),
)  # fmt: skip


async def test_a_browser_at_the_root_is_sent_to_the_page_and_other_clients_are_not(
    http: httpx.AsyncClient,
) -> None:
    without = httpx.ASGITransport(build_http(deployed(), page=False))
    mounted = httpx.ASGITransport(build_http(deployed()), root_path="/agents")
    async with (
        httpx.AsyncClient(transport=without, base_url="http://test") as pageless,
        httpx.AsyncClient(transport=mounted, base_url="http://test") as behind,
    ):
        for accept in BROWSERS:
            for method in ("GET", "HEAD"):
                sent = await http.request(method, "/", headers={"accept": accept})
                assert (sent.status_code, sent.headers.get("location")) == (307, "/app"), accept
                assert sent.headers["vary"] == "accept"
                sent = await behind.request(method, "/agents/", headers={"accept": accept})
                assert sent.headers.get("location") == "/agents/app"
            assert (await http.post("/", headers={"accept": accept})).status_code == 404
            assert (await http.get("/ok", headers={"accept": accept})).status_code == 404
            assert (await pageless.get("/", headers={"accept": accept})).status_code == 404
        for accept in OTHERS:
            assert (await http.get("/", headers={"accept": accept})).status_code == 404, accept


@pytest.mark.parametrize(("settings", "how"), [
    (deployed(local_dev=True), "dev"),
    (deployed(local_dev=True, auth_jwt_secret="x" * 32), "token"),
    (deployed(local_dev=True, exposed=True), "token"),
    (deployed(), "token"),
    (deployed(local_dev=True, auth_jwt_secret="x" * 32, auth_issuer="https://a.example", auth_client_id="page"), "provider"),
])  # fmt: skip
async def test_the_page_says_how_people_sign_in(settings: Deployment, how: str) -> None:
    transport = httpx.ASGITransport(build_http(settings))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:1", headers={"host": "127.0.0.1:1"}
    ) as client:
        assert f'<meta name="sign-in" content="{how}">' in (await client.get("/app")).text


async def test_the_page_may_call_the_provider_at_which_people_sign_in_and_nobody_else() -> None:
    settings = {
        "auth_jwks_url": "https://id.example.com/keys",
        "auth_issuer": "https://ID.example.com:8443/x",
        "auth_client_id": 'a"b',
    }
    expected = {
        "issuer": settings["auth_issuer"],
        "client_id": 'a"b',
        "scope": "openid",
        "audience": None,
    }
    for more, audience in (
        ({}, None),
        ({"auth_audience": "a,b"}, "a"),
        ({"auth_audience": "a", "auth_audience_claim": "azp"}, None),
    ):
        with_provider = httpx.ASGITransport(build_http(deployed(**settings, **more)))
        async with httpx.AsyncClient(transport=with_provider, base_url="http://test") as client:
            page = await client.get("/app")
        told = re.findall(r'<meta name="provider" content="([^"]*)">', page.text)
        assert [json.loads(html.unescape(text)) for text in told] == [
            {**expected, "audience": audience}
        ]
        policy = page.headers["content-security-policy"]
        assert "connect-src 'self' https://id.example.com:8443; " in policy
        assert (
            policy.replace(" https://id.example.com:8443", "") == HEADERS["content-security-policy"]
        )
    without = httpx.ASGITransport(build_http(deployed(**settings | {"auth_client_id": None})))
    async with httpx.AsyncClient(transport=without, base_url="http://test") as client:
        page = await client.get("/app")
    assert page.headers["content-security-policy"] == HEADERS["content-security-policy"]
    assert "provider" not in page.text


def test_the_vendored_files_are_what_the_notice_says() -> None:
    notice = (FOLDER / "lib" / "NOTICE").read_text("utf-8")
    recorded = dict(re.findall(r"^(\S+\.js) is .*\nSHA-256: ([0-9a-f]{64})$", notice, re.MULTILINE))
    assert recorded == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (FOLDER / "lib").glob("*.js")
    }
    holders = (
        "Apache License",
        "MIT License",
        "Google Inc.",
        "Jason Miller",
        "MarkedJS",
        "Christopher Jeffrey",
        "John Gruber",
        "Filip Skokan",
    )
    assert [part for part in holders if part not in notice] == []
