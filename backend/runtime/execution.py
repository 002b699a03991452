"""Executes segments in this process, under a lease where other processes share the database. (DESIGN.md, 6)."""

import shutil
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from backend import metrics
from backend.ids import new_id
from backend.runtime import upkeep_store
from backend.runtime.engines.local import LocalEngine
from backend.runtime.files import remove_leftovers
from backend.runtime.final_sweep import AT_ONCE, FinalSweeps
from backend.runtime.lease import Lease
from backend.runtime.limits import DEFAULT_LIMITS
from backend.runtime.means import Means
from backend.runtime.memory import default_memory_mb
from backend.runtime.models import Models
from backend.runtime.publishing import Publisher
from backend.runtime.redactor import Redactor
from backend.runtime.sandbox import OutputLimits, Sandbox, choose_sandbox
from backend.runtime.slots import StepSlots
from backend.runtime.sweeper import Sweeper
from backend.runtime.ticker import Ticker
from backend.services import Services
from backend.settings import BackendSettings
from backend.storage.database import DatabaseAwayError
from backend.storage.objects import ObjectStore, ObjectStoreError
from measures import Family

if TYPE_CHECKING:
    from backend.runtime.engines.dbos import DbosWorker

TICK_SECONDS: Final = 0.5
# A segment holds no slot while it records what a step left, so more segments than slots keep the slots busy.
SEGMENTS_PER_SLOT: Final = 2

_TIDY_SECONDS: Final = 60
_THREADS: Final = 32
# Sweeps wait in them for their turn, which must not keep other runs from being copied or swept.
_SLOW_THREADS: Final = 512


class Execution:
    """An `Engine` with all that it needs; `on_free` is called whenever a segment has ended.

    Where the lease is lost everything that runs is ended, and the process begins anew under another name.
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
            at_once=_sweeps_at_once(settings),
            on_end=self._opening.wake,
        )
        self._tidying = Ticker("tidy", self._tidy, _TIDY_SECONDS)
        self._stopping = threading.Event()
        self._sandbox: Sandbox | None = None
        self._engine: LocalEngine | None = None
        self._slots: StepSlots | None = None
        self._lease: Lease | None = None
        self._queue: DbosWorker | None = None

    def start(self) -> None:
        """Ends what an earlier process left running, before anything new runs.

        Raises:
            SandboxUnavailableError: steps cannot be isolated here as the settings ask; the message says what to do.
            ObjectStoreError: others execute runs of the same database, and cannot reach the objects of this process.
        """
        self._work.mkdir(parents=True, exist_ok=True)
        self._sandbox = choose_sandbox(self._settings.sandbox)
        self._sandbox.prepare(DEFAULT_LIMITS)
        self._begin(self._sandbox)
        self._refuse_company()
        self._publisher.start()
        for ticker in (self._sweeping, self._opening, self._tidying):
            ticker.start()

    def stop(self) -> None:
        """Takes nothing new, lets steps go on for a grace, and ends the rest as orphaned; again is harmless."""
        self._stopping.set()
        self._tidying.stop()
        self._end(self._settings.drain_seconds)
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
        if self._engine is None:
            raise RuntimeError("this process executes nothing now")
        self._engine.submit(segment_id)

    def cancel(self, segment_id: str) -> None:
        """Has a segment end; see `Engine.cancel`."""
        if self._engine is not None:
            self._engine.cancel(segment_id)

    def executes(self, segment_id: str) -> bool:
        """Whether the segment goes on here; see `Engine.executes`."""
        return self._engine is not None and self._engine.executes(segment_id)

    def look(self) -> None:
        """Has what must end looked for at once."""
        self._sweeping.wake()

    def forget(self, run_id: str) -> None:
        """Ends what still goes on for an erased run, and removes what it left in knowledge graphs and on this disk."""
        self._publisher.remove(run_id)
        self._sweeps.forget(run_id)
        shutil.rmtree(self._work / run_id, ignore_errors=True)

    def _refuse_company(self) -> None:
        objects = self._settings.objects
        if self._lease is None or objects.store != "folder" or objects.folder is not None:
            return
        host = self._lease.company()
        if host is not None:
            raise ObjectStoreError(
                f"Another process, on {host}, executes runs of the same database, and the objects of this one rest in "
                "its own data folder: use objects.store = s3, or set objects.folder to a folder that they share."
            )

    def measured(self) -> list[Family]:
        """What is executed here; from any thread."""
        slots, engine = self._slots, self._engine
        return [
            metrics.STEP_SLOTS.now(0 if slots is None or engine is None else slots.count),
            metrics.STEP_SLOTS_USED.now(0 if slots is None else slots.in_use),
            metrics.SEGMENTS_RUNNING.now(0 if engine is None else engine.running),
        ]

    def _begin(self, sandbox: Sandbox) -> None:
        settings, services = self._settings, self._services
        owner = new_id("proc")
        self._slots = slots = StepSlots(settings.step_slots, settings.memory_mb or default_memory_mb())
        means = Means(
            database=services.database,
            clock=services.clock,
            objects=self._objects,
            kept=services.kept,
            owner=owner,
            work=self._work,
            sandbox=sandbox,
            network=settings.network,
            output_limits=OutputLimits(
                settings.output_files,
                settings.output_directories,
                settings.output_levels,
                settings.output_entry_bytes,
            ),
            step_data=settings.step_data,
            slots=slots,
            threads=self._threads,
            slow_threads=self._slow_threads,
            secrets=services.secrets,
            models=Models(settings.secrets, settings.models),
            publisher=self._publisher,
            redactor=self._redactor,
        )
        self._engine = engine = LocalEngine(means, self._on_free)
        shared = settings.database is not None
        self._sweeper = Sweeper(
            services.database, services.clock, self, settings.launch_timeout_ms, owner if shared else None
        )
        if shared:
            self._lease = Lease(
                services.database, services.clock, owner, socket.gethostname(), settings.step_slots, self._lost
            )
            self._lease.start()
            if settings.engine == "local":
                # What a process that is gone was handed is with nobody; with another that lives, twice is harmless.
                services.database.write(upkeep_store.take_back, of="launcher")
        else:
            self._sweeper.recover()
        engine.start()
        if settings.database is not None and settings.engine == "dbos":
            from backend.runtime.engines.dbos import DbosWorker

            # No more than it has slots for: what waits, waits where another worker may take it.
            self._queue = DbosWorker(settings.database, owner, engine, settings.step_slots)
            self._queue.start()

    def _end(self, grace_seconds: float) -> None:
        if self._lease is not None and grace_seconds:
            self._lease.drain()
        if self._queue is not None and grace_seconds:
            self._queue.stop(grace_seconds)
            self._queue, grace_seconds = None, 0
        if self._engine is not None:
            self._engine.stop(grace_seconds)
            self._engine = None
        if self._queue is not None:
            # After the steps, for it may wait long for a database that is away.
            self._queue.stop(0)
            self._queue = None
        if self._lease is not None:
            self._lease.stop()
            self._lease = None

    def _lost(self) -> None:
        """Ends every step now: others may take it that this process is dead."""
        self._end(0)
        while not self._stopping.wait(TICK_SECONDS):
            try:
                if self._sandbox is not None:
                    self._begin(self._sandbox)
            except DatabaseAwayError:
                self._end(0)
            else:
                return

    def _sweep(self) -> None:
        self._sweeper.sweep()

    def _begin_sweeps(self) -> None:
        self._sweeps.round()

    def _tidy(self) -> None:
        remove_leftovers(self._services.database, self._work, self._stopping)


def _sweeps_at_once(settings: BackendSettings) -> int:
    """Each holds a connection, and needs another from time to time."""
    return AT_ONCE if settings.database is None else max(1, min(AT_ONCE, settings.database_connections // 4))
