"""A server that speaks as much of S3 as copying inputs in takes."""

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

PAGE = 3


class Bucket:
    """A bucket named `docs`; listings come in pages of three."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.denied = False
        # What is answered for a key instead of its object: bytes that are sent, of the length that is announced.
        self.answers: dict[str, list[tuple[bytes, int]]] = {}
        # How often a key, or with "" the listing, is answered with an error, and with which status and body.
        self.failing: dict[str, int] = {}
        self.failure = (503, b"<Error><Code>SlowDown</Code><Message>arn:aws:iam::1:user/own</Message></Error>")
        # What the listing says of a key's size.
        self.sizes: dict[str, int] = {}
        self.most_at_once = 0
        self.at_once = 0
        self.counting = threading.Lock()
        # Where there is one, an object is answered only beside another.
        self.in_pairs: threading.Barrier | None = None
        # Cleared, nothing is answered until it is set again.
        self.held_up = threading.Event()
        self.held_up.set()
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                query = parse_qs(url.query)
                bucket.held_up.wait(60)
                key = "" if "list-type" in query else unquote(url.path).removeprefix("/docs/")
                with bucket.counting:
                    failing = bucket.failing.get(key, 0)
                    bucket.failing[key] = max(failing - 1, 0)
                if failing:
                    self._answer(*bucket.failure)
                elif bucket.denied:
                    self._answer(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
                elif "list-type" in query:
                    self._answer(200, bucket.listing(query))
                else:
                    self._object(key)

            def _object(self, key: str) -> None:
                body = bucket.objects.get(key)
                if body is None:
                    self._answer(404, b"<Error><Code>NoSuchKey</Code><Message>No such key</Message></Error>")
                    return
                part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                if part is not None:
                    first, last = int(part[1]), min(int(part[2]), len(body) - 1)
                    self._answer(206, body[first : last + 1], content_range=f"bytes {first}-{last}/{len(body)}")
                    return
                with bucket.counting:
                    bucket.at_once += 1
                    bucket.most_at_once = max(bucket.most_at_once, bucket.at_once)
                    body, length = bucket.answers[key].pop(0) if bucket.answers.get(key) else (body, len(body))
                if bucket.in_pairs is not None:
                    bucket.in_pairs.wait(60)
                self._answer(200, body, length)
                with bucket.counting:
                    bucket.at_once -= 1

            def _answer(
                self, status: int, body: bytes, length: int | None = None, content_range: str | None = None
            ) -> None:
                self.send_response(status)
                if content_range is not None:
                    self.send_header("Content-Range", content_range)
                self.send_header("Content-Length", str(len(body) if length is None else length))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def listing(self, query: dict[str, list[str]]) -> bytes:
        after = query.get("continuation-token", [""])[0]
        prefix = query.get("prefix", [""])[0]
        keys = [key for key in sorted(self.objects) if key.startswith(prefix) and key > after]
        page = keys[:PAGE]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{self.sizes.get(key, len(self.objects[key]))}</Size>"
            f"<ETag>{escape(_etag(self.objects[key]))}</ETag></Contents>"
            for key in page
        )
        more = "true" if len(keys) > PAGE else "false"
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(keys) > PAGE else ""
        text = f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{token}{entries}</ListBucketResult>"
        return text.encode()

    def stop(self) -> None:
        self.held_up.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


@pytest.fixture(name="bucket")
def serve_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """The bucket, with credentials for whoever asks the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OWNKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    bucket = Bucket()
    yield bucket
    bucket.stop()
