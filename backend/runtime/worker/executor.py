"""Starts and stops all parts that execute segments in this process (docs/architecture.md)."""

import logging
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from backend.isolation.sandbox import Sandbox
from backend.resources.attachments.inspector import AttachmentInspector
from backend.resources.environments.builder import PackageBuilder
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.runtime.execution.slots import DEFAULT_LIMITS
from backend.runtime.final_sweep.scheduler import FinalSweeps
from backend.runtime.publishing import Publisher
from backend.runtime.scheduling.sql import in_flight
from backend.runtime.worker.sessions import WorkerSessions
from backend.storage.database import Database
from backend.storage.objects import ObjectStoreError
from backend.storage.outage import Ticker
from telemetry import Family

_ROUND_SECONDS: Final = 60

_LOG = logging.getLogger(__name__)


class LeftoverRemoval:
    """Removes from the work folder the folders of runs that ended while none of their segments ran in this process."""

    def __init__(self, database: Database, work: Path) -> None:
        self._database = database
        self._work = work
        self._halted = threading.Event()
        self._ticker = Ticker("tidy", self.round, _ROUND_SECONDS)

    def start(self) -> None:
        """Starts the thread, with a round at once."""
        self._ticker.start()

    def halt(self) -> None:
        """Ends the present round soon. Thread-safe."""
        self._halted.set()

    def stop(self) -> None:
        """Ends the thread. Idempotent."""
        self.halt()
        self._ticker.stop()

    def round(self) -> None:
        """Removes the leftovers present now."""
        folders = list(self._work.iterdir())
        in_flight_ids = self._database.read(in_flight) if folders else set()
        for folder in folders:
            if folder.name not in in_flight_ids and not self._halted.is_set():
                shutil.rmtree(folder, ignore_errors=True)


class Executor:
    """Starts and stops, in order, the parts that execute segments; `backend.runtime.bootstrap` makes them.

    Args:
        sessions: The engine of this process.
        open_sandbox: Chooses the isolation of steps, at the start.
        publisher: Publishes outputs of runs.
        redactor: Sweeps for personal data.
        inspector: Examines files for the prompts of models.
        final_sweeps: Sweep outputs of finished runs.
        leftovers: Removes folders that a crash left below `work`.
        packages: Builds the packages of environments before a step needs them.
        pools: The threads of segments, which end last.
        work: The folder of files of running steps, one folder a run.
        own_objects: Whether stored objects are in this process's own data folder, which other processes cannot reach.
        drain_seconds: Seconds that steps may go on after `stop`.
    """

    def __init__(
        self,
        *,
        sessions: WorkerSessions,
        open_sandbox: Callable[[], Sandbox],
        publisher: Publisher,
        redactor: ConfinedRedactor,
        inspector: AttachmentInspector,
        final_sweeps: FinalSweeps,
        leftovers: LeftoverRemoval,
        packages: PackageBuilder,
        pools: Sequence[ThreadPoolExecutor],
        work: Path,
        own_objects: bool,
        drain_seconds: float,
    ) -> None:
        self.sessions = sessions
        self._open_sandbox = open_sandbox
        self.publisher = publisher
        self._redactor = redactor
        self._inspector = inspector
        self._final_sweeps = final_sweeps
        self._leftovers = leftovers
        self._packages = packages
        self._pools = pools
        self._work = work
        self._own_objects = own_objects
        self._drain_seconds = drain_seconds
        self._lifecycle = threading.Lock()
        self._sandbox: Sandbox | None = None

    def start(self, on_free: Callable[[], None]) -> None:
        """Ends segments that an earlier process left running, then starts all parts.

        `on_free` is called whenever a segment has ended.

        Raises:
            SandboxUnavailableError: steps cannot be isolated here as the settings ask; the message says what to do.
            ObjectStoreError: another host executes runs of this database, and cannot reach the objects of this process.
        """
        with self._lifecycle:
            self._work.mkdir(parents=True, exist_ok=True)
            self._sandbox = self._open_sandbox()
            self._sandbox.prepare(DEFAULT_LIMITS)
            self.sessions.start(self._sandbox, on_free)
            self._refuse_other_worker_host()
            because = f", because {self._sandbox.refused}" if self._sandbox.refused else ""
            # The usual layer is no news.
            level = logging.INFO if because else logging.DEBUG
            _LOG.log(level, "Steps are isolated by %s%s", self._sandbox.layer.name, because)
            self.publisher.start()
            self._final_sweeps.start()
            self._leftovers.start()
            self._packages.start()

    def stop(self) -> None:
        """Takes no new segments, lets steps go on for `drain_seconds`, and ends the rest as orphaned. Idempotent."""
        self._leftovers.halt()
        with self._lifecycle:
            self._leftovers.stop()
            self.sessions.stop(self._drain_seconds)
            self._packages.stop()
            # Interrupted sweeps are made again at the next start.
            self._final_sweeps.stop()
            self._redactor.close()
            self._inspector.close()
            self.publisher.stop()
            if self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None
            for pool in self._pools:
                pool.shutdown()

    def reap_now(self) -> None:
        """Starts a round of the run reaper at once."""
        self.sessions.reap_now()

    def forget(self, run_id: str) -> None:
        """Ends work under way for an erased run, and removes its publications and its files on this disk."""
        self.publisher.remove(run_id)
        self._final_sweeps.forget(run_id)
        shutil.rmtree(self._work / run_id, ignore_errors=True)

    def measured(self) -> list[Family]:
        """Returns metrics of the segments of this process. Thread-safe."""
        return self.sessions.measured()

    def _refuse_other_worker_host(self) -> None:
        host = self.sessions.other_worker_host() if self._own_objects else None
        if host is not None:
            raise ObjectStoreError(
                f"Another process, on {host}, executes runs of the same database, and the objects of this one rest in "
                "its own data folder: use objects.store = s3, or set objects.folder to a folder that they share."
            )
