"""Pending approvals, and decisions on them (contract 13.3 to 13.7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from backend.common import json_text
from backend.common.clock import to_text
from backend.common.errors import ApiError, invalid
from backend.common.json_text import JsonObject
from backend.common.paging import Paging
from backend.common.principal import Principal
from backend.common.states import ApprovalState, StepStatus
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.runs import approvals_sql, in_flight_sql, lifecycle, messages
from backend.services.runs.approvals_sql import Onlooker, PendingView
from backend.services.runs.approvers import Decider, decider_of, read_approvers
from backend.services.runs.runtime_port import Runtime
from backend.services.workflows.manifests.names import MOST_FORM_BYTES
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


_VIEWS: Final[Mapping[runs_pb2.PendingView.ValueType, PendingView]] = {
    runs_pb2.PENDING_VIEW_UNSPECIFIED: PendingView.ALL,
    runs_pb2.PENDING_VIEW_AWAKE: PendingView.AWAKE,
    runs_pb2.PENDING_VIEW_MINE: PendingView.MINE,
    runs_pb2.PENDING_VIEW_SNOOZED: PendingView.SNOOZED,
}
_PEOPLE: Final = "people"
"""Owner of form validations, which are served round robin with the validations of runs."""


class Approvals:
    """The approval inbox; for internal services only, because the API reads approvals and never grants them."""

    def __init__(self, services: Services, runtime: Runtime) -> None:
        self._services = services
        self._runtime = runtime

    def pending(
        self, request: runs_pb2.ListPendingApprovalsRequest, caller: Principal
    ) -> runs_pb2.ListPendingApprovalsResponse:
        """Returns a page of the approvals that wait for a person, of the caller's workflows, in the order asked for.

        Raises:
            ApiError: as `Paging`.
        """
        view = _VIEWS[request.view]
        order = "by_deadline" if request.by_deadline else ""
        paging = Paging(self._services.cursors, request, of=f"{order} {view}" if request.view else order)
        at = self._services.clock()
        onlooker = Onlooker(caller.person or "", at)
        workflow_ids = caller.workflow_ids
        place, approval_id = paging.after or (0, "")
        if request.HasField("workflow_id"):
            asked = {request.workflow_id}
            workflow_ids = frozenset(asked if workflow_ids is None else asked & workflow_ids)

        def place_of(row: approvals_sql.PendingApprovalRow) -> tuple[int, str]:
            deadline = approvals_sql.NO_DEADLINE if row.deadline_at is None else row.deadline_at
            return (deadline if request.by_deadline else row.requested_at, row.approval_id)

        def work(tx: Tx) -> tuple[list[approvals_sql.PendingApprovalRow], Decider]:
            found = approvals_sql.pending(
                tx,
                onlooker,
                view=view,
                after=int(place),
                after_id=str(approval_id),
                limit=paging.rows_to_read,
                workflow_ids=workflow_ids,
                step=request.step if request.HasField("step") else None,
                run_id=request.run_id if request.HasField("run_id") else None,
                by_deadline=request.by_deadline,
            )
            return found, decider_of(tx, caller)

        rows, decider = self._services.database.read(work)
        shown, token = paging.cut(rows, place_of)
        return runs_pb2.ListPendingApprovalsResponse(
            items=[messages.pending_approval(row, at, decider) for row in shown], next_page_token=token
        )

    def decide(self, request: runs_pb2.DecideApprovalRequest, caller: Principal) -> runs_pb2.DecideApprovalResponse:
        """Records a decision and queues the segment that continues the run, and after a rejection fails it.

        A rejected call of a tool fails nothing: the model is told.

        Raises:
            ApiError: `not_found`; `forbidden` to a person who is none of the approvers; `invalid_request` where it was
                decided or withdrawn before, where its deadline has passed, and where the form does not fit.
        """
        at = self._services.clock()
        decision = _DECISIONS[request.approve]
        comment = request.comment if request.HasField("comment") else None
        found, decider = self._services.database.read(
            lambda tx: (approvals_sql.find(tx, request.approval_id), decider_of(tx, caller))
        )
        if found is None:
            raise approval_not_found(request.approval_id)
        approvers = read_approvers(found.approvers)
        if not decider.may_decide(approvers):
            raise ApiError(errors_pb2.ERROR_REASON_FORBIDDEN, f"Only these may decide this approval: {approvers}.")
        # Checked before the form, which a person need not correct if the approval is not open.
        _check_open(found, at)
        said = lifecycle.Statement(comment, self._form(request, found))
        details: JsonObject = {"run_id": found.run_id}
        if approvers is not None and not decider.is_among(approvers):
            details["outside_approvers"] = True

        def work(tx: Tx) -> approvals_sql.FoundApprovalRow:
            in_flight = in_flight_sql.lock(tx, found.run_id) is not None
            row = approvals_sql.find(tx, request.approval_id)
            if row is None:
                raise approval_not_found(request.approval_id)
            _check_open(row, at)
            actor, approval_id = caller.audit_name, row.approval_id
            if not in_flight or not approvals_sql.decide(
                tx, approval_id, state=decision.state, actor=actor, comment=said.comment, form=said.form, at=at
            ):
                raise invalid("approval_id", "must wait for a decision; this one was settled meanwhile")
            if row.tool_call is not None:
                approvals_sql.release_step(tx, row.run_id, row.step)
            else:
                approvals_sql.finish_step(
                    tx,
                    row.run_id,
                    row.step,
                    status=decision.step_status,
                    value=lifecycle.decision_value(decision.state, said, at),
                    error=decision.step_error,
                    at=at,
                )
            lifecycle.continue_run(tx, row.run_id, at)
            audit.record(
                tx,
                at=at,
                actor=actor,
                action=f"approval.{decision.state}",
                target=approval_id,
                details=details,
            )
            tx.changes_run(row.run_id, row.key_id)
            tx.after_commit(self._runtime.wake)
            return row

        row = self._services.database.write(work, lock_key=run_of(found.run_id))
        return runs_pb2.DecideApprovalResponse(
            approval_id=row.approval_id, run_id=row.run_id, status=messages.run_status(row.status)
        )

    def _form(self, request: runs_pb2.DecideApprovalRequest, found: approvals_sql.FoundApprovalRow) -> str | None:
        """Returns the values of the form as compact JSON text, None for none.

        Raises:
            ApiError: `invalid_request`, naming each value that does not fit.
        """
        given = request.form if request.HasField("form") else None
        if found.form_schema is None:
            if given is not None:
                raise invalid("form", "must be absent: this approval has no form")
            return None
        if given is None:
            if not request.approve:
                return None
            given = "{}"
        if len(given.encode()) > MOST_FORM_BYTES:
            raise invalid("form", f"must have at most {MOST_FORM_BYTES:,} bytes as JSON")
        validated = self._services.schemas.form(json_text.parse(found.form_schema), given, owner=_PEOPLE)
        if validated.problems:
            problems = [(f"form.{name}" if name else "form", reason) for name, reason in validated.problems]
            raise ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=problems)
        return validated.text


def _check_open(row: approvals_sql.FoundApprovalRow, at: int) -> None:
    """Raises `invalid_request` unless a decision may be made at this time."""
    if row.state != ApprovalState.PENDING:
        raise invalid("approval_id", f"must wait for a decision; this one is {row.state}")
    if row.deadline_at is not None and at >= row.deadline_at:
        raise invalid("approval_id", f"must wait for a decision; its deadline was {to_text(row.deadline_at)}")


def approval_not_found(approval_id: str) -> ApiError:
    """Returns `not_found` for an approval that does not exist."""
    return ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"There is no approval {approval_id}.")
