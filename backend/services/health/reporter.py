"""Reports of this process to the health tables: its presence, its disks, and the edges that watch it."""

import os
import shutil
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from backend.common import metrics
from backend.common.clock import HOUR_MS, system_clock
from backend.common.ids import new_id
from backend.services.dependencies import Services
from backend.services.health import sql
from backend.services.health.sql import ProcessRow
from backend.services.live_edges import LiveEdge, LiveEdges
from backend.storage.database import DatabaseUnavailableError, Tx
from backend.storage.outage import Ticker
from telemetry import Family

_SAMPLES: Final = 241
"""Most samples: the reports of an hour."""
_SHORTEST_SECONDS: Final = 600.0
"""Shortest time between samples of a rate; a shorter one says little about the next hours."""
_HOUR_SECONDS: Final = 3600.0


class Space(NamedTuple):
    """Size and free bytes of a file system, and bytes an hour by which it fills; None if unknown."""

    total: int | None = None
    free: int | None = None
    filling: int | None = None


class Disk:
    """Measures the file system of a folder, None for no folder. `sample` is for one thread, `space` for any."""

    def __init__(self, folder: Path | None, clock: Callable[[], float] = monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self._filling: int | None = None

    def sample(self) -> Space:
        """Measures the space, and the rate of filling since the oldest of the last hour's samples."""
        now = self.space()
        if now.free is None:
            return now
        self._samples.append((self._clock(), now.free))
        (began, most), (at, least) = self._samples[0], self._samples[-1]
        if at - began >= _SHORTEST_SECONDS:
            self._filling = max(0, round((most - least) * _HOUR_SECONDS / (at - began)))
        return now._replace(filling=self._filling)

    def space(self) -> Space:
        """Measures the free space; the rate of filling comes from the last sample."""
        if self._folder is None:
            return Space()
        try:
            usage = shutil.disk_usage(self._folder)
        except OSError:
            return Space()
        return Space(usage.total, usage.free, self._filling)


REPORT_SECONDS: Final = 15.0

_FIRST_SECONDS: Final = 1.0
# A lock key of its own, so that no other change waits for a report.
_LOCK_KEY: Final = "processes"
_KEPT_MS: Final = 24 * HOUR_MS
_EDGES_KEPT_MS: Final = 600_000


class ProcessReporter:
    """Writes a row every 15 seconds for this process, and for each connected edge, as edges have no database.

    Args:
        data: The data folder.
        objects: The folder of the object store; None for a bucket.
        shares_clock: Whether the services use the clock of a database server, which may differ from this machine's.
    """

    def __init__(
        self,
        services: Services,
        part: str,
        data: Path,
        objects: Path | None,
        *,
        shares_clock: bool,
        edges: LiveEdges | None = None,
    ) -> None:
        self._services = services
        self._data, self._objects = Disk(data), Disk(objects)
        self._shares_clock = shares_clock
        self._edges = edges
        now = services.clock()
        self._process = ProcessRow(
            new_id("proc"), part, socket.gethostname(), os.getpid(), services.release, started_at=now, seen_at=now
        )
        self._ticker = Ticker("process-reporter", self.report, REPORT_SECONDS, _FIRST_SECONDS)
        self._reported = False
        self.certificate_expires_at: Callable[[], int | None] = lambda: None
        """Function that returns when the certificate of this process expires, in milliseconds since the epoch."""

    def start(self) -> None:
        """Starts the thread that reports."""
        self._ticker.start()

    def stop(self) -> None:
        """Ends reporting, and removes the rows of this process."""
        self._ticker.stop()
        if self._reported:
            with suppress(DatabaseUnavailableError):
                self._services.database.write(self._remove, lock_key=_LOCK_KEY)

    def measured(self) -> list[Family]:
        """Returns metrics of the space on the file systems of this process. Thread-safe."""
        disks = {"data": self._data.space(), "objects": self._objects.space()}
        families = {metrics.DISK_TOTAL: "total", metrics.DISK_FREE: "free", metrics.DISK_FILLING: "filling"}
        return [
            gauge.with_values(
                {(name,): value for name, space in disks.items() if (value := getattr(space, field)) is not None}
            )
            for gauge, field in families.items()
        ]

    def report(self) -> None:
        """Writes the rows of this process and its edges now."""
        now = self._services.clock()
        data, objects = self._data.sample(), self._objects.sample()
        own = self._process._replace(
            seen_at=now,
            clock_ahead=system_clock() - now if self._shares_clock else None,
            data_total=data.total,
            data_free=data.free,
            data_filling=data.filling,
            objects_total=objects.total,
            objects_free=objects.free,
            objects_filling=objects.filling,
            certificate_expires_at=self.certificate_expires_at(),
        )
        edges = [ProcessRow(part="edge", seen_at=now, **edge._asdict()) for edge in self._watching()]

        def work(tx: Tx) -> None:
            tx.keeps_caches_valid = True
            for row in (own, *edges):
                sql.report(tx, row)
            sql.remove_silent(tx, before=now - _KEPT_MS, edges_before=now - _EDGES_KEPT_MS, after=now + _EDGES_KEPT_MS)

        self._services.database.write(work, lock_key=_LOCK_KEY)
        self._reported = True

    def _watching(self) -> list[LiveEdge]:
        return [] if self._edges is None else self._edges.present

    def _remove(self, tx: Tx) -> None:
        tx.keeps_caches_valid = True
        sql.remove(tx, self._process.process_id)
