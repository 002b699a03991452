"""Copies whole objects into files."""

import threading
from contextlib import closing
from pathlib import Path

from backend.storage.objects.interface import ObjectStore


def copy_to_file(
    objects: ObjectStore, key: str, size_bytes: int, target: Path, halt: threading.Event | None = None
) -> None:
    """Copies an object into a file; ends soon after `halt` is set.

    Raises:
        OSError, KeyError, EOFError: as `ObjectStore.open_range` and `ObjectReader`; or the file cannot be written.
        InterruptedError: `halt` was set.
    """
    with closing(objects.open_range(key, 0, size_bytes)) as reader, target.open("wb") as file:
        for block in reader:
            if halt is not None and halt.is_set():
                raise InterruptedError
            file.write(block)
