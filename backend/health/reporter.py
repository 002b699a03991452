"""Reports that this process is there, and which edges watch it."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from backend import metrics
from backend.clock import HOUR_MS, system_clock
from backend.health import sql
from backend.health.disks import Disk
from backend.health.sql import ProcessRow
from backend.ids import new_id
from backend.live_edges import LiveEdge, LiveEdges
from backend.runtime.ticker import Ticker
from backend.services import Services
from backend.storage.database import DatabaseUnavailableError, Tx
from telemetry import Family

REPORT_SECONDS: Final = 15.0

_FIRST_SECONDS: Final = 1.0
# No change of anything else waits for a report.
_LOCK_KEY: Final = "processes"
_KEPT_MS: Final = 24 * HOUR_MS
_EDGES_KEPT_MS: Final = 600_000


class ProcessReporter:
    """Writes a row for this process every 15 seconds, and for each edge that watches it, which has no database.

    Args:
        data: The data folder.
        objects: The folder of the object store; None where that is a bucket.
        shares_clock: Whether the clock of the services is another than this machine's.
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
        """Returns when the certificate that this process presents expires, in milliseconds since the epoch."""

    def start(self) -> None:
        """Begins to report."""
        self._ticker.start()

    def stop(self) -> None:
        """Reports no more, and removes what was reported."""
        self._ticker.stop()
        if self._reported:
            with suppress(DatabaseUnavailableError):
                self._services.database.write(self._remove, lock_key=_LOCK_KEY)

    def measured(self) -> list[Family]:
        """Returns the room on the file systems of this process; from any thread."""
        disks = {"data": self._data.space(), "objects": self._objects.space()}
        families = {metrics.DISK_TOTAL: "total", metrics.DISK_FREE: "free", metrics.DISK_FILLING: "filling"}
        return [
            gauge.with_values(
                {(name,): value for name, space in disks.items() if (value := getattr(space, field)) is not None}
            )
            for gauge, field in families.items()
        ]

    def report(self) -> None:
        """Writes what there is to report now."""
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
            tx.uncounted = True
            for row in (own, *edges):
                sql.report(tx, row)
            sql.forget(tx, before=now - _KEPT_MS, edges_before=now - _EDGES_KEPT_MS, after=now + _EDGES_KEPT_MS)

        self._services.database.write(work, lock_key=_LOCK_KEY)
        self._reported = True

    def _watching(self) -> list[LiveEdge]:
        return [] if self._edges is None else self._edges.present

    def _remove(self, tx: Tx) -> None:
        tx.uncounted = True
        sql.remove(tx, self._process.process_id)
