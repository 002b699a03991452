"""Cache of the CRC-32 of files, which the directory of a zip needs of every file in it."""

from collections import OrderedDict
from threading import Lock
from typing import Final

# About 4 MB, and several zips of the most files.
CAPACITY: Final = 16_384


class Checksums:
    """CRC-32 by SHA-256, so that none is ever stale; the least recently used are dropped. Safe for threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    def get(self, sha256: str) -> int | None:
        """Returns the CRC-32 of a file, or None."""
        with self._lock:
            checksum = self._known.get(sha256)
            if checksum is not None:
                self._known.move_to_end(sha256)
            return checksum

    def add(self, sha256: str, checksum: int) -> None:
        """Keeps the CRC-32 of a file."""
        with self._lock:
            self._known[sha256] = checksum
            if len(self._known) > CAPACITY:
                self._known.popitem(last=False)
