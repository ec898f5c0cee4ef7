"""HTTP servers on loopback, in a thread: what the scripted providers of tests stand on, and the one
of LangSmith.
"""

import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class LoopbackServer(ThreadingHTTPServer):
    """Context manager: serves with this handler at `url` until it is left."""

    daemon_threads = True
    request_queue_size = 128  # the default of 5 refuses bursts of concurrent requests

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Who hangs up, as a cancelled run does on its model call, is no error of the server.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class QuietHandler(BaseHTTPRequestHandler):
    """Reads bodies, sends answers, and prints nothing."""

    def body(self) -> bytes:
        """The body of the request."""
        length = self.headers.get("Content-Length") or 0
        return self.rfile.read(int(length))

    def send(self, status: int, data: bytes, **headers: str) -> None:
        """An answer in JSON, with these headers, in whose names `_` stands for `-`."""
        length = str(len(data))
        self.head(status, "application/json", **{"Content-Length": length, **headers})
        self.wfile.write(data)

    def head(self, status: int, content_type: str, **headers: str) -> None:
        """Send the status and the headers of an answer."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            header = name.replace("_", "-")
            self.send_header(header, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


Posted = dict[str, Any]
_NOW = "2026-01-01T00:00:00+00:00"


class ScriptedLangSmith(LoopbackServer):
    """The part of LangSmith's API that its pytest plugin needs to report an experiment. It keeps
    every request.

    `posted` has the JSON bodies that were posted, by their path's first part; `traces` the others.
    """

    def __init__(self) -> None:
        self.posted = dict[str, list[Posted]]()
        self.traces = list[bytes]()
        super().__init__(_LangSmith)


class _LangSmith(QuietHandler):
    server: ScriptedLangSmith

    @property
    def _kind(self) -> str:
        """The first part of the request's path."""
        path, _, _ = self.path.strip("/").partition("?")
        kind, _, _ = path.partition("/")
        return kind

    def do_GET(self) -> None:
        kind = self._kind
        posted = self.server.posted.get(kind, [])
        status = 404 if kind == "examples" else 200
        answer: Any = {}
        if kind == "datasets":
            answer = posted
        elif posted:
            answer = posted[0]
        data = json.dumps(answer)
        self.send(status, data.encode())

    def do_POST(self) -> None:
        body = self.body()
        content_type = self.headers.get("Content-Type") or ""
        if not content_type.startswith("application/json"):
            self.server.traces.append(body)
            self.send(202, b"{}")
            return
        entry = {"id": str(uuid.uuid4())}
        entry |= json.loads(body)
        entry |= {
            "created_at": _NOW,
            "modified_at": _NOW,
            "start_time": _NOW,
            "tenant_id": str(uuid.uuid4()),
        }
        posted = self.server.posted.setdefault(self._kind, [])
        posted.append(entry)
        data = json.dumps(entry)
        self.send(200, data.encode())

    def do_PATCH(self) -> None:
        self.body()
        self.do_GET()
