"""All that the edge processes of one command have in common: made by their parent, attached by each."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from edge.shared_memory import held_calls, minute_counts
from edge.shared_memory.balance import ConnectionBalance
from edge.shared_memory.held_calls import SharedHeldCalls
from edge.shared_memory.minute_counts import SharedMinuteCounts
from edge.shared_memory.table import SharedTable


@dataclass(frozen=True, slots=True)
class ShareFiles:
    """Numbers of the open files that a process inherits from its parent, and its position among the others."""

    processes: int
    position: int
    counts: int
    held: int
    balance: int
    listening: tuple[int, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of them."""
        return (self.counts, self.held, self.balance, *self.listening)


@dataclass(frozen=True, slots=True)
class Share:
    """What one process sees of it."""

    listening: list[socket.socket]
    counts: SharedMinuteCounts
    held: SharedHeldCalls
    balance: ConnectionBalance

    @classmethod
    def attached(cls, files: ShareFiles, clock: Callable[[], int]) -> Self:
        """Returns what the parent has made, in a process that inherited the files."""
        held = SharedTable(files.held, held_calls.value_bytes(files.processes))
        return cls(
            listening=[socket.socket(fileno=number) for number in files.listening],
            counts=SharedMinuteCounts(SharedTable(files.counts, minute_counts.VALUE_BYTES), clock),
            held=SharedHeldCalls(held, files.processes, files.position),
            balance=ConnectionBalance(files.balance, files.position),
        )


class ShareOwner:
    """Makes it, and takes back what a process that has ended counted. It listens on nothing itself."""

    def __init__(self, processes: int, listening: list[socket.socket]) -> None:
        self._processes = processes
        self._listening = listening
        self._counts = SharedTable.new(minute_counts.VALUE_BYTES)
        table = SharedTable.new(held_calls.value_bytes(processes))
        self._held, self._held_file = SharedHeldCalls(table, processes, 0), table.file
        self._balance = ConnectionBalance.new(processes)

    def files(self, position: int) -> ShareFiles:
        """Returns what the process at a position inherits."""
        return ShareFiles(
            processes=self._processes,
            position=position,
            counts=self._counts.file,
            held=self._held_file,
            balance=self._balance.file,
            listening=tuple(each.fileno() for each in self._listening),
        )

    def forget(self, position: int) -> None:
        """Frees what the process at a position held when it ended."""
        self._held.forget(position)
        self._balance.leave(position)

    def close(self) -> None:
        """Closes the listening sockets in this process; the others go on accepting."""
        for each in self._listening:
            each.close()
