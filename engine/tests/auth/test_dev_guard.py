"""What the development server refuses before any of its routes: other names than this machine's,
other websites, wiping it. First where this machine alone reaches it, then where others do.
"""

import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from lasting_memory.http.dev_guard import DevGuard
from lasting_memory.settings import load_settings, project_config
from lasting_memory.testing.deployed import PROJECT, deployed
from lasting_memory.testing.dev_server import DevServer, dev_token
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic

STUDIO = "https://smith.langchain.com"
LOCAL = "http://127.0.0.1:2024"
STUDIO_ORIGINS = (STUDIO, "https://eu.smith.langchain.com")
AS_STUDIO = {"x-auth-scheme": "langsmith"}
FOREIGN_HOSTS = (
    *(
        "rebound.example",
        "rebound.example:2024",
        "127.0.0.1.rebound.example:2024",
        "localhost@rebound.example",
        "",
    ),
    *(
        "192.168.1.5:2024",
        "0.0.0.0:2024",
        "[2001:db8::1]:2024",
        "127.0.0.1:2024, rebound.example",
        "127.0.0.1:port",
    ),
)
OWN_HOSTS = ("127.0.0.1:2024", "localhost", "LOCALHOST:2024", "127.1.2.3:80", "[::1]:2024", "[::1]")
FOREIGN_ORIGINS = (
    *(
        "https://attacker.example",
        "null",
        "*",
        "",
        "http://192.168.1.5:8000",
        "http://smith.langchain.com",
    ),
    *("https://smith.langchain.com.attacker.example", "https://attackersmith.langchain.com"),
)
WIPING = (
    *(
        "/internal/truncate",
        "/internal/truncate/",
        "/internal/truncate%0A",
        "/internal/truncate?x=1",
        "/%69nternal/truncate",
    ),
    *(
        "//internal/truncate",
        "/./internal//truncate",
        "/%2e/internal/truncate",
        "/internal%2Ftruncate",
        "/Internal/Truncate",
    ),
    *(
        "/x/../internal/truncate",
        "/%2569nternal/truncate",
        "/%20internal/truncate",
        "/internal%00/truncate",
        "/internal",
    ),
)


def raw(
    port: int, method: str, target: str, *headers: tuple[str, str], version: str = "1.1"
) -> int:
    """The status of a request sent as it is written here, with no header but these and what a body
    needs.
    """
    lines = [f"{method} {target} HTTP/{version}", *(f"{name}: {value}" for name, value in headers)]
    body = "{}" if method == "POST" else ""
    lines += [
        "Content-Type: text/plain",
        f"Content-Length: {len(body)}",
        "Connection: close",
        "",
        body,
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall("\r\n".join(lines).encode("latin-1"))
        answer = connection.makefile("rb").read()
    return int(answer.split(b" ", 2)[1])


def own(server: DevServer) -> tuple[str, str]:
    return ("Host", f"127.0.0.1:{server.port}")


@pytest.mark.server
async def test_the_development_server_cannot_be_wiped_or_its_debug_routes_read(
    server: DevServer, alice: str
) -> None:
    person = server.person(alice)
    await person.turn(thread := await person.thread(), "hello")
    for target in WIPING:
        for headers in ((), tuple(AS_STUDIO.items()), (("Origin", STUDIO),)):
            assert raw(server.port, "POST", target, own(server), *headers) in (401, 403, 404), (
                target
            )
    assert raw(server.port, "GET", f"/internal/debug/thread/{thread}", own(server)) == 403
    assert (await server.as_user(alice).threads.get(thread))["values"], (
        "the conversation is still there"
    )


@pytest.mark.server
def test_requests_of_other_hosts_and_websites_are_refused_before_the_sign_in(
    server: DevServer,
) -> None:
    token, studio = (
        ("Authorization", f"Bearer {dev_token('acme', 'alice')}"),
        tuple(AS_STUDIO.items()),
    )
    rebound, attacker = ("Host", "rebound.example"), ("Origin", "https://attacker.example")
    for method, target in (
        ("POST", "/threads/search"),
        ("GET", "/ok"),
        ("GET", "/deploy"),
        ("OPTIONS", "/threads"),
    ):
        for headers in ((), studio, (token,)):
            assert raw(server.port, method, target, rebound, *headers) == 403, (method, target)
            assert raw(server.port, method, target, own(server), attacker, *headers) == 403, (
                method,
                target,
            )
    assert raw(server.port, "GET", "/ok", version="1.0") == 403
    assert raw(server.port, "GET", "/ok", own(server), version="1.0") == 200
    # The server's own parser may be the one that refuses it.
    assert raw(server.port, "GET", "/ok", own(server), rebound) in (400, 403)


@pytest.mark.server
async def test_studio_people_and_this_machine_s_commands_go_on_as_before(
    server: DevServer, alice: str
) -> None:
    person = server.person(alice)
    await person.turn(thread := await person.thread(), "hello")
    user = {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=300) as http:
        for path in ("/ok", "/docs", "/openapi.json", "/metrics"):
            assert (await http.get(path)).status_code == 200, path
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-auth-scheme,content-type",
        }
        callers = [
            AS_STUDIO,
            user,
            {**user, "Origin": server.url},
            {**user, "Origin": f"http://localhost:{server.port}"},
        ]
        for origin in STUDIO_ORIGINS:
            preflight = await http.options("/threads/search", headers={"Origin": origin, **asked})
            assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (
                200,
                origin,
            )
            callers.append({"Origin": origin, **AS_STUDIO})
        for headers in callers:
            answer = await http.post("/threads/search", json={"ids": [thread]}, headers=headers)
            assert [one["thread_id"] for one in answer.json()] == [thread], headers
        assert thread in (await http.get("/memory/export", headers=user)).text, (
            "which calls the server from inside"
        )


@pytest.mark.server
@pytest.mark.proof
def test_a_development_server_that_others_reach_refuses_studio_wipes_and_deploys(
    shared_model: ScriptedAnthropic, tmp_path: Path
) -> None:
    options = ("--host", "0.0.0.0")  # noqa: S104  # that is the test
    with DevServer(tmp_path, env=shared_model.env, options=options) as server:
        named = ("Host", f"192.168.1.5:{server.port}")
        for sender in ((), (("Origin", STUDIO),)):
            assert raw(server.port, "GET", "/ok", named, *sender) == 200
            assert (
                raw(server.port, "POST", "/threads/search", named, *sender, *AS_STUDIO.items())
                == 403
            )
            assert raw(server.port, "POST", "/internal/truncate", named, *sender) == 403
            assert raw(server.port, "POST", "/deploy", named, *sender) == 403
        assert raw(server.port, "GET", "/ok", ("Host", "rebound.example")) == 403
        person = ("Authorization", "Bearer dev:acme:alice")
        assert raw(server.port, "POST", "/threads/search", own(server), person) == 401


def guarded(root_path: str = "", **environ: str) -> httpx.AsyncClient:
    """A client of the guard around an application that answers 200 to everything."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    settings = load_settings({"LANGSMITH_LANGGRAPH_API_VARIANT": "local_dev", **environ})
    transport = httpx.ASGITransport(DevGuard(answer, settings), root_path=root_path)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


WORDS = "some-words.trycloudflare.com"
TUNNEL, ELSEWHERE = f"https://{WORDS}", "http://192.168.1.5:2024"
SHIPPED = project_config(PROJECT)["http"]
CORS = {
    "cors": {
        "allow_origins": ["https://app.example"],
        "allow_origin_regex": r"https://.*\.app\.example",
    }
}


@pytest.mark.parametrize(
    ("address", "host", "status"),
    [
        *(
            (LOCAL, host, 403) for host in (*FOREIGN_HOSTS, WORDS)
        ),  # also of a tunnel that came up too late to be known
        *((LOCAL, host, 200) for host in OWN_HOSTS),
        # A server that others reach answers to IP addresses and to the name it was started with.
        *((TUNNEL, WORDS, 200), (TUNNEL, "other-words.trycloudflare.com", 403)),
        *(
            (ELSEWHERE, "192.168.1.5:2024", 200),
            (ELSEWHERE, "workstation.lan:2024", 403),
            ("", "rebound.example", 403),
        ),
    ],
)
async def test_the_development_server_answers_to_its_own_host_names(
    address: str, host: str, status: int
) -> None:
    async with guarded(LANGGRAPH_API_URL=address) as http:
        assert (await http.post("/threads", headers={"host": host})).status_code == status


@pytest.mark.parametrize(
    ("config", "host", "origins", "status"),
    [
        (SHIPPED, "127.0.0.1", FOREIGN_ORIGINS, 403),
        (SHIPPED, "127.0.0.1", (*STUDIO_ORIGINS, "http://localhost:3000", "http://127.0.0.1"), 200),
        (
            CORS,
            "127.0.0.1",
            ("https://app.example", "https://a.app.example", "http://127.0.0.1"),
            200,
        ),
        (CORS, "127.0.0.1", (STUDIO, "https://a.app.example.attacker.example"), 403),
        ({"cors": {"allow_origins": ["*"]}}, "127.0.0.1", (STUDIO,), 403),
        (SHIPPED, WORDS, (TUNNEL,), 200),
        (SHIPPED, WORDS, ("https://other-words.trycloudflare.com",), 403),
    ],
)
async def test_own_pages_and_origins_of_cors_may_call_the_development_server(
    config: dict[str, Any], host: str, origins: tuple[str, ...], status: int
) -> None:
    async with guarded(
        LANGGRAPH_API_URL=LOCAL if host == "127.0.0.1" else TUNNEL,
        LANGGRAPH_HTTP=json.dumps(config),
    ) as http:
        for origin in origins:
            assert (
                await http.post("/threads", headers={"host": host, "origin": origin})
            ).status_code == status, origin
        assert (
            await http.post("/threads", headers=[("host", host), *[("origin", host)] * 2])
        ).status_code == 403


async def test_studio_comes_from_elsewhere_only_where_anybody_may() -> None:
    for anybody, status in (("anywhere", 200), ("", 403)):
        async with guarded(LANGGRAPH_API_URL=ELSEWHERE, DEV_TOKENS=anybody) as http:
            assert (
                await http.post("/threads", headers={"host": "192.168.1.5:2024", **AS_STUDIO})
            ).status_code == status


async def test_closed_routes_stay_closed_behind_a_prefix_and_to_in_process_calls() -> None:
    """An in-process call has no host of this machine, and is let through to the rest."""
    for root_path in ("/noauth", "/noauth/prefix", "/noauthx", "/prefix", ""):
        prefix, inside = (
            "" if root_path == "/noauth" else root_path,
            root_path in ("/noauth", "/noauth/prefix"),
        )
        async with guarded(root_path, LANGGRAPH_API_URL=LOCAL) as http:
            for path in ("/internal/truncate", "/Internal/x", "/deploy", "/Deploy", "/deploy%0A"):
                assert (await http.post(prefix + path)).status_code == 403, (root_path, path)
            assert (await http.post(prefix + "/threads")).status_code == 200
            answer = await http.post("/threads", headers={"host": "api", **AS_STUDIO})
            assert answer.status_code == (200 if inside else 403), root_path


def test_only_the_development_server_is_guarded() -> None:
    from lasting_memory.http.app import build_http  # noqa: PLC0415

    local, served = (
        repr(build_http(deployed(local_dev=local_dev)).user_middleware)
        for local_dev in (True, False)
    )
    assert ("DevGuard" in local, "DevGuard" in served) == (True, False)
