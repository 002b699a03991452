"""Cancelling a run. (SPEC.md, POST /runs/{run_id}/cancel; DECISIONS.md, 5)."""

from dataclasses import dataclass

from sqlalchemy import bindparam, func, update

from backend.deployment import audit
from backend.errors import ApiError
from backend.interceptors import Caller
from backend.runs import lifecycle
from backend.runs.reach import find_state
from backend.runs.runtime_port import Runtime
from backend.runs.tables import runs
from backend.runs.transitions import CANCELLED, RUNNING, TERMINAL
from backend.services import Services
from backend.storage.database import Tx
from backend.storage.statements import sql
from workflow_api.v1 import errors_pb2

# Asking again keeps when and why it was first asked.
_REQUEST = sql(
    update(runs)
    .where(runs.c.run_id == bindparam("of_run_id"))
    .values(
        cancel_requested_at=func.coalesce(runs.c.cancel_requested_at, bindparam("at_ms")),
        cancel_reason=func.coalesce(runs.c.cancel_reason, bindparam("new_reason")),
    )
)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Where the run stands, and when its end was first asked for."""

    status: str
    requested_at: int


def cancel_run(services: Services, runtime: Runtime, run_id: str, caller: Caller, reason: str | None) -> Cancellation:
    """Ends a queued or parked run at once, and has the runtime end a running one.

    Raises:
        ApiError: `run_not_found`, or `already_terminal`.
    """
    at = services.clock()

    def work(tx: Tx) -> Cancellation:
        state = find_state(tx, run_id, caller.key_id)
        if state.status in TERMINAL:
            raise ApiError(errors_pb2.ERROR_REASON_ALREADY_TERMINAL)
        tx.run(_REQUEST, of_run_id=run_id, at_ms=at, new_reason=reason)
        details = {"reason": reason} if reason else None
        audit.record(tx, at=at, actor=caller.audit_name, action="run.cancel_requested", target=run_id, details=details)
        if state.status == RUNNING:
            tx.after_commit(lambda: runtime.cancel(run_id))
            return Cancellation(RUNNING, at if state.cancel_requested_at is None else state.cancel_requested_at)
        lifecycle.close_run(tx, run_id, CANCELLED, at)
        return Cancellation(CANCELLED, at)

    return services.database.write(work)
