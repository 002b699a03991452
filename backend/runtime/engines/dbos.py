"""Segments on DBOS: handed out to worker processes by its queue on PostgreSQL. (DESIGN.md, 6).

A DBOS workflow is one segment, its id the segment's, so handing one over twice is harmless. What DBOS keeps counts for
nothing: the tables say what runs, and a segment that was interrupted is never taken up again.
"""

import logging
from typing import Any, Final

from dbos import DBOS, DBOSClient, WorkflowSerializationFormat

from backend.runtime.engines.local import LocalEngine

_LOG = logging.getLogger(__name__)

_NAME: Final = "workflow-api"
_QUEUE: Final = "segments"
_WORKFLOW: Final = "segment"
# Workers of one release or of the next take the same segments.
_APPLICATION_VERSION: Final = "1"
_POLL_SECONDS: Final = 0.1


class DbosQueue:
    """The engine of a process that executes nothing: it only hands over. `url` is the database's."""

    def __init__(self, url: str) -> None:
        self._client = DBOSClient(
            system_database_url=url, application_name=_NAME, retry_connection_errors=False, lazy=True
        )

    def stop(self) -> None:
        """Ends the connections."""
        self._client.destroy()

    def submit(self, segment_id: str) -> None:
        """Puts a segment into the queue; see `Engine.submit`.

        Raises:
            Exception: it could not be put there, as before the first worker ever ran.
        """
        self._client.enqueue(
            {
                "queue_name": _QUEUE,
                "workflow_name": _WORKFLOW,
                "workflow_id": segment_id,
                "app_version": _APPLICATION_VERSION,
                "serialization_type": WorkflowSerializationFormat.PORTABLE,
            },
            segment_id,
        )

    def cancel(self, segment_id: str) -> None:
        """The worker that executes it looks for itself."""

    def executes(self, segment_id: str) -> bool:  # noqa: ARG002 - the same for every segment
        """Nothing is executed here."""
        return False

    @property
    def generation(self) -> int:
        """The queue is durable and drops nothing."""
        return 0


class DbosWorker:
    """Takes segments from the queue and has the local engine execute them, up to `most` at once."""

    def __init__(self, url: str, owner: str, engine: LocalEngine, most: int) -> None:
        self._engine = engine
        self._most = most
        self._config: dict[str, Any] = {
            "name": _NAME,
            "system_database_url": url,
            "application_version": _APPLICATION_VERSION,
            # Of this process alone, so that DBOS never takes up what another one left.
            "executor_id": owner,
            "max_executor_threads": most + 4,
            "console_log_level": "ERROR",
            "enable_otlp": False,
        }

    def start(self) -> None:
        """Begins to take segments. Not for a thread with an event loop: DBOS would move into it."""
        DBOS(config=self._config)  # type: ignore[arg-type]  # the keys are those of its typed dictionary

        @DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=0, serialization_type=WorkflowSerializationFormat.PORTABLE)
        def execute(segment_id: str) -> None:
            self._engine.execute(segment_id).result()

        DBOS.listen_queues([_QUEUE])
        DBOS.launch()
        DBOS.register_queue(_QUEUE, worker_concurrency=self._most, polling_interval_sec=_POLL_SECONDS)

    def stop(self, grace_seconds: float) -> None:
        """Takes none any more, and gives those that run so long to end by themselves."""
        DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=round(grace_seconds))
