"""Runs as they were read last, so that callers that wait for the same run, again and again, share reads.

Five thousand callers that wait ask again 167 times a second. A caller that comes back finds what it was answered,
because runs that are waited for are kept, and all of them compared with the backend every few seconds: to compare 590
runs a second costs less than those 167 reads (`python -m benchmarks.waiting`).
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from workflow_api.v1.runs_pb2 import Run

SECONDS: Final = 10.0
"""Seconds for which a run is current: the announcement of its change is lost with a process that is killed then."""

DUE_SECONDS: Final = 7.0
"""Age from which a kept run is compared with the backend's."""

_MOST_BYTES: Final = 16_000_000
_MOST_BYTES_OF_RUN: Final = 16_384
# What a message costs besides its fields.
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
    """Runs by id and by the key that read them. For one event loop, while it receives every change."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Takes a monotonic clock in seconds."""
        self._clock = clock
        self._of_run: dict[str, dict[str, Reading]] = defaultdict(dict)
        # Those first that were compared with the backend, or read, the longest ago.
        self._readings: OrderedDict[Reading, None] = OrderedDict()
        self._bytes = 0

    def find(self, key_id: str, run_id: str) -> Run | None:
        """Returns a run that has not changed since it was read."""
        of_run = self._of_run.get(run_id)
        reading = of_run.get(key_id) if of_run else None
        return reading.run if reading is not None and self._clock() - reading.current_at < SECONDS else None

    def begin(self, key_id: str, run_id: str) -> Reading:
        """Returns what `end` takes once the run has been read."""
        reading = Reading(key_id, run_id, self._clock())
        self._forget(self._of_run.get(run_id, {}).get(key_id))
        self._of_run[run_id][key_id] = reading
        self._readings[reading] = None
        return reading

    def end(self, reading: Reading, run: Run) -> None:
        """Keeps what was read."""
        size = _BYTES_MORE + run.ByteSize()
        if size > _MOST_BYTES_OF_RUN or reading not in self._readings:
            return
        reading.run, reading.bytes = run, size
        self._bytes += size
        while self._bytes > _MOST_BYTES:
            self._forget(next(iter(self._readings)))

    def due(self, held: Callable[[str], bool]) -> list[Reading]:
        """Returns what is to be compared with the backend soon, of runs that are `held`; forgets others of that age."""
        found = []
        until = self._clock() - DUE_SECONDS
        for reading in self._readings:
            if reading.current_at > until:
                break
            found.append(reading)
        kept = [each for each in found if each.run is not None and each.run.etag and held(each.run_id)]
        for reading in set(found).difference(kept):
            self._forget(reading)
        return kept

    def confirm(self, readings: Iterable[Reading], asked_at: float) -> None:
        """Counts runs as current that had not changed when the backend was asked."""
        for reading in readings:
            if reading in self._readings:
                reading.current_at = asked_at
                self._readings.move_to_end(reading)

    def changed(self, run_ids: Iterable[str]) -> None:
        """Forgets runs that changed, also those that are just being read."""
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
