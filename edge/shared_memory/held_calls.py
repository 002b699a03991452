"""Numbers of held calls by key, over all edge processes of one command."""

import struct
from typing import Final

from edge.shared_memory.table import SharedTable

_NUMBER: Final = struct.Struct("<I")


def value_bytes(processes: int) -> int:
    """Returns the size of a row: each process has a number of its own, so that its end takes back what it held."""
    return processes * _NUMBER.size


class SharedHeldCalls:
    """Bounds the held calls of each key; a row stays for every key that ever had one."""

    def __init__(self, table: SharedTable, processes: int, position: int) -> None:
        self._table = table
        self._all = struct.Struct(f"<{processes}I")
        self._at = position * _NUMBER.size

    def take(self, key_id: str, most: int) -> bool:
        """Counts one more held call of a key unless all processes together hold `most`; returns whether it did."""
        with self._table as table:
            row = table.find_or_add(key_id)
            if sum(self._all.unpack_from(table.memory, row)) >= most:
                return False
            self._add(row, 1)
        return True

    def give_back(self, key_id: str) -> None:
        """Counts one held call less."""
        with self._table as table:
            self._add(table.find_or_add(key_id), -1)

    def forget(self, position: int) -> None:
        """Counts nothing of a process that has ended."""
        with self._table as table:
            for row in table.all():
                _NUMBER.pack_into(table.memory, row + position * _NUMBER.size, 0)

    def _add(self, row: int, number: int) -> None:
        at = row + self._at
        _NUMBER.pack_into(self._table.memory, at, _NUMBER.unpack_from(self._table.memory, at)[0] + number)
