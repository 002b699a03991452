"""One HTTP request as the edge reads it: raw path, headers, and a body that is bounded before it is read."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum, auto
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Final, Protocol

from aiohttp import StreamReader, hdrs
from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy, istr
from yarl import URL

from contract.connections import WaitKind
from contract.ids import request_id_from
from contract.refusals import Refusal

MAX_BODY_BYTES: Final = 1_048_576
"""Longest body of a request, every route (contract 4.3)."""

Outcome = tuple[str, str, str, str, float, str]
"""Facts for a request's log line: the route's template, the key's id, the error's code, the run's id, the seconds for
which the call was held, the caller's address; empty where unknown."""


class BodyFailure(Enum):
    """Causes for which a body can no longer be read."""

    TOO_LARGE = auto()
    MALFORMED = auto()
    """The body's framing contradicts the headers."""
    LATE = auto()
    INCOMPLETE = auto()
    """The caller disconnected before the end."""
    NO_MEMORY = auto()
    """The server's bound on buffered bytes is reached."""


class ClientConnection(Protocol):
    """The connection of a request, as the request and its answer use it."""

    on_lost: Callable[[], object] | None
    """Called when the connection ends while a request is being served."""
    on_ended: Callable[[], object] | None
    """Called when the caller stops sending while a request is being served; the caller may still read the answer."""
    closing: bool
    """True once no further request is served."""

    @property
    def peername(self) -> object:
        """Returns the address of the other end, as `socket` gives it."""

    @property
    def ended(self) -> bool:
        """Returns whether the caller sends no more."""

    @property
    def lost(self) -> bool:
        """Returns whether nothing can be sent any more."""

    @property
    def writing_paused(self) -> bool:
        """Returns whether the caller reads more slowly than is written; then `drain` waits for the caller."""

    def waiting(self, wait_kind: WaitKind) -> AbstractContextManager[None]:
        """Counts the time inside the context as the caller's."""

    def reserve_bytes(self, size: int) -> bool:
        """Counts bytes until the request is served; returns whether they may be kept."""

    def stop_parsing(self) -> None:
        """Drops further input: no further request is served."""

    def write(self, data: bytes) -> None:
        """Queues bytes; raises ConnectionResetError where the caller has disconnected."""

    async def drain(self) -> None:
        """Waits until the caller has read enough; raises as `write`, also where the caller reads too slowly."""

    def abort(self) -> None:
        """Resets the connection, so that the caller cannot take a partial answer for a whole one."""


_REQUEST_ID: Final = istr("X-Request-Id")
_LENGTH: Final = re.compile(r"0*([0-9]+)")
_ABSOLUTE_FORM: Final = re.compile(r"https?://[^/?]*", re.IGNORECASE)
_INVALID_BODY: Final[Mapping[BodyFailure, str]] = MappingProxyType(
    {
        BodyFailure.MALFORMED: "is not framed as its headers say",
        BodyFailure.LATE: "did not arrive in time",
        BodyFailure.INCOMPLETE: "did not arrive whole",
    }
)
_REFUSED_BODY: Final[Mapping[BodyFailure, str]] = MappingProxyType(
    {BodyFailure.TOO_LARGE: "payload_too_large", BodyFailure.NO_MEMORY: "runtime_unreachable"}
)


def message_of(method: str, target: str, headers: "CIMultiDict[str]") -> RawRequestMessage:
    """Returns the message of a request without a body that ends its connection."""
    given = CIMultiDictProxy(headers)
    return RawRequestMessage(
        method=method,
        path=target,
        version=HttpVersion11,
        headers=given,
        raw_headers=(),
        should_close=True,
        compression=None,
        upgrade=False,
        chunked=False,
        url=URL(),
    )


class HttpRequest:
    """One HTTP request of a connection.

    `path` and `query` are raw, as sent: nothing in them is decoded, and bytes that are no UTF-8 are surrogates.
    """

    __slots__ = (
        "_body_failure",
        "_body_given_up",
        "_message",
        "before_http_1_1",
        "began",
        "bodiless",
        "connection",
        "content",
        "header",
        "header_values",
        "method",
        "origin",
        "outcome",
        "path",
        "query",
        "request_id",
    )

    content: StreamReader
    """The stream of the body, which `read_body` reads; `total_bytes` counts the bytes that have arrived."""
    outcome: Outcome | None
    """Facts for the request's log line; None until it is answered."""
    before_http_1_1: bool
    """True where the HTTP version is lower than 1.1."""
    bodiless: bool
    """True where there is neither a body nor a header that gives a body's length."""
    header: Callable[[str], str | None]
    """Returns the first value of a header."""
    header_values: Callable[[str], Sequence[str]]
    """Returns every value of a header, in order; bytes that are no UTF-8 are surrogates."""

    def __init__(
        self, message: RawRequestMessage, method: str, content: StreamReader, connection: ClientConnection
    ) -> None:
        self.began = perf_counter()
        headers = message.headers
        self.header, self.header_values = headers.get, partial(headers.getall, default=())
        self.before_http_1_1 = message.version < HttpVersion11
        self.bodiless = not message.chunked and hdrs.CONTENT_LENGTH not in headers
        self.outcome = None
        self._message = message
        self.content = content
        self._body_failure: BodyFailure | None = None
        self._body_given_up = False
        self.connection = connection
        self.method = method
        target = message.path
        if not target.startswith("/"):
            target = _ABSOLUTE_FORM.sub("", target, count=1) or "/"
        self.path, _, self.query = target.partition("?")
        self.origin = headers.get(hdrs.ORIGIN)
        self.request_id = request_id_from(headers.getall(_REQUEST_ID, ()))

    @property
    def keep_alive(self) -> bool:
        """Returns whether the connection may serve another request after this one."""
        message = self._message
        return not (message.should_close or message.upgrade or self._body_given_up or self.connection.closing)

    @property
    def chunked(self) -> bool:
        """Returns whether the body comes without a declared length."""
        return bool(self._message.chunked)

    def check_framing(self) -> None:
        """Refuses a body that is declared too long, or framed in a way that cannot be bounded.

        Raises:
            Refusal: `payload_too_large` or `invalid_request`.
        """
        self.check_length()
        codings = self.header_values("Transfer-Encoding")
        if codings and [coding.strip().lower() for coding in codings] != ["chunked"]:
            raise self._invalid_body("has a Transfer-Encoding other than chunked")

    def check_length(self) -> None:
        """Refuses a body that is declared too long, also by a number longer than the parser reads.

        Raises:
            Refusal: `payload_too_large`.
        """
        given = self.header("Content-Length")
        length = _LENGTH.fullmatch(given) if given else None
        if length and (len(length[1]) > len(str(MAX_BODY_BYTES)) or int(length[1]) > MAX_BODY_BYTES):
            self._body_given_up = True
            raise Refusal("payload_too_large")

    def check_encoding(self) -> None:
        """Refuses a compressed body: nothing is ever decompressed.

        Raises:
            Refusal: `invalid_request`.
        """
        codings = ",".join(self.header_values("Content-Encoding")).split(",")
        if any(coding.strip().lower() not in {"", "identity"} for coding in codings):
            raise Refusal("invalid_request", details=[{"name": "body", "reason": "must not have a Content-Encoding"}])

    def send_continue(self) -> None:
        """Sends `100 Continue` to a caller that expects it before sending the body."""
        if not self.body_pending or self.before_http_1_1 or self.connection.lost:
            return
        if any(value.strip().lower() == "100-continue" for value in self.header_values("Expect")):
            self.connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def read_body(self, seconds: float) -> bytes:
        """Returns the whole body as sent, not decompressed.

        Raises:
            Refusal: `payload_too_large` as soon as the bound is exceeded; `invalid_request` when the body is broken or
                takes longer than `seconds`; `runtime_unreachable` when no memory is left for the body.
        """
        content = self.content
        parts: list[bytes] = []
        try:
            if content.is_eof():
                parts.append(content.read_nowait())
            else:
                with self.connection.waiting(WaitKind.BODY):
                    async with asyncio.timeout(seconds):
                        while not content.at_eof():
                            parts.append(await content.readany())
                            if content.total_bytes > MAX_BODY_BYTES:
                                break
        except TimeoutError:
            self.fail_body(BodyFailure.LATE)
        except ConnectionError:
            self.fail_body(BodyFailure.INCOMPLETE)
        if content.total_bytes > MAX_BODY_BYTES:
            self.fail_body(BodyFailure.TOO_LARGE)
        failure = self._body_failure
        if failure is None:
            return b"".join(parts)
        self._body_given_up = True
        if failure in _REFUSED_BODY:
            raise Refusal(_REFUSED_BODY[failure])
        raise self._invalid_body(_INVALID_BODY[failure])

    def _invalid_body(self, reason: str) -> Refusal:
        self._body_given_up = True
        return Refusal("invalid_request", details=[{"name": "body", "reason": reason}])

    @property
    def body_pending(self) -> bool:
        """Returns whether bytes of the body have still to arrive."""
        return self._body_failure is not None or not self.content.is_eof()

    def give_up_body(self) -> None:
        """Leaves the rest of the body unread: the connection ends with the answer."""
        self._body_given_up = self._body_given_up or self.body_pending

    def check_end(self) -> None:
        """Fails a body that has arrived completely although its end was not recognized."""
        if not self.content.is_eof():
            self.fail_body(BodyFailure.MALFORMED)

    def fail_body(self, failure: BodyFailure) -> None:
        """Ends the wait for the body; the first failure is final."""
        self._body_failure = self._body_failure or failure
        self.connection.stop_parsing()
        self.content.feed_eof()
