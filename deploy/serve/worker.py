"""Runs a worker process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

from backend.bootstrap import Worker
from deploy.config.settings import Settings, backend_settings
from deploy.serve.backend import startup_failures
from telemetry import MetricsRegistry


@asynccontextmanager
async def running_worker(settings: Settings, data: Path, metrics: MetricsRegistry) -> AsyncIterator[None]:
    """Executes runs until the context ends.

    Raises:
        CommandError: the data folder, the database, the objects or the sandbox cannot be used; the message says why.
    """
    with startup_failures():
        worker = Worker(backend_settings(settings, data))
    with metrics.registered(worker.measured):
        try:
            with startup_failures():
                # What executes runs, before several threads would import it for their first ones.
                import_module("backend.runtime.execution.segment")
                # In another thread: DBOS would run on the event loop of this one.
                await asyncio.to_thread(worker.start)
            yield
        finally:
            await asyncio.to_thread(worker.stop)
