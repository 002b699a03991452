"""Approvals: what waits for a person, and what people decide. (SPEC.md, Events; DECISIONS.md, 5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, bindparam, literal_column, select, update

from backend import json_text
from backend.deployment import audit
from backend.errors import ApiError, invalid
from backend.interceptors import Caller
from backend.runs import lifecycle, wire
from backend.runs.runtime_port import Runtime
from backend.runs.tables import approvals, runs, steps
from backend.services import Services
from backend.storage.database import Tx
from backend.storage.statements import Statement, sql
from workflow_api.v1 import errors_pb2, runs_pb2

_ONE: ColumnElement[int] = literal_column("1")
_PENDING = sql(
    select(approvals, runs.c.workflow_name)
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .where(approvals.c.state == literal_column("'pending'"))
    .order_by(approvals.c.requested_at, approvals.c.approval_id)
)
_FIND = sql(
    select(approvals, runs.c.status)
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .where(approvals.c.approval_id == bindparam("of_approval_id"))
)
_DECIDE = sql(
    update(approvals)
    .where(approvals.c.approval_id == bindparam("of_approval_id"), approvals.c.state == "pending")
    .values(
        state=bindparam("new_state"),
        decided_at=bindparam("at_ms"),
        decided_by=bindparam("actor"),
        comment=bindparam("new_comment"),
    )
)
_FINISH_STEP = sql(
    update(steps)
    .where(steps.c.run_id == bindparam("of_run_id"), steps.c.step == bindparam("of_step"))
    .values(status=bindparam("new_status"), finished_at=bindparam("at_ms"), value=bindparam("new_value"))
)
_COUNT_APPROVED = sql(
    update(runs)
    .where(runs.c.run_id == bindparam("of_run_id"))
    .values(approvals_pending=runs.c.approvals_pending - _ONE, steps_completed=runs.c.steps_completed + _ONE)
)
_COUNT_REJECTED = sql(
    update(runs)
    .where(runs.c.run_id == bindparam("of_run_id"))
    .values(approvals_pending=runs.c.approvals_pending - _ONE)
)


@dataclass(frozen=True, slots=True)
class _Decision:
    """What a decision makes of the approval, of its step and of the run's counts."""

    state: str
    step_status: str
    count: Statement


_DECISIONS: Final[Mapping[bool, _Decision]] = {
    True: _Decision("approved", "completed", _COUNT_APPROVED),
    False: _Decision("rejected", "blocked", _COUNT_REJECTED),
}


class Approvals:
    """The approval inbox: internal, because the API reads approvals and never grants them."""

    def __init__(self, services: Services, runtime: Runtime) -> None:
        self._services = services
        self._runtime = runtime

    def pending(self) -> runs_pb2.ListPendingApprovalsResponse:
        """Everything that waits for a person, oldest first."""
        rows = self._services.database.read(lambda tx: tx.all(_PENDING))
        return runs_pb2.ListPendingApprovalsResponse(
            items=[
                runs_pb2.PendingApproval(
                    approval=wire.approval(row), run_id=row.run_id, workflow_name=row.workflow_name
                )
                for row in rows
            ]
        )

    def decide(self, request: runs_pb2.DecideApprovalRequest, caller: Caller) -> runs_pb2.DecideApprovalResponse:
        """Keeps a decision and queues the segment that goes on from it: after a rejection that one fails the run.

        Raises:
            ApiError: `not_found`, or `invalid_request` when it was decided or withdrawn already.
        """
        at = self._services.clock()
        decision = _DECISIONS[request.approve]
        comment = request.comment if request.HasField("comment") else None

        def work(tx: Tx) -> Any:
            row = tx.one(_FIND, of_approval_id=request.approval_id)
            if row is None:
                raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, "There is no such approval.")
            if row.state != "pending":
                raise invalid("approval_id", f"must wait for a decision; this one is {row.state}")
            tx.run(
                _DECIDE,
                of_approval_id=row.approval_id,
                new_state=decision.state,
                at_ms=at,
                actor=caller.audit_name,
                new_comment=comment,
            )
            value = json_text.write({"decision": decision.state, "comment": comment})
            tx.run(
                _FINISH_STEP,
                of_run_id=row.run_id,
                of_step=row.step,
                new_status=decision.step_status,
                at_ms=at,
                new_value=value,
            )
            tx.run(decision.count, of_run_id=row.run_id)
            lifecycle.continue_run(tx, row.run_id, at)
            audit.record(
                tx,
                at=at,
                actor=caller.audit_name,
                action=f"approval.{decision.state}",
                target=row.approval_id,
                details={"run_id": row.run_id},
            )
            tx.after_commit(self._runtime.wake)
            return row

        row = self._services.database.write(work)
        return runs_pb2.DecideApprovalResponse(
            approval_id=row.approval_id, run_id=row.run_id, status=wire.run_status(row.status)
        )
