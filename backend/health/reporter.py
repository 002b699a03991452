"""Reports that this process is there, and which edges watch it."""

import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from backend.clock import HOUR_MS, system_clock
from backend.health import sql
from backend.health.sql import ProcessRow
from backend.ids import new_id
from backend.live_edges import LiveEdge, LiveEdges
from backend.runtime.ticker import Ticker
from backend.services import Services
from backend.storage.database import DatabaseUnavailableError, Tx

REPORT_SECONDS: Final = 15.0

_FIRST_SECONDS: Final = 1.0
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
        self._data = data
        self._objects = objects
        self._shares_clock = shares_clock
        self._edges = edges
        now = services.clock()
        self._process = ProcessRow(
            new_id("proc"), part, socket.gethostname(), os.getpid(), services.release, started_at=now, seen_at=now
        )
        self._ticker = Ticker("process-reporter", self.report, REPORT_SECONDS, _FIRST_SECONDS)
        self._reported = False

    def start(self) -> None:
        """Begins to report."""
        self._ticker.start()

    def stop(self) -> None:
        """Reports no more, and removes what was reported."""
        self._ticker.stop()
        if self._reported:
            with suppress(DatabaseUnavailableError):
                self._services.database.write(self._remove)

    def report(self) -> None:
        """Writes what there is to report now."""
        now = self._services.clock()
        data, objects = _space(self._data), _space(self._objects)
        own = self._process._replace(
            seen_at=now,
            clock_ahead=system_clock() - now if self._shares_clock else None,
            data_total=data[0],
            data_free=data[1],
            objects_total=objects[0],
            objects_free=objects[1],
        )
        edges = [ProcessRow(part="edge", seen_at=now, **edge._asdict()) for edge in self._watching()]

        def work(tx: Tx) -> None:
            tx.uncounted = True
            for row in (own, *edges):
                sql.report(tx, row)
            sql.forget(tx, before=now - _KEPT_MS, edges_before=now - _EDGES_KEPT_MS, after=now + _EDGES_KEPT_MS)

        self._services.database.write(work)
        self._reported = True

    def _watching(self) -> list[LiveEdge]:
        return [] if self._edges is None else self._edges.present

    def _remove(self, tx: Tx) -> None:
        tx.uncounted = True
        sql.remove(tx, self._process.process_id)


def _space(folder: Path | None) -> tuple[int | None, int | None]:
    """Returns the size of a folder's file system and what is free there, in bytes."""
    if folder is None:
        return None, None
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None, None
    return usage.total, usage.free
