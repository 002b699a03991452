"""One HTTP request as the edge reads it: raw path, headers, and a body that is bounded before it is read."""

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestPayloadError
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from edge.errors import Refusal
from edge.http.request_id import request_id_from

if TYPE_CHECKING:
    from edge.http.connection import Connection

MAX_BODY_BYTES: Final = 1_048_576
"""Longest body of a request, every route. (SPEC.md, Request and payload bounds)."""

_LENGTH: Final = re.compile(r"0*([0-9]+)")
_HEADER_LINE: Final = re.compile(rb"\r\n([A-Za-z0-9-]+):[ \t]*([^\x00-\x1f\x7f]*?)[ \t]*(?=\r\n)")
_ABSOLUTE_FORM: Final = re.compile(r"https?://[^/?]*", re.IGNORECASE)


def unreadable(head: bytes) -> RawRequestMessage:
    """Return what stands in for a request that the parser refused, with those headers that can be told all the same."""
    lines = _HEADER_LINE.findall(head.partition(b"\r\n\r\n")[0] + b"\r\n")
    headers = CIMultiDict((name.decode(), value.decode("utf-8", "surrogateescape")) for name, value in lines)
    return RawRequestMessage(
        "UNKNOWN", "/", HttpVersion11, CIMultiDictProxy(headers), (), True, None, False, False, URL("/")
    )


class HttpRequest:
    """One request, as the parser took it.

    `path` and `query` are raw, as sent: nothing in them is decoded, bytes beyond ASCII are surrogates.
    """

    __slots__ = (
        "_body_given_up",
        "_headers",
        "_payload",
        "connection",
        "message",
        "method",
        "origin",
        "path",
        "query",
        "request_id",
    )

    def __init__(self, message: RawRequestMessage, payload: StreamReader, connection: "Connection") -> None:
        self.message = message
        self.connection = connection
        self.method: str = message.method
        target = message.path
        if not target.startswith("/"):
            target = _ABSOLUTE_FORM.sub("", target, count=1) or "/"
        self.path, _, self.query = target.partition("?")
        self._headers = message.headers
        self._payload = payload
        self._body_given_up = False
        self.origin: str | None = self._headers.get("Origin")
        self.request_id = request_id_from(self.header_values("X-Request-Id"))

    def header_values(self, name: str) -> Sequence[str]:
        """Return every value of a header, in order; bytes beyond ASCII may be surrogates."""
        return self._headers.getall(name, ())

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return self._headers.get(name)

    @property
    def keep_alive(self) -> bool:
        """Whether the connection may serve another request after this one."""
        message = self.message
        # After an upgrade that was asked for and declined, what follows may be no HTTP.
        return not (message.should_close or message.upgrade or self._body_given_up or self.connection.closing)

    @property
    def chunked(self) -> bool:
        """Whether the body comes without a declared length."""
        return bool(self.message.chunked)

    def check_framing(self) -> None:
        """Refuse a body that is declared too long, or framed in a way that cannot be bounded.

        Raises:
            Refusal: `payload_too_large` or `invalid_request`.
        """
        self.check_length()
        if self._payload is EMPTY_PAYLOAD:
            return
        codings = self.header_values("Transfer-Encoding")
        if codings and [coding.strip().lower() for coding in codings] != ["chunked"]:
            raise self._bad_body("has a Transfer-Encoding other than chunked")

    def check_length(self) -> None:
        """Refuse a body that is declared too long, with more digits than the parser can count to as well.

        Raises:
            Refusal: `payload_too_large`.
        """
        given = self.header("Content-Length")
        length = _LENGTH.fullmatch(given) if given else None
        if length and (len(length[1]) > len(str(MAX_BODY_BYTES)) or int(length[1]) > MAX_BODY_BYTES):
            raise self._too_large()

    def check_encoding(self) -> None:
        """Refuse a compressed body: nothing is ever decompressed.

        Raises:
            Refusal: `invalid_request`.
        """
        codings = ",".join(self.header_values("Content-Encoding")).split(",")
        if any(coding.strip().lower() not in {"", "identity"} for coding in codings):
            raise Refusal("invalid_request", details=[{"name": "body", "reason": "must not have a Content-Encoding"}])

    def invite_body(self) -> None:
        """Send `100 Continue` to a caller that waits for it before it sends its body."""
        if self._payload.is_eof() or self.message.version < HttpVersion11 or self.connection.lost:
            return
        if any(value.strip().lower() == "100-continue" for value in self.header_values("Expect")):
            self.connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def read_body(self, seconds: float) -> bytes:
        """Return the whole body as sent, not decompressed.

        Raises:
            Refusal: `payload_too_large` as soon as the bound is passed; `invalid_request` when the body is broken or
                takes longer than `seconds`; `runtime_unreachable` when calls under way leave no room for it.
        """
        if self._payload is EMPTY_PAYLOAD:
            return b""
        if self.connection.crowded:
            raise self._no_room()
        if self.connection.lost:
            raise self._bad_body("did not arrive whole")
        # The caller hears of it when there is no room to wait any longer.
        self.connection.wait_for(lambda: self.fail_body(TimeoutError()))
        try:
            async with asyncio.timeout(seconds):
                return await self._read()
        except TimeoutError:
            raise self._bad_body("did not arrive in time") from None
        except ConnectionError:
            raise self._bad_body("did not arrive whole") from None
        except BlockingIOError:
            raise self._no_room() from None
        except RequestPayloadError:
            raise self._bad_body("is not framed as its headers say") from None
        finally:
            self.connection.waiting_since = 0.0

    async def _read(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            while part := await self._payload.readany():
                size += len(part)
                if size > MAX_BODY_BYTES:
                    raise self._too_large()
                parts.append(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            # The traceback of a failure lives as long as the connection.
            parts.clear()

    def _too_large(self) -> Refusal:
        self._body_given_up = True
        return Refusal("payload_too_large")

    def _no_room(self) -> Refusal:
        self._body_given_up = True
        return Refusal("runtime_unreachable")

    def _bad_body(self, reason: str) -> Refusal:
        self._body_given_up = True
        return Refusal("invalid_request", details=[{"name": "body", "reason": reason}])

    @property
    def body_pending(self) -> bool:
        """Whether bytes of the body have still to arrive."""
        return not self._payload.is_eof()

    def give_up_body(self) -> None:
        """Leave what has still to arrive unread: the connection ends with the answer."""
        self._body_given_up = self._body_given_up or self.body_pending

    def fail_body(self, error: BaseException) -> None:
        """Wake whoever reads the body with an error."""
        self._payload.set_exception(error)

    def _cancel(self, error: BaseException) -> None:
        """End whatever waits for this caller; aiohttp calls it when the connection is lost or the server stops."""
        self.fail_body(error)
        if self.connection.on_lost is not None:
            self.connection.on_lost()
