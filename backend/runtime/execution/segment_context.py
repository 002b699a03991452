"""Services, folders and threads of the segments of one worker session (`SegmentContext`), and their stop signal."""

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from backend.common.caches import RevisionedCache
from backend.common.clock import Clock
from backend.common.deployment_terms import Capabilities
from backend.common.secrets import Secrets
from backend.isolation.sandbox import Network, Sandbox
from backend.resources.attachments.inspector import AttachmentInspector
from backend.resources.environments.builder import PackageBuilder
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.resources.schemas.validator import SchemaValidator
from backend.runtime.execution.agent_sources import AgentSources
from backend.runtime.execution.slots import StepSlots
from backend.runtime.publishing import Publisher
from backend.services.run_changes import RunChanges
from backend.services.webhooks.rules import Network as PrivateNetwork
from backend.settings import OutputLimits, StepDataLimits
from backend.storage.database import Database, Tx, run_of
from backend.storage.objects import ObjectStore

T = TypeVar("T")


async def run_shielded(work: Awaitable[T]) -> T:
    """Awaits work that must not outlive its caller, such as a change: a cancellation waits for its end."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        if not running.cancelled():
            # Retrieved, so that asyncio does not log the failure.
            running.exception()
        raise


class StoppedError(Exception):
    """The segment was asked to stop."""


class StopSignal:
    """The request to stop one segment, on the engine's loop; its user calls `close`."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())

    async def result_of(self, work: asyncio.Future[T]) -> T:
        """Returns the result of the work. Raises as `wait_first`; then the caller must end the work."""
        await self.wait_first({work})
        return work.result()

    async def wait_first(self, works: Collection[asyncio.Future[Any]], seconds: float | None = None) -> None:
        """Waits until one of the works is done, or for at most `seconds`.

        Raises:
            StoppedError: the segment is to stop.
        """
        await asyncio.wait({*works, self._stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._stopped.done():
            raise StoppedError

    def close(self) -> None:
        """Ends waiting for the request."""
        self._stopped.cancel()


@dataclass(frozen=True, slots=True)
class SegmentContext:
    """The services, folders and threads of segments; made by `backend.runtime.bootstrap`.

    Attributes:
        owner: The id of the worker session, unique for all time.
        leased: Whether the session has a lease, since other processes share the database.
        work: The folder of files of running steps, one subfolder a run.
        network: The most that an environment may allow its steps.
        mcp_hosts: Hosts of MCP servers whose tools models may call.
        mcp_networks: Private networks in which such servers may be.
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
    mcp_hosts: frozenset[str]
    mcp_networks: tuple[PrivateNetwork, ...]
    output_limits: OutputLimits
    step_data: StepDataLimits
    slots: StepSlots
    threads: ThreadPoolExecutor
    slow_threads: ThreadPoolExecutor
    secrets: Secrets
    models: Models
    publisher: Publisher
    redactor: ConfinedRedactor
    schemas: SchemaValidator
    inspector: AttachmentInspector
    sources: AgentSources
    packages: PackageBuilder
    changes: RunChanges

    @property
    def capabilities(self) -> Capabilities:
        """Returns the capabilities that the settings of this process give workflows."""
        return Capabilities(self.models.callable_providers, self.secrets.names, self.network, self.mcp_hosts)

    async def read(self, work: Callable[[Tx], T]) -> T:
        """Runs a few reads by key in one snapshot; on the event loop itself unless the database is remote."""
        if self.database.remote:
            return await self.in_thread(lambda: self.database.snapshot(work))
        return self.database.snapshot(work)

    def write_run(self, run_id: str, key_id: str, work: Callable[[Tx], T]) -> asyncio.Future[T]:
        """Makes a change of one run, as `write`, under the run's lock key."""

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

    async def in_shielded_thread(self, work: Callable[[], T]) -> T:
        """Runs work as `in_thread`; a cancellation waits until the work has ended."""
        return await run_shielded(self.in_thread(work))

    async def in_cancellable_thread(
        self, work: Callable[[threading.Event], T], *, undo: Callable[[T], object] | None = None
    ) -> T:
        """Runs a copy or sweep in a slow thread; a cancellation sets the event given to the work, and waits.

        `undo` reverts the work if it completed in spite of the cancellation.
        """
        halt = threading.Event()
        running = self.in_slow_thread(lambda: work(halt))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            halt.set()
            await asyncio.wait({running})
            # Retrieved in any case, so that asyncio does not log a failure after the halt.
            if running.exception() is None and undo is not None:
                await self.in_slow_thread(lambda: undo(running.result()))
            raise

    def folder_of_run(self, run_id: str) -> Path:
        """Returns the folder of a run's files on disk until it ends; it may not exist."""
        return self.work / run_id

    def files_of_run(self, run_id: str) -> Path:
        """Returns the folder of output files that other steps need, one folder a step."""
        return self.folder_of_run(run_id) / "files"

    def inputs_of_run(self, run_id: str) -> Path:
        """Returns the folder of a run's inputs, one folder a parameter; it exists once all are copied in and swept."""
        return self.folder_of_run(run_id) / "inputs"
