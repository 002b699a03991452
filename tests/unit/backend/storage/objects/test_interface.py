"""What every store does alike: a folder, a bucket, and a bucket of somebody's own."""

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

import pytest

from backend.settings import ObjectSettings
from backend.storage.objects import PART_BYTES, FolderObjects, ObjectStore, open_objects
from backend.storage.objects.bucket import PIECE_BYTES
from tests.support.s3_server import S3Server

ENDPOINT = "WORKFLOW_API_TEST_S3"


def of_endpoint(url: str) -> ObjectSettings:
    """A place of its own in the bucket of `https://host/bucket/prefix` or `s3://bucket/prefix`."""
    parts = urlsplit(url)
    endpoint = None if parts.scheme == "s3" else f"{parts.scheme}://{parts.netloc}"
    path = f"{parts.netloc}{parts.path}" if endpoint is None else parts.path
    bucket, *below = path.strip("/").split("/")
    prefix = "/".join([*below, f"test-{uuid.uuid4().hex}", ""])
    return ObjectSettings(store="s3", bucket=bucket, prefix=prefix, endpoint_url=endpoint)


@pytest.fixture(params=["folder", "bucket", pytest.param("endpoint", marks=pytest.mark.optional)])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "folder":
        yield FolderObjects(tmp_path / "objects")
        return
    if request.param == "bucket":
        server: S3Server = request.getfixturevalue("s3_server")
        server.fill("kept", {})
        settings = ObjectSettings(store="s3", bucket="kept", prefix="dep/1/", endpoint_url=server.url)
    elif os.environ.get(ENDPOINT):
        settings = of_endpoint(os.environ[ENDPOINT])
    else:
        pytest.skip(f"set {ENDPOINT} to https://host/bucket or s3://bucket, with AWS credentials in the environment")
    objects = open_objects(settings, tmp_path)
    yield objects
    for run in ("run_1", "run_10"):
        objects.delete_prefix(f"runs/{run}/")


def read(objects: ObjectStore, key: str, offset: int, length: int) -> bytes:
    return b"".join(objects.open_range(key, offset, length))


def test_a_file_is_stored_with_its_size_and_digest(objects: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    data = os.urandom(2 * PIECE_BYTES + PART_BYTES + 17)
    source.write_bytes(data)
    assert objects.put_file("runs/run_1/out_1", source) == (len(data), hashlib.sha256(data).hexdigest(), crc32(data))
    assert source.read_bytes() == data
    assert read(objects, "runs/run_1/out_1", 0, len(data)) == data


def test_bytes_are_stored_and_replaced(objects: ObjectStore) -> None:
    objects.put_bytes("runs/run_1/out_1", b"old")
    assert objects.put_bytes("runs/run_1/out_1", b"new!") == (4, hashlib.sha256(b"new!").hexdigest(), crc32(b"new!"))
    assert read(objects, "runs/run_1/out_1", 0, 4) == b"new!"


def test_a_range_comes_in_parts_of_at_most_256_kib(objects: ObjectStore) -> None:
    data = os.urandom(2 * PART_BYTES)
    objects.put_bytes("runs/run_1/out_1", data)
    parts = list(objects.open_range("runs/run_1/out_1", 3, len(data) - 5))
    assert b"".join(parts) == data[3:-2]
    assert max(map(len, parts)) <= 256 * 1024


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES])
def test_a_file_of_any_size_comes_back_as_it_was(objects: ObjectStore, tmp_path: Path, size: int) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(size))
    data = source.read_bytes()
    assert objects.put_file("runs/run_1/out_1", source) == (size, hashlib.sha256(data).hexdigest(), crc32(data))
    assert read(objects, "runs/run_1/out_1", 0, size) == source.read_bytes()


def test_a_range_comes_from_within_a_large_object(objects: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(2 * PIECE_BYTES + 5))
    objects.put_file("runs/run_1/out_1", source)
    assert read(objects, "runs/run_1/out_1", PIECE_BYTES - 3, 7) == source.read_bytes()[PIECE_BYTES - 3 :][:7]


def test_an_empty_range_yields_nothing(objects: ObjectStore) -> None:
    objects.put_bytes("runs/run_1/out_1", b"")
    assert list(objects.open_range("runs/run_1/out_1", 0, 0)) == []


def test_a_missing_object_is_an_error_when_it_is_opened(objects: ObjectStore) -> None:
    for length in (0, 1):
        with pytest.raises(KeyError):
            objects.open_range("runs/run_1/out_1", 0, length)


def test_an_object_that_is_too_short_is_an_error_when_it_is_opened(objects: ObjectStore) -> None:
    objects.put_bytes("runs/run_1/out_1", b"abc")
    for offset, length in ((0, 4), (3, 1), (7, 2)):
        with pytest.raises(EOFError):
            objects.open_range("runs/run_1/out_1", offset, length)


def test_sizes_are_those_of_the_objects_directly_below_a_prefix(objects: ObjectStore) -> None:
    for name in ("out_1", "out_2", "logs/one-1"):
        objects.put_bytes(f"runs/run_1/{name}", name.encode())
    objects.put_bytes("runs/run_10/out_1", b"another run's")
    assert objects.sizes("runs/run_1/") == {"runs/run_1/out_1": 5, "runs/run_1/out_2": 5}
    assert objects.sizes("runs/run_none/") == {}


def test_closing_a_read_closes_the_file(objects: ObjectStore) -> None:
    objects.put_bytes("runs/run_1/out_1", bytes(2 * PART_BYTES))
    with contextlib.closing(objects.open_range("runs/run_1/out_1", 0, 2 * PART_BYTES)) as reader:
        next(reader)
    with pytest.raises(ValueError, match="closed file"):
        next(reader)


def test_a_read_that_was_opened_survives_the_removal(objects: ObjectStore) -> None:
    objects.put_bytes("runs/run_1/out_1", b"abc")
    reader = objects.open_range("runs/run_1/out_1", 0, 3)
    objects.delete_prefix("runs/run_1/")
    assert b"".join(reader) == b"abc"


@pytest.mark.parametrize("objects", ["bucket", pytest.param("endpoint", marks=pytest.mark.optional)], indirect=True)
def test_more_objects_than_one_page_are_removed(objects: ObjectStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: objects.put_bytes(f"runs/run_1/out_{n}", b"x"), range(1_005)))
    kept = ("runs/run_1/out_1", "runs/run_1/out_999")
    objects.delete_chosen("runs/run_1/", lambda key: key not in kept)
    assert [read(objects, key, 0, 1) for key in kept] == [b"x", b"x"]
    for n in (0, 998, 1_000, 1_004):
        with pytest.raises(KeyError):
            objects.open_range(f"runs/run_1/out_{n}", 0, 1)
    objects.delete_prefix("runs/run_1/")
    for n in (1, 999):
        with pytest.raises(KeyError):
            objects.open_range(f"runs/run_1/out_{n}", 0, 1)


def test_a_prefix_is_removed_with_all_below_it_and_nothing_beside_it(objects: ObjectStore) -> None:
    for key in ("runs/run_1/out_1", "runs/run_1/logs/step", "runs/run_10/out_1"):
        objects.put_bytes(key, b"x")
    for _ in range(2):
        objects.delete_prefix("runs/run_1/")
    for key in ("runs/run_1/out_1", "runs/run_1/logs/step"):
        with pytest.raises(KeyError):
            objects.open_range(key, 0, 1)
    assert read(objects, "runs/run_10/out_1", 0, 1) == b"x"


def test_chosen_objects_are_removed_with_none_beside_their_prefix(objects: ObjectStore) -> None:
    keys = ("runs/run_1/out_1", "runs/run_1/logs/step", "runs/run_10/out_1")
    for key in keys:
        objects.put_bytes(key, b"x")
    asked: set[str] = set()

    def chosen(key: str) -> bool:
        asked.add(key)
        return key.endswith("out_1")

    for _ in range(2):
        objects.delete_chosen("runs/run_1/", chosen)
    assert asked == set(keys[:2])
    with pytest.raises(KeyError):
        objects.open_range(keys[0], 0, 1)
    assert [read(objects, key, 0, 1) for key in keys[1:]] == [b"x", b"x"]


def test_a_key_that_is_not_ours_is_refused(objects: ObjectStore, tmp_path: Path) -> None:
    for key in (
        "",
        "/etc/passwd",
        "../secret",
        "runs/../../x",
        "runs//x",
        "runs/x/",
        "runs/.hidden",
        "runs/A b",
        "a\n",
    ):
        with pytest.raises(ValueError, match="not a key"):
            objects.put_bytes(key, b"x")
    assert not list(tmp_path.glob("secret"))


def test_a_whole_folder_cannot_be_removed_by_a_bad_prefix(objects: ObjectStore) -> None:
    objects.put_bytes("runs/run_1/out_1", b"x")
    for prefix in ("", "/", "runs/run_1", "../"):
        with pytest.raises(ValueError, match="not a"):
            objects.delete_prefix(prefix)
    assert read(objects, "runs/run_1/out_1", 0, 1) == b"x"


def test_a_failed_store_leaves_no_object(objects: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        objects.put_file("runs/run_1/out_1", tmp_path / "none")
    with pytest.raises(TypeError):
        objects.put_bytes("runs/run_1/out_1", "text")  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        objects.open_range("runs/run_1/out_1", 0, 0)


def test_a_deleted_object_is_gone_and_its_neighbour_stays(objects: ObjectStore) -> None:
    for name in ("out_1", "out_10", "out_2"):
        objects.put_bytes(f"runs/run_1/{name}", b"2")
    for _ in range(2):
        objects.delete("runs/run_1/out_1")
    with pytest.raises(KeyError):
        objects.open_range("runs/run_1/out_1", 0, 1)
    assert read(objects, "runs/run_1/out_10", 0, 1) + read(objects, "runs/run_1/out_2", 0, 1) == b"22"
