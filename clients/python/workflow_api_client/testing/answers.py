"""HTTP answers of the fake service, in the forms of the real service."""

import hashlib
import io
import json
import mimetypes
import re
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

import httpx

from workflow_api_client.generated.errors import STATUSES

# Without the machine's own tables of types.
_TYPES: Final = mimetypes.MimeTypes()
_RANGE: Final = re.compile(r"bytes=([0-9]+)-([0-9]*)")


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that arrives piece by piece, for sync and async clients."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        """Yields the pieces."""
        yield from self._pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yields the pieces."""
        for piece in self._pieces:
            yield piece


class Refused(Exception):  # noqa: N818 # it becomes an answer
    """Raised to refuse a call."""

    def __init__(
        self,
        code: str,
        message: str = "",
        details: Any = None,
        retry_after: int | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.message = message or f"Refused by the script: {code}."
        self.details = details
        self.retry_after = retry_after
        self.status = status or STATUSES[code]

    def answer(self, request_id: str) -> httpx.Response:
        """Returns the refusal in the API's envelope."""
        error = {"code": self.code, "message": self.message, "request_id": request_id}
        if self.details is not None:
            error["details"] = self.details
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return json_answer({"error": error}, self.status, headers)


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> httpx.Response:
    """Returns an answer with a JSON body."""
    content = json.dumps(value).encode()
    return httpx.Response(status, headers={"Content-Type": "application/json", **(headers or {})}, content=content)


def bytes_answer(
    content: bytes, asking: Mapping[str, str], cut: Callable[[Iterator[bytes]], Iterator[bytes]]
) -> httpx.Response:
    """Returns an answer with bytes, or with the requested range."""
    tag = f'"{hashlib.sha256(content).hexdigest()}"'
    headers = {"Content-Type": "application/octet-stream", "ETag": tag, "Accept-Ranges": "bytes"}
    status, begin, end = 200, 0, len(content)
    asked = _RANGE.fullmatch(asking.get("range", ""))
    if asked and asking.get("if-range", tag) == tag:
        begin = int(asked[1])
        end = min(int(asked[2] or len(content)) + 1, len(content))
        if begin >= len(content):
            raise Refused("range_not_satisfiable")
        status = 206
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
    body = content[begin:end]
    headers["Content-Length"] = str(len(body))
    pieces = (body[place : place + 65536] for place in range(0, len(body), 65536))
    return httpx.Response(status, headers=headers, stream=Pieces(cut(pieces)))


def output_record(run_id: str, path: str, content: bytes, created_at: str) -> dict[str, Any]:
    """Returns the record of an output, as in lists."""
    step, _, _ = path.rpartition("/")
    return {
        "output_id": f"out_{path}",
        "name": path.rpartition("/")[2],
        "path": path,
        "step": step.partition("/")[0] or None,
        "media_type": _media_type(path),
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "created_at": created_at,
        "download": {"path": f"/api/v1/runs/{run_id}/outputs/out_{path}/content"},
    }


def _media_type(path: str) -> str:
    found, encoding = _TYPES.guess_type("x/" + path)
    return found if found and encoding is None else "application/octet-stream"


def zip_of(outputs: Mapping[str, bytes]) -> bytes:
    """Returns a zip of files; equal files give equal bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, content in sorted(outputs.items()):
            archive.writestr(zipfile.ZipInfo(path), content)
    return made.getvalue()
