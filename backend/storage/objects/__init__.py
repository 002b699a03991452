"""Object storage: bytes by key, in a folder or in a bucket, behind one interface."""

from backend.storage.objects.factory import open_objects
from backend.storage.objects.folder import FolderObjects
from backend.storage.objects.interface import PART_BYTES, ObjectReader, ObjectStore, ObjectStoreError

__all__ = ["PART_BYTES", "FolderObjects", "ObjectReader", "ObjectStore", "ObjectStoreError", "open_objects"]
