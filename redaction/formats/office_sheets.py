"""Sweeps the cells of workbooks, labelled by the names of their columns."""

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from redaction.formats.csv_layout import header_row
from redaction.formats.outcome import WithheldError
from redaction.search.normalisation import without_exponent
from redaction.sweep import Sweep

_STRINGS: Final = "xl/sharedStrings.xml"
_ITEM: Final = re.compile(r"<si\b[^<>]*?(?:/>|>(.*?)</si>)", re.DOTALL)
_ROW: Final = re.compile(r"<row\b[^<>]*?(?:/>|>(.*?)</row>)", re.DOTALL)
_CELL: Final = re.compile(r"<c\b([^<>]*?)(?:/>|>(.*?)</c>)", re.DOTALL)
_TEXT: Final = re.compile(r"<t\b[^<>]*?(?:/>|>([^<]*)</t>)")
_VALUE: Final = re.compile(r"<v\b[^<>]*>([^<]*)</v>")
_FORMULA: Final = re.compile(r"<f\b[^<>]*>([^<]+)</f>")
_MAY_HOLD_VALUES: Final = re.compile(r'"|[0-9]{6}')
_HEADER: Final = re.compile(r"<((?:odd|even|first)(?:Header|Footer))>([^<]+)</\1>")
# Codes in a page header: section, font, size, colour, page number.
_CODE: Final = re.compile(r'(&(?:"[^"]*"|K[0-9A-Fa-f]{6}|[0-9]+|.))', re.DOTALL)
_TYPE: Final = re.compile(r'\st="([a-zA-Z]+)"')
_COLUMN: Final = re.compile(r'\sr="([A-Z]{1,3})[0-9]+"')
# First rows that may name the columns.
_HEAD: Final = 24
_PREFIXED: Final = re.compile(r"<\w+:(?:worksheet|sst)\b")


class _Cell(NamedTuple):
    """A cell of a sheet: span in the part, column, type, text, formula, and index of its shared string, if any."""

    start: int
    end: int
    attributes: str
    column: str
    kind: str
    text: str
    formula: str
    item: int | None


def sweep_workbook(sweep: Sweep, parts: Mapping[str, str]) -> dict[str, str]:
    """Returns the shared strings and sheets of a workbook with their cells swept; a number with a value becomes text.

    Raises:
        WithheldError: the workbook's XML has an unknown form.
    """
    if any(_PREFIXED.search(text) for text in parts.values()):
        raise WithheldError("office", "embedded")
    items = [_joined(found[1] or "") for found in _ITEM.finditer(parts.get(_STRINGS, ""))]
    changed_items: dict[int, str] = {}
    used: set[int] = set()
    swept: dict[str, str] = {}
    for name, text in parts.items():
        if name != _STRINGS:
            cells = list(_cells(text, items))
            changed = _swept_cells(sweep, cells)
            used |= {cell.item for cell in cells if cell.item is not None}
            changed_items |= {
                cell.item: changed[index]
                for index, cell in enumerate(cells)
                if index in changed and cell.item is not None
            }
            for index in _with_values(sweep, cells):
                # The formula's result stays without the formula.
                changed.setdefault(index, cells[index].text)
            swept[name] = _with_headers(sweep, _with_cells(text, cells, changed))
    rest = [index for index in range(len(items)) if index not in used]
    for place, new in sweep.cells([items[index] for index in rest], [""] * len(rest)).items():
        changed_items[rest[place]] = new
    if _STRINGS in parts:
        swept[_STRINGS] = _with_items(parts[_STRINGS], changed_items)
    return swept


def cell_texts(parts: Mapping[str, str]) -> set[str]:
    """Returns the texts of all cells of a workbook's sheets; `parts` include the shared strings."""
    items = [_joined(found[1] or "") for found in _ITEM.finditer(parts.get(_STRINGS, ""))]
    return {cell.text for name, text in parts.items() if name != _STRINGS for cell in _cells(text, items)}


def _swept_cells(sweep: Sweep, cells: list[_Cell]) -> dict[int, str]:
    rows: dict[int, dict[str, str]] = defaultdict(dict)
    row = 0
    last = ""
    numbers: list[int] = []
    for cell in cells:
        # A row begins where columns begin again.
        row += (len(cell.column), cell.column) <= (len(last), last)
        last = cell.column
        numbers.append(row)
        rows[row][cell.column] = cell.text
    first = list(rows)[:_HEAD]
    columns = sorted({column for number in first for column in rows[number]}, key=lambda one: (len(one), one))
    named = header_row([[rows[number].get(column, "") for column in columns] for number in first])
    names = rows[first[named]] if first else {}
    below = first[named] if first else 0
    labels = [names.get(cell.column, "") if number > below else "" for cell, number in zip(cells, numbers, strict=True)]
    return sweep.cells([cell.text for cell in cells], labels)


def _with_values(sweep: Sweep, cells: list[_Cell]) -> Iterator[int]:
    """Yields the indices of cells whose formulas hold values, and counts these values."""
    found: dict[str, list[str]] = {}
    for index, cell in enumerate(cells):
        # Values in formulas are texts or long numbers.
        if _MAY_HOLD_VALUES.search(cell.formula):
            if cell.formula not in found:
                found[cell.formula] = [match.entity for match in sweep.matches(cell.formula)]
            if entities := found[cell.formula]:
                sweep.counts.categories.update(entities)
                yield index


def _cells(sheet: str, items: list[str]) -> Iterator[_Cell]:
    for row in _ROW.finditer(sheet):
        if row[1] is None:
            continue
        for found in _CELL.finditer(sheet, row.start(1), row.end(1)):
            attributes, inside = found[1], found[2] or ""
            kind = type_[1] if (type_ := _TYPE.search(attributes)) else "n"
            column = place[1] if (place := _COLUMN.search(attributes)) else ""
            value = _VALUE.search(inside)
            text, item = "" if value is None else html.unescape(value[1]), None
            if kind == "s":
                item = int(text)
                text = items[item]
            elif kind == "inlineStr":
                text = _joined(inside)
            elif kind == "n":
                text = without_exponent(text)
            formula = html.unescape(made[1]) if (made := _FORMULA.search(inside)) else ""
            if (text or formula) and kind not in {"b", "e"}:
                yield _Cell(found.start(), found.end(), attributes, column, kind, text, formula, item)


def _joined(inside: str) -> str:
    return html.unescape("".join(found[1] or "" for found in _TEXT.finditer(inside)))


def _with_cells(sheet: str, cells: list[_Cell], changed: Mapping[int, str]) -> str:
    """Returns a sheet with changed inline cells, without their formulas."""
    parts: list[str] = []
    place = 0
    for index, cell in enumerate(cells):
        if index in changed and cell.item is None:
            attributes = _TYPE.sub("", cell.attributes)
            text = f"<is>{_element(changed[index])}</is>"
            parts += sheet[place : cell.start], f'<c{attributes} t="inlineStr">{text}</c>'
            place = cell.end
    parts.append(sheet[place:])
    return "".join(parts)


def _with_items(strings: str, changed: Mapping[int, str]) -> str:
    parts: list[str] = []
    place = 0
    for index, found in enumerate(_ITEM.finditer(strings)):
        if index in changed:
            parts += strings[place : found.start()], f"<si>{_element(changed[index])}</si>"
            place = found.end()
    parts.append(strings[place:])
    return "".join(parts)


def _with_headers(sweep: Sweep, sheet: str) -> str:
    """Returns a sheet with its page headers and footers swept, each text between two codes by itself."""
    headers = list(_HEADER.finditer(sheet))
    split = [_CODE.split(html.unescape(found[2])) for found in headers]
    places = [(number, place) for number, parts in enumerate(split) for place in range(0, len(parts), 2)]
    changed = sweep.cells([split[number][place] for number, place in places], [""] * len(places))
    for index, new in changed.items():
        number, place = places[index]
        split[number][place] = new
    for number in sorted({places[index][0] for index in changed}, reverse=True):
        text = html.escape("".join(split[number]), quote=False)
        sheet = sheet[: headers[number].start(2)] + text + sheet[headers[number].end(2) :]
    return sheet


def _element(text: str) -> str:
    return f'<t xml:space="preserve">{html.escape(text, quote=False)}</t>'
