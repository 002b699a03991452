"""Inserts that name only the columns for which a row has a value.

Python's sqlite3 binds None by looking for an adapter of it, which raises and drops an AttributeError: twice the time of
ten texts for ten of them. The row of a new run has twenty, so a start takes a tenth fewer instructions without them.
(`python -m benchmarks`: POST start.)
"""

import re
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final

from sqlalchemy import Insert
from sqlalchemy.sql.expression import ClauseElement

Row = tuple[object, ...]

_ONE_ROW: Final = re.compile(r"(INSERT INTO \S+ )\(([^()]*)\) VALUES \(\?(?:, \?)*\)")


class NullFreeInserts:
    """The variants of one insert, for texts with placeholders `?`; other statements stay as they are."""

    def __init__(self, clause: ClauseElement) -> None:
        self._columns = clause.table.columns if isinstance(clause, Insert) else None
        self._nullable: dict[str, tuple[int, ...]] = {}
        self._variants: dict[tuple[str, tuple[int, ...]], tuple[str, Callable[[Row], Row]]] = {}

    def split(self, text: str, rows: Sequence[Row]) -> Iterable[tuple[str, Sequence[Row]]]:
        """Returns the rows in groups with values for the same columns, each with the text that inserts one of them."""
        nullable = self._nullable.get(text)
        if nullable is None:
            nullable = self._nullable[text] = self._nullable_in(text)
        if not nullable:
            return [(text, rows)]
        found: dict[tuple[int, ...], list[Row]] = {}
        for row in rows:
            absent = tuple([place for place in nullable if row[place] is None])
            alike = found.get(absent)
            if alike is None:
                found[absent] = [row]
            else:
                alike.append(row)
        return [self._shortened(text, absent, alike) if absent else (text, alike) for absent, alike in found.items()]

    def _nullable_in(self, text: str) -> tuple[int, ...]:
        """Returns the places of the columns that are null where the insert does not name them."""
        one_row = _ONE_ROW.fullmatch(text)
        if self._columns is None or one_row is None:
            return ()
        columns = [self._columns[name.strip('"')] for name in one_row[2].split(", ")]
        places = tuple(
            place for place, column in enumerate(columns) if column.nullable and column.server_default is None
        )
        # An insert names one column at the least.
        return places if len(places) < len(columns) else ()

    def _shortened(self, text: str, absent: tuple[int, ...], rows: Sequence[Row]) -> tuple[str, Sequence[Row]]:
        variant = self._variants.get((text, absent))
        if variant is None:
            variant = self._variants[text, absent] = _variant(text, absent)
        shorter, kept = variant
        return shorter, [kept(row) for row in rows]


def _variant(text: str, absent: tuple[int, ...]) -> tuple[str, Callable[[Row], Row]]:
    one_row = _ONE_ROW.fullmatch(text)
    assert one_row is not None
    names = one_row[2].split(", ")
    kept = [place for place in range(len(names)) if place not in absent]
    columns, places = ", ".join(names[place] for place in kept), ", ".join("?" * len(kept))
    return f"{one_row[1]}({columns}) VALUES ({places})", _picking(kept)


def _picking(places: Sequence[int]) -> Callable[[Row], Row]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: tuple(row[place] for place in places)
