"""Objects that change between the listing and the copy, on a real server."""

import threading
from pathlib import Path

import pytest

from backend.runtime.inputs.copying import CopyError, CopyHalt, Copying, ListedObject
from tests.support.s3_server import S3Server
from tests.unit.backend.runtime.inputs.test_sources import copy_from


@pytest.fixture
def listed(s3_server: S3Server) -> list[ListedObject]:
    s3_server.fill("docs", {f"in/{n}": b"as listed" for n in range(20)})
    found = s3_server.s3.list_objects_v2(Bucket="docs")["Contents"]
    return [ListedObject(one["Key"], one["Size"], one["ETag"]) for one in found]


def copy(server: S3Server, listed: list[ListedObject], folder: Path) -> None:
    connector = {"bucket": "docs", "role_arn": None}
    Copying(server.client("s3"), connector, CopyHalt(threading.Event())).copy((one, folder / one.key) for one in listed)


def test_every_object_is_copied(s3_server: S3Server, listed: list[ListedObject], tmp_path: Path) -> None:
    copy(s3_server, listed, tmp_path)
    assert {path.read_bytes() for path in (tmp_path / "in").iterdir()} == {b"as listed"}
    assert len(list((tmp_path / "in").iterdir())) == 20


def test_an_object_that_vanished_is_named(s3_server: S3Server, listed: list[ListedObject], tmp_path: Path) -> None:
    s3_server.s3.delete_object(Bucket="docs", Key="in/7")
    with pytest.raises(CopyError, match="the object 'in/7' vanished after it was listed"):
        copy(s3_server, listed, tmp_path)


def test_an_object_that_changed_is_named(s3_server: S3Server, listed: list[ListedObject], tmp_path: Path) -> None:
    s3_server.s3.put_object(Bucket="docs", Key="in/7", Body=b"as LISTED")
    with pytest.raises(CopyError, match="the object 'in/7' changed after it was listed"):
        copy(s3_server, listed, tmp_path)


def test_an_archived_object_is_named(s3_server: S3Server, listed: list[ListedObject], tmp_path: Path) -> None:
    s3_server.s3.put_object(Bucket="docs", Key="in/7", Body=b"as listed", StorageClass="GLACIER")
    with pytest.raises(CopyError, match="the object 'in/7' is archived"):
        copy(s3_server, listed, tmp_path)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("../../../../escaped", "%2E%2E/%2E%2E/%2E%2E/%2E%2E/escaped"),
        ("/etc/escaped", "%2F/etc/escaped"),
        ("a//b.txt", "a/%2F/b.txt"),
        ("e\u0301 \u202e👩\u200d🚀.txt", "e\u0301 \u202e👩\u200d🚀.txt"),
        ("bell\x07", "bell%07"),
        ("folder/", "folder/%2F"),
        ("100%+&?#.txt", "100%+&?#.txt"),
        ("/".join(["deep"] * 200), "deep~"),
        ("k" * 1_021, "k" * 238 + "~"),
    ],
)
def test_whatever_the_key_the_bytes_land_inside_the_folder(
    s3_server: S3Server, tmp_path: Path, key: str, name: str
) -> None:
    s3_server.fill("docs", {f"in/{key}": b"here"})
    (entry,) = copy_from(s3_server.url, tmp_path / "inputs")
    (found,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert found.relative_to(tmp_path / "inputs" / "documents").as_posix().startswith(name)
    assert found.read_bytes() == b"here"
    assert entry["items"][0]["key"] == f"in/{key}"
