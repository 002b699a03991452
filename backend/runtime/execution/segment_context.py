"""What every segment of this process works with; made once by the runtime."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from backend.clock import Clock
from backend.models.catalog import Models
from backend.redaction.process.redactor import Redactor
from backend.revisioned_cache import RevisionedCache
from backend.runtime.execution.slots import StepSlots
from backend.runtime.publishing import Publisher
from backend.sandbox import Network, Sandbox
from backend.schemas.judge import SchemaJudge
from backend.secrets import Secrets
from backend.settings import OutputLimits, StepDataLimits
from backend.storage.database import Database
from backend.storage.objects import ObjectStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SegmentContext:
    """Shared means of the segments.

    Attributes:
        owner: This process: an id made at its start and never used again.
        work: Folder of what running steps need on disk, one folder a run.
        network: The most that an environment may allow its steps.
        output_limits: How many files a step may leave, and how deep.
        step_data: What one attempt of a step may return and report.
        threads: Where what blocks for a moment goes, so that the engine's loop never waits.
        slow_threads: Where copies, sweeps and removals of files go, so that no write waits behind them.
    """

    database: Database
    clock: Clock
    objects: ObjectStore
    cache: RevisionedCache
    owner: str
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

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs blocking work beside the loop."""
        return asyncio.get_running_loop().run_in_executor(self.threads, work)

    def in_slow_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """As `in_thread`, for copies, sweeps and removals of files."""
        return asyncio.get_running_loop().run_in_executor(self.slow_threads, work)

    async def in_thread_to_its_end(self, work: Callable[[], T]) -> T:
        """As `in_thread`, for what must not go on behind its caller's back: a cancellation waits until it has ended."""
        running = self.in_thread(work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait({running})
            raise

    async def halted_with(
        self, work: Callable[[threading.Event], T], *, undo: Callable[[T], object] | None = None
    ) -> T:
        """As `in_thread_to_its_end`, for copies and sweeps, which a cancellation tells to end at once.

        What they gave all the same `undo` takes back.
        """
        halt = threading.Event()
        running = self.in_slow_thread(lambda: work(halt))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            halt.set()
            await asyncio.wait({running})
            # Looked at in any case: that the work was ended is no error that nobody noticed.
            if running.exception() is None and undo is not None:
                await self.in_slow_thread(lambda: undo(running.result()))
            raise

    def folder_of_run(self, run_id: str) -> Path:
        """What a run keeps on disk until it ends; it may not exist."""
        return self.work / run_id

    def files_of_run(self, run_id: str) -> Path:
        """Where output files of a run's steps are, one folder a step, for the steps that need them."""
        return self.folder_of_run(run_id) / "files"

    def inputs_of_run(self, run_id: str) -> Path:
        """Where a run's `s3_prefix` inputs are, one folder a parameter."""
        return self.folder_of_run(run_id) / "inputs"
