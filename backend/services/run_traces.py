"""Work of a run as part of the trace of its start, where traces are on."""

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from backend.services import run_traces_sql
from backend.storage.database import Database
from telemetry import tracing

_LOG = logging.getLogger(__name__)


def carrier_of_run(database: Database, run_id: str) -> Mapping[str, str]:
    """Returns what makes work part of the trace of a run's start; empty without one, and where it cannot be read."""
    if tracing.active() is None:
        return {}
    try:
        return database.read(lambda tx: run_traces_sql.carrier_of_run(tx, run_id))
    except Exception:  # noqa: BLE001 - the work counts, not its trace
        _LOG.warning("The trace of run %s could not be read", run_id, exc_info=True)
        return {}


@contextmanager
def part_of_run(name: str, database: Database, run_id: str) -> Iterator[None]:
    """Makes the work of this thread a span in the trace of a run's start."""
    recording = tracing.active()
    if recording is None:
        yield
        return
    with recording.executed(name, carrier_of_run(database, run_id), {"workflow_api.run_id": run_id}):
        yield


def new_threads(most: int, prefix: str) -> ThreadPoolExecutor:
    """Returns threads whose work belongs to the span of what gave it to them."""
    kind = ThreadPoolExecutor if tracing.active() is None else _ContextThreads
    return kind(most, thread_name_prefix=prefix)


class _ContextThreads(ThreadPoolExecutor):
    """Threads that work in the context of whoever gives them work."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs a function; see `Executor.submit`."""
        return super().submit(copy_context().run, fn, *args, **kwargs)
