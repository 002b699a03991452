"""What only a bucket has to do: encryption, unfinished uploads, versions, refusals and broken connections."""

import contextlib
import io
import re
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, tzinfo
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest

from backend.settings import ObjectSettings
from backend.storage.objects import ObjectStoreError, open_objects
from backend.storage.objects.bucket import PIECE_BYTES, BucketObjects
from tests.support.faulty_proxy import FaultyProxy
from tests.support.s3_server import S3Server

KEY = "runs/run_1/out_1"


@pytest.fixture
def settings(s3_server: S3Server) -> ObjectSettings:
    s3_server.fill("kept", {})
    return ObjectSettings(store="s3", bucket="kept", prefix="dep/", endpoint_url=s3_server.url)


@pytest.fixture
def objects(settings: ObjectSettings) -> BucketObjects:
    return BucketObjects(settings)


@pytest.mark.parametrize("large", [False, True])
def test_what_is_stored_is_encrypted_as_the_settings_say(
    s3_server: S3Server, settings: ObjectSettings, large: bool
) -> None:
    objects = BucketObjects(replace(settings, sse="aws:kms", kms_key_id="key-1"))
    objects.put_bytes(KEY, b"x" * (PIECE_BYTES + 1 if large else 1))
    head = s3_server.s3.head_object(Bucket="kept", Key=f"dep/{KEY}")
    assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", "key-1")


def test_a_start_leaves_nothing_behind_and_takes_nothing_of_others(
    s3_server: S3Server, settings: ObjectSettings, tmp_path: Path
) -> None:
    s3_server.fill("kept", {"probe": b"x", "dep/other": b"x"})
    open_objects(settings, tmp_path)
    assert [one["Key"] for one in s3_server.s3.list_objects_v2(Bucket="kept")["Contents"]] == ["dep/other", "probe"]


def test_starts_at_once_remove_what_one_that_failed_left_behind(
    s3_server: S3Server, settings: ObjectSettings, tmp_path: Path
) -> None:
    s3_server.s3.put_object(Bucket="kept", Key="dep/runs/probe/start", Body=b"1")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: open_objects(settings, tmp_path), range(12)))
    assert "Contents" not in s3_server.s3.list_objects_v2(Bucket="kept")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"bucket": None}, "objects.bucket names no bucket"),
        ({"bucket": "missing"}, "s3://missing/dep/.*NoSuchBucket"),
        ({"endpoint_url": "http://127.0.0.1:1"}, "Could not connect"),
        ({"endpoint_url": "http://"}, "Invalid endpoint"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_refused_at_the_start(
    settings: ObjectSettings, tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    with pytest.raises(ObjectStoreError, match=f"^Objects cannot be kept.*{why}"):
        open_objects(replace(settings, **change), tmp_path)


@pytest.mark.parametrize("missing", ["PutObject", "GetObject", "ListBucket", "ListBucketMultipartUploads"])
def test_credentials_without_a_needed_permission_are_refused_at_the_start(
    s3_server: S3Server, settings: ObjectSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    needed = {"PutObject", "GetObject", "DeleteObject", "ListBucket", "ListBucketMultipartUploads"}
    needed |= {"GetBucketVersioning", "AbortMultipartUpload"}
    key_id, secret = s3_server.user("storer", *(f"s3:{action}" for action in needed - {missing}))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    s3_server.enforce()
    with pytest.raises(ObjectStoreError, match="AccessDenied"):
        open_objects(settings, tmp_path)


def test_an_upload_that_fails_leaves_nothing(s3_server: S3Server, objects: BucketObjects, tmp_path: Path) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError("the disk is gone")
            return super().read(size)

    class OnAFailingDisk(type(tmp_path)):  # type: ignore[misc]  # pathlib makes a path of the system's class
        def open(self, *_: object) -> Failing:
            return Failing(Path(self).read_bytes())

    (tmp_path / "source").write_bytes(bytes(2 * PIECE_BYTES))
    source = OnAFailingDisk(tmp_path / "source")
    with pytest.raises(OSError, match="the disk is gone"):
        objects.put_file(KEY, source)
    assert "Uploads" not in s3_server.s3.list_multipart_uploads(Bucket="kept")
    assert "Contents" not in s3_server.s3.list_objects_v2(Bucket="kept")


def test_an_unfinished_upload_is_removed_with_its_run(s3_server: S3Server, objects: BucketObjects) -> None:
    for run in ("run_1", "run_2"):
        s3_server.s3.create_multipart_upload(Bucket="kept", Key=f"dep/runs/{run}/out_1")
    objects.delete_prefix("runs/run_1/")
    (left,) = s3_server.s3.list_multipart_uploads(Bucket="kept")["Uploads"]
    assert left["Key"] == "dep/runs/run_2/out_1"


def test_uploads_that_a_crash_left_long_ago_end_and_young_ones_go_on(
    s3_server: S3Server, objects: BucketObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    class In2009(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls(2009, 1, 1, tzinfo=tz)

    # The server dates every upload to 2010.
    s3_server.s3.create_multipart_upload(Bucket="kept", Key="dep/runs/run_1/out_1")
    with monkeypatch.context() as earlier:
        earlier.setattr("backend.storage.objects.bucket.datetime", In2009)
        objects.prove()
    assert len(s3_server.s3.list_multipart_uploads(Bucket="kept")["Uploads"]) == 1
    objects.prove()
    assert "Uploads" not in s3_server.s3.list_multipart_uploads(Bucket="kept")


def test_a_bucket_that_keeps_versions_loses_every_one(s3_server: S3Server, objects: BucketObjects) -> None:
    s3_server.s3.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"old", b"new"):
        objects.put_bytes(KEY, body)
    s3_server.s3.delete_object(Bucket="kept", Key=f"dep/{KEY}")
    objects.put_bytes("runs/run_2/out_1", b"other")
    objects.delete_prefix("runs/run_1/")
    found = s3_server.s3.list_object_versions(Bucket="kept")
    assert [version["Key"] for version in found["Versions"]] == ["dep/runs/run_2/out_1"]
    assert "DeleteMarkers" not in found


def test_what_could_not_be_removed_is_an_error(
    s3_server: S3Server, settings: ObjectSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    may = ("PutObject", "ListBucket", "ListBucketMultipartUploads", "GetBucketVersioning")
    key_id, secret = s3_server.user("keeper", *(f"s3:{action}" for action in may))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    s3_server.enforce()
    objects = BucketObjects(settings)
    objects.put_bytes(KEY, b"x")
    with pytest.raises(ObjectStoreError, match="AccessDenied"):
        objects.delete_prefix("runs/run_1/")


@pytest.mark.parametrize("number", range(4))
def test_a_response_with_a_truncated_head_is_not_read_as_empty(
    s3_server: S3Server, settings: ObjectSettings, number: int
) -> None:
    with FaultyProxy(lambda: int(s3_server.url.rpartition(":")[2])) as proxy:
        objects = BucketObjects(replace(settings, endpoint_url=proxy.url))
        objects.put_bytes(KEY, b"x")
        # Of uploads, versions, objects, and of what was removed.
        proxy.cut_one(number, passing=60)
        objects.delete_prefix("runs/run_1/")
    assert "Contents" not in s3_server.s3.list_objects_v2(Bucket="kept")


def test_a_large_file_is_stored_in_constant_memory(objects: BucketObjects, tmp_path: Path) -> None:
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.truncate(16 * PIECE_BYTES)
    objects.put_bytes("runs/run_1/warm", b"x")
    tracemalloc.start()
    objects.put_file(KEY, source)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * PIECE_BYTES


class Broken:
    """Answers each read of an object with its whole range announced, and only so many bytes of it sent."""

    def __init__(self, sends: list[int]) -> None:
        self.ranges: list[str] = []
        self.dropped = threading.Event()
        broken = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                broken.ranges.append(self.headers["Range"])
                found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
                assert found
                length = int(found[2]) - int(found[1]) + 1
                self.send_response(206)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                left = min(length, sends[min(len(broken.ranges), len(sends)) - 1])
                try:
                    while left:
                        left -= self.wfile.write(b"x" * min(left, 65_536))
                except OSError:
                    broken.dropped.set()
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        url = f"http://127.0.0.1:{self._server.server_port}"
        self.objects = BucketObjects(ObjectSettings(store="s3", bucket="kept", endpoint_url=url))

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextlib.contextmanager
def broken(sends: list[int]) -> Iterator[Broken]:
    server = Broken(sends)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OWNKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_closing_a_read_early_ends_the_connection() -> None:
    with broken([10**12]) as server:
        reader = server.objects.open_range(KEY, 0, 10**12)
        assert len(next(reader)) == 256 * 1024
        assert not server.dropped.is_set()
        reader.close()
        assert server.dropped.wait(60), "the store went on sending"


def test_a_read_whose_connection_is_lost_continues_where_it_was() -> None:
    with broken([100_000, 300_000, 10**6]) as server:
        assert b"".join(server.objects.open_range(KEY, 5, 700_000)) == b"x" * 700_000
    assert server.ranges == ["bytes=5-700004", "bytes=100005-700004", "bytes=400005-700004"]


def test_a_read_that_keeps_losing_its_connection_is_an_error() -> None:
    with broken([100]) as server, pytest.raises(ObjectStoreError, match="before the end"):
        b"".join(server.objects.open_range(KEY, 0, 700_000))
