"""An identity provider of the tests: its keys, the server that gives them out, and its tokens."""

import json
import threading
from contextlib import suppress
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from lasting_memory.testing.loopback import LoopbackServer, QuietHandler
from tests.auth.signing import signed

RSA_KEYS = {
    kid: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for kid in ("one", "two", "never served")
}
EC_KEY = ec.generate_private_key(ec.SECP256R1())
DRIP_SECONDS = 0.05


def jwk(kid: Any = "one", **changes: Any) -> dict[str, Any]:
    """The RSA key "one" as a JSON web key, under this id."""
    key = json.loads(
        jwt.algorithms.RSAAlgorithm.to_jwk(
            RSA_KEYS[kid if kid in list(RSA_KEYS) else "one"].public_key()
        )
    )
    return {**key, "kid": kid, "use": "sig", **changes}


class KeyServer(LoopbackServer):
    """An identity provider's key set: `answer`, or None for a hung up connection. While it `drips`,
    it does not end.
    """

    def __init__(self) -> None:
        super().__init__(_KeyHandler)
        self.url += "/jwks.json"
        self.answer: bytes | None = None
        self.status, self.headers = 200, dict[str, str]()
        self.drips = False
        self.asked = 0

    def __exit__(self, *_: object) -> None:
        self.drips = False
        super().__exit__()

    def serve(self, *kids: str) -> None:
        curve = {
            **json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key())),
            "kid": "curve",
            "use": "sig",
        }
        self.answer = json.dumps({"keys": [*map(jwk, kids), curve]}).encode()


class _KeyHandler(QuietHandler):
    server: KeyServer

    def do_GET(self) -> None:  # noqa: N802  # the library's name
        self.server.asked += 1
        if self.server.answer is None:
            return
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        pause = threading.Event()
        with suppress(OSError):  # the client may go
            while self.server.drips:
                self.wfile.write(b" ")
                pause.wait(DRIP_SECONDS)
            self.wfile.write(self.server.answer)


def rsa_signed(kid: str, key: str | None = None, algorithm: str = "RS256", **changes: Any) -> str:
    return signed(RSA_KEYS[key or kid], algorithm, kid, **changes)
