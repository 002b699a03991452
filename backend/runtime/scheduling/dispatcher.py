"""Dispatches queued segments to the engine, through the port that engines implement, and deletes expired data."""

from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, Protocol

from backend.common.clock import Clock
from backend.runtime.execution.slots import LEAST_TO_RESERVE
from backend.runtime.scheduling import sql
from backend.services.runs.erasure import Removals
from backend.storage.database import Database
from backend.storage.outage import Ticker
from backend.storage.retention import RetentionJob

_FIRST: Final = 1
"""The rank of a key's oldest waiting segment."""


class Engine(Protocol):
    """Executes segments by id. It keeps no state of its own that counts: what it loses is still in the tables."""

    def submit(self, segment_id: str, dispatch: int) -> None:
        """Executes a queued segment soon, once however often it is submitted. Does not wait for it; from any thread.

        `dispatch` numbers the dispatches of the segment, from 1: a segment that did not begin is dispatched again.

        Raises:
            Exception: it was not accepted, and must be submitted again.
        """

    def cancel(self, segment_id: str) -> None:
        """Makes a running segment kill its steps and close its run, with the outcome that the run's row says.

        Does nothing where the engine does not execute it. Does not wait; from any thread; may be repeated.
        """

    def abandon(self, segment_id: str) -> None:
        """Makes a segment that another process has taken, or ended, kill its steps at once; as `cancel` otherwise."""

    def executes(self, segment_id: str) -> bool:
        """Returns whether the engine has the segment, and so will record its end; from any thread."""

    def claimed(self) -> AbstractSet[str]:
        """Returns the segments that the engine executes and has set running; from any thread."""


class Launcher:
    """Keeps up to `most` segments with the engine; the keys with the fewest there go first.

    Children have as much room again at each depth: a segment that waits for a child never keeps it from beginning.

    With `reserve`, keys without a segment there get one each beyond that, up to as many again: they do not wait for
    what segments of others do after their steps, which takes no slot. Without it, the last of `LEAST_TO_RESERVE`
    segments or more goes to a key without any.

    A segment is marked as dispatched once the engine has it; where it does not begin, it is requeued by
    the run reaper.
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
        """True where segments may wait for room, so that one that ends lets another begin; from any thread."""
        self._left = True

    def has_room(self, executed: int) -> bool:
        """Returns whether the engine has room beside `executed` segments, where the last round left none waiting.

        It may overtake segments that the present round dispatches, by the length of that round.
        """
        return not self._left and executed < self._most()

    def launch(self) -> None:
        """Dispatches waiting segments, as far as there is room.

        A segment that a crash left without its mark is dispatched again, by the same number.
        """
        # While it is not known, a segment that ends asks for another round.
        self.waits = True
        most = self._most()
        waiting = self._database.read(lambda tx: sql.waiting(tx, max(_FIRST, most)))
        if not waiting:
            self.waits = self._left = False
            return
        taken = self._database.read(sql.taken_by_depth)
        chosen = [
            row
            for depth in sorted({row.depth for row in waiting})
            for row in self._chosen([row for row in waiting if row.depth == depth], taken.get(depth, {}), most)
        ]
        dispatched = []
        try:
            for row in chosen:
                self._engine.submit(row.segment_id, row.hand_overs + 1)
                dispatched.append(row)
        finally:
            if dispatched:
                mark = partial(sql.mark_dispatched, segments=dispatched, now=self._clock())
                self._database.write(mark, lock_key="launcher")
        self.waits = self._left = len(dispatched) < len(waiting) or len(waiting) >= most

    def _chosen(
        self, waiting: list[sql.WaitingSegmentRow], taken: Mapping[str, int], most: int
    ) -> list[sql.WaitingSegmentRow]:
        """Returns the segments of one depth that there is room for; `taken` are those that the engine has, by key."""
        total = sum(taken.values())
        room = max(0, most - total)
        reserve = max(0, 2 * most - max(most, total)) if self._reserve else 0
        waiting.sort(key=lambda row: (taken.get(row.key_id, 0) + row.rank, row.created_at, row.segment_id))
        held = Counter(taken)
        chosen: list[sql.WaitingSegmentRow] = []
        others: list[sql.WaitingSegmentRow] = []
        left_free = 0 if self._reserve or most < LEAST_TO_RESERVE else 1
        for row in waiting:
            if room - len(chosen) > (left_free if held[row.key_id] else 0):
                chosen.append(row)
                held[row.key_id] += 1
            else:
                others.append(row)
        reserved = [row for row in others if row.rank == _FIRST and not held[row.key_id]]
        return [*chosen, *reserved[:reserve]]


_LAUNCH_SECONDS: Final = 0.5
_UPKEEP_SECONDS: Final = 60
# Its rules are a dozen changes, which a start can do without.
_FIRST_UPKEEP_SECONDS: Final = 2
# Well within the time that callers give an answer.
_LONGEST_UPKEEP_SECONDS: Final = 20


class RunDispatcher:
    """Threads of the launcher, the upkeep and the removals.

    Several processes may dispatch side by side: what two of them do takes effect once.
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
        """Returns whether a segment more may begin beside those executed, and none waits; see `Launcher.has_room`."""
        return self.launcher.has_room(executed)

    def segment_ended(self) -> None:
        """Dispatches a segment that waits for room, if there may be one: for most ends that would only cost a round."""
        if self.launcher.waits:
            self.launching.wake()

    def upkeep(self) -> dict[str, int]:
        """Deletes expired rows; see `Runtime.upkeep`."""
        return self._upkeep.expire(_LONGEST_UPKEEP_SECONDS)
