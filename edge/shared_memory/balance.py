"""Numbers of open connections of the edge processes that accept from one listening socket.

The kernel wakes all of them for a new connection, and whoever comes first could take a whole burst: of 64 at once one
of two processes took all or nearly all. So a process that has more connections than another leaves the next to it for
a moment.
"""

import os
from mmap import mmap
from typing import Final, Self

# A process without a listening socket: not yet, or no more.
_AWAY: Final = -1
# Where there are many, a process may lead by an eighth, so that a burst is taken in few rounds.
_LEAD_SHARE: Final = 8


class ConnectionBalance:
    """One number for each process, which it alone writes while it lives: no lock is needed."""

    def __init__(self, file: int, position: int) -> None:
        self.file = file
        """The number of the open file."""
        self._numbers = memoryview(mmap(file, os.fstat(file).st_size)).cast("i")
        self._position = position

    @classmethod
    def new(cls, processes: int) -> Self:
        """Makes the numbers of processes of which none accepts yet."""
        file = os.memfd_create("workflow-api-edges")
        os.write(file, _AWAY.to_bytes(4, "little", signed=True) * processes)
        return cls(file, 0)

    def leads(self, connections: int) -> bool:
        """Tells the others how many connections this process has; returns whether one of them should take the next."""
        numbers = self._numbers
        numbers[self._position] = connections
        least = min(number for number in numbers if number != _AWAY)
        return connections - least > connections // _LEAD_SHARE

    def leave(self, position: int | None = None) -> None:
        """Tells that this process, or another that has ended, accepts no more."""
        self._numbers[self._position if position is None else position] = _AWAY
