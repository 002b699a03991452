"""Hands queued segments over from the tables to the engine."""

from collections.abc import Callable
from typing import Final

from backend.clock import Clock
from backend.runtime.scheduling import sql
from backend.runtime.scheduling.engine import Engine
from backend.storage.database import Database

_FIRST: Final = 1
"""The rank of a key's oldest waiting segment."""


class Launcher:
    """Keeps up to `most` segments with the engine; the keys with the fewest there go first.

    Beyond that, keys without a segment there get one each, up to as many again: they do not wait for what segments of
    others do after their steps, which takes no slot.

    A segment is marked as handed over once the engine has it; marks that a dead process left are taken back at the
    start of the next one.
    """

    def __init__(self, database: Database, clock: Clock, engine: Engine, most: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock
        self._engine = engine
        self._most = most
        self.waits = True
        """Whether segments may wait for room, so that one that ends lets another begin; from any thread."""
        self._left = True

    def has_room(self, executed: int) -> bool:
        """Returns whether one segment more than these may be with the engine, where the last round left none waiting.

        It may overtake what the present round hands over, by the length of that round.
        """
        return not self._left and executed < self._most()

    def launch(self) -> None:
        """Hands over waiting segments, as far as there is room.

        A segment that a crash left without its mark is handed over again. Marks are taken back where the engine may
        have dropped segments.
        """
        # While it is not known, a segment that ends asks for another round.
        self.waits = True
        most = self._most()
        waiting = self._database.read(lambda tx: sql.waiting(tx, most))
        if not waiting:
            self.waits = self._left = False
            return
        taken = self._database.read(sql.taken_by_key)
        total = sum(taken.values())
        room, reserve = max(0, most - total), max(0, 2 * most - max(most, total))
        waiting.sort(key=lambda row: (taken.get(row.key_id, 0) + row.rank, row.created_at, row.segment_id))
        held = {*taken, *(row.key_id for row in waiting[:room])}
        reserved = [row for row in waiting[room:] if row.rank == _FIRST and row.key_id not in held]
        handed_over = []
        generation = self._engine.generation
        try:
            for row in [*waiting[:room], *reserved[:reserve]]:
                self._engine.submit(row.segment_id)
                handed_over.append(row.segment_id)
        finally:
            if handed_over:
                self._database.write(lambda tx: sql.hand_over(tx, handed_over, self._clock()), lock_key="launcher")
                if self._engine.generation != generation:
                    self._database.write(sql.take_back, lock_key="launcher")
        self.waits = self._left = len(handed_over) < len(waiting) or len(waiting) >= most
