"""Copying inputs in, over HTTP, from a bucket that misbehaves."""

import hashlib
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.common.retry import Backoff
from backend.common.secrets import Secrets
from backend.runtime.inputs import copying
from backend.runtime.inputs.sources import InputError, materialise_all
from backend.services.workflows.resolved_workflow import ResolvedInput
from tests.support.poll import until
from tests.unit.backend.runtime.bucket import Bucket, serve_bucket

__all__ = ["serve_bucket"]


ROOT = Path(__file__).parents[5]


def _copy(bucket: Bucket, folder: Path, **given: Any) -> Any:
    return copy_from(bucket.url, folder, **given)


def copy_from(
    url: str,
    folder: Path,
    *,
    uri: str = "s3://docs/in/",
    stop: bool = False,
    halt: threading.Event | None = None,
    max_objects: int = 500,
    max_bytes: int = 10_000_000,
) -> Any:
    connector = {
        "type": "s3",
        "bucket": "docs",
        "prefixes": ["in/"],
        "endpoint_url": url,
        "role_arn": None,
    }
    declared = ResolvedInput("documents", "inbox", "con_1", connector, max_objects, max_bytes)
    halt = halt or threading.Event()
    if stop:
        halt.set()
    return materialise_all([declared], {"documents": uri}, folder, halt, Secrets(), {})


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
    ],
)
def test_what_cannot_be_copied_in_is_told_by_parameter_and_cause(
    bucket: Bucket, tmp_path: Path, objects: dict[str, bytes], caps: dict[str, int], why: str
) -> None:
    bucket.objects = objects
    with pytest.raises(InputError) as error:
        _copy(
            bucket, tmp_path / "inputs", max_objects=caps.get("objects", 500), max_bytes=caps.get("bytes", 10_000_000)
        )
    assert str(error.value).startswith("Parameter 'documents': s3://docs/in/ could not be copied in: ")
    assert why in str(error.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "nothing was copied"


def test_unsafe_keys_land_inside_the_folder_and_keep_their_keys_in_the_manifest(bucket: Bucket, tmp_path: Path) -> None:
    keys = ["../../out", "/etc/passwd", "a", "a/b", "A", "x" * 1_000, "two\nlines", "folder/", "é", "e\u0301", "..", ""]
    bucket.objects = {f"in/{key}": key.encode() or b"-" for key in keys}
    inputs = tmp_path / "data" / "inputs"
    (entry,) = _copy(bucket, inputs)
    assert {item["key"] for item in entry["items"]} == set(bucket.objects)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(inputs / "documents") for path in found)
    assert sorted(path.read_bytes() for path in found) == sorted(bucket.objects.values())


def test_objects_are_copied_several_at_once(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {f"in/{n}": b"x" * 100_000 for n in range(200)}
    bucket.in_pairs = threading.Barrier(2)
    (entry,) = _copy(bucket, tmp_path, max_bytes=10**9)
    assert entry["objects"] == 200
    assert 1 < bucket.most_at_once <= 8


def test_as_much_as_the_caps_allow_is_copied_in(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {f"in/{n}": b"1234" for n in range(6)}
    (entry,) = _copy(bucket, tmp_path, max_objects=6, max_bytes=24)
    assert (entry["objects"], entry["bytes"]) == (6, 24)


def test_the_manifest_names_the_first_1000_objects_and_counts_all(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {f"in/{n:04}": b"x" for n in range(1_001)}
    (entry,) = _copy(bucket, tmp_path, max_objects=5_000)
    assert (entry["objects"], len(entry["items"]), entry["items"][-1]["key"]) == (1_001, 1_000, "in/0999")


@pytest.mark.parametrize("sent", [b"longer than listed", b"less"])
def test_an_object_of_another_size_than_listed_is_refused(bucket: Bucket, tmp_path: Path, sent: bytes) -> None:
    bucket.objects = {"in/a": b"as listed"}
    bucket.answers = {"in/a": [(sent, len(sent))]}
    with pytest.raises(InputError, match="'in/a' no longer has the 9 bytes"):
        _copy(bucket, tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 9


@pytest.fixture
def no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "STORE_RETRY", replace(copying.STORE_RETRY, backoff=Backoff(0.0, 0.0)))


@pytest.fixture
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "STORE_RETRY", replace(copying.STORE_RETRY, attempts=1))


@pytest.fixture
def long_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = replace(copying.STORE_RETRY, backoff=Backoff(3600.0, 3600.0), seconds=3600.0)
    monkeypatch.setattr(copying, "STORE_RETRY", policy)


@pytest.mark.usefixtures("no_delays")
def test_an_object_that_breaks_off_is_copied_again(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"in/a": b"as listed"}
    bucket.answers = {"in/a": [(b"as li", 9), (b"", 9)] * 3}
    _copy(bucket, tmp_path)
    assert (tmp_path / "documents" / "a").read_bytes() == b"as listed"


@pytest.mark.usefixtures("no_retries")
def test_an_object_that_always_breaks_off_is_named(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"in/a": b"as listed"}
    bucket.answers = {"in/a": [(b"as li", 9)] * 2}
    with pytest.raises(InputError, match=r"'in/a' failed: the store does not answer, or breaks off \(Incomplete"):
        _copy(bucket, tmp_path)


@pytest.mark.usefixtures("no_delays")
@pytest.mark.parametrize("failing", ["", "in/a"])
@pytest.mark.parametrize(
    "failure",
    [
        (503, b"<Error><Code>SlowDown</Code></Error>"),
        (500, b"<html><body>Internal error"),
        (500, b"<!DOCTYPE html><p>Oh"),
        (502, b"Bad gateway"),
        (400, b"<Error><Code>RequestTimeout</Code></Error>"),
        (429, b""),
    ],
)
def test_a_store_that_throttles_or_fails_for_a_while_is_waited_for(
    bucket: Bucket, tmp_path: Path, failing: str, failure: tuple[int, bytes]
) -> None:
    bucket.objects = {f"in/{name}": name.encode() for name in "abcde"}
    bucket.failure, bucket.failing = failure, {failing: 6}
    (entry,) = _copy(bucket, tmp_path)
    assert entry["objects"] == 5
    assert (tmp_path / "documents" / "a").read_bytes() == b"a"


@pytest.mark.usefixtures("no_retries")
def test_an_object_that_the_store_keeps_refusing_is_named_with_the_code_alone(
    bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.objects = {"in/a": b"a", "in/b": b"b"}
    bucket.failing = {"in/b": 7}
    with pytest.raises(InputError) as error:
        _copy(bucket, tmp_path)
    cause = "the object 'in/b' failed: the store answered GetObject with SlowDown"
    assert str(error.value) == f"Parameter 'documents': s3://docs/in/ could not be copied in: {cause}"
    assert "arn:aws:iam::1:user/own" in caplog.text


def test_an_object_that_will_not_be_had_later_either_is_asked_for_once(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"in/a": b"a"}
    bucket.failing = {"in/a": 2}
    bucket.failure = (403, b"<Error><Code>AccessDenied</Code><Message>arn:aws:iam::1:user/own</Message></Error>")
    with pytest.raises(InputError, match=r"'in/a' failed: the service's own credentials were denied GetObject \(Acc"):
        _copy(bucket, tmp_path)
    assert bucket.failing == {"": 0, "in/a": 1}


def test_what_answers_no_listing_is_told_and_not_an_empty_bucket(bucket: Bucket, tmp_path: Path) -> None:
    bucket.failing, bucket.failure = {"": 1}, (200, b"<html><body>Welcome</body></html>")
    with pytest.raises(InputError, match="what answers there does not speak as S3 and STS do"):
        _copy(bucket, tmp_path)


def test_a_listing_that_goes_on_nowhere_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    bucket.failing, bucket.failure = (
        {"": 1},
        (200, b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
    )
    with pytest.raises(InputError, match="the store says that its listing goes on, and not where"):
        _copy(bucket, tmp_path)


def test_what_does_not_fit_on_the_disk_is_refused_before_it_is_copied(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"in/a": b"x"}
    bucket.sizes = {"in/a": 10**17}
    with pytest.raises(InputError, match="the service's disk has room for"):
        _copy(bucket, tmp_path, max_bytes=10**18)


FULL_DISK = """
import resource, sys
from pathlib import Path
from backend.runtime.inputs.sources import InputError
from tests.unit.backend.runtime.inputs.test_sources import copy_from
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    copy_from(sys.argv[1], Path(sys.argv[2]))
except InputError as error:
    print(error)
"""


def test_a_file_that_cannot_be_written_is_told_without_the_hosts_folders(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"in/a": b"x" * 3_000_000}
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, bucket.url, tmp_path], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ran.stdout == "Parameter 'documents': s3://docs/in/ could not be copied in: File too large\n"


def test_a_prefix_that_the_connector_no_longer_allows_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="outside of what the connector may read"):
        _copy(bucket, tmp_path, uri="s3://docs/secret/")


def test_copying_ends_when_the_run_is_stopped(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"in/a": b"x"}
    with pytest.raises(InputError, match="stopped"):
        _copy(bucket, tmp_path, stop=True)
    assert not list(tmp_path.rglob("a"))


def test_copying_ends_soon_in_all_threads_when_the_run_is_stopped(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {f"in/{n}": b"x" for n in range(500)}
    halt = threading.Event()
    ended: list[str] = []

    def copy() -> None:
        try:
            _copy(bucket, tmp_path, halt=halt)
        except InputError as error:
            ended.append(str(error))

    copying = threading.Thread(target=copy)
    copying.start()
    until(lambda: list(tmp_path.rglob("*")), "a first file")
    halt.set()
    copying.join(60)
    assert "stopped" in ended[0]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("inputs")]
    assert len(list(tmp_path.rglob("*"))) < 500


@pytest.mark.usefixtures("long_delays")
@pytest.mark.parametrize("failing", ["", "in/a"])
def test_waiting_for_the_store_ends_when_the_run_is_stopped(bucket: Bucket, tmp_path: Path, failing: str) -> None:
    bucket.objects = {"in/a": b"a"}
    bucket.failing = {failing: 1}
    halt = threading.Event()
    ended: list[str] = []

    def copy() -> None:
        try:
            _copy(bucket, tmp_path, halt=halt)
        except InputError as error:
            ended.append(str(error))

    copying = threading.Thread(target=copy)
    copying.start()
    until(lambda: bucket.failing[failing] == 0, "the first try")
    halt.set()
    copying.join(60)
    assert "stopped" in ended[0]


@pytest.mark.usefixtures("long_delays")
def test_waiting_for_the_store_ends_when_another_object_failed(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"in/a": b"a", "in/b": b"b"}
    bucket.failing = {"in/a": 1}
    bucket.answers = {"in/b": [(b"longer", 6)]}
    with pytest.raises(InputError, match="'in/b' no longer has"):
        _copy(bucket, tmp_path)
