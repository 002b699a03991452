"""Outcome of the sweep of one file, and the errors that decide it."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backend.redaction.model import ModelError

if TYPE_CHECKING:
    from backend.redaction.sweep import Sweep

MACHINE_ERRORS: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})
"""Codes of errors that come from the machine's disk, never from the content of a file."""

SweptFile = tuple[str, "Sweep"]
"""The kind of a file that was swept, and the sweep that counted what it holds."""

SweepMember = Callable[["Sweep", Path, Path, str], SweptFile]
"""Sweeps the file at the first path, a part of another file, of the name given last, into the second."""

SweepCells = Callable[[list[str], list[str]], dict[int, str]]
"""Takes values and their labels; returns the new text of those that change, by index."""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """Result of the sweep of a file.

    `kind` is text, csv, json, xml, mail, office, parquet, zip or binary. A withheld file may not be released, for the
    `reason`: `binary`, `broken`, `embedded` (parts of an office document), `too_many_members`, `too_large` (its
    expanded size), `too_deep`, `value_too_long` or `not_installed` (the optional part that reads it).
    """

    kind: str
    values: int = 0
    withheld: bool = False
    reason: str | None = None


class WithheldError(Exception):
    """A file cannot be swept; `args` are its kind and the reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason


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
