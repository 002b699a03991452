"""HTTP answers as bytes: `Answer` with its whole body, in a single write, and `Download`, written part by part."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from email.utils import formatdate
from http import HTTPStatus
from time import time
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from contract.channel import Messages
from contract.content_disposition import content_disposition
from contract.refusals import Refusal, envelope
from edge import metrics
from edge.http.request import HttpRequest
from workflow_api.v1.outputs_pb2 import DownloadHeader

JSON: Final = "application/json"

_STATUS_LINES: Final = MappingProxyType(
    {
        status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: "
        for status in HTTPStatus
    }
)
_HEADER_LINE: Final = "%s: %s\r\n".__mod__
_CHUNKED: Final = "Transfer-Encoding: chunked\r\n"
_SMALL_BYTES: Final = 65_536
_BODILESS: Final = frozenset({204, 304})
_MEDIA_TYPE: Final = re.compile(r"[!-~][ -~]*")
# Memory that the download of a zip of 2,000 files takes, here and in the backend.
_STATE_BYTES: Final = 2_000_000
_EXPOSED: Final = (
    "X-Request-Id, Retry-After, Location, Content-Range, Content-Disposition, ETag, Idempotency-Replayed, "
    "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset"
)
_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_CORS_LINES: Final = (
    "Vary: Origin\r\n"
    "Access-Control-Allow-Credentials: true\r\n"
    f"Access-Control-Expose-Headers: {_EXPOSED}\r\n"
    "Access-Control-Allow-Origin: "
)


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
    """An answer whose whole body is known.

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
        """Further header lines, each with its line end."""
        self.keep_alive = True
        self.whole = False
        """True once the whole answer was written, even if `send` still runs, as while a download's stream ends."""

    def head(self, request: HttpRequest, length: int | None) -> bytes:
        """Returns the status line and every header, and decides whether the connection is kept.

        A body without a length is chunked; to an HTTP/1.0 caller it ends with the connection.
        """
        self.keep_alive = self.keep_alive and request.keep_alive
        if length is None:
            body_lines = f"Content-Type: {self.media_type}\r\n{_CHUNKED if not request.before_http_1_1 else ''}"
            self.keep_alive = self.keep_alive and not request.before_http_1_1
        else:
            body_lines = (
                "" if self.status in _BODILESS else f"Content-Type: {self.media_type}\r\nContent-Length: {length}\r\n"
            )
        # Any origin may call (contract 6.2).
        cors = f"{_CORS_LINES}{request.origin}\r\n" if request.origin else ""
        connection = "Connection: close\r\n" if not self.keep_alive else ""
        if self.keep_alive and request.before_http_1_1:
            connection = "Connection: keep-alive\r\n"
        own = "".join(map(_HEADER_LINE, self.headers))
        text = (
            f"{_STATUS_LINES[self.status]}{request.request_id}\r\n{_date_line()}{body_lines}{own}{self.lines}"
            f"{cors}{connection}\r\n"
        )
        # Only an Origin or requested headers can hold other bytes than ASCII; they are echoed unchanged.
        return text.encode("utf-8", "surrogateescape")

    def write_part(self, request: HttpRequest, data: bytes) -> None:
        """Writes a part of a body without a length; an empty part ends the body. See `head`.

        Raises:
            ConnectionResetError: the caller has disconnected.
        """
        if request.before_http_1_1:
            request.connection.write(data)
        else:
            request.connection.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def send(self, request: HttpRequest) -> None:
        """Writes the whole answer."""
        head = self.head(request, len(self.body))
        connection = request.connection
        if len(self.body) > _SMALL_BYTES:
            # Large bodies are shared between answers and not copied.
            connection.write(head)
            head = b""
        connection.write(head if request.method == "HEAD" else head + self.body)
        if connection.writing_paused:
            await connection.drain()


def refused(refusal: Refusal, request: HttpRequest) -> Answer:
    """Returns the answer with the error envelope (contract 7.1)."""
    return Answer(refusal.status, envelope(refusal, request.request_id), headers=refusal.headers.items())


def preflight_headers(requested_method: str | None, requested_headers: str | None) -> list[tuple[str, str]]:
    """Returns the further headers of a preflight's answer: every method, and the requested headers."""
    known = not requested_method or requested_method in _METHODS.split(", ")
    headers = [
        ("Access-Control-Allow-Methods", _METHODS if known else f"{_METHODS}, {requested_method}"),
        ("Access-Control-Max-Age", "600"),
    ]
    if requested_headers:
        headers.append(("Access-Control-Allow-Headers", requested_headers))
    return headers


async def open_download(messages: Messages) -> Answer:
    """Returns the answer that forwards a download, whose first message is its header.

    Raises:
        Refusal: the refusal of the RPC before its first message; `runtime_error` when that is no header.
    """
    first: Any = await anext(messages, None)
    if first is None or first.WhichOneof("part") != "header":
        await messages.aclose()
        raise Refusal("runtime_error")
    header: DownloadHeader = first.header
    if header.not_modified:
        await messages.aclose()
        return Answer(304, headers=[*_validators(header)])
    return Download(header, messages)


class Download(Answer):
    """A download, forwarded as fast as the caller reads."""

    __slots__ = ("_length", "_messages")

    def __init__(self, header: DownloadHeader, messages: Messages) -> None:
        super().__init__(
            206 if header.partial else 200,
            media_type=header.media_type if _MEDIA_TYPE.fullmatch(header.media_type) else "application/octet-stream",
            headers=[*_validators(header), *_attachment(header)],
        )
        self._length = header.length
        self._messages = messages

    async def send(self, request: HttpRequest) -> None:
        """Writes the head and all bytes; a failure meanwhile resets the connection instead of ending it cleanly."""
        connection = request.connection
        if not connection.reserve_bytes(_STATE_BYTES):
            await self._messages.aclose()
            await refused(Refusal("runtime_unreachable"), request).send(request)
            return
        task = asyncio.current_task()
        assert task is not None
        # When the caller disconnects, the task is cancelled wherever it waits, and the backend's stream with it.
        connection.on_lost = task.cancel
        try:
            async with aclosing(self._messages):
                connection.write(self.head(request, self._length))
                await self._write_bytes(request)
        except asyncio.CancelledError:
            if not connection.lost:
                connection.abort()
                raise
            task.uncancel()
            raise ConnectionResetError("the caller has disconnected") from None
        except Refusal as refusal:
            connection.abort()
            raise ConnectionResetError(f"the download failed: {refusal}") from refusal
        except ConnectionError:
            connection.abort()
            raise
        finally:
            connection.on_lost = None

    async def _write_bytes(self, request: HttpRequest) -> None:
        remaining = self._length
        async for message in self._messages:
            data: bytes = message.data  # type: ignore[attr-defined]  # both downloads have the same parts
            remaining -= len(data)
            if remaining < 0:
                break
            request.connection.write(data)
            metrics.DOWNLOADED.add_many(len(data))
            self.whole = remaining == 0
            await request.connection.drain()
        if remaining:
            raise Refusal("runtime_error", f"{abs(remaining)} bytes too {'few' if remaining > 0 else 'many'}")


def _validators(header: DownloadHeader) -> Iterator[tuple[str, str]]:
    if header.etag:
        yield "ETag", f'"{header.etag}"'


def _attachment(header: DownloadHeader) -> Iterator[tuple[str, str]]:
    yield "Content-Disposition", content_disposition(header.file_name)
    if header.etag:
        yield "Accept-Ranges", "bytes"
    if header.partial:
        last = header.offset + header.length - 1
        yield "Content-Range", f"bytes {header.offset}-{last}/{header.size_bytes}"


class _AiohttpResponse(web.StreamResponse):
    """Response by which aiohttp learns that a request is answered, and whether the connection is kept."""

    def __init__(self, *, kept: bool) -> None:
        super().__init__()
        self._kept = kept

    @property
    def keep_alive(self) -> bool | None:
        """Returns whether the next request is served."""
        return self._kept

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:  # noqa: ARG002 - aiohttp's
        """Writes nothing."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Writes nothing."""


KEPT: Final = _AiohttpResponse(kept=True)
CLOSED: Final = _AiohttpResponse(kept=False)


class MalformedAnswer(_AiohttpResponse):
    """Response to a head that the parser refused; `serve` answers it."""

    def __init__(self, serve: Callable[[], Awaitable[object]]) -> None:
        super().__init__(kept=False)
        self._serve = serve

    async def write_eof(self, data: bytes = b"") -> None:  # noqa: ARG002 - aiohttp's signature
        """Writes the whole answer."""
        await self._serve()
