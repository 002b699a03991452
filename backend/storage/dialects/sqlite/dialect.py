"""SQLAlchemy's dialect of SQLite, with hints for its planner."""

from sqlalchemy import FromClause
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler, SQLiteDialect


class _Compiler(SQLiteCompiler):
    """As SQLAlchemy's, which leaves hints for SQLite out."""

    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:  # noqa: ARG002 - the base's
        return text


class Dialect(SQLiteDialect):
    """SQLite's dialect, with `INDEXED BY` where a select has that as its hint."""

    name = "sqlite"
    statement_compiler = _Compiler
