"""A small OpenID provider on loopback: discovery, authorization code with PKCE, tokens and keys, over HTTP.

It signs in whoever a test names, without asking, and can be made to lie in each way that an attacker might.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

CLIENT_ID = "console"
CLIENT_SECRET = "the-secret-of-the-client"

Claims = dict[str, Any]


def _new_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"}, auto_kid=False)


@cache
def _first_key() -> RSAKey:
    """The key of every provider until it rotates; made once, for it takes as long as many tests."""
    return _new_key()


@dataclass
class Code:
    """What a code stands for, once."""

    claims: Claims
    challenge: str
    redirect_uri: str


@dataclass
class IdentityProvider:
    """The provider; `person` are the claims of whoever is signed in next, and `token` makes their ID token."""

    issuer: str = ""
    person: Claims = field(default_factory=dict)
    now: Callable[[], float] = time.time
    keys: list[RSAKey | ECKey] = field(default_factory=list)
    token: Callable[[Claims], str] | None = None
    discovery: Claims = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    codes: dict[str, Code] = field(default_factory=dict)
    names_itself: str | None = None
    user_info: Claims | None = None
    access_tokens: set[str] = field(default_factory=set)
    ended: list[Mapping[str, str]] = field(default_factory=list)

    def rotate(self) -> None:
        """Replaces its keys by a new one."""
        self.keys = [_new_key()]

    def claims(self, nonce: str, **others: Any) -> Claims:
        """The claims of a right ID token, with others over them."""
        now = int(self.now())
        right = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        return {**right, **self.person, **others}

    def signed(self, claims: Claims, algorithm: str = "RS256", key: RSAKey | ECKey | OctKey | None = None) -> str:
        """An ID token with these claims."""
        used = key or self.keys[0]
        return jwt.encode({"alg": algorithm, "kid": self.keys[0].kid}, claims, used, algorithms=[algorithm])

    def authorize(self, query: Mapping[str, str]) -> str:
        """Where the browser is sent back to, with a code."""
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = Code(self.claims(query["nonce"]), query["code_challenge"], query["redirect_uri"])
        back = {"code": code, "state": query["state"]}
        if self.names_itself is not None:
            back["iss"] = self.names_itself
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def exchange(self, form: Mapping[str, str], authorization: str) -> tuple[int, Claims]:
        """The status and answer of the token endpoint."""
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if tuple(map(unquote, pair.split(":"))) != (CLIENT_ID, CLIENT_SECRET):
            return 401, {"error": "invalid_client"}
        code = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if code is None or (code.challenge, code.redirect_uri) != (challenge, form["redirect_uri"]):
            return 400, {"error": "invalid_grant"}
        token = self.token(code.claims) if self.token else self.signed(code.claims)
        access_token = secrets.token_urlsafe(16)
        self.access_tokens.add(access_token)
        return 200, {"access_token": access_token, "token_type": "Bearer", "id_token": token}

    def told(self, authorization: str) -> tuple[int, Claims]:
        """The status and answer of the UserInfo endpoint."""
        if authorization.removeprefix("Bearer ") not in self.access_tokens:
            return 401, {"error": "invalid_token"}
        return 200, {"sub": self.person["sub"]} if self.user_info is None else self.user_info

    def end_session(self, query: Mapping[str, str]) -> str:
        """Where the browser is sent to after a sign-out here."""
        assert query["client_id"] == CLIENT_ID
        self.ended.append(query)
        return query["post_logout_redirect_uri"]

    def describe(self) -> Claims:
        """The discovery document."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "end_session_endpoint": f"{self.issuer}/leave",
            "authorization_response_iss_parameter_supported": self.names_itself is not None,
            **self.discovery,
        }


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """Serves a provider on a free port."""
    provider = IdentityProvider()
    provider.keys = [_first_key()]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            provider.asked.append(parts.path)
            if parts.path == "/.well-known/openid-configuration":
                self._answer(200, provider.describe())
            elif parts.path == "/keys":
                self._answer(200, {**KeySet(list(provider.keys)).as_dict(private=False)})
            elif parts.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_response(303)
                self.send_header("Location", provider.authorize(query))
                self.end_headers()
            elif parts.path == "/userinfo":
                self._answer(*provider.told(self.headers.get("authorization", "")))
            elif parts.path == "/leave":
                self.send_response(303)
                self.send_header("Location", provider.end_session(dict(parse_qsl(parts.query))))
                self.end_headers()
            else:
                self._answer(404, {})

        def do_POST(self) -> None:
            provider.asked.append(self.path)
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._answer(*provider.exchange(form, self.headers.get("authorization", "")))

        def _answer(self, status: int, content: Mapping[str, Any]) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
