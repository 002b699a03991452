"""The engine on DBOS, for worker processes that share a database: DBOS assigns each segment to one worker.

Backends mark segments in the tables as dispatched, and workers listen for that. Each dispatch is one DBOS workflow,
whose id is the segment's with the number of the dispatch: the first worker to start it executes the segment, and DBOS
refuses the others. DBOS keeps an id for ever, so a segment that did not begin is dispatched again. The state of
runs is in the service's tables, not in DBOS, and an interrupted segment is never resumed.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any, Final

from dbos import DBOS, DBOSClient, SetWorkflowID, WorkflowSerializationFormat
from dbos import error as dbos_error
from psycopg.errors import UndefinedTable

from backend.common.states import DISPATCHED
from backend.runtime.engines.local import LocalEngine
from backend.runtime.execution import sql
from backend.services.runs.lifecycle import requeue_segment
from backend.storage.database import Database, DatabaseUnavailableError
from backend.storage.outage import OUTAGE, TICK_SECONDS, Ticker

_LOG = logging.getLogger(__name__)
_DBOS_LOG: Final = logging.getLogger("dbos")

# Errors of DBOS that do not derive from Exception.
_OTHER_ERRORS: Final = (dbos_error.DBOSWorkflowCancelledError, dbos_error.DBOSWorkflowConflictIDError)
_LISTENER_LOST: Final = "Notification listener error"
_NAME: Final = "workflow-api"
_WORKFLOW: Final = "segment"
# DBOS would derive a version from the code.
_APPLICATION_VERSION: Final = "1"
PURGED_AT_ONCE: Final = 1_000
"""Entries of DBOS that a purge reads at a time."""


class DbosBackend:
    """The engine of a backend without execution, which only purges DBOS's entries; `url` is the database's."""

    def __init__(self, url: str) -> None:
        self._client = DBOSClient(
            system_database_url=url, application_name=_NAME, retry_connection_errors=False, lazy=True
        )

    def stop(self) -> None:
        """Closes the connections."""
        self._client.destroy()

    def submit(self, segment_id: str, dispatch: int) -> None:
        """Does nothing: workers take the segment once it is marked as dispatched."""

    def cancel(self, segment_id: str) -> None:
        """Does nothing: the worker that executes the segment watches its run's row."""

    def abandon(self, segment_id: str) -> None:
        """Does nothing: this process executes nothing."""

    def executes(self, segment_id: str) -> bool:  # noqa: ARG002 - one answer for all segments
        """Returns False: this process executes nothing."""
        return False

    def claimed(self) -> frozenset[str]:
        """Returns an empty set: this process executes nothing."""
        return frozenset()

    def purge(self, before: int, open_segments: AbstractSet[str], may_go_on: Callable[[], bool]) -> None:
        """Removes DBOS's entries made before a time, except those of open segments; DBOS removes none by itself."""
        end = datetime.fromtimestamp(before / 1_000, UTC).isoformat()
        kept = 0
        try:
            while may_go_on() and (
                entries := self._client.list_workflows(
                    end_time=end, limit=PURGED_AT_ONCE, offset=kept, load_input=False, load_output=False
                )
            ):
                # Entries of any state, because DBOS does not learn that a segment ended with its worker.
                ended = [
                    entry.workflow_id for entry in entries if entry.workflow_id.partition(":")[0] not in open_segments
                ]
                self._client.delete_workflows(ended)
                kept += len(entries) - len(ended)
        except Exception as error:
            # The tables are missing until the first worker makes them.
            if not isinstance(error.__cause__, UndefinedTable):
                raise


class DbosWorker:
    """Takes dispatched segments for the local engine; `url` is the database's.

    It executes up to `most` segments at each depth of child runs, because parents wait for their children.
    """

    def __init__(self, url: str, owner: str, engine: LocalEngine, most: int, database: Database) -> None:
        self._engine = engine
        self._most = most
        self._database = database
        self._log_filter = OutageFilter(database.healthy)
        self._taking = Ticker("taking", self._take, TICK_SECONDS)
        self._halted = False
        self._lock = threading.Lock()
        # Ids of DBOS workflows: those under way, with the depths of their runs, and those not to be started again.
        self._running: dict[str, int] = {}
        self._tried: set[str] = set()
        self._some_waiting = True
        self._execute: Callable[[str], None] | None = None
        self._config: dict[str, Any] = {
            "name": _NAME,
            "system_database_url": url,
            "application_version": _APPLICATION_VERSION,
            # Unique to this process, so that DBOS never resumes workflows of another one.
            "executor_id": owner,
            "console_log_level": "ERROR",
            "enable_otlp": False,
        }

    @property
    def room(self) -> int:
        """Number of further segments that can be taken, at whatever depth. Thread-safe."""
        taken = Counter(self._running.copy().values())
        return self._most - max(taken.values(), default=0)

    def start(self) -> None:
        """Starts to take segments. Not to be called in a thread with an event loop, which DBOS would use."""
        _DBOS_LOG.addFilter(self._log_filter)
        DBOS(config=self._config)  # type: ignore[arg-type]  # the keys are those of its typed dictionary

        @DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=0, serialization_type=WorkflowSerializationFormat.PORTABLE)
        def execute(segment_id: str) -> None:
            try:
                ended = self._engine.execute(segment_id)
            except RuntimeError:
                # The engine has ended, so another worker or session is to execute the segment.
                self._requeue(segment_id)
            else:
                ended.result()
            finally:
                # DBOS may wait long for the database before it has recorded the end.
                self._free(DBOS.workflow_id)

        self._execute = execute
        # DBOS's own queues are not used.
        DBOS.listen_queues([])
        DBOS.launch()
        self._taking.start()

    def on_announcement(self, names: Collection[str] | None) -> None:
        """Wakes the worker if segments were dispatched; a listener of the database's announcements."""
        if names is None or DISPATCHED in names:
            self._taking.wake()

    def halt(self) -> None:
        """Takes no more segments; does not wait. Thread-safe and idempotent."""
        self._halted = True

    def stop(self) -> None:
        """Takes no more segments, and ends DBOS; called after the engine's end."""
        self._taking.stop()
        DBOS.destroy(destroy_registry=True)
        _DBOS_LOG.removeFilter(self._log_filter)

    def _take(self) -> None:
        """Starts workflows of dispatched segments while slots are free."""
        # True until the round has counted: a segment that ends meanwhile then wakes this thread for another round.
        self._some_waiting = True
        if self._halted:
            return
        found = {f"{row.segment_id}:{row.hand_overs}": row for row in self._database.read(sql.dispatched)}
        with self._lock:
            self._tried.intersection_update(found)
            untried = [workflow_id for workflow_id in found if workflow_id not in self._tried]
            depths = Counter(self._running.values())
            taken = []
            for workflow_id in untried:
                depth = found[workflow_id].depth
                if depths[depth] < self._most:
                    depths[depth] += 1
                    self._running[workflow_id] = depth
                    taken.append(workflow_id)
            self._tried.update(taken)
        for workflow_id in taken:
            # One thread each, since DBOS may wait long for the database before it starts a workflow.
            threading.Thread(
                target=self._start_workflow,
                args=(workflow_id, found[workflow_id].segment_id),
                name="segment",
                daemon=True,
            ).start()
        self._some_waiting = len(taken) < len(untried)

    def _start_workflow(self, workflow_id: str, segment_id: str) -> None:
        """Executes a segment to its end, unless another worker has this dispatch."""
        assert self._execute is not None
        try:
            with SetWorkflowID(workflow_id, workflow_id_reuse_policy="reject"):
                self._execute(segment_id)
        except dbos_error.DBOSWorkflowIDInUseError:
            pass
        except (Exception, *_OTHER_ERRORS) as error:  # noqa: BLE001 - of whatever DBOS does; the tables know what began
            if not self._halted:
                _LOG.warning("DBOS failed with segment %s: %s", segment_id, error)
            with self._lock:
                self._tried.discard(workflow_id)
        finally:
            self._free(workflow_id)

    def _free(self, workflow_id: str | None) -> None:
        with self._lock:
            self._running.pop(workflow_id or "", None)
        if self._some_waiting:
            self._taking.wake()

    def _requeue(self, segment_id: str) -> None:
        try:
            self._database.write(lambda tx: requeue_segment(tx, segment_id), lock_key="launcher")
        except DatabaseUnavailableError as error:
            # The run reaper requeues the segment a little later.
            _LOG.debug("Segment %s could not be requeued: %s", segment_id, error)


class OutageFilter(logging.Filter):
    """Drops log records during outages of the database: DBOS polls every second, and logs every failure.

    DBOS may notice an outage first; then `healthy` asks the database, which records the outage. DBOS's listener notices
    while other connections still answer; it connects again by itself, and nothing here waits for it.
    """

    def __init__(self, healthy: Callable[[], bool]) -> None:
        super().__init__()
        self._healthy = healthy

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether the record is logged."""
        if record.getMessage().startswith(_LISTENER_LOST):
            return False
        if not OUTAGE.lasts:
            self._healthy()
        return not OUTAGE.lasts
