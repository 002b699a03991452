"""Copies listed objects to files, several at once, in constant memory."""

import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from backend.connectors.s3_errors import CredentialsError, code_of, explain
from backend.runtime.inputs.halting import CopyError, CopyHalt, OtherThreadFailedError

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from types_boto3_s3.client import S3Client

THREADS: Final = 8

_PART_BYTES: Final = 128 * 1024
_MESSAGES: Final = {
    "NoSuchKey": "vanished after it was listed",
    "PreconditionFailed": "changed after it was listed",
    "InvalidObjectState": "is archived and cannot be read",
}


class ListedObject(NamedTuple):
    """An object of a listing; `etag` as S3 writes it, in quotation marks."""

    key: str
    size: int
    etag: str


class Copying:
    """Copies one input: `client` reads the connector's bucket, until `halt` ends it."""

    def __init__(self, client: "S3Client", connector: Mapping[str, Any], halt: CopyHalt) -> None:
        self._client = client
        self._connector = connector
        self._halt = halt

    def copy(self, objects: Iterable[tuple[ListedObject, Path]]) -> None:
        """Copies each object to its new file; on return no thread is left.

        Raises:
            CopyError: an object vanished, changed, has other bytes than were listed or could not be read, or the run
                was stopped.
            OSError: a file could not be written.
        """
        waiting = _SharedIterator(objects)
        with ThreadPoolExecutor(THREADS, thread_name_prefix="inputs") as threads:
            workers = [threads.submit(self._work, waiting) for _ in range(THREADS)]
        errors = [error for worker in workers if (error := worker.exception()) is not None]
        # The others only ended because of the first.
        for error in sorted(errors, key=lambda error: isinstance(error, OtherThreadFailedError)):
            raise error

    def _work(self, waiting: Iterator[tuple[ListedObject, Path]]) -> None:
        try:
            for found, target in waiting:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    self._copy(found, file)
        except BaseException:
            self._halt.fail()
            raise

    def _copy(self, found: ListedObject, file: BinaryIO) -> None:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            self._halt.retry(lambda: self._copy_once(found, file), "Copying an object")
        except (BotoCoreError, ClientError, ResponseParserError, CredentialsError) as error:
            code = code_of(error)
            why = f"{_MESSAGES[code]} ({code})" if code in _MESSAGES else f"failed: {explain(error, self._connector)}"
            raise CopyError(f"the object {found.key!r} {why}") from error

    def _copy_once(self, found: ListedObject, file: BinaryIO) -> None:
        file.seek(0)
        file.truncate()
        with closing(self._open(found)) as body:
            self._write(found, body, file)

    def _open(self, found: ListedObject) -> "StreamingBody":
        """Opens the object, provided that it is still the listed one."""
        bucket = self._connector["bucket"]
        if found.etag:
            return self._client.get_object(Bucket=bucket, Key=found.key, IfMatch=found.etag)["Body"]
        return self._client.get_object(Bucket=bucket, Key=found.key)["Body"]

    def _write(self, found: ListedObject, body: "StreamingBody", file: BinaryIO) -> None:
        """Writes as many bytes as were listed, for which the limits were checked."""
        written = 0
        while part := body.read(_PART_BYTES):
            self._halt.check()
            written += len(part)
            if written > found.size:
                break
            file.write(part)
        if written != found.size:
            raise CopyError(f"the object {found.key!r} no longer has the {found.size:,} bytes that were listed")


def require_free_space(folder: Path, size: int) -> None:
    """Refuses a size that does not fit on the disk.

    Raises:
        CopyError: there is less free space.
    """
    free = shutil.disk_usage(folder).free
    if size > free:
        raise CopyError(f"the objects have {size:,} bytes, and the service's disk has room for {free:,}")


class _SharedIterator(Iterator[tuple[ListedObject, Path]]):
    """An iterator that several threads share."""

    def __init__(self, items: Iterable[tuple[ListedObject, Path]]) -> None:
        self._items = iter(items)
        self._lock = threading.Lock()

    def __next__(self) -> tuple[ListedObject, Path]:
        with self._lock:
            return next(self._items)
