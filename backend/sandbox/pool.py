"""Pool of started sandboxes that wait for a step."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from backend.sandbox.limits import Limits
from backend.sandbox.process import StepProcess

MOST_ENVIRONMENTS = 4
REFILL_SECONDS = 0.03


class WarmPool:
    """Pool of started sandboxes for the environments used last. Thread-safe.

    Only the size of the workspace, the network and the packages are fixed when a sandbox starts, and the runner sets
    the other limits by its request, so environments that agree in these share sandboxes. Each sandbox is used once.

    `REFILL_SECONDS` after a sandbox was taken, `fill` starts another; where it was the last one, `take` does so itself.
    On one core the start of the next sandbox held the step that got this one up for 7 ms, half of a one-step run.
    (`python -m benchmarks`: a one-step run alone.)
    """

    def __init__(self, refill: Callable[[Limits], None], discard: Callable[[StepProcess], None], size: int) -> None:
        self._refill = refill
        self._discard = discard
        self._size = size
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Hashable, list[StepProcess]] = OrderedDict()
        self._starting: dict[Hashable, int] = {}
        self._closed = False

    def take(self, limits: Limits) -> StepProcess | None:
        """Returns a started sandbox of these limits if there is one; if then none is left, starts more at once."""
        return self._take(limits, wanted=True)

    def fill(self, limits: Limits) -> None:
        """Starts sandboxes of these limits for later steps."""
        self._take(limits, wanted=False)

    def _take(self, limits: Limits, *, wanted: bool) -> StepProcess | None:
        if self._size == 0:
            return None
        taken = None
        dead: list[StepProcess] = []
        with self._lock:
            waiting = self._waiting.setdefault(limits.fixed_at_start, [])
            self._waiting.move_to_end(limits.fixed_at_start)
            while wanted and taken is None and waiting:
                first = waiting.pop(0)
                if first.alive:
                    taken = first
                else:
                    dead.append(first)
            while len(self._waiting) > MOST_ENVIRONMENTS:
                dead += self._waiting.popitem(last=False)[1]
            starting = self._starting.get(limits.fixed_at_start, 0)
            missing = 0 if self._closed or (wanted and waiting) else self._size - len(waiting) - starting
            self._starting[limits.fixed_at_start] = starting + missing
        for process in dead:
            self._discard(process)
        for _ in range(missing):
            self._refill(limits)
        return taken

    def put(self, limits: Limits, process: StepProcess | None) -> None:
        """Adds a sandbox that a refill has started, or None if that failed."""
        with self._lock:
            self._starting[limits.fixed_at_start] -= 1
            wanted = not self._closed and limits.fixed_at_start in self._waiting
            if process is not None and wanted:
                self._waiting[limits.fixed_at_start].append(process)
        if process is not None and not wanted:
            self._discard(process)

    def close(self) -> None:
        """Ends every waiting sandbox, and discards later ones."""
        with self._lock:
            self._closed = True
            idle = [process for waiting in self._waiting.values() for process in waiting]
            self._waiting.clear()
        for process in idle:
            self._discard(process)
