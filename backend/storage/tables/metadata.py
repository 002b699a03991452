"""SQLAlchemy's catalogue of all tables, and partial indexes."""

from typing import Final

from sqlalchemy import Index, MetaData, Table, TextClause, event, text

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_WHERE: Final = "where"


def partial_index(name: str, *columns: str | TextClause, where: str) -> Index:
    """Returns an index of the rows that meet a condition, on both databases.

    `postgresql_where` would import the dialect of PostgreSQL, which takes 30 ms, wherever a table is known.
    """
    return Index(name, *columns, sqlite_where=text(where), info={_WHERE: where})


@event.listens_for(Table, "before_create")
def _add_conditions(table: Table, *_: object, **__: object) -> None:
    for index in table.indexes:
        if _WHERE in index.info:
            index.dialect_options["postgresql"][_WHERE] = text(index.info[_WHERE])
