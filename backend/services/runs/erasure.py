"""Erasure of finished runs, by people and by retention, and removal of their objects (contract 20.6)."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from backend.common import json_text, metrics
from backend.common.clock import DAY_MS, Clock, to_text
from backend.common.errors import ApiError
from backend.common.principal import Principal
from backend.common.states import RunStatus
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.services.runs import erase_sql, interruptions_sql, lifecycle, lifecycle_sql, redaction_manifest
from backend.services.runs.change_records import ERASED, log_change
from backend.services.runs.reads import find_run, require_finished
from backend.services.runs.runtime_port import Runtime
from backend.services.runs.start import sql as start_sql
from backend.services.runs.start.rules import RECORD_LIFE_MS
from backend.services.uploads import sql as uploads_sql
from backend.services.uploads.content import UploadRemovals
from backend.services.webhooks.rules import WebhookEvent
from backend.services.webhooks.sql import add_messages
from backend.storage.database import Database, Tx, run_of
from backend.storage.object_keys import run_prefix
from backend.storage.objects import ObjectStore
from backend.storage.retention import RetentionRule, RowRetention
from backend.storage.tables.runs import RunRow
from workflow_api.v1 import errors_pb2

_ERASED_WARNING: Final = "erased"


def erase_run(services: Services, runtime: Runtime, run_id: str, caller: Principal, reason: str | None) -> int:
    """Clears the run and requests the removal of its objects in one transaction; returns the time of erasure.

    Then no row names the objects, so that no caller can reach them; the runtime removes them soon after.

    Raises:
        ApiError: `run_not_found`, `run_not_terminal` or `already_purged`.
    """
    at = services.clock()

    def work(tx: Tx) -> int:
        run = find_run(tx, run_id, caller.key_id)
        require_finished(run)
        if run.data_purged_at is not None:
            purged_at = to_text(run.data_purged_at)
            raise ApiError(errors_pb2.ERROR_REASON_ALREADY_PURGED, metadata={"data_purged_at": purged_at})
        # Unlike the reason of a cancellation, this reason is audited: the trail must account for erased data.
        erase(tx, runtime, run, at=at, actor=caller.audit_name, details={"reason": reason} if reason else {})
        return at

    return services.database.write(work, lock_key=run_of(run_id))


def erase(
    tx: Tx, runtime: Runtime, run: RunRow | erase_sql.ErasableRow, *, at: int, actor: str, details: Mapping[str, object]
) -> int:
    """Clears a finished run that was not erased before, with its children; audits each, and returns their number.

    A child that is still in flight is closed first. Each warning is replaced by a placeholder, so that
    `completed_with_warnings` stays true.
    """
    # A process that still executes a child requests the removal of its objects again, on finding it closed.
    for unfinished in lifecycle_sql.children_in_flight(tx, run.run_id):
        lifecycle.close_run(tx, unfinished.run_id, RunStatus.CANCELLED, at)
    erased = 1
    for child in erase_sql.children(tx, run.run_id):
        erased += erase(tx, runtime, child, at=at, actor=actor, details={**details, "parent_run_id": run.run_id})
    warnings = json_text.write([_ERASED_WARNING] * len(json_text.parse(run.warnings)))
    manifest = run.pii_redaction
    if manifest is not None:
        # A stage that was pending will not run any more.
        manifest = redaction_manifest.ended_manifest(manifest, began=run.started_at is not None, opened=False)
    tx.announce(run.run_id)
    interruptions_sql.settle(tx, run.run_id, None)
    erase_sql.clear(tx, run.run_id, warnings=warnings, pii_redaction=manifest, at=at)
    uploads_sql.release(tx, run.run_id)
    add_messages(tx, WebhookEvent.RUN_ERASED, run.run_id, at)
    audit.record(tx, at=at, actor=actor, action="run.erased", target=run.run_id, details=details)
    tx.after_commit(metrics.RUNS_ERASED.add)
    log_change(tx, run.run_id, None, ERASED)
    tx.after_commit(lambda: runtime.forget(run.run_id))
    return erased


ACTOR: Final = "system"

ERASED_AT_ONCE: Final = 100
"""Most runs that are erased in one transaction; children of the last run may exceed it."""


@dataclass(frozen=True, slots=True)
class RunDataRetention:
    """Erases the data of runs that finished more than the deployment's `retention_days` ago.

    The effect on each run is that of `DELETE /runs/{run_id}/data`; `runtime` removes the objects.
    """

    runtime: Runtime
    name: str = "runs_erased"
    kept_ms: None = None

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Erases a batch of runs; see `RetentionRule.delete_batch`."""
        days = deployment_sql.get(tx).retention_days
        due = erase_sql.finished_before(tx, now - days * DAY_MS, ERASED_AT_ONCE)
        erased = 0
        for run in due:
            erased += erase(tx, self.runtime, run, at=now, actor=ACTOR, details={"retention_days": days})
            if erased >= ERASED_AT_ONCE:
                break
        return erased


def rules(runtime: Runtime) -> tuple[RetentionRule, ...]:
    """Returns the retention rules of runs, the most overdue first."""
    return RunDataRetention(runtime), RowRetention("idempotency_records", RECORD_LIFE_MS, start_sql.purge_records)


_LOG = logging.getLogger(__name__)


class Removals:
    """Removes the objects and files of erased runs, as `pending_removals` lists them, in the calling thread.

    `remove_files` removes a run's files on this machine, and must be quick.
    """

    def __init__(
        self, database: Database, objects: ObjectStore, remove_files: Callable[[str], None], clock: Clock
    ) -> None:
        self._database = database
        self._objects = objects
        self._remove_files = remove_files
        self._uploads = UploadRemovals(database, objects, clock)
        self._halted = threading.Event()

    def halt(self) -> None:
        """Ends the present round after its present run; from any thread."""
        self._halted.set()

    def round(self) -> None:
        """Carries out every pending removal; a failed one is logged and stays pending.

        Files of all runs are removed first, so that an unavailable or slow object store does not delay them.
        """
        orders = {order.run_id: order.requested_at for order in self._database.read(erase_sql.requested_removals)}
        for run_id in self._for_each(self._remove_files, list(orders)):
            self._for_each(lambda run_id: self._remove(run_id, orders[run_id]), [run_id])
        self._uploads.round(self._halted.is_set)

    def _remove(self, run_id: str, ordered_at: int) -> None:
        self._objects.delete_prefix(run_prefix(run_id))
        self._database.write(lambda tx: erase_sql.record_removal(tx, run_id, ordered_at), lock_key=run_of(run_id))

    def _for_each(self, action: Callable[[str], None], run_ids: list[str]) -> list[str]:
        """Calls `action` for each run, and returns the runs for which it succeeded."""
        done = []
        for run_id in run_ids:
            if self._halted.is_set():
                break
            try:
                action(run_id)
            except Exception:  # noqa: BLE001 - the run stays erased, and its removal pending
                metrics.REMOVAL_FAILURES.add()
                _LOG.exception("The removal of objects of run %s failed; it stays pending", run_id)
            else:
                done.append(run_id)
        return done
