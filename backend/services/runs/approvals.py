"""Pending approvals, and decisions on them (contract 13.3 to 13.7)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from backend.common.errors import ApiError, invalid
from backend.common.paging import Paging
from backend.common.principal import Principal
from backend.common.states import ApprovalState, StepStatus
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.runs import approvals_sql, lifecycle, messages
from backend.services.runs.runtime_port import Runtime
from backend.storage.database import Tx, run_of
from contract.failure_codes import INVARIANT_BLOCKED
from workflow_api.v1 import errors_pb2, runs_pb2


@dataclass(frozen=True, slots=True)
class _Decision:
    """The effect of a decision on the approval and on its step."""

    state: ApprovalState
    step_status: StepStatus
    step_error: tuple[str, str] | None = None


_DECISIONS: Final[Mapping[bool, _Decision]] = {
    True: _Decision(ApprovalState.APPROVED, StepStatus.COMPLETED),
    False: _Decision(ApprovalState.REJECTED, StepStatus.BLOCKED, (INVARIANT_BLOCKED, "The approval was rejected.")),
}


class Approvals:
    """The approval inbox; for internal services only, because the API reads approvals and never grants them."""

    def __init__(self, services: Services, runtime: Runtime) -> None:
        self._services = services
        self._runtime = runtime

    def pending(
        self, request: runs_pb2.ListPendingApprovalsRequest, workflow_ids: frozenset[str] | None
    ) -> runs_pb2.ListPendingApprovalsResponse:
        """Returns a page of the approvals of some workflows that wait for a person, oldest first.

        Raises:
            ApiError: as `Paging`.
        """
        paging = Paging(self._services.cursors, request)
        at = self._services.clock()
        requested_at, approval_id = paging.after or (0, "")
        asked = request.workflow_id if request.HasField("workflow_id") else None
        of: Iterable[str | None] = [asked]
        if workflow_ids is not None:
            of = workflow_ids if asked is None else workflow_ids & {asked}

        def work(tx: Tx) -> list[approvals_sql.PendingApprovalRow]:
            found = [
                row
                for workflow_id in of
                for row in approvals_sql.pending(
                    tx,
                    after=int(requested_at),
                    after_id=str(approval_id),
                    limit=paging.rows_to_read,
                    workflow_id=workflow_id,
                    step=request.step if request.HasField("step") else None,
                    run_id=request.run_id if request.HasField("run_id") else None,
                )
            ]
            return sorted(found, key=lambda row: (row.requested_at, row.approval_id))[: paging.rows_to_read]

        rows = self._services.database.read(work)
        shown, token = paging.cut(rows, lambda row: (row.requested_at, row.approval_id))
        return runs_pb2.ListPendingApprovalsResponse(
            items=[messages.pending_approval(row, at) for row in shown], next_page_token=token
        )

    def decide(self, request: runs_pb2.DecideApprovalRequest, caller: Principal) -> runs_pb2.DecideApprovalResponse:
        """Records a decision and queues the segment that continues the run, and after a rejection fails it.

        Raises:
            ApiError: `not_found`, or `invalid_request` where it was decided or withdrawn before.
        """
        at = self._services.clock()
        decision = _DECISIONS[request.approve]
        comment = request.comment if request.HasField("comment") else None
        found = self._services.database.read(lambda tx: approvals_sql.find(tx, request.approval_id))
        if found is None:
            raise approval_not_found(request.approval_id)

        def work(tx: Tx) -> approvals_sql.FoundApprovalRow:
            row = approvals_sql.find(tx, request.approval_id)
            if row is None:
                raise approval_not_found(request.approval_id)
            if row.state != ApprovalState.PENDING:
                raise invalid("approval_id", f"must wait for a decision; this one is {row.state}")
            approvals_sql.decide(
                tx, row.approval_id, state=decision.state, actor=caller.audit_name, comment=comment, at=at
            )
            approvals_sql.finish_step(
                tx,
                row.run_id,
                row.step,
                status=decision.step_status,
                value=lifecycle.decision_value(decision.state, comment),
                error=decision.step_error,
                at=at,
            )
            lifecycle.continue_run(tx, row.run_id, at)
            audit.record(
                tx,
                at=at,
                actor=caller.audit_name,
                action=f"approval.{decision.state}",
                target=row.approval_id,
                details={"run_id": row.run_id},
            )
            tx.changes_run(row.run_id, row.key_id)
            tx.after_commit(self._runtime.wake)
            return row

        row = self._services.database.write(work, lock_key=run_of(found.run_id))
        return runs_pb2.DecideApprovalResponse(
            approval_id=row.approval_id, run_id=row.run_id, status=messages.run_status(row.status)
        )


def approval_not_found(approval_id: str) -> ApiError:
    """Returns `not_found` for an approval that does not exist."""
    return ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"There is no approval {approval_id}.")
