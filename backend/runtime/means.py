"""What every segment of this process works with; made once by the runtime."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from backend.clock import Clock
from backend.runtime.definition import Definitions
from backend.runtime.sandbox import Sandbox
from backend.runtime.slots import StepSlots
from backend.storage.database import Database
from backend.storage.objects import ObjectStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Means:
    """Shared means of the segments.

    Attributes:
        owner: This process: an id made at its start and never used again.
        work: Folder of what running steps need on disk, one folder a run.
        threads: Where anything that blocks goes, so that the engine's loop never waits.
    """

    database: Database
    clock: Clock
    objects: ObjectStore
    owner: str
    work: Path
    sandbox: Sandbox
    slots: StepSlots
    threads: ThreadPoolExecutor
    definitions: Definitions = field(default_factory=Definitions)

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs blocking work beside the loop."""
        return asyncio.get_running_loop().run_in_executor(self.threads, work)

    def folder_of_run(self, run_id: str) -> Path:
        """What a run keeps on disk until it ends; it may not exist."""
        return self.work / run_id

    def inputs_of_run(self, run_id: str) -> Path:
        """Where a run's `s3_prefix` inputs are, one folder a parameter."""
        return self.folder_of_run(run_id) / "inputs"
