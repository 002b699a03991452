"""SQL statements written with SQLAlchemy, compiled once, and run by the driver itself.

A statement that goes through SQLAlchemy's execution costs several times what the database needs for it.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Dialect
from sqlalchemy.sql.expression import ClauseElement

_REQUIRED: Final = object()


class Statement:
    """One statement for any dialect; made at import, compiled at its first use.

    Columns hold integers and text only, so results need no conversion: JSON is text, a flag is 0 or 1, and a time is
    milliseconds since the epoch.
    """

    __slots__ = ("_clause", "_columns", "_compiled", "_row")

    def __init__(self, clause: ClauseElement, columns: Sequence[str] | None = None) -> None:
        self._clause = clause
        self._columns = columns
        self._compiled: dict[str, tuple[str, tuple[tuple[str, Any], ...]]] = {}
        self._row: Callable[[Iterable[Any]], Any] | None = None

    def prepare(self, dialect: Dialect, params: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """The SQL text and its arguments in order.

        Raises:
            KeyError: a parameter of the statement is not given.
        """
        compiled = self._compiled.get(dialect.name) or self._compile(dialect)
        arguments = [params.get(name, fixed) for name, fixed in compiled[1]]
        if _REQUIRED in arguments:
            missing = [name for name, fixed in compiled[1] if fixed is _REQUIRED and name not in params]
            raise KeyError(f"not given: {missing}")
        return compiled[0], arguments

    def _compile(self, dialect: Dialect) -> tuple[str, tuple[tuple[str, Any], ...]]:
        keys = list(self._columns) if self._columns is not None else None
        compiled = self._clause.compile(dialect=dialect, column_keys=keys)
        fixed = {
            name: _REQUIRED if bind.required else bind.value
            for name, bind in compiled.binds.items()  # type: ignore[attr-defined]
        }
        order = compiled.positiontup or ()  # type: ignore[attr-defined]
        self._compiled[dialect.name] = text = (str(compiled), tuple((name, fixed[name]) for name in order))
        return text

    def row_maker(self, names: Iterable[str]) -> Callable[[Iterable[Any]], Any]:
        """Makes a named tuple of one result row whose columns have these names."""
        if self._row is None:
            make_class: Any = namedtuple  # noqa: PYI024 - the columns are known at run time only
            row = make_class("Row", list(names), rename=True)
            self._row = row._make
        return self._row


def sql(clause: ClauseElement, columns: Sequence[str] | None = None) -> Statement:
    """Wraps a clause; `columns` names the columns that an insert or update takes as parameters."""
    return Statement(clause, columns)
