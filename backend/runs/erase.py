"""Erases a finished run's data: all content goes, statuses, times and counts stay (contract 20.6)."""

from collections.abc import Mapping
from typing import Final

from backend import json_text, metrics
from backend.audit import sql as audit
from backend.caller import Caller
from backend.clock import to_text
from backend.errors import ApiError
from backend.runs import erase_sql, redaction_manifest
from backend.runs.change_log import ERASED, log_change
from backend.runs.run_lookup import find_run, require_finished
from backend.runs.runtime_port import Runtime
from backend.services import Services
from backend.storage.database import Tx, run_of
from backend.storage.tables.runs import RunRow
from backend.uploads import sql as uploads_sql
from backend.webhooks.events import Event
from backend.webhooks.outbox_sql import add_messages
from workflow_api.v1 import errors_pb2

_ERASED_WARNING: Final = "erased"


def erase_run(services: Services, runtime: Runtime, run_id: str, caller: Caller, reason: str | None) -> int:
    """Clears the run and orders the removal of its objects in one transaction; returns the time of erasure.

    From then on no row names the objects, so nobody can reach them; the runtime removes them soon after.

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
        # Unlike the reason of a cancellation, it is audited: the trail must account for erased data.
        erase(tx, runtime, run, at=at, actor=caller.audit_name, details={"reason": reason} if reason else {})
        return at

    return services.database.write(work, lock_key=run_of(run_id))


def erase(
    tx: Tx, runtime: Runtime, run: RunRow | erase_sql.ErasableRow, *, at: int, actor: str, details: Mapping[str, object]
) -> None:
    """Clears a finished run that was not erased before, a row of `erase_sql.finished_before`, and audits that.

    Each warning keeps its place without its text, so that `completed_with_warnings` stays as it was.
    """
    warnings = json_text.write([_ERASED_WARNING] * len(json_text.parse(run.warnings)))
    manifest = run.pii_redaction
    if manifest is not None:
        # A stage that was pending will not run any more.
        manifest = redaction_manifest.ended(manifest, began=run.started_at is not None, opened=False)
    tx.announce(run.run_id)
    erase_sql.clear(tx, run.run_id, warnings=warnings, pii_redaction=manifest, at=at)
    uploads_sql.release(tx, run.run_id)
    add_messages(tx, Event.RUN_ERASED, run.run_id, at)
    audit.record(tx, at=at, actor=actor, action="run.erased", target=run.run_id, details=details)
    tx.after_commit(metrics.RUNS_ERASED.add)
    log_change(tx, run.run_id, None, ERASED)
    tx.after_commit(lambda: runtime.forget(run.run_id))
