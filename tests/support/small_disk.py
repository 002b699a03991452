"""A file system of a few megabytes, which can be filled."""

import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

_PART: Final = b"\0" * 4096


class SmallDisk:
    """Mounted at `folder`, which is made, until `close`."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        folder.mkdir()
        self.folder = folder
        self._filler = folder / "filler"
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, timeout=60, check=False).returncode:
            pytest.skip("only root may mount a small disk")

    def fill(self) -> None:
        """Leaves no room."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(_PART)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def set_read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True, timeout=60)

    def relieve(self) -> None:
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        with suppress(FileNotFoundError):
            subprocess.run(["umount", "--lazy", self.folder], check=True, timeout=60)
