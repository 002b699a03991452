"""What the segments of one worker session share; made by `backend.runtime.bootstrap`."""

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from backend.capabilities import Capabilities
from backend.clock import Clock
from backend.environments.builder import PackageBuilder
from backend.models.catalog import Models
from backend.redaction.process.redactor import Redactor
from backend.revisioned_cache import RevisionedCache
from backend.runtime.execution.agent_sources import AgentSources
from backend.runtime.execution.slots import StepSlots
from backend.runtime.publishing import Publisher
from backend.sandbox import Network, Sandbox
from backend.schemas.judge import SchemaJudge
from backend.secrets import Secrets
from backend.settings import OutputLimits, StepDataLimits
from backend.storage.database import Database, Tx, run_of
from backend.storage.objects import ObjectStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SegmentContext:
    """The services, folders and threads that segments use.

    Attributes:
        owner: The id of the session, never used again.
        leased: Whether the session has a lease, since other processes share the database.
        work: The folder of what running steps need on disk, one folder a run.
        network: The most that an environment may allow its steps.
        output_limits: How many files a step may leave, and how deep.
        step_data: What one attempt of a step may return and report.
        threads: For work that blocks for a moment, so that the engine's loop never waits.
        slow_threads: For copies, sweeps and removals of files, so that no write waits behind them.
    """

    database: Database
    clock: Clock
    objects: ObjectStore
    cache: RevisionedCache
    owner: str
    leased: bool
    work: Path
    sandbox: Sandbox
    network: Network
    output_limits: OutputLimits
    step_data: StepDataLimits
    slots: StepSlots
    threads: ThreadPoolExecutor
    slow_threads: ThreadPoolExecutor
    secrets: Secrets
    models: Models
    publisher: Publisher
    redactor: Redactor
    schemas: SchemaJudge
    sources: AgentSources
    packages: PackageBuilder

    @property
    def capabilities(self) -> Capabilities:
        """What the settings of this process let workflows use."""
        return Capabilities(self.models.callable_providers, self.secrets.names, self.network)

    async def read(self, work: Callable[[Tx], T]) -> T:
        """Runs a few reads by key that must agree: on the loop itself where the database is not remote."""
        if self.database.remote:
            return await self.in_thread(lambda: self.database.snapshot(work))
        return self.database.snapshot(work)

    def write_run(self, run_id: str, key_id: str, work: Callable[[Tx], T]) -> asyncio.Future[T]:
        """Makes a change of one run alone, as `write` does."""

        @functools.wraps(work)
        def change(tx: Tx) -> T:
            tx.changes_run(run_id, key_id)
            return work(tx)

        return self.write(change, lock_key=run_of(run_id))

    def write(self, work: Callable[[Tx], T], *, lock_key: str) -> asyncio.Future[T]:
        """Makes a change, which is durable once the future is done; see `Database.write`."""
        if self.database.remote:
            return self.in_thread(lambda: self.database.write(work, lock_key=lock_key))
        return asyncio.wrap_future(self.database.write_soon(work, lock_key=lock_key))

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs work that blocks for a moment."""
        return asyncio.get_running_loop().run_in_executor(self.threads, work)

    def in_slow_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs a copy, sweep or removal of files."""
        return asyncio.get_running_loop().run_in_executor(self.slow_threads, work)

    async def in_thread_to_its_end(self, work: Callable[[], T]) -> T:
        """Runs work as `in_thread` that must not outlive its caller: a cancellation waits until it has ended."""
        running = self.in_thread(work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait({running})
            raise

    async def in_halting_thread(
        self, work: Callable[[threading.Event], T], *, undo: Callable[[T], object] | None = None
    ) -> T:
        """Runs a copy or sweep, which a cancellation ends at once by the event that it is given.

        `undo` takes back what one returned that ended by itself all the same.
        """
        halt = threading.Event()
        running = self.in_slow_thread(lambda: work(halt))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            halt.set()
            await asyncio.wait({running})
            # Read in any case, so that a failure after the halt is not logged as one that nobody retrieved.
            if running.exception() is None and undo is not None:
                await self.in_slow_thread(lambda: undo(running.result()))
            raise

    def folder_of_run(self, run_id: str) -> Path:
        """Returns the folder of what a run keeps on disk until it ends; it may not exist."""
        return self.work / run_id

    def files_of_run(self, run_id: str) -> Path:
        """Returns the folder of output files that other steps need, one folder a step."""
        return self.folder_of_run(run_id) / "files"

    def inputs_of_run(self, run_id: str) -> Path:
        """Returns the folder of a run's inputs, one folder a parameter; it exists once all are copied in and swept."""
        return self.folder_of_run(run_id) / "inputs"
