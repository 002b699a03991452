"""Sweeps files of text: tables, JSON and plain text, in the file's own encoding."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from backend.redaction.formats.csv_text import CellTooLongError, sweep_csv
from backend.redaction.formats.encodings import Encoding
from backend.redaction.formats.file_extensions import JSON, TABLES
from backend.redaction.formats.json_like import sweep_json_like
from backend.redaction.formats.json_text import NotJsonError, ValueTooLongError, sweep_json
from backend.redaction.formats.outcome import SweptFile, WithheldError

if TYPE_CHECKING:
    from backend.redaction.sweep import Sweep


def sweep_text_file(sweep: "Sweep", source: Path, target: Path, extension: str, encoding: Encoding) -> SweptFile:
    """Sweeps a file of text by its extension, else by its first character.

    A table that turns out malformed is swept again as plain text, and so is JSON, with the values that it holds.

    Raises:
        WithheldError: it is JSON with a value too long to hold in memory.
    """
    if extension in TABLES:
        try:
            _write(sweep, target, encoding, sweep_csv(encoding.read(source), sweep.cells, TABLES[extension]))
        except CellTooLongError:
            sweep = sweep.again()
        else:
            return "csv", sweep
    elif extension in JSON or _starts_as_json(source, encoding):
        try:
            _write(sweep, target, encoding, sweep_json(encoding.read(source), sweep.cells))
        except NotJsonError:
            sweep = sweep.again()
            _write(sweep, target, encoding, sweep_json_like(encoding.read(source), sweep))
            return "text", sweep
        except ValueTooLongError:
            # As plain text its escapes would hide values.
            raise WithheldError("json", "value_too_long") from None
        else:
            return "json", sweep
    _write(sweep, target, encoding, sweep.stream(encoding.read(source)))
    return "text", sweep


def _starts_as_json(source: Path, encoding: Encoding) -> bool:
    return next(encoding.read(source)).lstrip()[:1] in {"{", "["}


def _write(sweep: "Sweep", target: Path, encoding: Encoding, blocks: Iterable[str]) -> None:
    if not sweep.redacts:
        for _ in blocks:
            pass
        return
    with target.open("wb") as file:
        file.write(encoding.mark)
        file.writelines(block.encode(encoding.name) for block in blocks)
