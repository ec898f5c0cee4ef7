"""An HTTP server on loopback, in a thread: what the scripted providers of tests stand on."""

import sys
import threading
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
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
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
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, status: int, data: bytes, **headers: str) -> None:
        """An answer in JSON, with these headers, in whose names `_` stands for `-`."""
        self.head(status, "application/json", **{"Content-Length": str(len(data)), **headers})
        self.wfile.write(data)

    def head(self, status: int, content_type: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass
