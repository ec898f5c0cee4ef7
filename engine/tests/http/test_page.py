"""The page's files as they are served: public, under a strict policy, and the vendored one as its publisher made it."""

import hashlib
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from lasting_memory.deployment import Deployment
from lasting_memory.http.app import FOLDER, HEADERS, build_http
from lasting_memory.testing.deployed import deployed


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(build_http(deployed())), base_url="http://test") as client:
        yield client


async def test_every_answer_has_the_headers_that_keep_others_text_from_doing_anything(http: httpx.AsyncClient) -> None:
    policy = HEADERS["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
        assert part in policy
    assert "unsafe" not in policy
    files = [path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()]
    for path in ["/app", *(f"/app/{name}" for name in files), "/app/none.js"]:
        for method in ("GET", "HEAD", "POST"):
            answer = await http.request(method, path)
            assert answer.status_code == (405 if method == "POST" else 404 if "none" in path else 200), path
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


@pytest.mark.parametrize("path", ["lib", "../auth.py", "..%2fauth.py", "//etc/passwd", "x"])
async def test_no_file_of_another_folder_is_served(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.get(f"/app/{path}")).status_code == 404


@pytest.mark.parametrize(("settings", "how"), [
    (deployed(local_dev=True), "dev"),
    (deployed(local_dev=True, auth_jwt_secret="x" * 32), "token"),
    (deployed(local_dev=True, exposed=True), "token"),
    (deployed(), "token"),
])  # fmt: skip
async def test_the_page_says_how_people_sign_in(settings: Deployment, how: str) -> None:
    transport = httpx.ASGITransport(build_http(settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1", headers={"host": "127.0.0.1:1"}) as client:
        assert f'<meta name="sign-in" content="{how}">' in (await client.get("/app")).text


def test_the_vendored_files_are_what_the_notice_says() -> None:
    notice = (FOLDER / "lib" / "NOTICE").read_text("utf-8")
    recorded = dict(re.findall(r"^(\S+\.js) is .*\nSHA-256: ([0-9a-f]{64})$", notice, re.MULTILINE))
    assert recorded == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (FOLDER / "lib").glob("*.js")}
    holders = ("Apache License", "MIT License", "Google Inc.", "Jason Miller", "MarkedJS", "Christopher Jeffrey", "John Gruber")
    assert [part for part in holders if part not in notice] == []
