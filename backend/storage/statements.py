"""SQL statements written with SQLAlchemy, compiled once, and run by the driver itself.

A statement that goes through SQLAlchemy's execution costs several times what the database needs for it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast

from sqlalchemy import ColumnElement, Dialect, FromClause, Select, Table, insert, select
from sqlalchemy.sql.expression import ClauseElement, ReturnsRows

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

T = TypeVar("T")
RowT = TypeVar("RowT", bound=NamedTuple)

RowSelect: TypeAlias = Select[*tuple[object, ...]]
Params = Mapping[str, object]
Arguments = tuple[object, ...]


class _CompiledStatement(NamedTuple):
    """A statement in one dialect: its text, the order of its parameters, and the values that are part of it."""

    text: str
    in_order: Callable[[Params], Arguments]
    fixed: Params


class Statement:
    """One statement for any dialect; made at import, compiled at its first use.

    Columns hold integers and text only, so results need no conversion: JSON is text, a flag is 0 or 1, and a time is
    milliseconds since the epoch.
    """

    __slots__ = ("_clause", "_columns", "_compiled")

    def __init__(self, clause: ClauseElement, columns: Sequence[str] | None = None) -> None:
        self._clause = clause
        self._columns = columns
        self._compiled: dict[str, _CompiledStatement] = {}

    def bind(self, dialect: Dialect, params: Params) -> tuple[str, Arguments]:
        """Returns the SQL text and its arguments in order.

        Raises:
            KeyError: a parameter of the statement is missing.
        """
        text, in_order, fixed = self._compiled.get(dialect.name) or self._compile(dialect)
        return text, in_order({**fixed, **params} if fixed else params)

    def bind_many(self, dialect: Dialect, rows: Iterable[Params]) -> tuple[str, list[Arguments]]:
        """Returns the SQL text and the arguments of each set of parameters; raises as `bind`."""
        text, in_order, fixed = self._compiled.get(dialect.name) or self._compile(dialect)
        return text, [in_order({**fixed, **params} if fixed else params) for params in rows]

    def text(self, dialect: Dialect) -> str:
        """Returns the SQL text, with the dialect's placeholders."""
        return (self._compiled.get(dialect.name) or self._compile(dialect)).text

    def _compile(self, dialect: Dialect) -> _CompiledStatement:
        keys = list(self._columns) if self._columns is not None else None
        compiled = cast("SQLCompiler", self._clause.compile(dialect=dialect, column_keys=keys))
        names = tuple(compiled.positiontup or ())
        fixed = {name: compiled.binds[name].value for name in names if not compiled.binds[name].required}
        self._compiled[dialect.name] = made = _CompiledStatement(str(compiled), _in_order(names), fixed)
        return made


_ONE_ROW: Final = re.compile(r"(INSERT INTO .* VALUES )(\(\?(?:, \?)*\))( ON CONFLICT .*)?", re.DOTALL)


class Command(Statement):
    """A statement that changes rows and returns none; `columns` are those that an insert takes as parameters."""

    __slots__ = ("_of_rows",)

    def __init__(self, clause: ClauseElement, columns: Sequence[str] | None = None) -> None:
        super().__init__(clause, columns)
        self._of_rows: dict[tuple[str, int], str] = {}

    def text_of_rows(self, text: str, rows: int) -> str:
        """Returns the text that inserts so many rows at once in place of the insert of one.

        Empty for what is no plain insert with placeholders `?`.
        """
        together = self._of_rows.get((text, rows))
        if together is None:
            found = _ONE_ROW.fullmatch(text)
            together = "" if found is None else f"{found[1]}{', '.join([found[2]] * rows)}{found[3] or ''}"
            self._of_rows[text, rows] = together
        return together


class RowInsert(Command, Generic[RowT]):
    """An insert of rows of a NamedTuple whose fields are columns; it names those alone that a row has a value for.

    Python's sqlite3 binds None by looking for an adapter of it, which raises and drops an AttributeError, and the row
    of a new run has twenty. (`python -m benchmarks`: POST start.)
    """

    __slots__ = ("_fields", "_naming", "_table")

    def __init__(self, row: type[RowT], table: Table) -> None:
        super().__init__(insert(table), row._fields)
        self._table = table
        self._fields = row._fields
        self._naming: dict[tuple[str, ...], Command] = {}

    def naming_values(self, rows: Sequence[RowT]) -> tuple[Command, dict[str, Arguments]]:
        """Returns the insert of the columns that these rows have values for, and the values by column."""
        values = {
            name: column
            for name, column in zip(self._fields, zip(*rows, strict=True), strict=True)
            if column[0] is not None or column.count(None) < len(column)
        }
        names = tuple(values)
        command = self._naming.get(names)
        if command is None:
            command = self._naming[names] = Command(insert(self._table), names)
        return command, values


class Query(Statement, Generic[RowT]):
    """A statement whose result rows are instances of a NamedTuple, which has a field for each column, in order.

    Raises:
        TypeError: the fields are not the columns.
    """

    __slots__ = ("make_row",)

    def __init__(self, row: type[RowT], clause: ReturnsRows) -> None:
        columns = tuple(clause.exported_columns.keys())
        if columns != row._fields:
            raise TypeError(f"{row.__name__} has the fields {row._fields}, and its query the columns {columns}")
        super().__init__(clause)
        self.make_row: Callable[[Iterable[object]], RowT] = row._make


class ScalarQuery(Statement, Generic[T]):
    """A statement whose result rows have one column."""

    __slots__ = ()

    def __init__(self, clause: ReturnsRows) -> None:
        if len(clause.exported_columns) != 1:
            raise TypeError(f"a scalar query has one column, not {clause.exported_columns.keys()}")
        super().__init__(clause)


def select_row(row: type[NamedTuple], *tables: FromClause, **computed: ColumnElement[T]) -> RowSelect:
    """Selects the fields of a row class: computed ones, and columns of the first of the tables that has them."""
    return select(*(computed[name].label(name) if name in computed else _column(name, tables) for name in row._fields))


def _column(name: str, tables: Sequence[FromClause]) -> ColumnElement[object]:
    for table in tables:
        if name in table.c:
            return table.c[name]
    raise KeyError(f"no table has a column {name}")


def _in_order(names: tuple[str, ...]) -> Callable[[Params], Arguments]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda params: tuple(params[name] for name in names)
