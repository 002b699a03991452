"""A worker as it runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from backend.bootstrap import Worker
from deploy.config.settings import Settings, backend_settings
from deploy.serve.backend import cannot_start
from deploy.serve.metrics import Metrics


@asynccontextmanager
async def worked(settings: Settings, data: Path, metrics: Metrics) -> AsyncIterator[None]:
    """Execute runs until the context ends.

    Raises:
        CommandFailed: the data folder, the database, the objects or the sandbox cannot be used; the message says why.
    """
    with cannot_start():
        worker = Worker(backend_settings(settings, data))
    with metrics.told_by(worker.measured):
        try:
            with cannot_start():
                # Not on this thread, whose event loop DBOS would move into.
                await asyncio.to_thread(worker.start)
            yield
        finally:
            await asyncio.to_thread(worker.stop)
