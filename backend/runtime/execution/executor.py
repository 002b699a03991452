"""Executes segments in this process, under a lease where other processes share the database. (DESIGN.md, 6)."""

import logging
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from backend import metrics
from backend.ids import new_id
from backend.models.catalog import Models
from backend.redaction.process.redactor import Redactor
from backend.runtime.execution.limits import DEFAULT_LIMITS
from backend.runtime.execution.memory import default_memory_mb
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.session import WorkerSession
from backend.runtime.execution.slots import StepSlots
from backend.runtime.execution.step_files import remove_leftovers
from backend.runtime.final_sweep.scheduler import CONCURRENT_SWEEPS, FinalSweeps
from backend.runtime.publishing import Publisher
from backend.runtime.scheduling.ticker import Ticker
from backend.sandbox import Sandbox, choose_sandbox
from backend.services import Services
from backend.settings import BackendSettings
from backend.storage.database import DatabaseAwayError
from backend.storage.objects import ObjectStore, ObjectStoreError
from telemetry import Family

_LOG = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.5
# A segment holds no slot while it records what a step left, so more segments than slots keep the slots busy.
SEGMENTS_PER_SLOT: Final = 2

_TIDY_SECONDS: Final = 60
_THREADS: Final = 32
# Sweeps wait in them for their turn, which must not keep other runs from being copied or swept.
_SLOW_THREADS: Final = 512


class Execution:
    """An `Engine` with all that it needs; `on_free` is called whenever a segment has ended.

    Where the lease is lost everything that runs is ended, and another session follows, under another owner id.

    Which session there is changes in `start`, then in the thread that replaces lost ones, then in `stop`, which ends
    that thread first; everybody else reads it once and works with what was read.
    """

    def __init__(
        self,
        settings: BackendSettings,
        services: Services,
        objects: ObjectStore,
        publisher: Publisher,
        redactor: Redactor,
        on_free: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._services = services
        self._objects = objects
        self._publisher = publisher
        self._redactor = redactor
        self._on_free = on_free
        self._work = settings.data / "work"
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="runtime")
        # One for every segment and every step, so that none waits for another's files.
        most_slow = max(_SLOW_THREADS, (SEGMENTS_PER_SLOT + 1) * settings.step_slots)
        self._slow_threads = ThreadPoolExecutor(most_slow, thread_name_prefix="runtime-slow")
        self._sweeping = Ticker("sweeper", self._sweep, TICK_SECONDS)
        self._opening = Ticker("final-sweep", self._begin_sweeps, TICK_SECONDS)
        self._sweeps = FinalSweeps(
            services.database,
            services.clock,
            objects,
            redactor,
            settings.data / "sweeps",
            concurrent=_concurrent_sweeps(settings),
            on_end=self._opening.wake,
        )
        self._tidying = Ticker("tidy", self._tidy, _TIDY_SECONDS)
        self._replacing = Ticker("session", self._replace_lost, TICK_SECONDS)
        self._stopping = threading.Event()
        self._lifecycle = threading.Lock()
        self._sandbox: Sandbox | None = None
        self._session: WorkerSession | None = None
        self._generation = 0

    def start(self) -> None:
        """Ends what an earlier process left running, before anything new runs.

        Raises:
            SandboxUnavailableError: steps cannot be isolated here as the settings ask; the message says what to do.
            ObjectStoreError: others execute runs of the same database, and cannot reach the objects of this process.
        """
        with self._lifecycle:
            self._work.mkdir(parents=True, exist_ok=True)
            self._sandbox = choose_sandbox(self._settings.sandbox)
            self._sandbox.prepare(DEFAULT_LIMITS)
            session = self._begin(self._sandbox)
            self._refuse_other_worker_host(session)
            self._publisher.start()
            for ticker in (self._sweeping, self._opening, self._tidying, self._replacing):
                ticker.start()

    def stop(self) -> None:
        """Takes nothing new, lets steps go on for a grace, and ends the rest as orphaned; again is harmless."""
        self._stopping.set()
        with self._lifecycle:
            self._replacing.stop()
            self._tidying.stop()
            if self._session is not None:
                self._session.stop(self._settings.drain_seconds)
            self._sweeping.stop()
            self._opening.stop()
            # What is being swept is swept again at the next start.
            self._sweeps.stop()
            self._redactor.close()
            self._publisher.stop()
            if self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None
            self._threads.shutdown()
            self._slow_threads.shutdown()

    def submit(self, segment_id: str) -> None:
        """Has a queued segment executed; see `Engine.submit`.

        Raises:
            RuntimeError: nothing is executed now.
        """
        session = self._session
        if session is None:
            raise RuntimeError("this process executes nothing now")
        session.engine.submit(segment_id)

    def cancel(self, segment_id: str) -> None:
        """Has a segment end; see `Engine.cancel`."""
        session = self._session
        if session is not None:
            session.engine.cancel(segment_id)

    def executes(self, segment_id: str) -> bool:
        """Whether the segment goes on here; see `Engine.executes`."""
        session = self._session
        return session is not None and session.engine.executes(segment_id)

    @property
    def generation(self) -> int:
        """How many sessions have been lost; see `Engine.generation`."""
        return self._generation

    def look(self) -> None:
        """Has what must end looked for at once."""
        self._sweeping.wake()

    def forget(self, run_id: str) -> None:
        """Ends what still goes on for an erased run, and removes what it left in knowledge graphs and on this disk."""
        self._publisher.remove(run_id)
        self._sweeps.forget(run_id)
        shutil.rmtree(self._work / run_id, ignore_errors=True)

    def _refuse_other_worker_host(self, session: WorkerSession) -> None:
        objects = self._settings.objects
        if objects.store != "folder" or objects.folder is not None:
            return
        host = session.other_worker_host()
        if host is not None:
            raise ObjectStoreError(
                f"Another process, on {host}, executes runs of the same database, and the objects of this one rest in "
                "its own data folder: use objects.store = s3, or set objects.folder to a folder that they share."
            )

    def measured(self) -> list[Family]:
        """What is executed here; from any thread."""
        session = self._session
        return [
            metrics.STEP_SLOTS.with_value(session.slots.count if session is not None and session.active else 0),
            metrics.STEP_SLOTS_USED.with_value(0 if session is None else session.slots.in_use),
            metrics.SEGMENTS_RUNNING.with_value(0 if session is None else session.engine.running),
        ]

    def _begin(self, sandbox: Sandbox) -> WorkerSession:
        """Starts a session, and makes it the one that is used.

        Raises:
            DatabaseAwayError: the database cannot be reached.
        """
        settings, services = self._settings, self._services
        context = SegmentContext(
            database=services.database,
            clock=services.clock,
            objects=self._objects,
            cache=services.cache,
            owner=new_id("proc"),
            work=self._work,
            sandbox=sandbox,
            network=settings.network,
            output_limits=settings.outputs,
            step_data=settings.step_data,
            slots=StepSlots(settings.step_slots, settings.memory_mb or default_memory_mb()),
            threads=self._threads,
            slow_threads=self._slow_threads,
            secrets=services.secrets,
            models=Models(settings.secrets, settings.models),
            publisher=self._publisher,
            redactor=self._redactor,
            schemas=services.schemas,
        )
        session = WorkerSession(settings, context, self._on_free, self._replacing.wake)
        session.start()
        self._session = session
        return session

    def _replace_lost(self) -> None:
        """Has another session follow one whose lease was lost; what fails is tried again soon."""
        session, sandbox = self._session, self._sandbox
        if session is None or sandbox is None or not session.lost:
            return
        try:
            session.stop(0)
        finally:
            # Before the next session takes back what this one was handed.
            self._generation += 1
        try:
            self._begin(sandbox)
        except DatabaseAwayError:
            _LOG.info("no lease can be taken while the database is away")

    def _sweep(self) -> None:
        session = self._session
        if session is not None:
            session.sweeper.sweep()

    def _begin_sweeps(self) -> None:
        self._sweeps.round()

    def _tidy(self) -> None:
        remove_leftovers(self._services.database, self._work, self._stopping)


def _concurrent_sweeps(settings: BackendSettings) -> int:
    """Each holds a connection, and needs another from time to time."""
    if settings.database is None:
        return CONCURRENT_SWEEPS
    return max(1, min(CONCURRENT_SWEEPS, settings.database_connections // 4))
