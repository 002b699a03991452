"""SQL of several services: patterns of LIKE, members of JSON, equality, times that have come, deletion in batches."""

from collections.abc import Iterable
from typing import Self

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.sql.operators import OperatorType

from backend.storage.database import Tx
from backend.storage.statements import Command


def containing(text: str) -> str:
    """Returns the LIKE pattern of values that contain a text."""
    return f"%{_literal(text)}%"


def beginning(text: str) -> str:
    """Returns the LIKE pattern of values that begin with a text."""
    return f"{_literal(text)}%"


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


class json_member(GenericFunction[str]):  # noqa: N801 - it is called as a function of SQL
    """The text at a path of names in a JSON object, else NULL."""

    type = Text()
    # Cached statements would be shared between paths, because the path is no part of their key.
    inherit_cache = False

    def __init__(self, column: ColumnElement[str], *path: str) -> None:
        if not path or not all(map(str.isidentifier, path)):
            raise ValueError(f"{path!r} is no path of plain names")
        super().__init__(column)
        self.path = path


@compiles(json_member, "sqlite")
def _compile_for_sqlite(element: json_member, compiler: SQLCompiler, **options: object) -> str:
    return f"json_extract({compiler.process(element.clauses, **options)}, '$.{'.'.join(element.path)}')"


@compiles(json_member, "postgresql")
def _compile_for_postgresql(element: json_member, compiler: SQLCompiler, **options: object) -> str:
    return f"(CAST({compiler.process(element.clauses, **options)} AS JSON) #>> '{{{','.join(element.path)}}}')"


class in_order_equal(GenericFunction[bool]):  # noqa: N801 - it is called as a function of SQL
    """Equality of a column with a text of the statement, after which PostgreSQL still sorts by the column.

    It leaves columns with `=` out of the order of a statement, and may take an index of the other columns then.
    """

    type = Boolean()
    inherit_cache = False

    def __init__(self, column: ColumnElement[str], text: str) -> None:
        super().__init__(column)
        self.text = text.replace("'", "''")

    def self_group(self, against: OperatorType | None = None) -> Self:  # noqa: ARG002 - SQLAlchemy's signature
        """Returns it as it is: SQLAlchemy would write `= 1` behind it for SQLite, which keeps it from its index."""
        return self


@compiles(in_order_equal, "sqlite")
def _equal_for_sqlite(element: in_order_equal, compiler: SQLCompiler, **options: object) -> str:
    return f"{compiler.process(element.clauses, **options)} = '{element.text}'"


@compiles(in_order_equal, "postgresql")
def _equal_for_postgresql(element: in_order_equal, compiler: SQLCompiler, **options: object) -> str:
    return f"{compiler.process(element.clauses, **options)} LIKE '{_literal(element.text)}'"


class is_listed(GenericFunction[bool]):  # noqa: N801 - it is called as a function of SQL
    """Condition that an id or a name is among those of a parameter or a column, which `listed` makes.

    No index serves it, so a statement goes by the order of its rows, which a limit ends.
    """

    type = Boolean()
    inherit_cache = True

    def __init__(self, column: ColumnElement[str], within: str | ColumnElement[str]) -> None:
        texts = bindparam(within, type_=Text) if isinstance(within, str) else within
        quote = literal_column("'\"'", Text)
        super().__init__(texts, quote + column + quote)

    def self_group(self, against: OperatorType | None = None) -> Self:  # noqa: ARG002 - SQLAlchemy's signature
        """Returns it as it is: it compiles to a comparison in brackets."""
        return self


@compiles(is_listed, "sqlite")
def _listed_for_sqlite(element: is_listed, compiler: SQLCompiler, **options: object) -> str:
    return f"(instr({compiler.process(element.clauses, **options)}) > 0)"


@compiles(is_listed, "postgresql")
def _listed_for_postgresql(element: is_listed, compiler: SQLCompiler, **options: object) -> str:
    return f"(strpos({compiler.process(element.clauses, **options)}) > 0)"


def listed(ids: Iterable[str]) -> str:
    """Returns the value of a parameter or a column of `is_listed`."""
    return "".join(f'"{each}"' for each in ids)


def is_due(at: ColumnElement[int], now: BindParameter[int], longest_ms: int) -> ColumnElement[bool]:
    """Returns whether a time has come that was set at most `longest_ms` ahead; never for NULL.

    A time further ahead was set by a clock that was fast and has been corrected since; such a time counts as due.
    """
    return or_(at <= now, at > cast(now, BigInteger) + literal_column(str(longest_ms)))


class Purge(Command):
    """A command that deletes rows of a table older than a time, by the column that has each row's time."""

    __slots__ = ()

    def __init__(self, table: Table, at: ColumnElement[int]) -> None:
        key = table.primary_key.columns
        some = select(*key).where(at < bindparam("before")).limit(bindparam("most"))
        super().__init__(delete(table).where(tuple_(*key).in_(some)))

    def delete_batch(self, tx: Tx, before: int, most: int) -> int:
        """Deletes up to `most` rows older than a time; returns their number."""
        return tx.run(self, before=before, most=most)
