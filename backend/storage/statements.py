"""SQL statements written with SQLAlchemy, compiled once, and run by the driver itself.

A statement that goes through SQLAlchemy's execution costs several times what the database needs for it.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlalchemy import Dialect
from sqlalchemy.sql.expression import ClauseElement

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler


class _Compiled(NamedTuple):
    """A statement for one dialect: how what it takes is put in order, and what of that is fixed."""

    text: str
    in_order: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    fixed: Mapping[str, Any]


class Statement:
    """One statement for any dialect; made at import, compiled at its first use.

    Columns hold integers and text only, so results need no conversion: JSON is text, a flag is 0 or 1, and a time is
    milliseconds since the epoch.
    """

    __slots__ = ("_clause", "_columns", "_compiled", "_row")

    def __init__(self, clause: ClauseElement, columns: Sequence[str] | None = None) -> None:
        self._clause = clause
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}
        self._row: Callable[[Iterable[Any]], Any] | None = None

    def prepare(self, dialect: Dialect, params: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
        """The SQL text and its arguments in order.

        Raises:
            KeyError: a parameter of the statement is not given.
        """
        text, in_order, fixed = self._compiled.get(dialect.name) or self._compile(dialect)
        return text, in_order({**fixed, **params} if fixed else params)

    def prepare_many(self, dialect: Dialect, rows: Iterable[Mapping[str, Any]]) -> tuple[str, list[tuple[Any, ...]]]:
        """As `prepare`, with the arguments of each set of parameters."""
        text, in_order, fixed = self._compiled.get(dialect.name) or self._compile(dialect)
        return text, [in_order({**fixed, **params} if fixed else params) for params in rows]

    def _compile(self, dialect: Dialect) -> _Compiled:
        keys = list(self._columns) if self._columns is not None else None
        compiled = cast("SQLCompiler", self._clause.compile(dialect=dialect, column_keys=keys))
        names = tuple(compiled.positiontup or ())
        fixed = {name: compiled.binds[name].value for name in names if not compiled.binds[name].required}
        self._compiled[dialect.name] = made = _Compiled(str(compiled), _in_order(names), fixed)
        return made

    def row_maker(self, cursor: Any) -> Callable[[Iterable[Any]], Any]:
        """Makes a named tuple of one result row of a cursor that ran the statement."""
        if self._row is None:
            make_class: Any = namedtuple  # noqa: PYI024 - the columns are known at run time only
            self._row = make_class("Row", [column[0] for column in cursor.description], rename=True)._make
        return self._row


def _in_order(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda params: tuple(params[name] for name in names)


def prepare(clause: ClauseElement, columns: Sequence[str] | None = None) -> Statement:
    """Wraps a clause; `columns` names the columns that an insert or update takes as parameters."""
    return Statement(clause, columns)
