"""Sweeps files of text: tables, XML, JSON and plain text, in the file's own encoding."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from backend.redaction.formats.csv_text import CellTooLongError, sweep_csv
from backend.redaction.formats.encodings import Encoding
from backend.redaction.formats.file_extensions import JSON, TABLES, XML
from backend.redaction.formats.json_like import sweep_json_like
from backend.redaction.formats.json_text import NotJsonError, ValueTooLongError, sweep_json
from backend.redaction.formats.outcome import SweptFile, WithheldError
from backend.redaction.formats.xml_text import sweep_xml

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
    elif extension in XML or _starts_as_xml(source, encoding):
        # An entity may have stood for a character that the encoding does not have.
        _write(sweep, target, encoding, sweep_xml(encoding.read(source), sweep.cells), "xmlcharrefreplace")
        return "xml", sweep
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


def _starts_as_xml(source: Path, encoding: Encoding) -> bool:
    return next(encoding.read(source)).lstrip()[:5].lower() == "<?xml"


def _write(sweep: "Sweep", target: Path, encoding: Encoding, blocks: Iterable[str], errors: str = "strict") -> None:
    if not sweep.redacts:
        for _ in blocks:
            pass
        return
    with target.open("wb") as file:
        file.write(encoding.mark)
        file.writelines(block.encode(encoding.name, errors) for block in blocks)
