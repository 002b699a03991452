"""Sweeps files by their content, each kind in its own way, in constant memory."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backend.redaction.formats.csv_text import CellTooLongError, sweep_csv
from backend.redaction.formats.encodings import Encoding, text_encoding
from backend.redaction.formats.file_extensions import JSON, TABLES
from backend.redaction.formats.json_text import NotJsonError, ValueTooLongError, sweep_json
from backend.redaction.model import ModelError

if TYPE_CHECKING:
    from backend.redaction.sweep import Sweep

# Of a zip's members or a parquet file's values, all together.
DEFAULT_EXPANDED_BYTES: Final = 500_000_000
_PARQUET_MARK: Final = b"PAR1"
_ZIP_MARKS: Final = (b"PK\x03\x04", b"PK\x05\x06")


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of a file.

    `kind` is text, csv, json, parquet, zip or binary. A withheld file may not be given out, for the `reason`:
    `binary`, `broken`, `too_many_members`, `too_large` (what it expands to), `too_deep` or `value_too_long`.
    """

    kind: str
    values: int = 0
    withheld: bool = False
    reason: str | None = None


# What an input or output error of the machine says, and no file that is read.
MACHINE_ERRORS: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})


class WithheldError(Exception):
    """A file cannot be swept; `args` are its kind and the reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason


@contextmanager
def parser_failures_withheld(kind: str) -> Iterator[None]:
    """Turns whatever a parser raises at a file of this kind into WithheldError; failures of a model stay theirs.

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


Swept = tuple[str, "Sweep"]


def sweep_into(
    sweep: "Sweep", source: Path, target: Path, name: str, bounds: "ArchiveBounds", sample_rows: int
) -> Swept:
    """Sweeps a file into `target`, where the policy redacts; gives its kind, and the sweep that counted.

    Raises:
        WithheldError: the file holds what cannot be swept.
        OSError: reading or writing failed.
    """
    with source.open("rb") as file:
        head = file.read(4)
    ending = os.path.splitext(name)[1].lower()  # noqa: PTH122 - a name, not a path of this machine
    if head == _PARQUET_MARK:
        from backend.redaction.formats.parquet import sweep_parquet

        sweep_parquet(sweep, source, target, bounds, sample_rows)
        return "parquet", sweep
    if head in _ZIP_MARKS and ending == ".zip":
        from backend.redaction.formats.archives import sweep_zip

        sweep_zip(sweep, source, target, bounds, sample_rows)
        return "zip", sweep
    encoding = text_encoding(source)
    if encoding is None:
        raise WithheldError("binary", "binary")
    return _sweep_text(sweep, source, target, ending, encoding)


def _sweep_text(sweep: "Sweep", source: Path, target: Path, ending: str, encoding: Encoding) -> Swept:
    if ending in TABLES:
        try:
            _write(sweep, target, encoding, sweep_csv(encoding.read(source), sweep.cells, TABLES[ending]))
        except CellTooLongError:
            sweep = sweep.again()
        else:
            return "csv", sweep
    elif ending in JSON or _opens_as_json(source, encoding):
        try:
            _write(sweep, target, encoding, sweep_json(encoding.read(source), sweep.cells))
        except NotJsonError:
            sweep = sweep.again()
        except ValueTooLongError:
            # As plain text its escapes would hide values.
            raise WithheldError("json", "value_too_long") from None
        else:
            return "json", sweep
    _write(sweep, target, encoding, sweep.stream(encoding.read(source)))
    return "text", sweep


def _opens_as_json(source: Path, encoding: Encoding) -> bool:
    return next(encoding.read(source)).lstrip()[:1] in {"{", "["}


def _write(sweep: "Sweep", target: Path, encoding: Encoding, blocks: Iterable[str]) -> None:
    if not sweep.redacts:
        for _ in blocks:
            pass
        return
    with target.open("wb") as file:
        file.write(encoding.mark)
        file.writelines(block.encode(encoding.name) for block in blocks)


@dataclass(slots=True)
class ArchiveBounds:
    """What is left of the bounds of a file that expands, shared by the archives and tables inside it."""

    members: int = 2_000
    expanded_bytes: int = DEFAULT_EXPANDED_BYTES
    depth: int = 4


def whole_or_nothing(target: Path, write: Callable[[Path], Swept]) -> Swept:
    """Lets `write` fill a file beside `target` that takes its name only when it is complete."""
    partial = target.with_name(target.name + ".partial")
    try:
        swept = write(partial)
        if partial.exists():
            partial.replace(target)
        return swept
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
