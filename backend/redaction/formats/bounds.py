"""Bounds on what archives, messages and tables may expand to."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from backend.redaction.formats.outcome import WithheldError

DEFAULT_EXPANDED_BYTES: Final = 500_000_000
"""Bytes of all members of a zip, or all values of a parquet file, together."""
LONGEST_VALUE: Final = 16 * 1024 * 1024
"""Characters of the longest value, cell, tag or piece of a text that is held in memory."""
BATCH: Final = 512 * 1024
"""Characters of a text that are swept together."""


@dataclass(slots=True)
class ArchiveBounds:
    """What is left of the bounds of a file that expands, shared by the archives and tables inside it."""

    members: int = 2_000
    expanded_bytes: int = DEFAULT_EXPANDED_BYTES
    depth: int = 4

    @contextmanager
    def deeper(self, kind: str) -> Iterator[None]:
        """Counts one level of nesting while what is inside of a file of this kind is swept.

        Raises:
            WithheldError: no level is left.
        """
        if self.depth == 0:
            raise WithheldError(kind, "too_deep")
        self.depth -= 1
        try:
            yield
        finally:
            self.depth += 1
