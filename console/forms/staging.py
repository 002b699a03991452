"""Streams the files of a form to the backend, which stages them for the start of a run."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from time import monotonic
from typing import Final

from console.visit import UserServices
from contract.refusals import Refusal
from workflow_api.v1.uploads_pb2 import (
    AppendToUploadRequest,
    BeginUploadRequest,
    FinishUploadedFileRequest,
    RemoveUploadedFileRequest,
    Upload,
)

FILES_PREFIX: Final = "files."
"""Prefix of file fields; the name of the parameter follows."""

_PART_BYTES: Final = 1_048_576
_REFUSED: Final = frozenset({"invalid_request", "not_found", "rate_limited"})
WAIT_SECONDS: Final = 60.0
"""Longest wait of a zip while other zips are expanded, so that the browser need not send it again."""
_NUMBERS: Final = 2**31 - 1
_MOST_REASONS: Final = 10


class FileStaging:
    """Stager of the files of one form.

    Attributes:
        upload_id: The upload that holds them; empty before the first.
        refused: Reasons for refused files by field; each reason once, the first few.
    """

    def __init__(self, services: UserServices) -> None:
        self.upload_id = ""
        self.refused: dict[str, str] = {}
        self._services = services
        self._reasons: dict[str, set[str]] = {}

    async def stage(self, upload_id: str, field: str, name: str, chunks: AsyncIterator[bytes]) -> None:
        """Adds a file to the upload, or to a new upload where `upload_id` is empty; reads a refused file to its end.

        Raises:
            Refusal: the backend cannot be reached.
        """
        number = 1 + secrets.randbelow(_NUMBERS)
        try:
            await self._begin(upload_id)
            await self._send(number, field.removeprefix(FILES_PREFIX), name, chunks)
        except Refusal as refusal:
            if refusal.code not in _REFUSED:
                raise
            self._refuse(field, f"{_reason(refusal)}.")
            await self._remove(number)
            async for _ in chunks:
                pass
        except BaseException:
            await self._remove(number)
            raise

    def _refuse(self, field: str, reason: str) -> None:
        reasons = self._reasons.setdefault(field, set())
        if reason in reasons or len(reasons) > _MOST_REASONS:
            return
        reasons.add(reason)
        said = reason if len(reasons) <= _MOST_REASONS else "Others are not taken, either."
        self.refused[field] = " ".join(filter(None, [self.refused.get(field, ""), said]))

    async def _begin(self, upload_id: str) -> None:
        self.upload_id = self.upload_id or upload_id
        if not self.upload_id:
            begun: Upload = await self._services.call("UploadsService/BeginUpload", BeginUploadRequest())
            self.upload_id = begun.upload_id

    async def _send(self, number: int, parameter: str, name: str, chunks: AsyncIterator[bytes]) -> None:
        request = AppendToUploadRequest(upload_id=self.upload_id, number=number, parameter=parameter, name=name)
        waiting = bytearray()
        sent = False
        async for chunk in chunks:
            waiting += chunk
            while len(waiting) >= _PART_BYTES:
                request.data = bytes(waiting[:_PART_BYTES])
                del waiting[:_PART_BYTES]
                await self._services.call("UploadsService/AppendToUpload", request)
                request.offset += _PART_BYTES
                sent = True
        if waiting or not sent:
            request.data = bytes(waiting)
            await self._services.call("UploadsService/AppendToUpload", request)
        await self._finish(FinishUploadedFileRequest(upload_id=self.upload_id, number=number))

    async def _finish(self, request: FinishUploadedFileRequest) -> None:
        until = monotonic() + WAIT_SECONDS
        while True:
            try:
                await self._services.call("UploadsService/FinishUploadedFile", request)
            except Refusal as refusal:
                pause = refusal.retry_after or 1
                if refusal.code != "rate_limited" or monotonic() + pause > until:
                    raise
            else:
                return
            await asyncio.sleep(pause)

    async def _remove(self, number: int) -> None:
        """Removes an incomplete file; where the removal fails, the file expires with its upload."""
        if self.upload_id:
            with suppress(Refusal):
                request = RemoveUploadedFileRequest(upload_id=self.upload_id, number=number)
                await self._services.call("UploadsService/RemoveUploadedFile", request)


def _reason(refusal: Refusal) -> str:
    if isinstance(refusal.details, list):
        return "; ".join(each["reason"] for each in refusal.details)
    return refusal.message.rstrip(".")
