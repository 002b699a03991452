"""Outcome of a file's sweep, the errors that withhold a file, and the bounds on expanded files."""

import errno
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redaction.model import ModelError

if TYPE_CHECKING:
    from redaction.sweep import Sweep

MACHINE_ERRORS: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})
"""Codes of errors that come from the machine's disk, never from the content of a file."""

SweptFile = tuple[str, "Sweep"]
"""The kind of a swept file, and the sweep with its counts."""

SweepMember = Callable[["Sweep", Path, Path, str], SweptFile]
"""Sweeps a part of another file from the first path into the second; the last argument is the part's name."""

SweepCells = Callable[[list[str], list[str]], dict[int, str]]
"""Takes values and their labels; returns the new texts of changed values, by index."""

DEFAULT_EXPANDED_BYTES: Final = 500_000_000
"""Bytes of all members of a zip, or all values of a parquet file, together."""
LONGEST_VALUE: Final = 16 * 1024 * 1024
"""Characters of the longest value, cell, tag or piece of a text that is held in memory."""
BATCH: Final = 512 * 1024
"""Characters of a text that are swept together."""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """Result of the sweep of a file.

    `kind` is text, csv, json, xml, mail, office, parquet, zip or binary. A withheld file may not be released; the
    `reason` is `binary`, `broken`, `embedded` (parts of an office document), `too_many_members`, `too_large` (expanded
    size), `too_deep`, `value_too_long` or `not_installed` (an optional package).
    """

    kind: str
    values: int = 0
    withheld: bool = False
    reason: str | None = None


class WithheldError(Exception):
    """Raised for a file that cannot be swept; `args` are its kind and the reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason


def require_parquet() -> None:
    """Checks that the package for Parquet files can be imported.

    Raises:
        WithheldError: the package is not installed.
    """
    if not _parquet_installed():
        raise WithheldError("parquet", "not_installed")


@cache
def _parquet_installed() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


@contextmanager
def parser_failures_withheld(kind: str) -> Iterator[None]:
    """Turns any error of a parser of this kind of file into WithheldError; errors of a model pass unchanged.

    Raises:
        WithheldError: the file is malformed.
        OSError: the machine failed.
    """
    try:
        yield
    except (WithheldError, ModelError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in MACHINE_ERRORS:
            raise
        raise WithheldError(kind, "broken") from error


@dataclass(slots=True)
class ArchiveBounds:
    """Remaining bounds of an expanding file, shared by the archives and tables inside it."""

    members: int = 2_000
    expanded_bytes: int = DEFAULT_EXPANDED_BYTES
    depth: int = 4

    @contextmanager
    def deeper(self, kind: str) -> Iterator[None]:
        """Counts one level of nesting during the sweep of a file's content.

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
