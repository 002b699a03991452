"""What makes a change of files outlive the machine's power."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Makes durable which files are in a folder: returns once the disk has it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
