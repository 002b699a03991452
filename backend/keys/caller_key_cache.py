"""Cache of keys as their callers see them (contract 9.12)."""

from functools import lru_cache
from typing import Final

from backend.clock import utc_day
from backend.keys import sql
from backend.keys.messages import api_key
from backend.keys.sql import CallerKeyRow
from backend.services import Services
from workflow_api.v1 import keys_pb2

_MAX_KEYS: Final = 10_000

_Version = tuple[int | None, int]
"""State of the database that a cached key belongs to: number of commits, and UTC day."""


class CallerKeyCache:
    """Cache of keys with their live counters, invalidated by every commit.

    It caches nothing on a database that other processes write to as well.
    """

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._clock = services.clock
        self._cached: dict[str, tuple[_Version, keys_pb2.ApiKey]] = {}

    def get(self, key_id: str) -> keys_pb2.ApiKey | None:
        """Returns the key with its counters of this UTC day, or None; the message must not be changed."""
        # Counted before the read, so that a commit during the read invalidates what was read.
        version = self._database.commits, utc_day(self._clock())
        cached = self._cached.get(key_id)
        if cached is not None and cached[0] == version and version[0] is not None:
            return cached[1]
        row = self._database.read(lambda tx: sql.seen_by_caller(tx, key_id, version[1]))
        if row is None:
            return None
        key = _message(row)
        if len(self._cached) >= _MAX_KEYS:
            self._cached.clear()
        self._cached[key_id] = version, key
        return key


@lru_cache(maxsize=4096)
def _message(row: CallerKeyRow) -> keys_pb2.ApiKey:
    return api_key(row)
