"""Object storage: bytes by key, in a folder or in a bucket, behind one interface."""

from backend.storage.objects.factory import open_objects
from backend.storage.objects.folder import FolderObjects
from backend.storage.objects.interface import (
    PART_BYTES,
    ContentDigest,
    ObjectReader,
    ObjectStore,
    ObjectStoreError,
    StoredObject,
)

__all__ = [
    "PART_BYTES",
    "ContentDigest",
    "FolderObjects",
    "ObjectReader",
    "ObjectStore",
    "ObjectStoreError",
    "StoredObject",
    "open_objects",
]
