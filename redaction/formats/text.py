"""Sweeps text files by format, keeping their encoding: tables, XML, JSON, Markdown, plain text and others."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redaction.formats.assignments import Assignments
from redaction.formats.content_lines import find_content_lines
from redaction.formats.csv_layout import table_layout
from redaction.formats.csv_text import CellTooLongError, sweep_csv
from redaction.formats.encodings import Encoding
from redaction.formats.file_names import (
    ASSIGNMENTS,
    CONTENT_LINES,
    JSON,
    MARKDOWN,
    SQL,
    TABLES,
    TURTLE,
    XML,
    YAML,
)
from redaction.formats.json_like import sweep_json_like
from redaction.formats.json_text import NotJsonError, ValueTooLongError, sweep_json
from redaction.formats.labelled_text import FindLabelled, Labelled, add_counts, sweep_labelled
from redaction.formats.outcome import SweptFile, WithheldError
from redaction.formats.sql_text import ENDS as SQL_ENDS
from redaction.formats.sql_text import SqlValues
from redaction.formats.turtle import NotTurtleError, sweep_turtle
from redaction.formats.xml_text import sweep_xml
from redaction.formats.yaml_text import sweep_yaml

if TYPE_CHECKING:
    from redaction.sweep import Sweep

_XML_BEGINNINGS: Final = ("<?xml", "<!doctype ", "<html", "<plist")
_LONGEST_XML: Final = max(map(len, _XML_BEGINNINGS))
_LINES: Final = ("\n",)
# The line between head and rows of a Markdown table.
_MARKDOWN_TABLE: Final = re.compile(r"^[ \t]*+\|?[ \t]*+:?-{2,}+:?[ \t]*+\|[-:| \t]*+\r?$", re.MULTILINE)

_RULE: Final = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?)?[ \t]*\|?[ \t]*")
_CELL: Final = re.compile(r"(?:[^|\\]|\\.)+")
_MARKS: Final = "*_` \t"


def _finder(extension: str) -> tuple[FindLabelled, Sequence[str]] | None:
    """Returns the finder of labelled values for an extension, and the ends of its pieces; None for other texts."""
    if extension in CONTENT_LINES:
        return find_content_lines, _LINES
    if extension in ASSIGNMENTS:
        return Assignments(quotes=extension == ".toml"), _LINES
    if extension in MARKDOWN:
        return MarkdownTables(), _LINES
    return (SqlValues(), SQL_ENDS) if extension in SQL else None


def sweep_text_file(sweep: "Sweep", source: Path, target: Path, extension: str, encoding: Encoding) -> SweptFile:
    """Sweeps a text file in the format of its extension, else of its first character.

    A malformed table is swept again as plain text, and malformed JSON as text with values.

    Raises:
        WithheldError: the file is JSON with a value too long for memory.
    """
    if extension in TABLES:
        try:
            _write(sweep, target, encoding, sweep_csv(encoding.read(source), sweep.cells, TABLES[extension]))
        except CellTooLongError:
            sweep = sweep.with_empty_counts()
            _write(sweep, target, encoding, sweep.stream(encoding.read(source)))
        else:
            return "csv", sweep
    elif extension in TURTLE:
        return _sweep_turtle(sweep, source, target, encoding)
    elif extension in YAML:
        _write(sweep, target, encoding, sweep_yaml(encoding.read(source), sweep))
    elif (finder := _finder(extension)) is not None:
        find, ends = finder
        _write(sweep, target, encoding, sweep_labelled(encoding.read(source), sweep, find, ends))
    elif extension in XML or _starts_as_xml(source, encoding):
        # An entity may stand for a character that the encoding lacks.
        _write(sweep, target, encoding, sweep_xml(encoding.read(source), sweep.cells), "xmlcharrefreplace")
        return "xml", sweep
    elif extension in JSON or _starts_as_json(source, encoding):
        try:
            _write(sweep, target, encoding, sweep_json(encoding.read(source), sweep.cells))
        except NotJsonError:
            sweep = sweep.with_empty_counts()
            _write(sweep, target, encoding, sweep_json_like(encoding.read(source), sweep))
            return "text", sweep
        except ValueTooLongError:
            # Not swept as plain text, because escapes would hide values.
            raise WithheldError("json", "value_too_long") from None
        else:
            return "json", sweep
    else:
        return _sweep_plain(sweep, source, target, encoding)
    return "text", sweep


def _sweep_turtle(sweep: "Sweep", source: Path, target: Path, encoding: Encoding) -> SweptFile:
    try:
        _write(sweep, target, encoding, sweep_turtle(encoding.read(source), sweep))
    except NotTurtleError:
        return _sweep_plain(sweep.with_empty_counts(), source, target, encoding)
    return "text", sweep


def _sweep_plain(sweep: "Sweep", source: Path, target: Path, encoding: Encoding) -> SweptFile:
    """Sweeps a text of no known format, and first the cells of a table at its beginning, labelled by columns."""
    head = next(encoding.read(source))
    if _MARKDOWN_TABLE.search(head) is not None:
        _write(sweep, target, encoding, sweep_labelled(encoding.read(source), sweep, MarkdownTables()))
        return "text", sweep
    if (layout := table_layout(head)) is not None:
        # Cells are replaced in every mode, so that none is counted again as text.
        cells = sweep.part(redacts=True)
        try:
            swept = sweep.stream(sweep_csv(encoding.read(source), cells.cells, layout.separator, among_text=True))
            _write(sweep, target, encoding, swept)
        except CellTooLongError:
            sweep = sweep.with_empty_counts()
        else:
            add_counts(sweep, cells)
            return "csv", sweep
    _write(sweep, target, encoding, sweep.stream(encoding.read(source)))
    return "text", sweep


def _starts_as_json(source: Path, encoding: Encoding) -> bool:
    return next(encoding.read(source)).lstrip()[:1] in {"{", "["}


def _starts_as_xml(source: Path, encoding: Encoding) -> bool:
    return next(encoding.read(source)).lstrip()[:_LONGEST_XML].lower().startswith(_XML_BEGINNINGS)


def _write(sweep: "Sweep", target: Path, encoding: Encoding, blocks: Iterable[str], errors: str = "strict") -> None:
    if not sweep.redacts:
        for _ in blocks:
            pass
        return
    with target.open("wb") as file:
        file.write(encoding.mark)
        file.writelines(block.encode(encoding.name, errors) for block in blocks)


class MarkdownTables:
    """Finder of the cells of the Markdown tables of one file."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def __call__(self, text: str) -> Iterator[Labelled]:
        """Yields the cells in some lines; text between tables has no label."""
        start = below = 0
        lines = text.split("\n")
        for line, following in pairwise([*lines, ""]):
            bare = line.rstrip("\r")
            if "|" not in bare:
                self._names = []
            elif "|" in following and _RULE.fullmatch(following.rstrip("\r")):
                yield from _between(text, below, start)
                self._names = [name for _, _, name in _cells(bare)]
                below = start + len(line) + 1
            elif self._names:
                yield from _between(text, below, start)
                below = start + len(line) + 1
                for (low, high, cell), name in zip(_cells(bare), self._names, strict=False):
                    if cell:
                        yield Labelled(start + low, start + high, cell, name)
            start += len(line) + 1
        yield from _between(text, below, len(text))


def _between(text: str, low: int, high: int) -> Iterator[Labelled]:
    if any(map(str.isalnum, written := text[low:high])):
        yield Labelled(low, high, written)


def _cells(line: str) -> Iterator[tuple[int, int, str]]:
    """Yields start, end and text of each cell of a row."""
    low = len(line) - len(line.lstrip(" \t"))
    low += line[low : low + 1] == "|"
    while low < len(line):
        found = _CELL.match(line, low)
        end = low if found is None else found.end()
        raw = line[low:end]
        inner = raw.strip(_MARKS)
        first = low + raw.index(inner)
        yield first, first + len(inner), inner
        low = end + 1
