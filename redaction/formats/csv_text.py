"""Sweeps a stream of comma-separated values cell by cell: separators, quotes and line ends stay unchanged."""

import itertools
import json
import operator
import re
from collections.abc import Iterable, Iterator
from typing import Final

from redaction.formats.csv_layout import CsvLayout, csv_layout
from redaction.formats.json_text import Values
from redaction.formats.nested_labels import (
    is_known_label,
    may_be_labelled,
    may_state_label,
    stated_label,
    states_label,
)
from redaction.formats.outcome import BATCH, LONGEST_VALUE, SweepCells
from redaction.search.normalisation import has_exponents, without_exponent

# Most cells of a batch, to bound memory for short cells.
_MAX_CELLS: Final = 262_144
# Characters searched together; a longer text has long cells.
_AT_ONCE: Final = BATCH + BATCH // 2
_FEW_CELLS: Final = 32_768
# Most consecutive empty cells that are read together.
_MAX_EMPTY: Final = 1_024

_QUOTED: Final = r'[^"]*+(?:""[^"]*+)*+'
_INSIDE: Final = re.compile(_QUOTED)
_LINE: Final = r'[^"\r\n]*+(?:""[^"\r\n]*+)*+'
_LINE_END: Final = r"(?:\r\n|\r|\n)"
_LONGEST_ON_ONE_LINE: Final = 60
# Number of row-like lines behind a quote that show it to be no opening quote.
_ROWS_IN_QUOTES: Final = 8


class CellTooLongError(ValueError):
    """A cell is longer than LONGEST_VALUE."""


def sweep_csv(
    blocks: Iterable[str], sweep: SweepCells, separator: str | None = None, *, among_text: bool = False
) -> Iterator[str]:
    """Yields the swept text block by block, including the row that names the columns.

    The first row, or the first behind titles, names the columns; the default `separator` is detected (`csv_layout`).
    With `among_text` only rows with as many cells as most rows have labels.

    Raises:
        CellTooLongError: before a longer cell would be held in memory.
    """
    table: _Table | None = None
    rest = ""
    for block in blocks:
        rest += block
        if len(rest) < BATCH:
            continue
        table = table or _Table(csv_layout(rest, separator), sweep, among_text=among_text)
        swept, rest = table.swept(rest, final=False)
        if len(rest) > LONGEST_VALUE:
            raise CellTooLongError
        yield swept
    yield (table or _Table(csv_layout(rest, separator), sweep, among_text=among_text)).swept(rest, final=True)[0]


class _Table:
    """State of a reader of cells: the names of the columns and the next column."""

    def __init__(self, layout: CsvLayout, sweep: SweepCells, *, among_text: bool) -> None:
        one = re.escape(layout.separator)
        self._stray = _stray_quote(one, 0 if layout.quoted else layout.columns)
        self._cell = re.compile(
            rf'("{_LINE}(?<!{one})"[^{one}\r\n]*|(?=")(?!{self._stray.pattern})"{_QUOTED}"[ ]*+(?=[{one}\r\n]|\Z)'
            rf"|[^{one}\r\n]*)"
            rf"({one}{{1,{_MAX_EMPTY}}}+|\r\n|\r|\n|\Z)"
        )
        self._separator = layout.separator
        # Title rows still to come before the row that names the columns.
        self._titles = layout.titles
        self._sweep = sweep
        # Number of cells of a row; 0 if rows of any length have labels.
        self._width = layout.columns if among_text else 0
        # Length of the remaining text that is known to be inside one quoted cell.
        self._inside = 0
        self._names: list[str] = []
        self._named = False
        self._column = 0
        # In a table of fields: the columns of names and of values, and the name in the open row.
        self._stating = self._stated = -1
        self._field = ""

    def swept(self, text: str, *, final: bool) -> tuple[str, str]:
        """Returns the swept cells, and the rest of the text if its last cell may be incomplete."""
        if self._is_in_quotes(text) and not final:
            return "", text
        exponents, holds_json, quotes = has_exponents(text), '{""' in text, '"' in text
        done: list[str] = []
        for found, end in self._found(text):
            whole = len(found) if final else self._complete(found, text, end)
            done += [
                self._replaced(found[low : min(low + _MAX_CELLS, whole)], exponents, holds_json, quotes)
                for low in range(0, whole, _MAX_CELLS)
            ]
            if whole < len(found):
                left = sum(map(len, itertools.chain.from_iterable(found[whole:])))
                return "".join(done), text[end - left :]
        return "".join(done), ""

    def _found(self, text: str) -> Iterator[tuple[list[tuple[str, str]], int]]:
        """Yields cells of a text with their ends, as (cell, end) pairs, and the position after the last pair."""
        if len(text) <= _AT_ONCE:
            # One call for all cells takes a third of the time of a call for each.
            found = self._cell.findall(text)
            yield found[:-1] if found[-1] == ("", "") else found, len(text)
            return
        end = 0
        matches = self._cell.finditer(text)
        while found := [(match[1], match[2]) for match in itertools.islice(matches, _FEW_CELLS)]:
            end += sum(map(len, itertools.chain.from_iterable(found)))
            yield found[:-1] if found[-1] == ("", "") else found, end

    def _complete(self, found: list[tuple[str, str]], text: str, end: int) -> int:
        """Returns the number of complete cells up to `end`, without the text's last cell and an unclosed quoted one."""
        complete = len(found) - (end == len(text))
        for index in range(len(found) - 1, -1, -1):
            cell = found[index][0]
            if cell and cell[0] == '"' and cell.count('"') % 2 == 1:
                # May open a quoted cell over many lines; an earlier quoted cell was closed here at the latest.
                start = end - sum(map(len, itertools.chain.from_iterable(found[index:])))
                inside = _INSIDE.match(text, start + 1)
                if inside is not None and inside.end() >= len(text) - 1 and not self._stray.match(text, start):
                    self._inside = 1
                    return min(index, complete)
                break
        if end == len(text) and found:
            self._inside = int(found[-1][0].startswith('"'))
        return max(complete, 0)

    def _replaced(self, found: list[tuple[str, str]], exponents: bool, holds_json: bool, quotes: bool) -> str:
        """Returns the text of swept cells with their ends.

        The flags say whether some cells may be numbers with `exponents`, hold JSON, or be in quotes.
        """
        written = [cell for cell, _ in found]
        ends = [end for _, end in found]
        labels = self._labels(written, ends)
        cells = [without_exponent(cell) for cell in written] if exponents else written
        if quotes:
            cells = [_without_line_breaks(cell, label) for cell, label in zip(cells, labels, strict=True)]
        changed = self._swept_with_json(cells, labels) if holds_json else self._sweep(cells, labels)
        for index, new in changed.items():
            written[index] = new
        return "".join(map(operator.add, written, ends))

    def _swept_with_json(self, cells: list[str], labels: list[str]) -> dict[int, str]:
        """Returns the new text of each changed cell, by index, where some cells hold JSON."""
        values = Values()
        tokens = [[cell] for cell in cells]
        plain: dict[int, int] = {}
        for index, (cell, label) in enumerate(zip(cells, labels, strict=True)):
            if cell[:2] in {'"{', '"['} and cell[-1] == '"':
                values.string(tokens[index], 0, cell[1:-1].replace('""', '"'), label)
            else:
                plain[len(values.cells)] = index
                values.value(tokens[index], 0, cell, label)
        changed = self._sweep(values.cells, values.labels)
        values.replace({place: new for place, new in changed.items() if place not in plain})
        new_cells = {plain[place]: new for place, new in changed.items() if place in plain}
        for index, [token] in enumerate(tokens):
            if token is not cells[index]:
                new_cells[index] = f'"{str(json.loads(token)).replace(chr(34), chr(34) * 2)}"'
        return new_cells

    def _is_in_quotes(self, text: str) -> bool:
        """Returns whether all of a text is inside the quoted cell that it begins with."""
        if self._inside:
            found = _INSIDE.match(text, self._inside)
            assert found is not None, "it matches nothing too"
            # The last quote may be the first half of an escaped one.
            self._inside = found.end() if found.end() >= len(text) - 1 else 0
        return self._inside > 0

    def _labels(self, cells: list[str], ends: list[str]) -> list[str]:
        """Returns the label of each cell: row by row, else cell by cell where cells are empty in runs."""
        labels: list[str] = []
        separator = self._separator
        of_width: dict[int, list[str]] = {}
        low = 0
        for high in [index for index, end in enumerate(ends, 1) if end[:1] != separator]:
            width = high - low
            row_ends = ends[low : high - 1]
            if self._named and self._width and not self._column and len("".join(row_ends)) != self._width - 1:
                labels += [""] * width
            elif not self._named or self._column or self._stating >= 0 or len("".join(row_ends)) >= width:
                labels += map(self._label, cells[low:high], ends[low:high])
            else:
                if width not in of_width:
                    of_width[width] = [*self._names[:width], *[""] * (width - len(self._names))]
                labels += of_width[width]
            low = high
        labels += map(self._label, cells[low:], ends[low:])
        return labels

    def _label(self, cell: str, end: str) -> str:
        """Returns the label of a cell; `end` may be several separators with empty cells between them."""
        label = ""
        names, column = self._names, self._column
        if not self._named:
            names.append(cell.strip('" \ufeff'))
        elif column < len(names):
            label = names[column]
            if column == self._stating:
                self._field = cell.strip('" ')
            elif column == self._stated and states_label(names[self._stating], self._field):
                label = stated_label("", self._field, label)
        if end[:1] == self._separator:
            self._column = column + len(end)
            if not self._named and len(end) > 1:
                names += [""] * (len(end) - 1)
            return label
        if not self._named and any(names):
            self._named = self._titles == 0
            self._titles -= 1
            if self._named:
                self._find_fields()
        if not self._named:
            names.clear()
        self._column = 0
        return label

    def _find_fields(self) -> None:
        """Detects a table whose rows have the name of a field and its value, and notes the two columns."""
        stating = next((index for index, name in enumerate(self._names) if may_state_label(name)), -1)
        stated = next((index for index, name in enumerate(self._names) if may_be_labelled(name)), -1)
        if 0 <= stating < stated:
            self._stating, self._stated = stating, stated


def _without_line_breaks(cell: str, label: str) -> str:
    """Returns a short cell of a known label on one line, so that rules find a name or number with a line break."""
    if len(cell) > _LONGEST_ON_ONE_LINE or ("\n" not in cell and "\r" not in cell) or not is_known_label(label):
        return cell
    return " ".join(cell.split())


def _stray_quote(separator: str, columns: int) -> re.Pattern[str]:
    """Returns a pattern of a quote that begins a cell but opens no quoted cell, judged by the rows behind it.

    `columns` is the number of columns of a table with an unquoted first cell; rows have no blanks behind separators.
    """
    if columns < 2:
        return re.compile(r"(?!)")
    row = rf"[^{separator}\r\n]*+(?:{separator}(?![ ])[^{separator}\r\n]*+){{{columns - 1}}}(?=[\r\n]|\Z)"
    next_row = rf"{_LINE_END}(?={row})"
    return re.compile(
        # In a first cell, the quote's own line must be a row too.
        rf'(?:(?<![\r\n])|(?={row}))"{_LINE}{next_row}'
        rf"(?:{_LINE}(?:{next_row}{_LINE}){{{_ROWS_IN_QUOTES - 1}}}{_LINE_END}"
        # The text up to the closing quote, and with the rest behind it, is a row.
        rf"|(?:{_LINE}{_LINE_END})*+(?={row}){_LINE}\")"
    )
