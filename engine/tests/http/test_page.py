"""The page's files as they are served: public, under a strict policy, and the vendored one as its publisher made it."""

import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from lasting_memory.deployment import Deployment
from lasting_memory.http.app import FOLDER, HEADERS, build_http
from lasting_memory.testing.deployed import deployed

OWN = sorted(path for path in FOLDER.rglob("*.js") if path.parent.name != "lib")


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


async def test_the_page_names_the_parts_that_are_there(http: httpx.AsyncClient) -> None:
    (named,) = re.findall('<meta name="parts" content="(.*)">', (await http.get("/app")).text)
    assert named.split() == sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/part.js"))


def test_the_vendored_files_are_what_the_notice_says() -> None:
    notice = (FOLDER / "lib" / "NOTICE").read_text("utf-8")
    recorded = dict(re.findall(r"^(\S+\.js) is .*\nSHA-256: ([0-9a-f]{64})$", notice, re.MULTILINE))
    assert recorded == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (FOLDER / "lib").glob("*.js")}
    holders = ("Apache License", "MIT License", "Google Inc.", "Jason Miller", "MarkedJS", "Christopher Jeffrey", "John Gruber")
    assert [part for part in holders if part not in notice] == []


def test_no_folder_of_the_page_is_one_that_images_leave_out() -> None:
    assert not {"vendor", "dist", "build"} & {part for path in FOLDER.rglob("*") for part in path.relative_to(FOLDER).parts}


def test_the_page_asks_nobody_else_for_anything() -> None:
    html = (FOLDER / "index.html").read_text("utf-8")
    assert re.findall(r'(?:src|href)="(?!app/)', html) == []
    texts = {path.name: path.read_text("utf-8") for path in [*OWN, FOLDER / "style.css"]}
    assert [name for name, text in texts.items() if re.search(r"https?://|url\(|@import", text)] == []


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.name))
def test_every_module_makes_no_html_or_code_of_text_nor_keeps_anything(path: Path) -> None:
    text = path.read_text("utf-8")
    sinks = (
        "innerHTML|outerHTML|insertAdjacent|document\\.write|dangerously|eval\\(|new Function|srcdoc|DOMParser|createContextual"
    )
    kept = "localStorage|sessionStorage|indexedDB|document\\.cookie|caches\\.|serviceWorker"
    allowed = ["sessionStorage"] * 3 if path.name == "signin.js" else []  # a development server's token, which proves nothing
    assert re.findall(f"{sinks}|{kept}", text) == allowed
