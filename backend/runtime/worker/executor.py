"""Executes segments in this process, with all that goes with them (docs/architecture.md)."""

import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backend.environments.builder import PackageBuilder
from backend.redaction.process.redactor import Redactor
from backend.runtime.execution.limits import DEFAULT_LIMITS
from backend.runtime.final_sweep.scheduler import FinalSweeps
from backend.runtime.publishing import Publisher
from backend.runtime.worker.leftovers import LeftoverRemoval
from backend.runtime.worker.sessions import WorkerSessions
from backend.sandbox import Sandbox
from backend.storage.objects import ObjectStoreError
from telemetry import Family


class Executor:
    """Starts and stops in their order the parts that execute segments; `backend.runtime.bootstrap` makes them.

    Args:
        sessions: The engine of this process.
        open_sandbox: Chooses the isolation of steps, at the start.
        publisher: Publishes what runs leave.
        redactor: Sweeps for personal data.
        final_sweeps: Sweep what finished runs leave.
        leftovers: Removes folders that a crash left below `work`.
        packages: Builds the packages of environments before a step needs them.
        pools: The threads of segments, which end last.
        work: The folder of what running steps need on disk, one folder a run.
        own_objects: Whether the stored objects rest in the data folder of this process alone.
        drain_seconds: How long steps may go on once `stop` was called.
    """

    def __init__(
        self,
        *,
        sessions: WorkerSessions,
        open_sandbox: Callable[[], Sandbox],
        publisher: Publisher,
        redactor: Redactor,
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
        self._publisher = publisher
        self._redactor = redactor
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
        """Ends what an earlier process left running, before anything new runs.

        `on_free` is called whenever a segment has ended.

        Raises:
            SandboxUnavailableError: steps cannot be isolated here as the settings ask; the message says what to do.
            ObjectStoreError: others execute runs of the same database, and cannot reach the objects of this process.
        """
        with self._lifecycle:
            self._work.mkdir(parents=True, exist_ok=True)
            self._sandbox = self._open_sandbox()
            self._sandbox.prepare(DEFAULT_LIMITS)
            self.sessions.start(self._sandbox, on_free)
            self._refuse_other_worker_host()
            self._publisher.start()
            self._final_sweeps.start()
            self._leftovers.start()
            self._packages.start()

    def stop(self) -> None:
        """Takes nothing new, lets steps go on for a grace, and ends the rest as orphaned; may be repeated."""
        self._leftovers.halt()
        with self._lifecycle:
            self._leftovers.stop()
            self.sessions.stop(self._drain_seconds)
            self._packages.stop()
            # What is being swept is swept again at the next start.
            self._final_sweeps.stop()
            self._redactor.close()
            self._publisher.stop()
            if self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None
            for pool in self._pools:
                pool.shutdown()

    def sweep_now(self) -> None:
        """Looks at once for segments that must end."""
        self.sessions.sweep_now()

    def forget(self, run_id: str) -> None:
        """Ends what still goes on for an erased run, and removes what it left in knowledge graphs and on this disk."""
        self._publisher.remove(run_id)
        self._final_sweeps.forget(run_id)
        shutil.rmtree(self._work / run_id, ignore_errors=True)

    def measured(self) -> list[Family]:
        """Returns what is executed here, as metrics; from any thread."""
        return self.sessions.measured()

    def _refuse_other_worker_host(self) -> None:
        host = self.sessions.other_worker_host() if self._own_objects else None
        if host is not None:
            raise ObjectStoreError(
                f"Another process, on {host}, executes runs of the same database, and the objects of this one rest in "
                "its own data folder: use objects.store = s3, or set objects.folder to a folder that they share."
            )
