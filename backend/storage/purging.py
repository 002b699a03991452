"""Deletion of expired rows, in batches."""

from sqlalchemy import ColumnElement, Table, bindparam, delete, select, tuple_

from backend.storage.database import Tx
from backend.storage.statements import Command


class Purge(Command):
    """A command that deletes rows of a table from before a time, by the column that holds each row's time."""

    __slots__ = ()

    def __init__(self, table: Table, at: ColumnElement[int]) -> None:
        key = table.primary_key.columns
        some = select(*key).where(at < bindparam("before")).limit(bindparam("most"))
        super().__init__(delete(table).where(tuple_(*key).in_(some)))

    def delete_batch(self, tx: Tx, before: int, most: int) -> int:
        """Deletes up to `most` rows from before a time; returns how many it deleted."""
        return tx.run(self, before=before, most=most)
