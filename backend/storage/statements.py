"""SQL statements written with SQLAlchemy, compiled once, and run by the driver itself.

A statement that goes through SQLAlchemy's execution costs several times what the database needs for it.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Dialect
from sqlalchemy.sql.expression import ClauseElement

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler


class Statement:
    """One statement for any dialect; made at import, compiled at its first use.

    Columns hold integers and text only, so results need no conversion: JSON is text, a flag is 0 or 1, and a time is
    milliseconds since the epoch.
    """

    __slots__ = ("_clause", "_columns", "_compiled", "_row")

    def __init__(self, clause: ClauseElement, columns: Sequence[str] | None = None) -> None:
        self._clause = clause
        self._columns = columns
        self._compiled: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {}
        self._row: Callable[[Iterable[Any]], Any] | None = None

    def prepare(self, dialect: Dialect, params: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """The SQL text and its arguments in order.

        Raises:
            KeyError: a parameter of the statement is not given.
        """
        text, names, fixed = self._compiled.get(dialect.name) or self._compile(dialect)
        if fixed:
            params = {**fixed, **params}
        try:
            return text, [params[name] for name in names]
        except KeyError:
            raise KeyError(f"not given: {[name for name in names if name not in params]}") from None

    def _compile(self, dialect: Dialect) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        keys = list(self._columns) if self._columns is not None else None
        compiled = cast("SQLCompiler", self._clause.compile(dialect=dialect, column_keys=keys))
        names = tuple(compiled.positiontup or ())
        fixed = {name: compiled.binds[name].value for name in names if not compiled.binds[name].required}
        self._compiled[dialect.name] = made = str(compiled), names, fixed
        return made

    def row_maker(self, cursor: Any) -> Callable[[Iterable[Any]], Any]:
        """Makes a named tuple of one result row of a cursor that ran the statement."""
        if self._row is None:
            make_class: Any = namedtuple  # noqa: PYI024 - the columns are known at run time only
            self._row = make_class("Row", [column[0] for column in cursor.description], rename=True)._make
        return self._row


def sql(clause: ClauseElement, columns: Sequence[str] | None = None) -> Statement:
    """Wraps a clause; `columns` names the columns that an insert or update takes as parameters."""
    return Statement(clause, columns)
