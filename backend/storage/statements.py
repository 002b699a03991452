"""SQL statements written with SQLAlchemy, compiled once, and run by the driver itself.

Execution by SQLAlchemy would cost several times the work of the database itself. A guarded insert takes place only if a
query returns what the caller expects.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from sqlalchemy import ColumnElement, Dialect, FromClause, Select, SelectBase, Table, insert, select
from sqlalchemy.sql.expression import ClauseElement, ReturnsRows

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler


T = TypeVar("T")
RowT = TypeVar("RowT", bound=NamedTuple)

RowSelect: TypeAlias = Select[*tuple[object, ...]]
Params = Mapping[str, object]
Arguments = tuple[object, ...]


class CompiledStatement(NamedTuple):
    """A statement in one dialect: its text, its parameters in order, and the values that are part of it."""

    text: str
    names: tuple[str, ...]
    fixed: Params


class Statement:
    """One statement for any dialect; made at import, compiled at its first use by `storage.database.bind`.

    Columns hold integers and text only, so results need no conversion: JSON is text, a flag is 0 or 1, and a time is
    milliseconds since the epoch.
    """

    __slots__ = ("_clause", "_columns", "compiled")

    def __init__(self, clause: ClauseElement, columns: Sequence[str] | None = None) -> None:
        self._clause = clause
        self._columns = columns
        self.compiled: dict[str, CompiledStatement] = {}

    def text(self, dialect: Dialect) -> str:
        """Returns the SQL text, with the dialect's placeholders."""
        return (self.compiled.get(dialect.name) or self.compile(dialect)).text

    def compile(self, dialect: Dialect) -> CompiledStatement:
        """Compiles the statement, and keeps it in `compiled` by the name of the dialect."""
        keys = list(self._columns) if self._columns is not None else None
        compiled = cast("SQLCompiler", self._clause.compile(dialect=dialect, column_keys=keys))
        names = tuple(compiled.positiontup or ())
        fixed = {name: compiled.binds[name].value for name in names if not compiled.binds[name].required}
        self.compiled[dialect.name] = made = CompiledStatement(str(compiled), names, fixed)
        return made


_ONE_ROW: Final = re.compile(r"(INSERT INTO .* VALUES )(\(\?(?:, \?)*\))( ON CONFLICT .*)?", re.DOTALL)


class Command(Statement):
    """A statement that changes rows and returns none; `columns` are those that an insert takes as parameters."""

    __slots__ = ("of_rows",)

    def __init__(self, clause: ClauseElement, columns: Sequence[str] | None = None) -> None:
        super().__init__(clause, columns)
        self.of_rows: dict[tuple[str, int], str] = {}

    def text_of_rows(self, text: str, rows: int) -> str:
        """Returns the text that inserts `rows` rows at once, and keeps it in `of_rows`.

        Empty if `text` is no plain insert of one row with placeholders `?`.
        """
        found = _ONE_ROW.fullmatch(text)
        together = "" if found is None else f"{found[1]}{', '.join([found[2]] * rows)}{found[3] or ''}"
        self.of_rows[text, rows] = together
        return together


class RowInsert(Command, Generic[RowT]):
    """An insert of rows of a NamedTuple whose fields are columns; it names only columns that a row has a value for.

    Python's sqlite3 binds None by looking for an adapter of it, which raises and drops an AttributeError, and the row
    of a new run has twenty. (`python -m benchmarks`: POST start.)
    """

    __slots__ = ("_table", "fields", "narrower")

    def __init__(self, row: type[RowT], table: Table) -> None:
        super().__init__(insert(table), row._fields)
        self._table = table
        self.fields = row._fields
        self.narrower: dict[tuple[str, ...], Command] = {}

    def of_columns(self, names: tuple[str, ...]) -> Command:
        """Returns the insert of these columns alone, and keeps it in `narrower`."""
        command = self.narrower[names] = Command(insert(self._table), names)
        return command


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
    """Selects the fields of a row class: `computed` ones, and columns of the first table that has them."""
    return select(*(computed[name].label(name) if name in computed else _column(name, tables) for name in row._fields))


def _column(name: str, tables: Sequence[FromClause]) -> ColumnElement[object]:
    for table in tables:
        if name in table.c:
            return table.c[name]
    raise KeyError(f"no table has a column {name}")


@dataclass(frozen=True, slots=True, eq=False)
class InsertedRows:
    """The columns that an insert writes of one table.

    Args:
        table: The table.
        columns: The columns.
        many: Whether the caller gives a list of rows, not one row.
        added: A column whose value is added to the existing row of equal primary key.
    """

    table: Table
    columns: Sequence[str]
    many: bool = False
    added: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GuardedInsert(Generic[RowT]):
    """Inserts, and the query whose only row decides whether they take place.

    The statement is sent again if the connection was lost, so its own rows must keep it from taking place twice.

    Args:
        row: The class of the query's row.
        query: The query.
        equal: Columns that must be as expected.
        at_most: Columns that must not be higher than expected; null counts as 0.
        null: Columns that must be null.
        inserts: The inserts, by a name of the caller's choice.
    """

    row: type[RowT]
    query: SelectBase
    equal: Sequence[str]
    at_most: Sequence[str]
    null: Sequence[str]
    inserts: Mapping[str, InsertedRows]


class SingleRoundTrip(Protocol):
    """Makes a guarded insert in one round trip."""

    def __call__(
        self,
        guarded: GuardedInsert[RowT],
        expected: RowT,
        rows: Mapping[str, Params | Sequence[Params]],
        *,
        lock_key: str,
        claim: str,
        **params: object,
    ) -> tuple[RowT, bool]:
        """Returns the query's row, and whether the rows were inserted, once they are durable.

        Args:
            guarded: The inserts and their query.
            expected: The values that the query's row is compared with.
            rows: The row or rows of each insert, by its name.
            lock_key: See `Database.write`.
            claim: See `Database.write`.
            params: The parameters of the query.

        Raises:
            ClaimedError: another transaction has the claim.
            DatabaseUnavailableError: the database cannot be reached; the rows may be inserted.
        """
