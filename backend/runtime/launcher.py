"""Hands queued segments over to the engine: the tables are its outbox. (DESIGN.md, 6)."""

from collections.abc import Callable

from backend.clock import Clock
from backend.runtime import upkeep_store as store
from backend.runtime.engines.engine import Engine
from backend.storage.database import Database


class Launcher:
    """Hands over up to `most` segments at a time, fairly by key: whose key has the fewest with the engine goes first.

    A segment is marked as handed over once the engine has it; a mark left by a process that is gone is taken back at
    the start of the next.
    """

    def __init__(self, database: Database, clock: Clock, engine: Engine, most: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock
        self._engine = engine
        self._most = most

    def launch(self) -> None:
        """Hands over what waits, as far as there is room.

        What a crash leaves between the handing over and the mark is handed over again. Marks are taken back where the
        engine may have dropped what it was handed.
        """
        most = self._most()
        waiting = self._database.read(lambda tx: store.waiting(tx, most))
        if not waiting:
            return
        taken = self._database.read(store.taken_by_key)
        room = most - sum(taken.values())
        waiting.sort(key=lambda row: (taken.get(row.key_id, 0) + row.turn, row.created_at, row.segment_id))
        handed_over = []
        generation = self._engine.generation
        try:
            for row in waiting[: max(room, 0)]:
                self._engine.submit(row.segment_id)
                handed_over.append(row.segment_id)
        finally:
            if handed_over:
                self._database.write(lambda tx: store.hand_over(tx, handed_over, self._clock()), of="launcher")
                if self._engine.generation != generation:
                    self._database.write(store.take_back, of="launcher")
