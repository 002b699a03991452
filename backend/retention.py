"""Retention rules, which each service registers with the upkeep: how long data is kept, and how it is deleted."""

from dataclasses import dataclass
from typing import Protocol

from backend.storage.database import Tx
from backend.storage.purging import Purge


class RetentionRule(Protocol):
    """Deletes one kind of expired data, in batches."""

    @property
    def name(self) -> str:
        """The field of `RunUpkeepResponse` that counts what was deleted."""

    @property
    def kept_ms(self) -> int | None:
        """For how long it is kept; None for as long as the deployment record says."""

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes some expired data; returns how much, 0 if nothing is left."""


@dataclass(frozen=True, slots=True)
class RowRetention:
    """Rows of one table that are kept for `kept_ms`; a batch is small, so that no other change waits long behind it."""

    name: str
    kept_ms: int
    purge: Purge
    batch: int = 1_000

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes some expired rows; see `RetentionRule.delete_batch`."""
        return self.purge.delete_batch(tx, now - self.kept_ms, self.batch)
