"""Copies listed objects to files, several at once, in constant memory."""

import shutil
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from types_boto3_s3.client import S3Client

THREADS: Final = 8

_PART_BYTES: Final = 128 * 1024
_ATTEMPTS: Final = 3
_WORDS: Final = {
    "NoSuchKey": "vanished after it was listed",
    "PreconditionFailed": "changed after it was listed",
    "InvalidObjectState": "is archived and cannot be read",
}


class CopyError(ValueError):
    """An object is not what was listed, or copying was ended; the message says which and how."""


class ListedObject(NamedTuple):
    """An object as the listing had it; `etag` as S3 writes it, in quotation marks."""

    key: str
    size: int
    etag: str


class Copying:
    """One input's copying: `client` reads the bucket, and nothing goes on once `stop` is set or an object failed."""

    def __init__(self, client: "S3Client", bucket: str, stop: threading.Event) -> None:
        self._client = client
        self._bucket = bucket
        self._stop = stop
        self._failed = threading.Event()
        # What waits in the client to be tried again ends as well.
        client.meta.events.register("before-send.s3", lambda **_: self._check_going())

    def copy(self, objects: Iterable[tuple[ListedObject, Path]]) -> None:
        """Copies each object to its new file; on return no thread is left.

        Raises:
            CopyError: an object vanished, changed, or has other bytes than were listed, or `stop` was set.
            OSError: a file could not be written.
            botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError: the store failed.
        """
        waiting = _Shared(objects)
        with ThreadPoolExecutor(THREADS, thread_name_prefix="inputs") as threads:
            workers = [threads.submit(self._work, waiting) for _ in range(THREADS)]
        errors = [error for worker in workers if (error := worker.exception()) is not None]
        # All but the first only ended because of it.
        for error in sorted(errors, key=lambda error: isinstance(error, _EndedError)):
            raise error

    def _work(self, waiting: Iterator[tuple[ListedObject, Path]]) -> None:
        try:
            for found, target in waiting:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    self._copy(found, file)
        except BaseException:
            self._failed.set()
            raise

    def _copy(self, found: ListedObject, file: BinaryIO) -> None:
        from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

        for left in reversed(range(_ATTEMPTS)):
            file.seek(0)
            file.truncate()
            try:
                with closing(self._open(found)) as body:
                    self._write(found, body, file)
            except (IncompleteReadError, ReadTimeoutError, ResponseStreamingError) as error:
                if not left:
                    raise CopyError(f"the object {found.key!r} broke off again and again") from error
            else:
                return

    def _open(self, found: ListedObject) -> "StreamingBody":
        """Opens the object, which must still be the one that was listed."""
        from botocore.exceptions import ClientError

        try:
            if found.etag:
                return self._client.get_object(Bucket=self._bucket, Key=found.key, IfMatch=found.etag)["Body"]
            return self._client.get_object(Bucket=self._bucket, Key=found.key)["Body"]
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _WORDS:
                raise CopyError(f"the object {found.key!r} {_WORDS[code]} ({code})") from error
            raise

    def _write(self, found: ListedObject, body: "StreamingBody", file: BinaryIO) -> None:
        """Writes as many bytes as were listed; the caps were held against those."""
        written = 0
        while part := body.read(_PART_BYTES):
            self._check_going()
            written += len(part)
            if written > found.size:
                break
            file.write(part)
        if written != found.size:
            raise CopyError(f"the object {found.key!r} no longer has the {found.size:,} bytes that were listed")

    def _check_going(self) -> None:
        if self._stop.is_set():
            raise CopyError("the run was stopped")
        if self._failed.is_set():
            raise _EndedError


def require_room(folder: Path, size: int) -> None:
    """Refuses what cannot fit on the disk.

    Raises:
        CopyError: there is less room than that.
    """
    free = shutil.disk_usage(folder).free
    if size > free:
        raise CopyError(f"the objects have {size:,} bytes, and the service's disk has room for {free:,}")


class _EndedError(Exception):
    """Another thread failed."""


class _Shared(Iterator[tuple[ListedObject, Path]]):
    """One iteration for several threads."""

    def __init__(self, items: Iterable[tuple[ListedObject, Path]]) -> None:
        self._items = iter(items)
        self._lock = threading.Lock()

    def __next__(self) -> tuple[ListedObject, Path]:
        with self._lock:
            return next(self._items)
