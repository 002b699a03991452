"""The engine on DBOS, whose queue on PostgreSQL hands segments to worker processes.

Each hand-over of a segment is one DBOS workflow, whose id is the segment's with the number of the hand-over: DBOS keeps
an id for ever, and a segment that did not begin is handed over again. Whoever takes a segment first executes it, by the
tables. The state that DBOS keeps does not count: the tables say what runs, and an interrupted segment is never resumed.
"""

import logging
import threading
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any, Final

from dbos import DBOS, DBOSClient, WorkflowSerializationFormat
from psycopg.errors import UndefinedTable

from backend.runtime.engines.dbos_log import OutageFilter
from backend.runtime.engines.dbos_waking import QueueWaking
from backend.runtime.engines.local import LocalEngine
from backend.segment_state import HANDED_OVER

_DBOS_LOG: Final = logging.getLogger("dbos")

_NAME: Final = "workflow-api"
_QUEUE: Final = "segments"
_WORKFLOW: Final = "segment"
# Workers of one release or of the next take the same segments.
_APPLICATION_VERSION: Final = "1"
_POLL_SECONDS: Final = 0.1
_QUEUE_THREAD: Final = f"queue-worker-{_QUEUE}"
_PURGE_BATCH: Final = 1_000


class DbosQueue:
    """The engine of a process that executes nothing itself and only fills the queue; `url` is the database's."""

    def __init__(self, url: str) -> None:
        self._client = DBOSClient(
            system_database_url=url, application_name=_NAME, retry_connection_errors=False, lazy=True
        )

    def stop(self) -> None:
        """Closes the connections."""
        self._client.destroy()

    def submit(self, segment_id: str, hand_over: int) -> None:
        """Puts a segment into the queue; see `Engine.submit`.

        Raises:
            Exception: it could not be added, as before the first worker ever ran.
        """
        self._client.enqueue(
            {
                "queue_name": _QUEUE,
                "workflow_name": _WORKFLOW,
                "workflow_id": f"{segment_id}:{hand_over}",
                "app_version": _APPLICATION_VERSION,
                "serialization_type": WorkflowSerializationFormat.PORTABLE,
            },
            segment_id,
        )

    def cancel(self, segment_id: str) -> None:
        """Does nothing: the worker that executes the segment looks at its run's row by itself."""

    def executes(self, segment_id: str) -> bool:  # noqa: ARG002 - the same for every segment
        """Returns False: nothing is executed here."""
        return False

    def claimed(self) -> frozenset[str]:
        """Returns nothing: nothing is executed here."""
        return frozenset()

    def purge(self, before: int, open_segments: AbstractSet[str], may_go_on: Callable[[], bool]) -> None:
        """Removes the entries made before that time, except those of open segments; DBOS removes none by itself."""
        end = datetime.fromtimestamp(before / 1_000, UTC).isoformat()
        kept = 0
        try:
            while may_go_on() and (
                entries := self._client.list_workflows(
                    end_time=end, limit=_PURGE_BATCH, offset=kept, load_input=False, load_output=False
                )
            ):
                # Of any state: DBOS does not learn that a segment ended with its worker.
                ended = [
                    entry.workflow_id for entry in entries if entry.workflow_id.partition(":")[0] not in open_segments
                ]
                self._client.delete_workflows(ended)
                kept += len(entries) - len(ended)
        except Exception as error:
            # The first worker makes the tables.
            if not isinstance(error.__cause__, UndefinedTable):
                raise


class DbosWorker:
    """Takes segments from the queue for the local engine, up to `most` at once.

    `requeue` has a segment handed over again that the engine does not take any more; `healthy` says whether the
    database answers.
    """

    def __init__(
        self,
        url: str,
        owner: str,
        engine: LocalEngine,
        most: int,
        requeue: Callable[[str], None],
        healthy: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._requeue = requeue
        self._log_filter = OutageFilter(healthy)
        self._most = most
        self._stops: list[threading.Event] = []
        self._waking: QueueWaking | None = None
        self._config: dict[str, Any] = {
            "name": _NAME,
            "system_database_url": url,
            "application_version": _APPLICATION_VERSION,
            # Unique to this process, so that DBOS never resumes what another one left.
            "executor_id": owner,
            "max_executor_threads": most + 4,
            "console_log_level": "ERROR",
            "enable_otlp": False,
        }

    def start(self) -> None:
        """Starts to take segments. Not to be called in a thread with an event loop, which DBOS would use."""
        _DBOS_LOG.addFilter(self._log_filter)
        dbos = DBOS(config=self._config)  # type: ignore[arg-type]  # the keys are those of its typed dictionary

        @DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=0, serialization_type=WorkflowSerializationFormat.PORTABLE)
        def execute(segment_id: str) -> None:
            try:
                ended = self._engine.execute(segment_id)
            except RuntimeError:
                # The engine has ended, and another worker or session is to execute the segment.
                self._requeue(segment_id)
            else:
                ended.result()

        DBOS.listen_queues([_QUEUE])
        DBOS.launch()
        DBOS.register_queue(_QUEUE, worker_concurrency=self._most, polling_interval_sec=_POLL_SECONDS)
        self._stops = dbos.background_thread_stop_events
        self._waking = QueueWaking(self._stops, _QUEUE_THREAD)

    def hear(self, names: Collection[str] | None) -> None:
        """Looks for segments at once where they were handed over; a listener of the database."""
        if self._waking is not None and (names is None or HANDED_OVER in names):
            self._waking.wake()

    def halt(self) -> None:
        """Ends the polling of the queue; does not wait; from any thread; may be repeated."""
        for stop in self._stops:
            stop.set()

    def stop(self, grace_seconds: float) -> None:
        """Takes no more segments, and gives those that run so long to end by themselves."""
        DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=round(grace_seconds))
        _DBOS_LOG.removeFilter(self._log_filter)
