"""Erasing a finished run's data: every content-bearing value goes, the bare facts stay. (DECISIONS.md, 5)."""

from datetime import UTC, datetime
from typing import Any, Final

import orjson
from sqlalchemy import BindParameter, bindparam, case, delete, insert, null, select, update

from backend.deployment import audit
from backend.errors import ApiError
from backend.interceptors import Caller
from backend.outputs.tables import outputs, pending_removals
from backend.runs.reach import find_run
from backend.runs.tables import approvals, events, runs, segments, steps
from backend.runs.transitions import TERMINAL
from backend.services import Services
from backend.storage.database import Tx
from backend.storage.statements import sql
from workflow_api.v1 import errors_pb2

_CONTENT: Final = (
    "parameters",
    "input_text",
    "inputs_manifest",
    "error_message",
    "summary_markdown",
    "result",
    "result_error_message",
    "result_output_id",
    "result_size_bytes",
    "result_sha256",
    "cancel_reason",
)
_ERASED_WARNING: Final = "erased"

_RUN: BindParameter[Any] = bindparam("of_run_id")
_CLEAR = sql(
    update(runs)
    .where(runs.c.run_id == _RUN)
    .values(
        dict.fromkeys(_CONTENT, null())
        | {
            "warnings": bindparam("new_warnings"),
            "data_purged_at": bindparam("at_ms"),
            # There is nothing left to sweep.
            "redaction_state": case((runs.c.redaction_state == "pending", "done"), else_=runs.c.redaction_state),
        }
    )
)
_SEGMENTS_OF_RUN: Final = select(segments.c.segment_id).where(segments.c.run_id == _RUN)
_DELETIONS: Final = (
    sql(delete(events).where(events.c.segment_id.in_(_SEGMENTS_OF_RUN))),
    sql(delete(steps).where(steps.c.run_id == _RUN)),
    sql(delete(approvals).where(approvals.c.run_id == _RUN)),
    sql(delete(outputs).where(outputs.c.run_id == _RUN)),
)
_REMOVE_LATER = sql(insert(pending_removals), ["run_id", "requested_at"])


def erase_run(services: Services, run_id: str, caller: Caller, reason: str | None) -> int:
    """Clears the run in one transaction, which also orders the removal of its objects; gives the time of erasure.

    A warning leaves its place without its text, so that `completed_with_warnings` stays true of the run.

    Raises:
        ApiError: `run_not_found`, `run_not_terminal` or `already_purged`.
    """
    at = services.clock()

    def work(tx: Tx) -> int:
        run = find_run(tx, run_id, caller.key_id)
        if run.status not in TERMINAL:
            raise ApiError(errors_pb2.ERROR_REASON_RUN_NOT_TERMINAL, metadata={"status": run.status})
        if run.data_purged_at is not None:
            purged_at = _iso(run.data_purged_at)
            raise ApiError(errors_pb2.ERROR_REASON_ALREADY_PURGED, metadata={"data_purged_at": purged_at})
        warnings = orjson.dumps([_ERASED_WARNING] * len(orjson.loads(run.warnings))).decode()
        tx.leaves_no_trace = True
        tx.run(_CLEAR, of_run_id=run_id, new_warnings=warnings, at_ms=at)
        for deletion in _DELETIONS:
            tx.run(deletion, of_run_id=run_id)
        tx.run(_REMOVE_LATER, run_id=run_id, requested_at=at)
        details = {"reason": reason} if reason else None
        audit.record(tx, at=at, actor=caller.audit_name, action="run.erased", target=run_id, details=details)
        return at

    return services.database.write(work)


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
