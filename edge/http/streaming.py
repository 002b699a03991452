"""Downloads: bytes of a server-streaming RPC, forwarded message by message (contract 18.16)."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, Final

from contract.channel import Messages
from contract.content_disposition import content_disposition
from contract.refusals import Refusal
from edge import metrics
from edge.http.request import HttpRequest
from edge.http.response import Answer, refused
from workflow_api.v1.outputs_pb2 import DownloadHeader

_MEDIA_TYPE: Final = re.compile(r"[!-~][ -~]*")
# Memory for a zip of 2,000 files, here and in the backend, while it is being downloaded.
_STATE_BYTES: Final = 2_000_000


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
    """Forwards the bytes as fast as the caller reads them."""

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
        if not connection.hold(_STATE_BYTES):
            await self._messages.aclose()
            await refused(Refusal("runtime_unreachable"), request).send(request)
            return
        task = asyncio.current_task()
        assert task is not None
        # When the caller disconnects, the task is cancelled wherever it waits, and with it the backend's stream.
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
