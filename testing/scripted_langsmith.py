"""The part of LangSmith's API that its pytest plugin needs to report an experiment, on loopback. It keeps every request."""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_NOW = "2026-01-01T00:00:00+00:00"


class ScriptedLangSmith:
    """Context manager. `posted` has the JSON bodies that were posted, by their path's first part; `traces` the others."""

    def __init__(self) -> None:
        self.posted: dict[str, list[dict[str, Any]]] = {}
        self.traces: list[bytes] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.posted, self._server.traces = self.posted, self.traces
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    posted: dict[str, list[dict[str, Any]]]
    traces: list[bytes]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        kind = self.path.strip("/").partition("?")[0].partition("/")[0]
        known = self.server.posted.get(kind, [])
        if kind == "datasets":
            self._send(200, known)
        else:
            self._send(404 if kind == "examples" else 200, known[0] if known else {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.path.strip("/").partition("?")[0].partition("/")[0]
        if not (self.headers.get("Content-Type") or "").startswith("application/json"):
            self.server.traces.append(body)
            self._send(202, {})
            return
        stamps = {"created_at": _NOW, "modified_at": _NOW, "start_time": _NOW, "tenant_id": str(uuid.uuid4())}
        made = {"id": str(uuid.uuid4()), **json.loads(body), **stamps}
        self.server.posted.setdefault(kind, []).append(made)
        self._send(200, made)

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.do_GET()

    def _send(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Keep the test output quiet."""
