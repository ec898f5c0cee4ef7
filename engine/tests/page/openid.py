"""A scripted OpenID provider: people sign in there on a page of its own, and its tokens are signed
with a key of its own.
"""

import base64
import hashlib
import json
import time
import uuid
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from lasting_memory.testing.loopback import LoopbackServer, QuietHandler

CLIENT, AUDIENCE = "page", "agent"
PAGE = """<!doctype html><title>Provider</title>
<p>Who are you?</p><a href="/approve?{query}">Sign in at the provider</a> <a href="/refuse?{query}">Refuse</a>"""


class OpenIDProvider(LoopbackServer):
    """`person` is who signs in there next, and `is_known` says whether the provider's own session
    knows them already.

    `asked` has the parameters of what browsers and the page sent, by the path's name. What a test
    may change is here, too.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.start_over()

    def start_over(self) -> None:
        self.person = "nobody"
        self.is_known = False
        self.asked: dict[str, list[dict[str, str]]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: set[str] = set()
        self.seconds = 300
        self.has_refresh_tokens = True
        self.has_opaque_tokens = False
        self.is_down = False
        self.answers: dict[str, Any] = {}  # claims of the ID token, in place of the right ones
        self.claims: dict[str, Any] = {}  # further ones of access tokens

    @property
    def environ(self) -> dict[str, str]:
        """The settings by which the server believes this provider, and the page signs in there."""
        keys = {
            "AUTH_JWKS_URL": f"{self.url}/keys",
            "AUTH_ISSUER": self.url,
            "AUTH_AUDIENCE": f"{AUDIENCE},{CLIENT}",
        }
        return {**keys, "AUTH_CLIENT_ID": CLIENT, "AUTH_SCOPE": "openid offline_access"}

    def tokens(self, nonce: str | None) -> dict[str, Any]:
        """What the token endpoint answers."""
        claims = {
            "iss": self.url,
            "sub": self.person,
            "iat": int(time.time()),
            "exp": int(time.time()) + self.seconds,
        }
        access = {
            **claims,
            "aud": AUDIENCE,
            "org_id": "acme",
            "jti": str(uuid.uuid4()),
            **self.claims,
        }
        proof = {
            **claims,
            "aud": CLIENT,
            "org_id": "acme",
            **({"nonce": nonce} if nonce else {}),
            **self.answers,
        }
        bearer = "opaque" if self.has_opaque_tokens else self._signed(access)
        answer = {
            "access_token": bearer,
            "id_token": self._signed(proof),
            "token_type": "Bearer",
            "expires_in": self.seconds,
        }
        if self.has_refresh_tokens:
            refresh_token = str(uuid.uuid4())
            self.refresh_tokens.add(refresh_token)
            answer["refresh_token"] = refresh_token
        return answer

    def _signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, "ES256", headers={"kid": "one"})

    @property
    def keys(self) -> dict[str, Any]:
        key = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**key, "kid": "one", "use": "sig", "alg": "ES256"}]}

    @property
    def configuration(self) -> dict[str, Any]:
        endpoints = {
            "authorization": "authorize",
            "token": "token",
            "revocation": "revoke",
            "end_session": "leave",
        }
        known = {"issuer": self.url, "id_token_signing_alg_values_supported": ["ES256"]}
        return {
            **known,
            **{f"{name}_endpoint": f"{self.url}/{path}" for name, path in endpoints.items()},
        }


class _Handler(QuietHandler):
    server: OpenIDProvider

    @property
    def _name(self) -> str:
        return urlsplit(self.path).path.rpartition("/")[2]

    def _asked(self, text: str) -> dict[str, str]:
        asked = {name: values[0] for name, values in parse_qs(text).items()}
        self.server.asked.setdefault(self._name, []).append(asked)
        return asked

    def _json(self, status: int, answer: Any) -> None:
        self.send(status, json.dumps(answer).encode(), Access_Control_Allow_Origin="*")

    def _redirect(self, address: str, **parameters: str | None) -> None:
        query = urlencode({name: value for name, value in parameters.items() if value is not None})
        self.head(
            302,
            "text/plain",
            Location=f"{address}?{query}" if query else address,
            Content_Length="0",
        )

    def do_GET(self) -> None:  # noqa: N802  # the library's name
        query = urlsplit(self.path).query
        if self.server.is_down and self._name != "keys":
            return
        if self._name == "openid-configuration":
            self._json(200, self.server.configuration)
        elif self._name == "keys":
            self._json(200, self.server.keys)
        elif self._name == "leave":
            asked = self._asked(query)
            self.server.is_known = False
            self._redirect(asked["post_logout_redirect_uri"])
        elif self._name in ("authorize", "approve", "refuse"):
            self._sign_in(self._asked(query), query)
        else:
            self._json(404, {})

    def _sign_in(self, asked: dict[str, str], query: str) -> None:
        """The authorization endpoint, and what people click on its page."""
        back, state = asked["redirect_uri"], asked.get("state")
        is_asked_again = asked.get("prompt") == "login"
        if self._name == "refuse":
            self._redirect(
                back, error="access_denied", error_description="<b>They said no.</b>", state=state
            )
        elif self._name == "approve" or (self.server.is_known and not is_asked_again):
            self.server.is_known = True
            code = str(uuid.uuid4())
            self.server.codes[code] = asked
            self._redirect(back, code=code, state=state)
        elif asked.get("prompt") == "none":
            self._redirect(back, error="login_required", state=state)
        else:
            page = PAGE.format(query=query.replace("&", "&amp;")).encode()
            self.head(200, "text/html", Content_Length=str(len(page)))
            self.wfile.write(page)

    def do_POST(self) -> None:  # noqa: N802  # as above
        asked = self._asked(self.body().decode())
        if self.server.is_down:
            return
        if self._name == "revoke":
            self.server.refresh_tokens.discard(asked["token"])
            self._json(200, {})
        elif asked["grant_type"] == "refresh_token":
            self._renew(asked)
        else:
            self._exchange(asked)

    def _exchange(self, asked: dict[str, str]) -> None:
        """A code for tokens: once, and for whoever began (RFC 7636)."""
        begun = self.server.codes.pop(asked["code"], {})
        challenge = (
            base64.urlsafe_b64encode(hashlib.sha256(asked["code_verifier"].encode()).digest())
            .decode()
            .rstrip("=")
        )
        is_same = (
            challenge == begun.get("code_challenge")
            and begun.get("code_challenge_method") == "S256"
        )
        if (
            is_same
            and asked["redirect_uri"] == begun["redirect_uri"]
            and asked["client_id"] == begun["client_id"] == CLIENT
        ):
            self._json(200, self.server.tokens(begun.get("nonce")))
        else:
            self._json(400, {"error": "invalid_grant"})

    def _renew(self, asked: dict[str, str]) -> None:
        if asked["refresh_token"] in self.server.refresh_tokens:
            self.server.refresh_tokens.discard(asked["refresh_token"])
            self._json(200, self.server.tokens(None))
        else:
            self._json(400, {"error": "invalid_grant"})
