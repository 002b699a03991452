"""Numbers of calls in the current minute, over all edge processes of one command."""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from edge.shared_memory.table import MEMO, SharedTable

_MINUTE_MS: Final = 60_000
_MINUTE: Final = struct.Struct("<q")
_USED: Final = struct.Struct("<Q")

VALUE_BYTES: Final = _USED.size


class MinuteCount(NamedTuple):
    """How many calls a minute has had, and the time of the count in milliseconds since the epoch."""

    used: int
    now_ms: int


class SharedMinuteCounts:
    """Counts calls by name.

    The clock is read under the lock: were the minute that of a call's begin, a call whose body came slowly would begin
    an earlier minute again, for all.
    """

    def __init__(self, table: SharedTable, clock: Callable[[], int]) -> None:
        """Takes the clock, in milliseconds since the epoch, which must be the same in all processes."""
        self._table = table
        self._clock = clock

    def add(self, name: str) -> MinuteCount:
        """Counts one call; another minute than that of the last count begins at 0."""
        with self._table as table:
            now_ms = self._clock()
            minute = now_ms // _MINUTE_MS
            if _MINUTE.unpack_from(table.memory, MEMO)[0] != minute:
                table.remove_all()
                _MINUTE.pack_into(table.memory, MEMO, minute)
            row = table.find_or_add(name)
            used: int = _USED.unpack_from(table.memory, row)[0] + 1
            _USED.pack_into(table.memory, row, used)
        return MinuteCount(used, now_ms)

    def of(self, name: str) -> MinuteCount:
        """Returns the count of the current minute."""
        with self._table as table:
            now_ms = self._clock()
            current = _MINUTE.unpack_from(table.memory, MEMO)[0] == now_ms // _MINUTE_MS
            row = table.find(name) if current else None
            used: int = 0 if row is None else _USED.unpack_from(table.memory, row)[0]
        return MinuteCount(used, now_ms)
