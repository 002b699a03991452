"""Cancels a run (contract 19)."""

from dataclasses import dataclass

from backend.audit import sql as audit
from backend.caller import Caller
from backend.errors import ApiError
from backend.run_status import TERMINAL, RunStatus
from backend.runs import lifecycle, lifecycle_sql
from backend.runs.run_lookup import find_state
from backend.runs.runtime_port import Runtime
from backend.services import Services
from backend.storage.database import Tx, run_of
from workflow_api.v1 import errors_pb2


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The run's status after the call, and when its cancellation was first requested."""

    status: str
    requested_at: int


def cancel_run(services: Services, runtime: Runtime, run_id: str, caller: Caller, reason: str | None) -> Cancellation:
    """Ends a queued or parked run immediately; the runtime ends a running one.

    Raises:
        ApiError: `run_not_found`, or `already_terminal`.
    """
    at = services.clock()

    def work(tx: Tx) -> Cancellation:
        state = find_state(tx, run_id, caller.key_id)
        if state.status in TERMINAL:
            raise ApiError(errors_pb2.ERROR_REASON_ALREADY_TERMINAL)
        tx.changes_run(run_id, state.key_id)
        lifecycle_sql.request_cancel(tx, run_id, at, reason)
        # The reason is the caller's own text: it is stored with the run alone, and erased with it.
        audit.record(tx, at=at, actor=caller.audit_name, action="run.cancel_requested", target=run_id)
        if state.status == RunStatus.RUNNING:
            tx.after_commit(lambda: runtime.cancel(run_id))
            return Cancellation(
                RunStatus.RUNNING, at if state.cancel_requested_at is None else state.cancel_requested_at
            )
        lifecycle.close_run(tx, run_id, RunStatus.CANCELLED, at)
        return Cancellation(RunStatus.CANCELLED, at)

    return services.database.write(work, lock_key=run_of(run_id))
