"""Pages of lists, and their opaque cursors, valid for one list and one caller only (contract 2.7)."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from backend.common.errors import ApiError, invalid
from contract.fields import default_value, field_of, rules_of
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


Row = TypeVar("Row")
Position = tuple[str | int, ...]

_SIZE: Final = "page_size"
_TOKEN: Final = "page_token"  # noqa: S105 - the name of a field
_ALL: Final = 2**31 - 1
_NOT_ISSUED: Final = "must be the next_page_token of a page of this list"


class Paging:
    """The page that the request of a `List` RPC asks for.

    A token, the cursor in `page_token`, is valid for one RPC, key and owner of the list (`of`, such as a run); it holds
    the position of the last row shown, by which the rows are in order.

    Attributes:
        after: The position that the page begins after; None on the first page.
        limit: Most rows of the page; None for all rows that follow.

    Raises:
        ApiError: the token was not issued for this list; its reason is the `violation` in the field's rules, else
            `invalid_request`.
    """

    def __init__(self, cursors: Cursors, request: Message, key_id: str | None = None, *, of: str = "") -> None:
        self._cursors = cursors
        self._list = f"{request.DESCRIPTOR.name.removesuffix('Request')} {of}".rstrip()
        self._key_id = key_id
        token: str = getattr(request, _TOKEN)
        self.after = self._position(request, token) if token else None
        self.limit = _limit(request)

    @property
    def rows_to_read(self) -> int:
        """Number of rows to read: one more than the page has tells whether there is another page."""
        return _ALL if self.limit is None else self.limit + 1

    def cut(
        self, rows: Sequence[Row], position: Callable[[Row], Sequence[str | int]]
    ) -> tuple[Sequence[Row], str | None]:
        """Cuts rows read from the page's position on to the page; returns them and the next token or None."""
        if self.limit is None or len(rows) <= self.limit:
            return rows, None
        shown = rows[: self.limit]
        return shown, self.token_after(position(shown[-1]))

    def token_after(self, position: Sequence[str | int]) -> str:
        """Returns the token of a page that begins after a position."""
        return self._cursors.issue(self._list, self._key_id, position)

    def page_of(self, rows: Sequence[Row], position: Callable[[Row], Position]) -> tuple[Sequence[Row], str | None]:
        """Returns rows and token as `cut` does, from a list that was read whole, in the order of its positions."""
        if self.after is not None:
            rows = [row for row in rows if position(row) > self.after]
        return self.cut(rows, position)

    def refusal(self, why: str = _NOT_ISSUED) -> ApiError:
        """Returns the refusal of the token."""
        return invalid(_TOKEN, why)

    def _position(self, request: Message, token: str) -> Position:
        try:
            return tuple(self._cursors.read(self._list, self._key_id, token))
        except ApiError:
            violation = rules_of(field_of(request, _TOKEN)).violation
            raise (ApiError(violation) if violation else self.refusal()) from None


def _limit(request: Message) -> int | None:
    if request.HasField(_SIZE):
        return int(getattr(request, _SIZE))
    return _default_size(field_of(request, _SIZE))


@cache
def _default_size(field: FieldDescriptor) -> int | None:
    return default_value(field) if rules_of(field).HasField("default_value") else None
