from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from types_boto3_s3.client import S3Client

from backend.storage.objects import aws_clients
from deploy.serve.folder_storage import FolderStorage, folder_storage


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[FolderStorage]:
    folder = tmp_path / "inside"
    (folder / "a & b").mkdir(parents=True)
    (folder / "a & b" / "ü <1>.txt").write_text("text")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    with folder_storage({"bucket/in/": folder.resolve()}) as storage:
        yield storage


def client(storage: FolderStorage, access_key_id: str = "") -> S3Client:
    key = aws_clients.AccessKey(access_key_id or storage.access_key_id, storage.secret_access_key)
    return aws_clients.s3_client(aws_clients.Endpoint(storage.url, attempts=1), key)


def test_a_folder_is_listed_and_read_as_objects(storage: FolderStorage) -> None:
    s3 = client(storage)
    (found,) = s3.list_objects_v2(Bucket="bucket", Prefix="in/")["Contents"]
    assert (found["Key"], found["Size"]) == ("in/a & b/ü <1>.txt", 4)
    assert s3.get_object(Bucket="bucket", Key=found["Key"], IfMatch=found["ETag"])["Body"].read() == b"text"
    assert s3.list_objects_v2(Bucket="bucket", Prefix="out/")["KeyCount"] == 0


@pytest.mark.parametrize("key", ["in/link.txt", "in/../secret.txt", "in/none.txt", "other/a"])
def test_nothing_outside_of_the_folder_is_read(storage: FolderStorage, key: str) -> None:
    with pytest.raises(ClientError, match="NoSuchKey"):
        client(storage).get_object(Bucket="bucket", Key=key)


def test_another_access_key_is_denied(storage: FolderStorage) -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        client(storage, "a" * 32).list_objects_v2(Bucket="bucket")
