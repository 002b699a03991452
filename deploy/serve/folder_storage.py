"""Serves folders of this machine as object storage to the connectors of a temporary deployment.

It implements the part of S3 that connectors use: listing a prefix, and reading an object. It listens on loopback, and
answers only requests signed with its own access key.
"""

import hashlib
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

_PART_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class FolderStorage:
    """Address of the storage, and the access key with which it is read."""

    url: str
    access_key_id: str
    secret_access_key: str


@contextmanager
def folder_storage(folders: Mapping[str, Path]) -> Iterator[FolderStorage]:
    """Serves each resolved folder as the objects below one prefix, by `bucket/prefix/`, until the context ends.

    More may be added to `folders` while it serves.
    """
    access_key_id = secrets.token_hex(16)

    class Handler(_Requests):
        roots = folders
        key_id = access_key_id

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield FolderStorage(f"http://127.0.0.1:{server.server_address[1]}", access_key_id, secrets.token_hex(16))
    finally:
        server.shutdown()
        server.server_close()


class _Requests(BaseHTTPRequestHandler):
    """Answers `GET /bucket?list-type=2&prefix=…` and `GET /bucket/key`."""

    protocol_version = "HTTP/1.1"
    roots: Mapping[str, Path] = {}
    key_id = ""

    def do_GET(self) -> None:
        """Answers one request."""
        address = urlsplit(self.path)
        bucket, _, key = unquote(address.path).lstrip("/").partition("/")
        if f"Credential={self.key_id}/" not in self.headers.get("Authorization", ""):
            self._refuse(403, "AccessDenied")
        elif key:
            self._send_object(bucket, key)
        else:
            self._send_listing(bucket, parse_qs(address.query).get("prefix", [""])[0])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library gives it
        """Logs nothing: keys may name people."""

    def _send_listing(self, bucket: str, prefix: str) -> None:
        found = sorted(self._objects(bucket, prefix))
        contents = "".join(
            f"<Contents><Key>{escape(quote(key))}</Key><Size>{path.stat().st_size}</Size>"
            f"<ETag>&quot;{_etag(path)}&quot;</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, path in found
        )
        body = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>false</IsTruncated>'
            f"<EncodingType>url</EncodingType><KeyCount>{len(found)}</KeyCount>{contents}</ListBucketResult>"
        ).encode()
        self._head(200, len(body), "application/xml")
        self.wfile.write(body)

    def _send_object(self, bucket: str, key: str) -> None:
        path = self._object(f"{bucket}/{key}")
        if path is None:
            self._refuse(404, "NoSuchKey")
            return
        with path.open("rb") as file:
            self._head(200, path.stat().st_size, "application/octet-stream", ETag=f'"{_etag(path)}"')
            while part := file.read(_PART_BYTES):
                self.wfile.write(part)

    def _objects(self, bucket: str, prefix: str) -> Iterator[tuple[str, Path]]:
        """Yields key and file of the objects whose keys begin with a prefix; follows no link out of a folder."""
        for root, folder in tuple(self.roots.items()):
            for path in folder.rglob("*"):
                key = (root + path.relative_to(folder).as_posix()).removeprefix(f"{bucket}/")
                inside = path.resolve().is_relative_to(folder)
                if root.startswith(f"{bucket}/") and key.startswith(prefix) and inside and path.is_file():
                    yield key, path

    def _object(self, place: str) -> Path | None:
        for root, folder in tuple(self.roots.items()):
            path = folder / place.removeprefix(root)
            if place.startswith(root) and path.resolve().is_relative_to(folder) and path.is_file():
                return path
        return None

    def _refuse(self, status: int, code: str) -> None:
        body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code></Error>'.encode()
        self._head(status, len(body), "application/xml")
        self.wfile.write(body)

    def _head(self, status: int, length: int, media_type: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": media_type, "Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _etag(path: Path) -> str:
    """Returns an entity tag, which changes with the file."""
    state = path.stat()
    return hashlib.sha256(f"{state.st_size} {state.st_mtime_ns}".encode()).hexdigest()[:32]
