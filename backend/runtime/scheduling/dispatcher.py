"""Dispatches queued segments to the engine, through the port that engines implement, and deletes expired data."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, Protocol

from backend.common.clock import Clock
from backend.common.states import LOWER_CLASS_SHARE, KeyPriority
from backend.runtime.execution.slots import LEAST_TO_RESERVE
from backend.runtime.scheduling import sql
from backend.services.runs.erasure import Removals
from backend.storage.database import Database
from backend.storage.outage import Ticker
from backend.storage.retention import RetentionJob

_FIRST: Final = 1
"""The rank of a key's oldest waiting segment."""

_TURN_OF: Final = {3: KeyPriority.NORMAL, 7: KeyPriority.LOW}
"""The turns, of `LOWER_CLASS_SHARE`, at which a lower class goes first; at the others the highest class does."""


class Engine(Protocol):
    """Executes segments by id. The tables hold all durable state, so an engine may lose segments at any time."""

    def submit(self, segment_id: str, dispatch: int) -> None:
        """Executes a queued segment soon, and only once if it is submitted again. Does not block. Thread-safe.

        `dispatch` numbers the dispatches of the segment, from 1: a segment that did not begin is dispatched again.

        Raises:
            Exception: the segment was not accepted, and must be submitted again.
        """

    def cancel(self, segment_id: str) -> None:
        """Kills the steps of a running segment, and closes its run with the outcome that the run's row implies.

        Does nothing if the engine does not execute the segment. Does not block. Thread-safe and idempotent.
        """

    def abandon(self, segment_id: str) -> None:
        """Kills the steps of a segment that another process has taken or ended; otherwise like `cancel`."""

    def executes(self, segment_id: str) -> bool:
        """Returns whether the engine has the segment, and so will record its end. Thread-safe."""

    def claimed(self) -> AbstractSet[str]:
        """Returns the segments that the engine executes and has set running. Thread-safe."""


class Launcher:
    """Submits queued segments to the engine, at most `most` at a time; keys with the fewest submitted go first.

    The limit counts for each depth of child runs, so that a segment that waits for a child never blocks the child.

    With `reserve`, each key without a submitted segment gets one beyond the limit, up to twice the limit in all: such a
    key need not wait while other keys' segments, after their steps, use no slot. Without `reserve`, the last place is
    for a key without a submitted segment, if the limit is `LEAST_TO_RESERVE` or more.

    Keys with a higher priority go first, but of eight dispatches at a depth one at least is of each lower class that
    waits. Among keys of one class the order is by their submitted segments. Turns are counted in this process alone: a
    restart begins with the higher class.

    A segment is marked as dispatched once the engine has it; the run reaper requeues a segment that does not begin.
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
        """True if segments may be waiting for room, so that the end of a segment must start a round. Thread-safe."""
        self._left_waiting = True
        self._dispatched = Counter[int]()

    def has_room(self, executed: int) -> bool:
        """Returns whether one more segment than `executed` may begin: no segment waits, and the limit is not reached.

        The new segment may overtake segments that a round under way is about to dispatch.
        """
        return not self._left_waiting and executed < self._most()

    def launch(self) -> None:
        """Dispatches waiting segments, up to the limit.

        A segment that a crash left without its mark is dispatched again, by the same number.
        """
        # Set until the number of waiting segments is known: a segment that ends meanwhile starts another round.
        self.waits = True
        most = self._most()
        waiting = self._database.read(lambda tx: sql.waiting(tx, max(_FIRST, most)))
        if not waiting:
            self.waits = self._left_waiting = False
            return
        taken = self._database.read(sql.taken_by_depth)
        chosen = [
            row
            for depth in sorted({row.depth for row in waiting})
            for row in self._choose(depth, [row for row in waiting if row.depth == depth], taken.get(depth, {}), most)
        ]
        dispatched = []
        try:
            for row in chosen:
                self._engine.submit(row.segment_id, row.hand_overs + 1)
                dispatched.append(row)
                self._dispatched[row.depth] += 1
        finally:
            if dispatched:
                mark = partial(sql.mark_dispatched, segments=dispatched, now=self._clock())
                self._database.write(mark, lock_key="launcher")
        self.waits = self._left_waiting = len(dispatched) < len(waiting) or len(waiting) >= most

    def _choose(
        self, depth: int, waiting: list[sql.WaitingSegmentRow], taken: Mapping[str, int], most: int
    ) -> list[sql.WaitingSegmentRow]:
        """Returns the segments of one depth to submit now; `taken` counts the segments that the engine has, by key."""
        total = sum(taken.values())
        room = max(0, most - total)
        reserve = max(0, 2 * most - max(most, total)) if self._reserve else 0
        left_free = 0 if self._reserve or most < LEAST_TO_RESERVE else 1
        waiting.sort(key=lambda row: (taken.get(row.key_id, 0) + row.rank, row.created_at, row.segment_id))
        classes: dict[str, deque[sql.WaitingSegmentRow]] = {priority: deque() for priority in KeyPriority}
        for row in waiting:
            classes[row.priority or KeyPriority.NORMAL].append(row)
        by_key = Counter(taken)
        chosen: list[sql.WaitingSegmentRow] = []
        while any(classes.values()):
            turn = _TURN_OF.get((self._dispatched[depth] + len(chosen)) % LOWER_CLASS_SHARE, KeyPriority.HIGH)
            row = next(classes[priority] for priority in (turn, *KeyPriority) if classes[priority]).popleft()
            if room - len(chosen) <= (left_free if by_key[row.key_id] else 0):
                if by_key[row.key_id] or not reserve:
                    continue
                reserve -= 1
            chosen.append(row)
            by_key[row.key_id] += 1
        return chosen


_LAUNCH_SECONDS: Final = 0.5
_UPKEEP_SECONDS: Final = 60
# Delayed, because its dozen deletions would slow down the start.
_FIRST_UPKEEP_SECONDS: Final = 2
# Well below the deadline of the RPC.
_LONGEST_UPKEEP_SECONDS: Final = 20


class RunDispatcher:
    """Threads of the launcher, the upkeep and the removals.

    Several processes may dispatch at once: a dispatch that two of them make takes effect once.
    """

    def __init__(self, launcher: Launcher, upkeep: RetentionJob, removals: Removals) -> None:
        self.launcher = launcher
        self.launching = Ticker("launcher", launcher.launch, _LAUNCH_SECONDS)
        self.removals = removals
        self.removing = Ticker("removals", removals.round, _UPKEEP_SECONDS)
        self._upkeep = upkeep
        self._keeping = Ticker("upkeep", upkeep.round, _UPKEEP_SECONDS, _FIRST_UPKEEP_SECONDS)

    def start(self) -> None:
        """Starts the threads."""
        for ticker in (self.launching, self._keeping, self.removing):
            ticker.start()

    def stop(self) -> None:
        """Stops dispatching, and ends the rounds under way; may be repeated."""
        self.launching.stop()
        self._upkeep.halt()
        self._keeping.stop()
        self.removals.halt()
        self.removing.stop()

    def has_room(self, executed: int) -> bool:
        """Returns whether one more segment than `executed` may begin; see `Launcher.has_room`."""
        return self.launcher.has_room(executed)

    def segment_ended(self) -> None:
        """Starts a round of the launcher if a segment may be waiting for room."""
        if self.launcher.waits:
            self.launching.wake()

    def upkeep(self) -> dict[str, int]:
        """Deletes expired rows; see `Runtime.upkeep`."""
        return self._upkeep.expire(_LONGEST_UPKEEP_SECONDS)
