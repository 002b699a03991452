"""Bounds on what archives and tables may expand to."""

from dataclasses import dataclass
from typing import Final

DEFAULT_EXPANDED_BYTES: Final = 500_000_000
"""Bytes of all members of a zip, or all values of a parquet file, together."""


@dataclass(slots=True)
class ArchiveBounds:
    """What is left of the bounds of a file that expands, shared by the archives and tables inside it."""

    members: int = 2_000
    expanded_bytes: int = DEFAULT_EXPANDED_BYTES
    depth: int = 4
