"""Makes changes of files durable: they survive a loss of power."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Writes the list of a folder's files to the disk, and returns once it is there."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
