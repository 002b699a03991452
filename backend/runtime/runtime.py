"""The embedded runtime: launcher, sweeper and local engine, put together. (DESIGN.md, 6)."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from backend.ids import new_id
from backend.runs.removals import Removals
from backend.runtime.engines.local import LocalEngine
from backend.runtime.final_sweep import FinalSweeps
from backend.runtime.launcher import Launcher
from backend.runtime.limits import DEFAULT_LIMITS
from backend.runtime.means import Means
from backend.runtime.models import Models
from backend.runtime.publishing import Publisher
from backend.runtime.redactor import Redactor
from backend.runtime.sandbox import Sandbox, choose_sandbox
from backend.runtime.slots import StepSlots
from backend.runtime.sweeper import Sweeper
from backend.runtime.ticker import Ticker
from backend.runtime.upkeep import Upkeep
from backend.services import Services
from backend.settings import BackendSettings
from backend.storage.objects import ObjectStore

_TICK_SECONDS: Final = 0.5
_UPKEEP_SECONDS: Final = 60
# Well within the time that callers give an answer.
_LONGEST_UPKEEP_SECONDS: Final = 20
_THREADS: Final = 32
# A segment holds no slot while it records what a step left, so more segments than slots keep the slots busy.
_SEGMENTS_PER_SLOT: Final = 2


class LocalRuntime:
    """Makes runs go in this process, which owns the data folder.

    Nothing happens before `start`; until then, and after `stop`, the calls of the runs service only leave work behind
    in the tables.
    """

    def __init__(
        self,
        settings: BackendSettings,
        services: Services,
        objects: ObjectStore,
        publisher: Publisher,
        redactor: Redactor,
    ) -> None:
        self._settings = settings
        self._services = services
        self._objects = objects
        self._publisher = publisher
        self._work = settings.data / "work"
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="runtime")
        self._removals = Removals(services.database, objects, self._remove_left)
        self._removing = Ticker("removals", self._removals.round, _UPKEEP_SECONDS)
        self._upkeep = Upkeep(services, self, self._work)
        self._keeping = Ticker("upkeep", self._upkeep.round, _UPKEEP_SECONDS)
        self._redactor = redactor
        sweeps = FinalSweeps(services.database, services.clock, objects, self._redactor, settings.data / "sweeps")
        self._opening = Ticker("final-sweep", sweeps.round, _TICK_SECONDS)
        self._sandbox: Sandbox | None = None
        self._engine: LocalEngine | None = None
        self._launching: Ticker | None = None
        self._sweeping: Ticker | None = None

    def start(self) -> None:
        """Ends what an earlier process left running, before anything new runs; then takes up what is queued.

        A start that fails leaves nothing behind that runs.

        Raises:
            SandboxUnavailableError: steps cannot be isolated here as the settings ask; the message says what to do.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Takes nothing new, lets steps go on for a short grace, and ends the rest as orphaned; again is harmless."""
        for ticker in (self._launching, self._sweeping):
            if ticker is not None:
                ticker.stop()
        self._upkeep.halt()
        self._keeping.stop()
        self._removals.halt()
        self._removing.stop()
        if self._engine is not None:
            self._engine.stop()
            self._engine = None
        # What is being swept fails, and is swept again at the next start.
        self._redactor.close()
        self._opening.stop()
        self._publisher.stop()
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None
        self._threads.shutdown()

    def wake(self) -> None:
        """Tells that a segment was queued; see `Runtime.wake`."""
        if self._launching is not None:
            self._launching.wake()

    def cancel(self, run_id: str) -> None:  # noqa: ARG002 - the run's row says it all, and survives a crash
        """Tells that a running run shall end; see `Runtime.cancel`."""
        if self._sweeping is not None:
            self._sweeping.wake()

    def forget(self, run_id: str) -> None:  # noqa: ARG002 - its order is in the tables, and survives a crash
        """Tells that a run was erased; see `Runtime.forget`."""
        self._removing.wake()

    def upkeep(self) -> dict[str, int]:
        """Erases and deletes what is past its time; see `Runtime.upkeep`."""
        return self._upkeep.expire(_LONGEST_UPKEEP_SECONDS)

    def _start(self) -> None:
        settings, services = self._settings, self._services
        self._work.mkdir(parents=True, exist_ok=True)
        self._sandbox = choose_sandbox(settings.sandbox)
        self._sandbox.prepare(DEFAULT_LIMITS)
        means = Means(
            database=services.database,
            clock=services.clock,
            objects=self._objects,
            kept=services.kept,
            owner=new_id("proc"),
            work=self._work,
            sandbox=self._sandbox,
            network=settings.network,
            slots=StepSlots(settings.step_slots),
            threads=self._threads,
            secrets=services.secrets,
            models=Models(settings.secrets, settings.models),
            publisher=self._publisher,
            redactor=self._redactor,
        )
        self._engine = LocalEngine(means, on_free=self.wake)
        most = _SEGMENTS_PER_SLOT * settings.step_slots
        launcher = Launcher(services.database, services.clock, self._engine, most)
        timeout_ms = int(settings.launch_timeout_seconds * 1000)
        sweeper = Sweeper(services.database, services.clock, self._engine, timeout_ms)
        sweeper.recover()
        self._launching = Ticker("launcher", launcher.launch, _TICK_SECONDS)
        self._sweeping = Ticker("sweeper", sweeper.sweep, _TICK_SECONDS)
        self._publisher.start()
        self._engine.start()
        self._launching.start()
        self._sweeping.start()
        self._keeping.start()
        self._removing.start()
        self._opening.start()

    def _remove_left(self, run_id: str) -> None:
        """Removes what an erased run left in knowledge graphs and on disk."""
        self._publisher.remove(run_id)
        shutil.rmtree(self._work / run_id, ignore_errors=True)
