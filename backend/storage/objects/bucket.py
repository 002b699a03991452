"""Objects in a bucket of S3, or of a store with the same protocol, and reads of their ranges as streams."""

import contextlib
import io
import logging
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from backend.common import metrics
from backend.settings import ObjectSettings
from backend.storage.objects.aws_clients import Endpoint, s3_client
from backend.storage.objects.interface import (
    PART_BYTES,
    ContentDigest,
    ListedObject,
    ObjectReader,
    ObjectStoreError,
    StoredObject,
    checked_key,
    folder_key,
    is_key,
)

if TYPE_CHECKING:
    from types_boto3_s3.type_defs import CompletedPartTypeDef, DeleteTypeDef, ObjectIdentifierTypeDef


_MAX_FAILURES: Final = 3


class Body(Protocol):
    """The body of a response."""

    def read(self, size: int, /) -> bytes:
        """Returns at most `size` bytes; none at the end."""

    def close(self) -> None:
        """Ends the connection if the body has not been read to its end."""


class BucketRange(Iterator[bytes]):
    """A range of an object; if the connection is lost, the rest is requested again.

    `open_at` opens the object for an offset and a length. Closing ends the connection.
    """

    def __init__(self, open_at: Callable[[int, int], Body], offset: int, length: int) -> None:
        self._closed = True
        self._open_at = open_at
        self._offset = offset
        self._left = length
        self._failures = 0
        self._body = open_at(offset, length)
        self._closed = False

    def __next__(self) -> bytes:
        if self._closed and self._left:
            raise ValueError("read of a closed file")
        if not self._left:
            self.close()
            raise StopIteration
        part = self._read()
        if not part:
            self.close()
            raise EOFError(f"the object ended {self._left} bytes early")
        self._offset += len(part)
        self._left -= len(part)
        return part

    def _read(self) -> bytes:
        while True:
            try:
                return self._body.read(min(PART_BYTES, self._left))
            except (BotoCoreError, OSError) as error:
                self._failures += 1
                self._body.close()
                if self._failures > _MAX_FAILURES:
                    raise ObjectStoreError(f"Reading failed {self._left} bytes before the end: {error}") from error
            try:
                self._body = self._open_at(self._offset, self._left)
            except KeyError:
                raise ObjectStoreError("The object was removed while it was read.") from None

    def close(self) -> None:
        """Ends the connection if the body has not been read to its end."""
        if not self._closed:
            self._closed = True
            self._body.close()

    def __del__(self) -> None:
        self.close()


_LOG = logging.getLogger(__name__)

PIECE_BYTES: Final = 5 * 1024 * 1024
"""The smallest part of an upload that S3 accepts; no more than one part is in memory."""

_MAX_PIECES: Final = 10_000
_ATTEMPTS: Final = 4
_CONNECTIONS: Final = 64
_OURS: Final = "runs/"
# One folder for all starts: the next start replaces and removes the leftovers of a failed one.
_PROBE_FOLDER: Final = f"{_OURS}probe/"
# The probe may be removed by the start of another process.
_PROBE_TRIES: Final = 8
_PROBE_PAUSE_SECONDS: Final = 0.2
_ABSENT: Final = frozenset({"NoSuchKey", "404"})
_UNKNOWN_TO_THE_STORE: Final = frozenset({"NotImplemented", "MethodNotAllowed", "501"})
# No upload takes so long: the process that began an older one is gone.
_LONGEST_UPLOAD: Final = timedelta(days=1)


class BucketObjects:
    """Objects below one prefix of a bucket, which many processes may share.

    Credentials are those of the process's environment, found as by every AWS client.
    """

    def __init__(self, settings: ObjectSettings) -> None:
        if settings.bucket is None:
            raise ObjectStoreError("Objects cannot be kept: objects.bucket names no bucket.")
        self._bucket = settings.bucket
        self._prefix = settings.prefix
        self._place = f"s3://{settings.bucket}/{settings.prefix}"
        self._encryption: dict[str, Any] = {}
        if settings.sse != "none":
            self._encryption["ServerSideEncryption"] = settings.sse
        if settings.kms_key_id is not None:
            self._encryption["SSEKMSKeyId"] = settings.kms_key_id
        with _as_store_errors(f"Objects cannot be kept in {self._place}"):
            self._client = s3_client(Endpoint(settings.endpoint_url, settings.region, _ATTEMPTS, _CONNECTIONS))
        self._client.meta.events.register("request-created.s3", _count_retry)

    def prove(self) -> None:
        """Writes, reads, lists and removes an object, and ends uploads that a crash left behind long ago.

        Raises:
            ObjectStoreError: one of these is not possible; the next successful start removes the object.
        """
        try:
            self._write_and_read_probe()
            self.delete_prefix(_PROBE_FOLDER)
            with _as_store_errors("Listing uploads failed"):
                before = datetime.now(UTC) - _LONGEST_UPLOAD
                self._abort_uploads(self._prefix + _OURS, lambda _: True, began_before=before)
        except (OSError, KeyError) as error:
            raise ObjectStoreError(f"Objects cannot be kept in {self._place}: {error}") from error

    def _write_and_read_probe(self) -> None:
        key = f"{_PROBE_FOLDER}start"
        for tries_left in reversed(range(_PROBE_TRIES)):
            self.put_bytes(key, b"1")
            try:
                self.open_range(key, 0, 1).close()
            except KeyError:
                if not tries_left:
                    raise
                time.sleep(random.uniform(0, _PROBE_PAUSE_SECONDS))  # noqa: S311 - no secret
            except OSError:
                with contextlib.suppress(OSError):
                    self.delete(key)
                raise
            else:
                return

    def put_file(self, key: str, source: Path) -> StoredObject:
        """Stores a copy of a file; see `ObjectStore`."""
        with source.open("rb") as file:
            return self._put(key, file, max(PIECE_BYTES, -(-source.stat().st_size // _MAX_PIECES)))

    def put_bytes(self, key: str, data: bytes) -> StoredObject:
        """Stores bytes; see `ObjectStore`."""
        return self._put(key, io.BytesIO(data), PIECE_BYTES)

    def open_range(self, key: str, offset: int, length: int) -> ObjectReader:
        """Opens an object to read a range of it; see `ObjectStore`."""
        name = self._prefix + checked_key(key)

        def open_at(first: int, left: int) -> Body:
            with _as_store_errors(f"Reading {key} failed"):
                try:
                    if not left:
                        # S3 has no range of no bytes.
                        self._client.head_object(Bucket=self._bucket, Key=name)
                        return io.BytesIO()
                    wanted = f"bytes={first}-{first + left - 1}"
                    answer = self._client.get_object(Bucket=self._bucket, Key=name, Range=wanted)
                    if answer["ContentLength"] < left:
                        answer["Body"].close()
                        raise EOFError(f"the object {key} ends before byte {first + left}")
                    return answer["Body"]
                except ClientError as error:
                    if _code(error) in _ABSENT:
                        raise KeyError(key) from None
                    if _code(error) == "InvalidRange":
                        raise EOFError(f"the object {key} ends before byte {first + left}") from None
                    raise

        return BucketRange(open_at, offset, length)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Returns the sizes of objects below a prefix; see `ObjectStore`."""
        below = f"{self._prefix}{folder_key(prefix)}/"
        with _as_store_errors(f"Listing {prefix} failed"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=below, Delimiter="/"
            )
            return {
                found["Key"].removeprefix(self._prefix): found["Size"]
                for page in pages
                for found in page.get("Contents", ())
            }

    def listed_below(self, prefix: str) -> Iterator[ListedObject]:
        """Yields the objects below a prefix, also in its folders, ordered by key."""
        below = f"{self._prefix}{folder_key(prefix)}/"
        with _as_store_errors(f"Listing {prefix} failed"):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=below)
            for found in (found for page in pages for found in page.get("Contents", ())):
                key = found["Key"].removeprefix(self._prefix)
                if is_key(key):
                    yield ListedObject(key, found["Size"], found["LastModified"].timestamp())

    def delete(self, key: str) -> None:
        """Removes an object with all its versions; see `ObjectStore`."""
        name = self._prefix + checked_key(key)
        with _as_store_errors(f"Removing {key} failed"):
            self._remove(name, lambda found: found == name)

    def delete_prefix(self, prefix: str) -> None:
        """Removes every object below a prefix with all its versions, and ends uploads; see `ObjectStore`."""
        self.delete_chosen(prefix, lambda _: True)

    def delete_chosen(self, prefix: str, chosen: Callable[[str], bool]) -> None:
        """Removes chosen objects below a prefix with all their versions, and ends uploads; see `ObjectStore`."""
        below = f"{self._prefix}{folder_key(prefix)}/"

        def meant(name: str) -> bool:
            return chosen(name.removeprefix(self._prefix))

        with _as_store_errors(f"Removing {prefix} failed"):
            self._abort_uploads(below, meant)
            self._remove(below, meant)

    def _put(self, key: str, source: BinaryIO, piece_bytes: int) -> StoredObject:
        name = self._prefix + checked_key(key)
        piece = source.read(piece_bytes)
        with _as_store_errors(f"Storing {key} failed"):
            if len(piece) == piece_bytes:
                return self._upload(name, piece, source)
            self._client.put_object(Bucket=self._bucket, Key=name, Body=piece, **self._encryption)
        digest = ContentDigest()
        digest.update(piece)
        return digest.stored()

    def _upload(self, name: str, piece: bytes, source: BinaryIO) -> StoredObject:
        """Uploads a first piece and the rest of a source; the object appears with the last request."""
        piece_bytes = len(piece)
        upload = self._client.create_multipart_upload(Bucket=self._bucket, Key=name, **self._encryption)["UploadId"]
        digest = ContentDigest()
        parts: list[CompletedPartTypeDef] = []
        try:
            while piece:
                digest.update(piece)
                number = len(parts) + 1
                part = self._client.upload_part(
                    Bucket=self._bucket, Key=name, UploadId=upload, PartNumber=number, Body=piece
                )
                parts.append({"ETag": part["ETag"], "PartNumber": number})
                piece = source.read(piece_bytes)
            self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=name, UploadId=upload, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            self._give_up(name, upload)
            raise
        return digest.stored()

    def _give_up(self, name: str, upload: str) -> None:
        try:
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=name, UploadId=upload)
        except (BotoCoreError, ClientError):
            # An upload that cannot be ended goes with the run's final sweep or erasure, or at a start a day later.
            _LOG.warning("The upload of %s could not be aborted", name, exc_info=True)

    def _abort_uploads(self, prefix: str, meant: Callable[[str], bool], began_before: datetime | None = None) -> None:
        pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=prefix)
        for upload in [upload for page in pages for upload in page.get("Uploads", ())]:
            if meant(upload["Key"]) and (began_before is None or upload["Initiated"] < began_before):
                with _ignoring(frozenset({"NoSuchUpload"})):
                    self._client.abort_multipart_upload(
                        Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                    )

    def _remove(self, prefix: str, meant: Callable[[str], bool]) -> None:
        """Removes the chosen objects page by page, at most 1,000 each; an error is raised after the last page.

        Raises:
            ObjectStoreError: the store kept some.
        """
        undeleted: list[str] = []
        for page in self._versions(prefix) if self._has_versions() else self._objects(prefix):
            chosen = [one for one in page if meant(one["Key"])]
            if chosen:
                removal: DeleteTypeDef = {"Objects": chosen, "Quiet": True}
                answer = self._client.delete_objects(Bucket=self._bucket, Delete=removal)
                undeleted += [f"{error.get('Key')} ({error.get('Code')})" for error in answer.get("Errors", ())]
        if undeleted:
            raise ObjectStoreError(
                f"{len(undeleted)} objects in {self._place} could not be removed, as {undeleted[0]}."
            )

    def _objects(self, prefix: str) -> "Iterator[list[ObjectIdentifierTypeDef]]":
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
            yield [{"Key": found["Key"]} for found in page.get("Contents", ())]

    def _versions(self, prefix: str) -> "Iterator[list[ObjectIdentifierTypeDef]]":
        for page in self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=prefix):
            found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            yield [{"Key": version["Key"], "VersionId": version["VersionId"]} for version in found]

    def _has_versions(self) -> bool:
        """Returns whether the bucket keeps versions of removed objects."""
        with _ignoring(_UNKNOWN_TO_THE_STORE):
            return "Status" in self._client.get_bucket_versioning(Bucket=self._bucket)
        return False


def _count_retry(request: Any, **_: object) -> None:
    if request.context.get("retries", {}).get("attempt", 1) > 1:
        metrics.OBJECTS_RETRIES.add()


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


@contextlib.contextmanager
def _ignoring(codes: frozenset[str]) -> Iterator[None]:
    """Ignores errors with these codes."""
    try:
        yield
    except ClientError as error:
        if _code(error) not in codes:
            raise


@contextlib.contextmanager
def _as_store_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError, ValueError) as error:
        raise ObjectStoreError(f"{what}: {str(error).rstrip('.')}.") from error
