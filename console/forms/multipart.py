"""Reads submitted forms with files, streaming the files to the backend.

A form is `multipart/form-data`. Its token comes before its files, so that files of foreign pages are never staged; at
most one part of a file is in memory.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Collection
from typing import Final, NamedTuple, TypeVar, cast

from aiohttp import BodyPartReader, MultipartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from console.forms.staging import FileStaging
from console.forms.urlencoded import (
    MAX_FIELDS,
    TOKEN,
    TOKEN_FIELD,
    Form,
    check_once,
    check_token,
    closing,
    text_of_field,
)
from console.http.connections import ConsoleConnection
from console.settings import ConsoleSettings
from console.visit import UserServices
from contract.connections import WaitKind

T = TypeVar("T")

UPLOAD_FIELD: Final = "upload"
"""Field that names the upload with the files of an earlier form."""

_MEDIA_TYPE: Final = "multipart/form-data"
_MOST_BYTES: Final = 600_000_000
MOST_FILES: Final = 2_000
"""Most files of one form."""
_LONGEST_SECONDS: Final = 3_600.0
_CHUNK_BYTES: Final = 65_536
_FOLDERS: Final = re.compile(r"[/\\]")


class FileForm(NamedTuple):
    """Fields of a form without its files, and the reasons for refused files by field."""

    form: Form
    refused: dict[str, str]


def has_files(request: web.Request) -> bool:
    """Returns whether the body is `multipart/form-data`, which may have files."""
    return request.content_type == _MEDIA_TYPE


async def read_file_form(
    request: web.Request,
    secret: str,
    settings: ConsoleSettings,
    services: UserServices | None,
    repeated_fields: Collection[str] = (),
) -> FileForm:
    """Returns the fields of a form without its token, with the upload that its files were added to.

    Without services the files are dropped. Only the fields in `repeated_fields` may come more than once.

    Raises:
        HTTPException: it is no form, too large, too slow, has a field twice, or its token is missing or another
            visitor's.
        Refusal: the backend cannot be reached.
    """
    if (request.content_length or 0) > _MOST_BYTES:
        raise closing(_too_large(_MOST_BYTES))
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            return await _FormReader(
                request, secret, settings, None if services is None else FileStaging(services), repeated_fields
            ).read()
    except (ValueError, HttpProcessingError, web.RequestPayloadError):
        raise closing(web.HTTPBadRequest(text="The form cannot be read.")) from None
    except TimeoutError:
        raise closing(web.HTTPRequestTimeout(text="The form did not arrive in time.")) from None


class _FormReader:
    """Reader of one form; raises ValueError for a malformed form and TimeoutError for a stalled one."""

    def __init__(
        self,
        request: web.Request,
        secret: str,
        settings: ConsoleSettings,
        staging: FileStaging | None,
        repeated_fields: Collection[str],
    ) -> None:
        self._request = request
        self._connection = cast("ConsoleConnection", request.protocol)
        self._secret = secret
        self._settings = settings
        self._staging = staging
        # A repeated token is refused like a foreign one.
        self._repeated_fields = {TOKEN_FIELD, *repeated_fields}
        self._form: dict[str, list[str]] = {}
        self._left = _MOST_BYTES
        self._left_of_fields = settings.form_bytes

    async def read(self) -> FileForm:
        reader = await self._request.multipart()
        fields = files = 0
        while (part := await self._arrived(reader.next())) is not None:
            if fields == MAX_FIELDS or isinstance(part, MultipartReader) or not part.name:
                raise ValueError
            if part.filename is None:
                fields += 1
                await self._read_field(part, part.name)
                continue
            if not files:
                check_token(self._secret, self._form.get(TOKEN_FIELD, []))
            files += 1
            if files > MOST_FILES:
                raise closing(web.HTTPBadRequest(text=f"A form may have {MOST_FILES:,} files: put more into a zip."))
            await self._read_file(part, part.name, _FOLDERS.split(part.filename)[-1])
        self._request[TOKEN] = check_token(self._secret, self._form.pop(TOKEN_FIELD, []))
        if self._staging is None:
            return FileForm(self._form, {})
        if self._staging.upload_id:
            self._form[UPLOAD_FIELD] = [self._staging.upload_id]
        return FileForm(self._form, self._staging.refused)

    async def _read_field(self, part: BodyPartReader, name: str) -> None:
        text = bytearray()
        async for chunk in self._chunks(part):
            self._left_of_fields -= len(chunk)
            if self._left_of_fields < 0:
                raise closing(_too_large(self._settings.form_bytes))
            text += chunk
        values = self._form.setdefault(name, [])
        values.append(text_of_field(text.decode()))
        try:
            check_once(name, values, self._repeated_fields)
        except web.HTTPBadRequest as refused:
            raise closing(refused) from None

    async def _read_file(self, part: BodyPartReader, field: str, name: str) -> None:
        if not name or self._staging is None:
            # No file was chosen in the field, or files are dropped.
            async for _ in self._chunks(part):
                pass
            return
        given = self._form.get(UPLOAD_FIELD, [""])[0]
        await self._staging.stage(given, field, name, self._chunks(part))

    async def _chunks(self, part: BodyPartReader) -> AsyncIterator[bytes]:
        while chunk := await self._arrived(part.read_chunk(_CHUNK_BYTES)):
            self._left -= len(chunk)
            if self._left < 0:
                raise closing(_too_large(_MOST_BYTES))
            yield chunk

    async def _arrived(self, read: Awaitable[T]) -> T:
        """Returns the bytes read; the sender may stall for at most `stall_seconds`."""
        with self._connection.waiting(WaitKind.BODY):
            async with asyncio.timeout(self._settings.stall_seconds):
                return await read


def _too_large(limit: int) -> web.HTTPRequestEntityTooLarge:
    text = f"The form is too large: at most {limit:,} bytes are taken."
    return web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=limit + 1, text=text)
