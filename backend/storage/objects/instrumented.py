"""Wrappers of object stores: one measures operations, one records spans without keys and content."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from backend.common import metrics
from backend.storage.objects.interface import ObjectReader, ObjectStore, StoredObject


class MeasuredObjects:
    """Measures another store; see `ObjectStore`."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put_file(self, key: str, source: Path) -> StoredObject:
        """Stores a copy of a file."""
        with _measured("put_file"):
            return self._objects.put_file(key, source)

    def put_bytes(self, key: str, data: bytes) -> StoredObject:
        """Stores bytes."""
        with _measured("put_bytes"):
            return self._objects.put_bytes(key, data)

    def open_range(self, key: str, offset: int, length: int) -> ObjectReader:
        """Opens an object to read a range of it."""
        with _measured("open_range"):
            return _Reader(self._objects.open_range(key, offset, length))

    def sizes(self, prefix: str) -> dict[str, int]:
        """Returns the sizes of objects below a prefix."""
        with _measured("sizes"):
            return self._objects.sizes(prefix)

    def delete(self, key: str) -> None:
        """Removes an object."""
        with _measured("delete"):
            self._objects.delete(key)

    def delete_prefix(self, prefix: str) -> None:
        """Removes every object below a prefix."""
        with _measured("delete_prefix"):
            self._objects.delete_prefix(prefix)

    def delete_chosen(self, prefix: str, chosen: Callable[[str], bool]) -> None:
        """Removes chosen objects below a prefix."""
        with _measured("delete_chosen"):
            self._objects.delete_chosen(prefix, chosen)


class _Reader(Iterator[bytes]):
    """Counts the failure of a read."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader

    def __next__(self) -> bytes:
        try:
            return next(self._reader)
        except (OSError, EOFError):
            metrics.OBJECTS_ERRORS.add("read")
            raise

    def close(self) -> None:
        self._reader.close()


@contextmanager
def _measured(operation: str) -> Iterator[None]:
    began = perf_counter()
    try:
        yield
    except (OSError, EOFError):
        metrics.OBJECTS_ERRORS.add(operation)
        raise
    finally:
        metrics.OBJECTS_SECONDS.observe(perf_counter() - began, operation)


if TYPE_CHECKING:
    from telemetry.otel import Tracing


class TracedObjects:
    """Records spans of another store; the span of a read ends when the object is open."""

    def __init__(self, objects: ObjectStore, tracing: "Tracing") -> None:
        self._objects = objects
        self._tracing = tracing

    def put_file(self, key: str, source: Path) -> StoredObject:
        """Stores a copy of a file."""
        with self._tracing.child("objects put", kind=self._tracing.CLIENT) as span:
            stored = self._objects.put_file(key, source)
            span.set_attribute("workflow_api.object.size", stored.size_bytes)
            return stored

    def put_bytes(self, key: str, data: bytes) -> StoredObject:
        """Stores bytes."""
        with self._tracing.child("objects put", {"workflow_api.object.size": len(data)}, kind=self._tracing.CLIENT):
            return self._objects.put_bytes(key, data)

    def open_range(self, key: str, offset: int, length: int) -> ObjectReader:
        """Opens an object."""
        with self._tracing.child("objects get", {"workflow_api.object.size": length}, kind=self._tracing.CLIENT):
            return self._objects.open_range(key, offset, length)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Returns the sizes of objects below a prefix."""
        with self._tracing.child("objects list", kind=self._tracing.CLIENT):
            return self._objects.sizes(prefix)

    def delete(self, key: str) -> None:
        """Removes an object."""
        with self._tracing.child("objects delete", kind=self._tracing.CLIENT):
            self._objects.delete(key)

    def delete_prefix(self, prefix: str) -> None:
        """Removes every object below a prefix."""
        with self._tracing.child("objects delete", kind=self._tracing.CLIENT):
            self._objects.delete_prefix(prefix)

    def delete_chosen(self, prefix: str, chosen: Callable[[str], bool]) -> None:
        """Removes chosen objects below a prefix."""
        with self._tracing.child("objects delete", kind=self._tracing.CLIENT):
            self._objects.delete_chosen(prefix, chosen)
