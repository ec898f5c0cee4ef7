"""The React code of docs/front-ends.md, taken from the document, compiled, and rendered in jsdom
against a real server.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lasting_memory.testing.dev_server import DevServer, dev_token
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Slow, Text

pytestmark = pytest.mark.server
HERE, ORIGIN = Path(__file__).parent, "http://localhost:3000"
INSTALL = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
DOCUMENT = Path(__file__).parents[2] / "docs/front-ends.md"
SECONDS = 600
# fmt: off
TSC = [
    "node", "node_modules/typescript/bin/tsc", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext",
    "--noEmitOnError",
]
# fmt: on
SDK = "@langchain/langgraph-sdk/react"

# What surrounds a snippet in the front end, as it was read at the commit that the document names.
KEPT_THREAD = """
  const [threadId, setThreadId] = useState(() => sessionStorage.getItem("thread"));
  const onThreadId = (id: string) => { sessionStorage.setItem("thread", id); setThreadId(id); };
"""
LISTED = 'metadata: { graph_id: "agent" }, select: ["thread_id", "metadata", "updated_at"]'
AGENT_CHAT_UI = """
import { useMemo, useState } from "react";
import { Client, type Thread } from "@langchain/langgraph-sdk";
import { useStream } from "@langchain/langgraph-sdk/react";
let token = "";
const yourToken = () => token;
%(client)s
const getApiKey = (): string | null => sessionStorage.getItem("lg:chat:apiKey");
const authScheme: string | null = sessionStorage.getItem("authScheme");
export const listThreads = async (): Promise<Thread[]> => {
  const client = createClient(
    "%(url)s",
    getApiKey() ?? undefined,
    authScheme || undefined,
  );
  const threads = await client.threads.search({ %(listed)s, limit: 100 });
  return threads;
};
export const titlesOf = (threads: Thread[]): string[] => threads.map((t) => {
  %(item)s
  return itemText;
});
export function useConversation(given: string) {
  token = given;
  %(kept)s
  %(headers)s
  return useStream({ apiUrl: "%(url)s", assistantId: "agent", defaultHeaders, threadId, onThreadId, fetchStateHistory: true });
}
"""
DEEP_AGENTS_UI = """
import { useMemo, useState } from "react";
import { Client } from "@langchain/langgraph-sdk";
import { useStream } from "@langchain/langgraph-sdk/react";
export const listThreads = (apiKey: string) => new Client({ apiUrl: "%(url)s", %(second)s }).threads.search({ %(listed)s });
export function useConversation(apiKey: string) {
  %(kept)s
  const client = useMemo(() => new Client({
    apiUrl: "%(url)s", apiKey: null, defaultHeaders: { "Content-Type": "application/json", %(header)s },
  }), [apiKey]);
  return useStream({ assistantId: "agent", client, threadId, onThreadId, fetchStateHistory: true, reconnectOnMount: true });
}
"""
ASSISTANT_UI = """
import { createElement, useEffect, useMemo, useState } from "react";
import { AssistantRuntimeProvider } from "@assistant-ui/react";
import { useStreamRuntime } from "@assistant-ui/react-langchain";
import { Client } from "@langchain/langgraph-sdk";
export function useConversation(token: string) {
  const apiUrl = "%(url)s";
  %(headers)s
  const runtime = useStreamRuntime({
    assistantId: "agent", apiUrl, defaultHeaders,
    create: async () => ({ externalId: (await new Client({ apiUrl, defaultHeaders }).threads.create()).thread_id }),
  });
  const [, count] = useState(0);
  useEffect(() => runtime.thread.subscribe(() => count((before) => before + 1)), [runtime]);
  const { messages, isRunning } = runtime.thread.getState();
  const submit = ({ messages: [{ content }] }: { messages: { content: string }[] }) => runtime.thread.append(content);
  return { messages, isLoading: isRunning, submit, provider: createElement(AssistantRuntimeProvider, { key: "it", runtime }) };
}
"""


def snippets(section: str) -> list[str]:
    """The code of a section of the document."""
    (text,) = re.findall(
        rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)",
        DOCUMENT.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    return re.findall(r"^```tsx?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def replaced(text: str, old: str, new: str) -> str:
    assert old in text, old
    return text.replace(old, new)


def modules(url: str) -> dict[str, str]:
    """A module with `useConversation` for each front end, by its name."""
    (headers,) = snippets("For all of them")
    client, item, _passthrough = snippets("agent-chat-ui")
    header, second = snippets("deep-agents-ui")
    (hook,) = snippets("useStream of `@langchain/react` and `@langchain/langgraph-sdk/react`")
    hook = replaced(hook, "https://your-deployment", url)
    of_the_sdk = replaced(
        replaced(hook, '"@langchain/react"', f'"{SDK}"'), "// reconnectOnMount", "reconnectOnMount"
    )
    surrounding = {"url": url, "kept": KEPT_THREAD, "listed": LISTED, "headers": headers}
    return {
        "react": hook,
        "sdk": of_the_sdk,
        "sdk_2": replaced(of_the_sdk, SDK, "langgraph-sdk-2/react"),
        "agent_chat_ui": AGENT_CHAT_UI % {**surrounding, "client": client, "item": item},
        "deep_agents_ui": DEEP_AGENTS_UI % {**surrounding, "header": header, "second": second},
        "assistant_ui": ASSISTANT_UI % surrounding,
    }


def needs_npm() -> None:
    """Skip where node or npm is not there; with REQUIRE_BROWSER set that is an error, so that CI
    cannot skip by mistake.
    """
    if shutil.which("node") and shutil.which("npm"):
        return
    if os.environ.get("REQUIRE_BROWSER"):
        pytest.fail("REQUIRE_BROWSER is set and node or npm is not installed; install Node.js.")
    pytest.skip("node or npm is not installed")


@pytest.fixture(scope="module")
def compiled(shared_server: DevServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages, the script, and the modules as JavaScript, in which the compiler
    finds nothing wrong.
    """
    needs_npm()
    folder = tmp_path_factory.mktemp("javascript")
    for file in (HERE / "package.json", *HERE.glob("*.mjs")):
        shutil.copy(file, folder)
    subprocess.run(INSTALL, cwd=folder, check=True, timeout=900)
    sources = {folder / f"{name}.ts": text for name, text in modules(shared_server.url).items()}
    for path, text in sources.items():
        path.write_text(text)
    command = [*TSC, *(path.name for path in sources)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout
    return folder


def test_the_change_for_agent_chat_ui_compiles_with_its_own_call_and_type(tmp_path: Path) -> None:
    needs_npm()
    wanted = {
        "@langchain/langgraph-sdk",
        "@langchain/core",
        "@types/react",
        "react",
        "react-dom",
        "typescript",
    }
    package = json.loads((HERE / "package.json").read_text())
    package["dependencies"] = {
        name: version for name, version in package["dependencies"].items() if name in wanted
    }
    (tmp_path / "package.json").write_text(json.dumps(package))
    subprocess.run(INSTALL, cwd=tmp_path, check=True, timeout=900)
    code = modules("http://localhost")["agent_chat_ui"]
    for name, text in (
        ("it", code),
        ("wrong", code.replace("t.metadata?.title", "t.extracted.title")),
    ):
        (tmp_path / f"{name}.ts").write_text(text)
        done = subprocess.run(
            [*TSC, f"{name}.ts"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert (done.returncode == 0) == (name == "it"), done.stdout


@pytest.mark.proof  # npm installs 170 megabytes
@pytest.mark.parametrize(
    "name", ["react", "sdk", "sdk_2", "agent_chat_ui", "deep_agents_ui", "assistant_ui"]
)
async def test_a_page_has_one_conversation_which_a_renewed_token_and_a_reload_keep(
    compiled: Path, server: DevServer, model: ScriptedAnthropic, alice: str, name: str
) -> None:
    model.script("my name", [Text("Hello, Ada.")])
    model.script("I live", [Text("In Oslo, then.")])
    model.script("And where", Slow(3, [Text("Still in Oslo.")]))
    said = [("my name is Ada", "Hello, Ada."), ("I live in Oslo", "In Oslo, then.")]
    late = ("And where do I live?", "Still in Oslo.")
    reloads = name != "assistant_ui"  # which begins anew without a thread list of one's own
    joins = name not in {"assistant_ui", "agent_chat_ui"}
    turns = [{"text": text, "answer": answer} for text, answer in (*said, late)]
    token = dev_token("acme", alice)
    given = {"turns": turns[:-1], "reload": reloads, "late": turns[-1] if joins else None}
    script = [
        "node",
        "conversation.mjs",
        f"./{name}.js",
        json.dumps({**given, "tokens": [token, f"{token}?renewed=yes"]}),
    ]
    done = await asyncio.to_thread(
        subprocess.run,
        script,
        cwd=compiled,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    seen = json.loads(done.stdout.splitlines()[-1])
    assert "ok" in seen, seen

    shown = [text for turn in said for text in turn]
    assert seen["ok"]["answered"] == shown
    assert seen["ok"].get("opened") == (shown if reloads else None)
    assert seen["ok"].get("joined") == ([*shown, *late] if joins else None)
    if "listed" in seen["ok"]:
        assert [thread["metadata"]["title"] for thread in seen["ok"]["listed"]] == [
            "my name is Ada"
        ]
    threads = await server.as_user(alice).threads.search()
    assert len(threads) == 1


async def test_scripts_may_read_by_which_path_a_stream_is_joined_again(
    server: DevServer, alice: str
) -> None:
    person = server.person(
        alice, headers={"Origin": ORIGIN, "Authorization": f"Bearer {dev_token('acme', alice)}"}
    )
    body = {
        "assistant_id": "agent",
        "input": {"messages": "hello"},
        "on_disconnect": "continue",
        "stream_resumable": True,
    }
    answer = await person.ask("POST", f"/threads/{await person.thread()}/runs/stream", body)
    exposed = {
        name.strip() for name in answer.headers["access-control-expose-headers"].lower().split(",")
    }
    assert {"location", "content-location", "x-pagination-total"} <= exposed
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    joined = await person.raw.get(answer.headers["location"], headers={"last-event-id": "-1"})
    assert "event: values" in joined.text
