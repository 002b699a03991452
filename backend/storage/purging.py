"""Deletion of rows that are past their time, in batches."""

from collections.abc import Callable

from sqlalchemy import ColumnElement, Table, bindparam, delete, select, tuple_

from backend.storage.database import Tx
from backend.storage.statements import Command

Purge = Callable[[Tx, int, int], int]
"""Deletes rows from before a time, up to a number of them; returns how many it deleted."""


def purge_of(table: Table, at: ColumnElement[int]) -> Purge:
    """Returns the purge of a table by the column that holds each row's time."""
    key = table.primary_key.columns
    some = select(*key).where(at < bindparam("before")).limit(bindparam("most"))
    command = Command(delete(table).where(tuple_(*key).in_(some)))

    def purge(tx: Tx, before: int, most: int) -> int:
        return tx.run(command, before=before, most=most)

    return purge
