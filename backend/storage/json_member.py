"""SQL expression for a member of a JSON object that a column holds as text, in the words of each database."""

from typing import Any

from sqlalchemy import ColumnElement, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction


class json_member(GenericFunction[str]):  # noqa: N801 - it is called as a function of SQL
    """The text at a path of names in a JSON object; NULL where there is none."""

    type = Text()
    # Its path is no part of the key of a cached statement.
    inherit_cache = False

    def __init__(self, column: ColumnElement[str], *path: str) -> None:
        if not path or not all(map(str.isidentifier, path)):
            raise ValueError(f"{path!r} is no path of plain names")
        super().__init__(column)
        self.path = path


@compiles(json_member, "sqlite")
def _of_sqlite(element: json_member, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_extract({compiler.process(element.clauses, **options)}, '$.{'.'.join(element.path)}')"


@compiles(json_member, "postgresql")
def _of_postgresql(element: json_member, compiler: SQLCompiler, **options: Any) -> str:
    return f"(CAST({compiler.process(element.clauses, **options)} AS JSON) #>> '{{{','.join(element.path)}}}')"
