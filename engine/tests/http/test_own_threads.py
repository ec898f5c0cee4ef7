"""The library computes in threads of its own: those of the event loop also wait for name servers,
for anybody.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.http.conftest import NOTES, put


async def test_memory_answers_while_all_threads_of_the_event_loop_wait(
    api: httpx.AsyncClient,
) -> None:
    over, loop = threading.Event(), asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as threads:
        loop.set_default_executor(threads)
        waiting = loop.run_in_executor(None, over.wait)
        try:
            async with asyncio.timeout(300):
                await put(api, "- metric units\n")
                await put(api, "- metric units\n- green tea\n")
                for path in ("/memory/facts", "/memory/changes", "/memory/trash"):
                    assert (await api.get(path)).status_code == 200, path
                assert (
                    len((await api.get("/memory/history", params=NOTES)).json()["revisions"]) == 2
                )
        finally:
            over.set()
            await waiting
