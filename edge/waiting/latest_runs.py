"""Cache of runs as they were read last, so that callers that wait for one run share reads.

Five thousand callers that wait ask again 167 times a second. Their runs are kept here and compared with the backend
every few seconds, because comparing 590 runs a second costs less than 167 reads (`python -m benchmarks.waiting`).
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from workflow_api.v1.runs_pb2 import Run

SECONDS: Final = 10.0
"""Seconds for which a kept run is current: the announcement of a change is lost if its process is killed."""

DUE_SECONDS: Final = 7.0
"""Age from which a kept run is compared with the backend's."""

_MOST_BYTES: Final = 16_000_000
_MOST_BYTES_OF_RUN: Final = 16_384
# Bytes of a message besides its fields.
_BYTES_MORE: Final = 1_024


class Reading:
    """A read under way; its answer is kept unless the run changed meanwhile."""

    __slots__ = ("bytes", "current_at", "key_id", "run", "run_id")

    def __init__(self, key_id: str, run_id: str, began: float) -> None:
        self.key_id = key_id
        self.run_id = run_id
        self.current_at = began
        self.bytes = 0
        self.run: Run | None = None


class LatestRuns:
    """Cache of runs by id and reading key, valid while every change is received; for one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Takes a monotonic clock in seconds."""
        self._clock = clock
        self._of_run: dict[str, dict[str, Reading]] = defaultdict(dict)
        # Ordered by the time of the last read or comparison, oldest first.
        self._readings: OrderedDict[Reading, None] = OrderedDict()
        self._bytes = 0

    def find(self, key_id: str, run_id: str) -> Run | None:
        """Returns a run that has not changed since it was read."""
        of_run = self._of_run.get(run_id)
        reading = of_run.get(key_id) if of_run else None
        return reading.run if reading is not None and self._clock() - reading.current_at < SECONDS else None

    def begin(self, key_id: str, run_id: str) -> Reading:
        """Returns the reading to pass to `end` once the run has been read."""
        reading = Reading(key_id, run_id, self._clock())
        self._forget(self._of_run.get(run_id, {}).get(key_id))
        self._of_run[run_id][key_id] = reading
        self._readings[reading] = None
        return reading

    def end(self, reading: Reading, run: Run) -> None:
        """Keeps the run that was read."""
        size = _BYTES_MORE + run.ByteSize()
        if size > _MOST_BYTES_OF_RUN or reading not in self._readings:
            return
        reading.run, reading.bytes = run, size
        self._bytes += size
        while self._bytes > _MOST_BYTES:
            self._forget(next(iter(self._readings)))

    def due(self, is_held: Callable[[str], bool]) -> list[Reading]:
        """Returns readings of `held` runs that are due for comparison; forgets other readings of that age."""
        found = []
        until = self._clock() - DUE_SECONDS
        for reading in self._readings:
            if reading.current_at > until:
                break
            found.append(reading)
        kept = [each for each in found if each.run is not None and each.run.etag and is_held(each.run_id)]
        for reading in set(found).difference(kept):
            self._forget(reading)
        return kept

    def confirm(self, readings: Iterable[Reading], asked_at: float) -> None:
        """Marks unchanged runs as current at `asked_at`, the time of the comparison."""
        for reading in readings:
            if reading in self._readings:
                reading.current_at = asked_at
                self._readings.move_to_end(reading)

    def changed(self, run_ids: Iterable[str]) -> None:
        """Forgets runs that changed, including runs being read."""
        for run_id in run_ids:
            for reading in tuple(self._of_run.get(run_id, {}).values()):
                self._forget(reading)

    def clear(self) -> None:
        """Forgets everything."""
        self._of_run.clear()
        self._readings.clear()
        self._bytes = 0

    def _forget(self, reading: Reading | None) -> None:
        if reading is None or reading not in self._readings:
            return
        del self._readings[reading]
        of_run = self._of_run[reading.run_id]
        del of_run[reading.key_id]
        if not of_run:
            del self._of_run[reading.run_id]
        self._bytes -= reading.bytes
