"""Keys as their callers see them, who ask for the same again and again. (SPEC.md, GET /me)."""

from functools import lru_cache
from typing import Final

from backend.clock import utc_day
from backend.keys import sql
from backend.keys.messages import api_key
from backend.keys.sql import CallerKeyRow
from backend.services import Services
from workflow_api.v1 import keys_pb2

_MOST: Final = 10_000

_When = tuple[int | None, int]
"""After how many commits, and on which UTC day."""


class OwnKeys:
    """Reads a key and its live counters; once more only after a commit, where all commits are known of."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._clock = services.clock
        self._read: dict[str, tuple[_When, keys_pb2.ApiKey]] = {}

    def get(self, key_id: str) -> keys_pb2.ApiKey | None:
        """The key with its counters of this UTC day; None where there is none. It is not to be changed."""
        # Counted before the read: a commit beside it is read again.
        when = self._database.commits, utc_day(self._clock())
        known = self._read.get(key_id)
        if known is not None and known[0] == when and when[0] is not None:
            return known[1]
        row = self._database.read(lambda tx: sql.seen_by_caller(tx, key_id, when[1]))
        if row is None:
            return None
        key = _message(row)
        if len(self._read) >= _MOST:
            self._read.clear()
        self._read[key_id] = when, key
        return key


@lru_cache(maxsize=4096)
def _message(row: CallerKeyRow) -> keys_pb2.ApiKey:
    return api_key(row)
