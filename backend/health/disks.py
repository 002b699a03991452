"""Room on the file systems that a process writes to, and how fast it goes."""

import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

_SAMPLES: Final = 241
"""An hour of reports."""
_SHORTEST_SECONDS: Final = 600.0
"""A shorter burst says little about the next hours."""
_HOUR_SECONDS: Final = 3600.0


class Space(NamedTuple):
    """Size of a file system, what is free there, and how many bytes an hour it fills by; None where not known."""

    total: int | None = None
    free: int | None = None
    filling: int | None = None


class Disk:
    """The file system of one folder; None is no folder. `sample` is for one thread, `space` for any."""

    def __init__(self, folder: Path | None, clock: Callable[[], float] = monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self._filling: int | None = None

    def sample(self) -> Space:
        """Measures the room, and the rate since the oldest of the last hour's samples."""
        now = self.space()
        if now.free is None:
            return now
        self._samples.append((self._clock(), now.free))
        (began, most), (at, least) = self._samples[0], self._samples[-1]
        if at - began >= _SHORTEST_SECONDS:
            self._filling = max(0, round((most - least) * _HOUR_SECONDS / (at - began)))
        return now._replace(filling=self._filling)

    def space(self) -> Space:
        """Measures the room; the rate is that of the last sample."""
        if self._folder is None:
            return Space()
        try:
            usage = shutil.disk_usage(self._folder)
        except OSError:
            return Space()
        return Space(usage.total, usage.free, self._filling)
