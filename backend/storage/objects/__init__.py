"""Object storage: bytes by key, in a folder or in a bucket, behind one interface."""

from pathlib import Path

from backend.settings import ObjectSettings
from backend.storage.objects.folder import FolderObjects
from backend.storage.objects.instrumented import MeasuredObjects
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


def open_objects(settings: ObjectSettings, folder: Path) -> ObjectStore:
    """Opens an object store and proves that it works; `folder` holds the objects unless the store is a bucket.

    Raises:
        ObjectStoreError: the bucket cannot be used as it must be; the message says why.
    """
    if settings.store == "folder":
        return MeasuredObjects(FolderObjects(folder, shared=settings.folder is not None))
    from backend.storage.objects.bucket import BucketObjects

    objects = BucketObjects(settings)
    objects.prove()
    return MeasuredObjects(objects)
