"""Copies listed objects to files, several at once, in constant memory, and compares them with the inputs manifest.

The manifest lists the objects that a run began with, by which a later copy is checked (contract 14.8, 25.6).
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, TypeVar

from backend.common.json_text import JsonMapping, JsonObject
from backend.common.retry import Backoff, HaltedError, RetryPolicy
from backend.resources.connectors.object_storage import CredentialsError, code_of, explain, is_transient, loggable

Item = JsonMapping
Entry = JsonObject

MAX_ITEMS_LISTED: Final = 1_000


def item_of(key: str, size: int, etag: str) -> Item:
    """Returns an object as the manifest lists it; `size` in bytes, `etag` without quotation marks."""
    return {"key": key, "size_bytes": size, "etag": etag}


def manifest_entry(parameter: str, connector_id: str | None, uri: str, items: Sequence[Item]) -> Entry:
    """Returns the entry of one input, which counts all objects and lists the first 1,000."""
    return {
        "parameter": parameter,
        "connector_id": connector_id,
        "uri": uri,
        "objects": len(items),
        "bytes": sum(item["size_bytes"] for item in items),
        "items": items[:MAX_ITEMS_LISTED],
    }


def require_unchanged(entry: Entry, items: Sequence[Item], recorded: Entry | None) -> None:
    """Compares objects with those that the run began with; `recorded` is None in the run's first segment.

    Beyond the listed objects only their number and bytes can be compared.

    Raises:
        ValueError: an object was changed, removed or added.
    """
    if recorded is None:
        return
    now, before = {_identity(item) for item in items}, {_identity(item) for item in recorded["items"]}
    keys = {item["key"] for item in items}
    for key, *_ in sorted(before - now):
        raise ValueError(f"the object {key!r} was {'changed' if key in keys else 'removed'} after the run began")
    if (entry["objects"], entry["bytes"]) == (recorded["objects"], recorded["bytes"]):
        return
    if recorded["objects"] <= MAX_ITEMS_LISTED:
        for key, *_ in sorted(now - before):
            raise ValueError(f"the object {key!r} was added after the run began")
    raise ValueError(
        f"the run began with {recorded['objects']:,} objects of {recorded['bytes']:,} bytes, and now there are "
        f"{entry['objects']:,} of {entry['bytes']:,}"
    )


def _identity(item: Item) -> tuple[str, int, str]:
    return item["key"], item["size_bytes"], item["etag"]


T = TypeVar("T")

STORE_RETRY: Final = RetryPolicy(
    retry_on=is_transient,
    # Spreads the next tries of threads that were throttled together.
    backoff=Backoff(first_seconds=1.0, longest_seconds=30.0, jitter=0.25),
    seconds=60.0,
    describe=loggable,
)
"""Retries for a store that throttles or fails for a while."""

_POLL_SECONDS: Final = 0.1


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


class CopyError(ValueError):
    """An object differs from its listing, or copying was stopped; the message says which and how."""


class OtherThreadFailedError(Exception):
    """Another thread that copies the same input failed."""


class CopyHalt:
    """Ends the threads that copy one input once `stop` is set or one of them failed."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._failed = threading.Event()

    def fail(self) -> None:
        """Ends all threads because the calling one failed."""
        self._failed.set()

    def is_set(self) -> bool:
        """Returns whether the threads are to end."""
        return self._stop.is_set() or self._failed.is_set()

    def wait(self, timeout: float) -> bool:
        """Waits for `timeout` seconds, or until the threads are to end; returns whether they are."""
        until = time.monotonic() + timeout
        while not self.is_set() and (left := until - time.monotonic()) > 0:
            self._stop.wait(min(left, _POLL_SECONDS))
        return self.is_set()

    def check(self) -> None:
        """Raises if the threads are to end.

        Raises:
            CopyError: `stop` was set.
            OtherThreadFailedError: another thread failed.
        """
        if self._stop.is_set():
            raise CopyError("the run was stopped")
        if self._failed.is_set():
            raise OtherThreadFailedError

    def retry(self, work: Callable[[], T], what: str) -> T:
        """Returns the result of `work`, retried by STORE_RETRY; raises as `check`, also between two tries."""
        try:
            return STORE_RETRY.run_blocking(work, what, halt=self)
        except HaltedError:
            self.check()
            raise


class Copying:
    """Copies one input: `client` reads the connector's bucket, until `halt` ends it."""

    def __init__(self, client: "S3Client", connector: JsonMapping, halt: CopyHalt) -> None:
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
        # Other threads only ended because of the first failure.
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
        """Writes exactly the listed number of bytes, for which the limits were checked."""
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
