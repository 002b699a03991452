"""Reads whole objects."""

from contextlib import closing
from pathlib import Path

from backend.storage.objects.interface import ObjectStore


def copy_to_file(objects: ObjectStore, key: str, size_bytes: int, target: Path) -> None:
    """Writes an object into a file.

    Raises:
        OSError, KeyError, EOFError: as `ObjectStore.open_range` and `ObjectReader`; or the file cannot be written.
    """
    with closing(objects.open_range(key, 0, size_bytes)) as reader, target.open("wb") as file:
        file.writelines(reader)
