"""The part of LangSmith's API that its pytest plugin needs to report an experiment, on loopback. It keeps every request."""

import json
import uuid
from typing import Any

from lasting_memory.testing.loopback import LoopbackServer, QuietHandler

_NOW = "2026-01-01T00:00:00+00:00"


class ScriptedLangSmith(LoopbackServer):
    """Context manager. `posted` has the JSON bodies that were posted, by their path's first part; `traces` the others."""

    def __init__(self) -> None:
        self.posted: dict[str, list[dict[str, Any]]] = {}
        self.traces: list[bytes] = []
        super().__init__(_Handler)


class _Handler(QuietHandler):
    server: ScriptedLangSmith

    @property
    def _kind(self) -> str:
        return self.path.strip("/").partition("?")[0].partition("/")[0]

    def do_GET(self) -> None:
        known = self.server.posted.get(self._kind, [])
        if self._kind == "datasets":
            self.send(200, json.dumps(known).encode())
        else:
            self.send(404 if self._kind == "examples" else 200, json.dumps(known[0] if known else {}).encode())

    def do_POST(self) -> None:
        body = self.body()
        if not (self.headers.get("Content-Type") or "").startswith("application/json"):
            self.server.traces.append(body)
            self.send(202, b"{}")
            return
        stamps = {"created_at": _NOW, "modified_at": _NOW, "start_time": _NOW, "tenant_id": str(uuid.uuid4())}
        made = {"id": str(uuid.uuid4()), **json.loads(body), **stamps}
        self.server.posted.setdefault(self._kind, []).append(made)
        self.send(200, json.dumps(made).encode())

    def do_PATCH(self) -> None:
        self.body()
        self.do_GET()
