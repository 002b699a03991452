"""Creates the runtime from settings, and from services that `backend.bootstrap` passes in."""

import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from backend.common.ids import new_id
from backend.common.states import QUEUED
from backend.isolation.sandbox import Sandbox, choose_sandbox, interpreter
from backend.resources.attachments.inspector import AttachmentInspector
from backend.resources.environments.builder import PackageBuilder
from backend.resources.environments.store import PackageStore
from backend.resources.graphs.graphs import Graphs
from backend.resources.model_prices import ModelPrices
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.runtime.engines.local import LocalEngine
from backend.runtime.execution.agent_sources import AgentSources
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.slots import SEGMENTS_PER_SLOT, StepSlots, default_memory_mb
from backend.runtime.final_sweep.scheduler import CONCURRENT_SWEEPS, FinalSweeps
from backend.runtime.local import LocalRuntime
from backend.runtime.publishing import Publisher
from backend.runtime.publishing.files import FileParser, stored_outputs
from backend.runtime.publishing.sweeping import policy_sweep
from backend.runtime.scheduling.dispatcher import Launcher, RunDispatcher
from backend.runtime.scheduling.run_reaper import RunReaper
from backend.runtime.worker.executor import Executor, LeftoverRemoval
from backend.runtime.worker.lease import Lease
from backend.runtime.worker.sessions import WorkerSession, WorkerSessions
from backend.services.dependencies import Services
from backend.services.run_changes import RunChanges
from backend.services.run_traces import new_threads
from backend.services.runs.erasure import Removals
from backend.services.webhooks.rules import networks
from backend.services.workflows.rules import MOST_DEPTH
from backend.services.workflows.sql import touch
from backend.settings import BackendSettings
from backend.storage.objects import ObjectStore
from backend.storage.retention import RetentionJob

if TYPE_CHECKING:
    from backend.runtime.remote import RemoteRuntime

_THREADS: Final = 32
# Waiting sweeps occupy these threads, and must not delay the copies and sweeps of other runs.
_SLOW_THREADS: Final = 512


def new_publisher(
    settings: BackendSettings, services: Services, objects: ObjectStore, graphs: Graphs, redactor: ConfinedRedactor
) -> Publisher:
    """Creates the publisher of outputs to knowledge graphs."""
    return Publisher(
        services.database,
        services.clock,
        graphs,
        stored_outputs(services.database, objects),
        FileParser(settings.publishing, settings.data / "publishing"),
        policy_sweep(services.database, redactor),
    )


def new_package_store(settings: BackendSettings) -> PackageStore:
    """Creates the store that locks and builds packages of environments on this machine."""
    folder = settings.packages.folder or settings.data / "packages"
    return PackageStore(settings.packages, folder, interpreter.executable)


def new_local_runtime(
    settings: BackendSettings,
    services: Services,
    objects: ObjectStore,
    publisher: Publisher,
    redactor: ConfinedRedactor,
    packages: PackageStore,
    upkeep: RetentionJob,
    open_sandbox: Callable[[], Sandbox] | None = None,
) -> LocalRuntime:
    """Creates the runtime of a process that executes its runs itself; see `new_executor`."""
    executor = new_executor(settings, services, objects, publisher, redactor, packages, open_sandbox)
    most = SEGMENTS_PER_SLOT * settings.step_slots
    removals = Removals(services.database, objects, executor.forget, services.clock)
    launcher = Launcher(services.database, services.clock, executor.sessions, lambda: most, reserve=True)
    dispatcher = RunDispatcher(launcher, upkeep, removals)
    services.database.listen(lambda _: dispatcher.launching.wake(), QUEUED)
    return LocalRuntime(executor, dispatcher)


def new_remote_runtime(
    settings: BackendSettings,
    url: str,
    services: Services,
    objects: ObjectStore,
    publisher: Publisher,
    upkeep: RetentionJob,
) -> "RemoteRuntime":
    """Creates the runtime of a process whose runs workers execute; `url` is the database's."""
    # Imported on use, because DBOS is an optional dependency.
    from backend.runtime.engines.dbos import DbosBackend
    from backend.runtime.remote import RemoteRuntime, worker_capacity

    dbos = DbosBackend(url)
    removals = Removals(services.database, objects, publisher.remove, services.clock)
    database, clock = services.database, services.clock
    launcher = Launcher(database, clock, dbos, worker_capacity(database, database.now), reserve=False)
    reaper = RunReaper(database, clock, dbos, settings.launch_timeout_ms, owner="", lease_clock=database.now)
    return RemoteRuntime(services, dbos, RunDispatcher(launcher, upkeep, removals), reaper)


def new_executor(
    settings: BackendSettings,
    services: Services,
    objects: ObjectStore,
    publisher: Publisher,
    redactor: ConfinedRedactor,
    packages: PackageStore,
    open_sandbox: Callable[[], Sandbox] | None = None,
) -> Executor:
    """Creates the executor of segments in this process; `open_sandbox` replaces the sandbox of the settings."""
    work = settings.data / "work"
    threads = new_threads(_THREADS, "runtime")
    # One thread for every segment at each depth and every step, so that none waits for the files of another.
    most_slow = max(_SLOW_THREADS, (SEGMENTS_PER_SLOT * (MOST_DEPTH + 1) + 1) * settings.step_slots)
    slow_threads = new_threads(most_slow, "runtime-slow")

    sources = AgentSources(services.database)
    inspector = AttachmentInspector()
    changes = RunChanges(services.database)
    builder = PackageBuilder(services.database, services.clock, packages, socket.gethostname(), touch)

    def new_context(sandbox: Sandbox) -> SegmentContext:
        return SegmentContext(
            database=services.database,
            clock=services.clock,
            objects=objects,
            cache=services.cache,
            owner=new_id("proc"),
            leased=settings.database is not None,
            work=work,
            sandbox=sandbox,
            network=settings.network,
            mcp_hosts=frozenset(settings.mcp_hosts),
            mcp_networks=networks(settings.mcp_private_networks),
            output_limits=settings.outputs,
            step_data=settings.step_data,
            slots=StepSlots(
                settings.step_slots,
                settings.memory_mb or default_memory_mb(),
                # With DBOS, the backend reserves slots across all workers.
                reserve=settings.engine == "local",
            ),
            threads=threads,
            slow_threads=slow_threads,
            secrets=services.secrets,
            models=Models(settings.secrets, settings.models, ModelPrices(settings.model_prices)),
            publisher=publisher,
            redactor=redactor,
            schemas=services.schemas,
            inspector=inspector,
            sources=sources,
            packages=builder,
            changes=changes,
        )

    sessions = WorkerSessions(lambda sandbox, on_free: _session(settings, new_context(sandbox), on_free))
    if settings.database is not None and settings.engine == "dbos":
        services.database.listen(sessions.on_announcement)
    return Executor(
        sessions=sessions,
        open_sandbox=open_sandbox or partial(choose_sandbox, settings.sandbox),
        publisher=publisher,
        redactor=redactor,
        inspector=inspector,
        final_sweeps=FinalSweeps(
            services.database,
            services.clock,
            objects,
            redactor,
            settings.data / "sweeps",
            concurrent=_concurrent_sweeps(settings),
        ),
        leftovers=LeftoverRemoval(services.database, work),
        packages=builder,
        pools=(threads, slow_threads),
        work=work,
        own_objects=settings.objects.store == "folder" and settings.objects.folder is None,
        drain_seconds=settings.drain_seconds,
    )


def _session(settings: BackendSettings, context: SegmentContext, on_free: Callable[[], None]) -> WorkerSession:
    """Creates a worker session, with a lease if other processes share the database."""
    engine = LocalEngine(context, on_free)
    database, clock, owner, timeout_ms = context.database, context.clock, context.owner, settings.launch_timeout_ms
    if settings.database is None:
        return WorkerSession(engine, context.slots, RunReaper(database, clock, engine, timeout_ms))
    slots, host = settings.step_slots, socket.gethostname()
    reaper = RunReaper(database, clock, engine, timeout_ms, owner, lease_clock=database.now)
    if settings.engine == "local":
        # The local engine begins every dispatched segment, and steps wait for slots.
        return WorkerSession(
            engine, context.slots, reaper, Lease(database, database.now, owner, host, slots, room=lambda: slots)
        )
    from backend.runtime.engines.dbos import DbosWorker

    # At most one segment for each slot, so that segments spread over all workers.
    dbos_worker = DbosWorker(settings.database, owner, engine, slots, database)
    lease = Lease(database, database.now, owner, host, slots, room=lambda: dbos_worker.room)
    return WorkerSession(engine, context.slots, reaper, lease, dbos_worker)


def _concurrent_sweeps(settings: BackendSettings) -> int:
    """Returns the number of concurrent sweeps: each holds a database connection, and needs a second at times."""
    if settings.database is None:
        return CONCURRENT_SWEEPS
    return max(1, min(CONCURRENT_SWEEPS, settings.database_connections // 4))
