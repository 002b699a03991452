"""A table of rows by key id in memory that processes share, which any of them may grow.

A lock of the kernel makes every access exact. It belongs to the process, so that the end of a process, however sudden,
releases it; what is written is written in an order in which a half-finished change counts as not made. Taking the lock,
finding a row and counting in it takes 4 µs.
"""

import os
import struct
from fcntl import LOCK_EX, LOCK_UN, lockf
from mmap import mmap
from typing import Final, Self

# How often the rows were removed, and how many there are now.
_HEAD: Final = struct.Struct("<QQ")
_NAME_BYTES: Final = 28
_FIRST_BYTES: Final = 65_536

MEMO: Final = _HEAD.size
"""Where 8 bytes begin that the user of a table may keep beside its rows."""

_ROWS_AT: Final = MEMO + 8


class SharedTable:
    """Rows of one size; each process attaches the table by the number of its file, and none forks with it.

    As a context it is locked. Everything but the attributes needs the lock, in one thread of each process.
    """

    def __init__(self, file: int, value_bytes: int) -> None:
        self.file = file
        """The number of the open file."""
        self.memory = mmap(file, os.fstat(file).st_size)
        self._row_bytes = _NAME_BYTES + value_bytes
        self._removals = 0
        self._rows: dict[str, int] = {}

    @classmethod
    def new(cls, value_bytes: int) -> Self:
        """Makes an empty table."""
        file = os.memfd_create("workflow-api-edges")
        os.ftruncate(file, _FIRST_BYTES)
        return cls(file, value_bytes)

    def __enter__(self) -> Self:
        lockf(self.file, LOCK_EX)
        return self

    def __exit__(self, *_: object) -> None:
        lockf(self.file, LOCK_UN)

    def find(self, name: str) -> int | None:
        """Returns where the values of a row begin in `memory`; None where there is no such row."""
        removals, length = _HEAD.unpack_from(self.memory)
        if removals != self._removals:
            self._removals = removals
            self._rows.clear()
        if length > len(self._rows):
            self._read(length)
        return self._rows.get(name)

    def find_or_add(self, name: str) -> int:
        """Returns where the values of a row begin; those of a new row are zero.

        Raises:
            ValueError: the name is longer than 28 bytes, or empty.
        """
        found = self.find(name)
        if found is not None:
            return found
        written = name.encode()
        if not 0 < len(written) <= _NAME_BYTES:
            raise ValueError("a row's name must have 1 to 28 bytes")
        length = len(self._rows)
        begin = _ROWS_AT + length * self._row_bytes
        end = begin + self._row_bytes
        if end > len(self.memory):
            # Another process may have let the file grow further, for rows that were removed: it must not shrink.
            self.memory.resize(max(2 * len(self.memory), os.fstat(self.file).st_size))
        self.memory[begin:end] = written.ljust(self._row_bytes, b"\0")
        _HEAD.pack_into(self.memory, 0, self._removals, length + 1)
        row = self._rows[name] = begin + _NAME_BYTES
        return row

    def all(self) -> list[int]:
        """Returns where the values of each row begin."""
        self.find("")
        return list(self._rows.values())

    def remove_all(self) -> None:
        """Removes all rows."""
        removals, _ = _HEAD.unpack_from(self.memory)
        # Were it interrupted between the two, rows would be taken for others.
        _HEAD.pack_into(self.memory, 0, removals, 0)
        _HEAD.pack_into(self.memory, 0, removals + 1, 0)

    def _read(self, length: int) -> None:
        """Reads the names of the rows that other processes have added."""
        size = os.fstat(self.file).st_size
        if size > len(self.memory):
            self.memory.resize(size)
        for number in range(len(self._rows), length):
            begin = _ROWS_AT + number * self._row_bytes
            row = begin + _NAME_BYTES
            self._rows[self.memory[begin:row].rstrip(b"\0").decode()] = row
