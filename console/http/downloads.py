"""Downloads: bytes of a streaming RPC, sent as fast as the browser reads."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final

from aiohttp import web

from console.visit import FileDownload, Parts
from contract.channel import Messages
from contract.content_disposition import content_disposition
from contract.refusals import Refusal
from workflow_api.v1.outputs_pb2 import DownloadHeader

MESSAGE_SECONDS: Final = 30.0
"""Longest wait for the next part of a download."""

PLACE_SECONDS: Final = 10.0
"""Longest wait for a place among the downloads: over HTTP/2 a browser asks for all pictures of a page at once."""

_LOG = logging.getLogger(__name__)
_MOST: Final = 40
_MOST_OF_SESSION: Final = 6
_TOO_MANY: Final = "Too many downloads are under way. Wait for one to end, and try again."
_MEDIA_TYPE: Final = re.compile(r"[!-~]+/[!-~]+")
_BYTES: Final = "application/octet-stream"


async def open_download(messages: Messages, *, inline: bool = False) -> FileDownload:
    """Returns the download of an RPC whose first message is its header.

    Raises:
        Refusal: as the service refused; `runtime_error` where the first message is no header.
    """
    first: Any = await anext(messages, None)
    if first is None or first.WhichOneof("part") != "header":
        await messages.aclose()
        raise Refusal("runtime_error")
    header: DownloadHeader = first.header
    parts = MessageParts(messages, lambda message: bytes(message.data))
    return FileDownload(parts, header.file_name, header.media_type, header.length, inline=inline)


async def whole(content: bytes) -> AsyncGenerator[bytes, None]:
    """Yields `content` as the only part of a download."""
    yield content


class MessageParts:
    """Parts of a download from the messages of a stream; `read` returns the bytes of a message."""

    def __init__(self, messages: Messages, read: Callable[[Any], bytes]) -> None:
        self._messages = messages
        self._read = read

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Returns this iterator."""
        return self

    async def __anext__(self) -> bytes:
        """Returns the bytes of the next message."""
        return self._read(await anext(self._messages))

    async def aclose(self) -> None:
        """Ends the stream."""
        await self._messages.aclose()


class Downloads:
    """Sender of downloads; ends a download that stalls for `stall_seconds`."""

    def __init__(self, stall_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._open: Counter[str] = Counter()
        self._freed = asyncio.Event()

    async def send(self, request: web.Request, session: str, download: FileDownload) -> web.StreamResponse:
        """Sends a download; a failure in its middle resets the connection, so that the file is not taken for whole.

        Raises:
            HTTPTooManyRequests: the most downloads are under way, and none has ended within `PLACE_SECONDS`.
        """
        async with aclosing(download.parts) as parts:
            await self._take_place(session)
            try:
                return await self._send(request, download, parts)
            finally:
                self._open[session] -= 1
                if not self._open[session]:
                    del self._open[session]
                # Wakes all that wait for a place, each of which looks whether it has one.
                self._freed.set()
                self._freed = asyncio.Event()

    async def _take_place(self, session: str) -> None:
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                while self._open.total() >= _MOST or self._open[session] >= _MOST_OF_SESSION:
                    await self._freed.wait()
        except TimeoutError:
            raise web.HTTPTooManyRequests(text=_TOO_MANY) from None
        self._open[session] += 1

    async def _send(self, request: web.Request, download: FileDownload, parts: Parts) -> web.StreamResponse:
        # The first part is read before the head is sent: a failure until then gives an ordinary error page.
        part = await anext(parts, None)
        response = web.StreamResponse(headers=_headers(download))
        response.content_length = download.length
        remaining = download.length
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        try:
            while part is not None:
                if remaining is not None:
                    remaining -= len(part)
                async with asyncio.timeout(self._stall_seconds):
                    await response.write(part)
                part = await anext(parts, None)
        except (ConnectionError, TimeoutError):
            _LOG.debug("A browser ended a download")
            remaining = remaining or 1
        except Refusal as refusal:
            _LOG.warning("A download failed: %s", refusal)
            remaining = remaining or 1
        if remaining and request.transport is not None:
            request.transport.abort()
        return response


def _headers(download: FileDownload) -> dict[str, str]:
    media_type = download.media_type if _MEDIA_TYPE.fullmatch(download.media_type) else _BYTES
    if download.inline:
        # Opened as a document of its own, it is of no origin and loads nothing.
        return {"Content-Type": media_type, "Content-Security-Policy": "default-src 'none'; sandbox"}
    # Always an attachment: a downloaded file is never shown as a page of this console.
    return {"Content-Type": _BYTES, "Content-Disposition": content_disposition(download.file_name)}
