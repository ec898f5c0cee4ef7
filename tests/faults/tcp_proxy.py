"""A TCP proxy in front of a Unix socket that can swallow what passes, as a network does that lost a route."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Self


class TcpProxy:
    """Listens on 127.0.0.1 and forwards to a Unix socket. While `swallows`, nothing arrives, and nothing is refused.

    A connection that lost bytes stays silent for ever.
    """

    def __init__(self, target: Path) -> None:
        self.target, self.swallows = target, False
        self._open = set[socket.socket]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for end in self._open.copy():
            end.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(str(self.target))
        except OSError:
            client.close()
            server.close()
            return
        self._open |= {client, server}
        lost = threading.Event()
        threading.Thread(target=self._pump, args=(server, client, lost), daemon=True).start()
        self._pump(client, server, lost)

    def _pump(self, source: socket.socket, sink: socket.socket, lost: threading.Event) -> None:
        try:
            while data := source.recv(65_536):
                if self.swallows:
                    lost.set()
                if not lost.is_set():
                    sink.sendall(data)
        except OSError:
            pass
        if lost.is_set() and self.swallows:
            return  # nobody is told that the other side is gone
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # the other direction's thread ends, too
            end.close()
            self._open.discard(end)
