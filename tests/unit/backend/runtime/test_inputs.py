"""Copying inputs in, over HTTP."""

import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest

from backend.runtime.definition import InputDefinition
from backend.runtime.inputs import InputError, materialise_all
from backend.runtime.resources import Resources
from tests.unit.backend.runtime.bucket import Bucket, serve_bucket

__all__ = ["serve_bucket"]


def _copy(
    bucket: Bucket,
    folder: Path,
    *,
    uri: str = "s3://docs/in/",
    stop: bool = False,
    max_objects: int = 500,
    max_bytes: int = 10_000,
) -> Any:
    declared = InputDefinition("documents", "inbox", max_objects, max_bytes)
    connector = {
        "type": "s3",
        "bucket": "docs",
        "prefixes": ["in/"],
        "endpoint_url": bucket.url,
        "role_arn": None,
    }
    resources = Resources({}, {}, {"inbox": connector}, {"inbox": "con_1"})
    halt = threading.Event()
    if stop:
        halt.set()
    return materialise_all([declared], {"documents": uri}, resources, folder, halt)


def test_objects_land_below_the_parameters_folder(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {f"in/{name}": name.encode() for name in ("a.txt", "b/c.txt", "b/d é.txt", "e.txt")}
    bucket.objects |= {"in/folder/": b"", "other/x.txt": b"x"}
    (entry,) = _copy(bucket, tmp_path)
    found = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {
        f"documents/{key[3:]}": body for key, body in bucket.objects.items() if key.endswith(".txt") and body != b"x"
    }
    assert (entry["parameter"], entry["connector_id"], entry["uri"]) == ("documents", "con_1", "s3://docs/in/")
    assert (entry["objects"], entry["bytes"]) == (4, sum(map(len, found.values())))
    assert entry["items"][0] == {
        "key": "in/a.txt",
        "size_bytes": 5,
        "etag": hashlib.md5(b"a.txt", usedforsecurity=False).hexdigest(),
    }


@pytest.mark.parametrize(
    ("objects", "caps", "why"),
    [
        ({}, {}, "there are no objects"),
        ({"in/folder/": b""}, {}, "there are no objects"),
        ({f"in/{n}": b"" for n in range(6)}, {"objects": 5}, "there are more than 5 objects (max_objects)"),
        ({f"in/{n}": b"1234" for n in range(6)}, {"bytes": 23}, "the objects have more than 23 bytes (max_bytes)"),
        ({"in/../../out": b"x"}, {}, "does not name a file below the prefix"),
        ({"in//etc/passwd": b"x"}, {}, "does not name a file below the prefix"),
        ({"in/" + "x" * 256: b"x"}, {}, "has a part of more than 255 bytes"),
    ],
)
def test_what_cannot_be_copied_in_is_told_by_parameter_and_cause(
    bucket: Bucket, tmp_path: Path, objects: dict[str, bytes], caps: dict[str, int], why: str
) -> None:
    bucket.objects = objects
    with pytest.raises(InputError) as error:
        _copy(bucket, tmp_path / "inputs", max_objects=caps.get("objects", 500), max_bytes=caps.get("bytes", 10_000))
    assert str(error.value).startswith("Parameter 'documents': s3://docs/in/ could not be copied in: ")
    assert why in str(error.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "nothing was copied"


def test_a_denied_listing_is_told(bucket: Bucket, tmp_path: Path) -> None:
    bucket.denied = True
    with pytest.raises(InputError, match="AccessDenied"):
        _copy(bucket, tmp_path)


def test_an_object_that_changed_since_the_listing_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"in/a": b"x"}
    bucket.changes_after_listing = True
    with pytest.raises(InputError, match="PreconditionFailed"):
        _copy(bucket, tmp_path)


def test_a_prefix_that_the_connector_no_longer_allows_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="outside of what the connector may read"):
        _copy(bucket, tmp_path, uri="s3://docs/secret/")


def test_copying_ends_when_the_run_is_stopped(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"in/a": b"x"}
    with pytest.raises(InputError, match="stopped"):
        _copy(bucket, tmp_path, stop=True)
