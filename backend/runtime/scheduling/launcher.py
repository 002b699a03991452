"""Hands queued segments over from the tables to the engine."""

from collections.abc import Callable
from functools import partial
from typing import Final

from backend.clock import Clock
from backend.runtime.scheduling import sql
from backend.runtime.scheduling.engine import Engine
from backend.storage.database import Database

_FIRST: Final = 1
"""The rank of a key's oldest waiting segment."""


class Launcher:
    """Keeps up to `most` segments with the engine; the keys with the fewest there go first.

    With `reserve`, keys without a segment there get one each beyond that, up to as many again: they do not wait for
    what segments of others do after their steps, which takes no slot.

    A segment is marked as handed over once the engine has it; a mark whose segment does not begin is taken back by
    the sweeper.
    """

    def __init__(
        self, database: Database, clock: Clock, engine: Engine, most: Callable[[], int], *, reserve: bool
    ) -> None:
        self._database = database
        self._clock = clock
        self._engine = engine
        self._most = most
        self._reserve = reserve
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

        A segment that a crash left without its mark is handed over again, by the same number.
        """
        # While it is not known, a segment that ends asks for another round.
        self.waits = True
        most = self._most()
        waiting = self._database.read(lambda tx: sql.waiting(tx, max(_FIRST, most)))
        if not waiting:
            self.waits = self._left = False
            return
        taken = self._database.read(sql.taken_by_key)
        total = sum(taken.values())
        room = max(0, most - total)
        reserve = max(0, 2 * most - max(most, total)) if self._reserve else 0
        waiting.sort(key=lambda row: (taken.get(row.key_id, 0) + row.rank, row.created_at, row.segment_id))
        held = {*taken, *(row.key_id for row in waiting[:room])}
        reserved = [row for row in waiting[room:] if row.rank == _FIRST and row.key_id not in held]
        handed_over = []
        try:
            for row in [*waiting[:room], *reserved[:reserve]]:
                self._engine.submit(row.segment_id, row.hand_overs + 1)
                handed_over.append(row)
        finally:
            if handed_over:
                mark = partial(sql.mark_handed_over, segments=handed_over, now=self._clock())
                self._database.write(mark, lock_key="launcher")
        self.waits = self._left = len(handed_over) < len(waiting) or len(waiting) >= most
