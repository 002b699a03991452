"""SQL expression for a member of a JSON object that a column holds as text, in the words of each database."""

from typing import Any

from sqlalchemy import ColumnElement, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction


class json_member(GenericFunction[str]):  # noqa: N801 - it is called as a function of SQL
    """The text under a name in a JSON object; NULL where there is none."""

    type = Text()
    inherit_cache = True

    def __init__(self, column: ColumnElement[str], name: str) -> None:
        if not name.isidentifier():
            raise ValueError(f"{name!r} is no plain name")
        super().__init__(column)
        self.member = name


@compiles(json_member, "sqlite")
def _of_sqlite(element: json_member, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_extract({compiler.process(element.clauses, **options)}, '$.{element.member}')"


@compiles(json_member, "postgresql")
def _of_postgresql(element: json_member, compiler: SQLCompiler, **options: Any) -> str:
    return f"(CAST({compiler.process(element.clauses, **options)} AS JSON) ->> '{element.member}')"
