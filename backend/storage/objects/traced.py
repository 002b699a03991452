"""An object store whose operations have spans, where traces are on; keys and content are in none."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from backend.storage.objects.interface import ObjectReader, ObjectStore, StoredObject

if TYPE_CHECKING:
    from telemetry.otel import Tracing


class TracedObjects:
    """An `ObjectStore` over another one; the span of a read ends when the object is open."""

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
