"""Opaque cursors of pages, authenticated and valid for one list and one caller only (contract 2.7)."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence

from backend.errors import ApiError
from workflow_api.v1 import errors_pb2

_TAG_BYTES = 16


class Cursors:
    """Issues and reads cursors with one secret of the deployment."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def issue(self, route: str, key_id: str | None, position: Sequence[str | int]) -> str:
        """Returns a URL-safe cursor for the rows after `position`, the key-set values of the last row."""
        payload = json.dumps(position, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._tag(route, key_id, payload) + payload).rstrip(b"=").decode()

    def read(self, route: str, key_id: str | None, cursor: str) -> list[str | int]:
        """Returns the position of a cursor.

        Raises:
            ApiError: `invalid_cursor`, when it was not issued for this route and key, or was changed.
        """
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise ApiError(errors_pb2.ERROR_REASON_INVALID_CURSOR) from None
        tag, payload = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        # Base64 with stray bits decodes to the same bytes: only the spelling that was issued is accepted.
        spelling = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        if spelling != cursor or not hmac.compare_digest(tag, self._tag(route, key_id, payload)):
            raise ApiError(errors_pb2.ERROR_REASON_INVALID_CURSOR)
        position: list[str | int] = json.loads(payload)
        return position

    def _tag(self, route: str, key_id: str | None, payload: bytes) -> bytes:
        message = b"\0".join((route.encode(), (key_id or "").encode(), payload))
        return hmac.new(self._secret, message, hashlib.sha256).digest()[:_TAG_BYTES]
