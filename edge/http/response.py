"""One HTTP answer: status line, headers and body in a single write."""

from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from time import time
from types import MappingProxyType
from typing import Final

from contract.refusals import Refusal, envelope
from edge.http.cors import cors_lines
from edge.http.request import HttpRequest

JSON: Final = "application/json"

_STATUS_LINES: Final = MappingProxyType(
    {
        status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: "
        for status in HTTPStatus
    }
)
_CHUNKED: Final = "Transfer-Encoding: chunked\r\n"
_SMALL_BYTES: Final = 65_536
_BODILESS: Final = frozenset({204, 304})


class _DateLine:
    """The `Date` header, formatted once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._line = ""

    def __call__(self) -> str:
        second = int(time())
        if second != self._second:
            self._second = second
            self._line = f"Date: {formatdate(second, usegmt=True)}\r\n"
        return self._line


_date_line: Final = _DateLine()


class Answer:
    """An answer whose whole body is at hand.

    `headers` come in addition to those that every answer carries (contract 6.1).
    """

    __slots__ = ("body", "headers", "keep_alive", "lines", "media_type", "status", "whole")

    def __init__(
        self, status: int, body: bytes = b"", *, media_type: str = JSON, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        self.status = status
        self.body = body
        self.media_type = media_type
        self.headers = headers
        self.lines = ""
        """Further header lines as they are sent, each with its end."""
        self.keep_alive = True
        self.whole = False
        """Whether all of it was written although sending it goes on, as while a download's stream ends."""

    def head(self, request: HttpRequest, length: int | None) -> bytes:
        """Returns the status line and every header, and decides whether the connection is kept.

        A body without a length is chunked, or to a caller that does not know that, ends with the connection.
        """
        self.keep_alive = self.keep_alive and request.keep_alive
        if length is None:
            body_lines = f"Content-Type: {self.media_type}\r\n{_CHUNKED if not request.before_http_1_1 else ''}"
            self.keep_alive = self.keep_alive and not request.before_http_1_1
        else:
            body_lines = (
                "" if self.status in _BODILESS else f"Content-Type: {self.media_type}\r\nContent-Length: {length}\r\n"
            )
        own = "".join([f"{name}: {value}\r\n" for name, value in self.headers]) if self.headers else ""
        text = (
            f"{_STATUS_LINES[self.status]}{request.request_id}\r\n{_date_line()}{body_lines}{own}{self.lines}"
            f"{cors_lines(request.origin) if request.origin else ''}{self._connection_line(request)}\r\n"
        )
        # Only an Origin or requested headers can hold other bytes than ASCII; they are echoed unchanged.
        return text.encode("utf-8", "surrogateescape")

    def _connection_line(self, request: HttpRequest) -> str:
        if not self.keep_alive:
            return "Connection: close\r\n"
        return "Connection: keep-alive\r\n" if request.before_http_1_1 else ""

    async def send(self, request: HttpRequest) -> None:
        """Writes the whole answer."""
        head = self.head(request, len(self.body))
        connection = request.connection
        if len(self.body) > _SMALL_BYTES:
            # Large bodies are shared between answers and not copied.
            connection.write(head)
            head = b""
        connection.write(head if request.method == "HEAD" else head + self.body)
        await connection.drain()
        if not self.keep_alive and (request.body_pending or connection.broken):
            await connection.linger()


def refused(refusal: Refusal, request: HttpRequest) -> Answer:
    """Returns the answer with the error envelope (contract 7.1)."""
    return Answer(refusal.status, envelope(refusal, request.request_id), headers=refusal.headers.items())
