"""An authenticator in software: makes passkeys and signs with them, as a browser hands that on."""

import hashlib
import json
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

_USER_PRESENT, _HAS_CREDENTIAL = 0x01, 0x40


@dataclass
class Authenticator:
    """One passkey, at one origin; `sign_count` grows with each signature where `counts`."""

    origin: str = "https://console.example.org"
    counts: bool = True
    sign_count: int = 0
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def id(self) -> str:
        return base64url(self.credential_id)

    def make(self, options_json: str, **client: Any) -> str:
        """The answer to options of a registration; `client` changes what the browser says of it."""
        options = json.loads(options_json)
        public = self.key.public_key().public_numbers()
        cose = {1: 2, 3: -7, -1: 1, -2: public.x.to_bytes(32, "big"), -3: public.y.to_bytes(32, "big")}
        data = self._data(options["rp"]["id"], _USER_PRESENT | _HAS_CREDENTIAL)
        data += bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + cbor2.dumps(cose)
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        said = self._client("webauthn.create", options["challenge"], client)
        return self._credential({"clientDataJSON": base64url(said), "attestationObject": base64url(attestation)})

    def sign(self, options_json: str, *, host: str = "", **client: Any) -> str:
        """The answer to options of a sign-in; `client` changes what the browser says of it."""
        options = json.loads(options_json)
        self.sign_count += self.counts
        data = self._data(host or options["rpId"], _USER_PRESENT)
        said = self._client("webauthn.get", options["challenge"], client)
        signature = self.key.sign(data + hashlib.sha256(said).digest(), ec.ECDSA(SHA256()))
        return self._credential(
            {
                "clientDataJSON": base64url(said),
                "authenticatorData": base64url(data),
                "signature": base64url(signature),
            }
        )

    def _data(self, host: str, flags: int) -> bytes:
        return hashlib.sha256(host.encode()).digest() + bytes([flags]) + self.sign_count.to_bytes(4, "big")

    def _client(self, kind: str, challenge: str, changes: dict[str, Any]) -> bytes:
        said = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False, **changes}
        return json.dumps(said).encode()

    def _credential(self, response: dict[str, str]) -> str:
        return json.dumps({"id": self.id, "rawId": self.id, "type": "public-key", "response": response})


def base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")
