"""ReviewsService over gRPC: material for the decision of an approval, and decisions, for people."""

import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc

from backend.common import json_text
from backend.common.clock import MAX_MS, first_millisecond_from
from backend.common.errors import invalid
from backend.common.paging import Paging
from backend.common.principal import Principal
from backend.common.states import APPROVAL_DECIDED, ApprovalState
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError
from backend.resources.renderings.renderer import Renderer
from backend.rpc.callers import principal_of
from backend.services.dependencies import Services
from backend.services.reviews import sql
from backend.services.reviews.inbox import Inbox
from backend.services.reviews.material import make_material
from backend.services.reviews.preparations import Preparations, StoredMessages
from backend.services.reviews.review_files import ReviewedFile, ReviewFiles
from backend.services.runs import approvals_sql, messages
from backend.services.runs.approvals import approval_not_found
from backend.services.runs.approvals_sql import Onlooker
from backend.services.runs.approvers import decider_of
from backend.services.runs.reads import find_logged
from backend.storage.database import Tx
from backend.storage.objects import ObjectStore
from contract.times import to_timestamp
from workflow_api.v1 import reviews_pb2, reviews_pb2_grpc

_LOG = logging.getLogger(__name__)

_MOST_GATES: Final = 200
_STATES: Final = {
    name.removeprefix("APPROVAL_STATE_").lower(): number for name, number in reviews_pb2.ApprovalState.items()
}


class Reviews:
    """Shows the material of approvals to people who decide; `folder` is for copies of files while they are swept."""

    def __init__(self, services: Services, objects: ObjectStore, redactor: ConfinedRedactor, folder: Path) -> None:
        self._services = services
        self.inbox = Inbox(services)
        self._objects = objects
        self._redactor = redactor
        self._folder = folder
        self._stored = StoredMessages(services, objects, reviews_pb2.ReviewMaterial.FromString)
        self._preparations = Preparations[reviews_pb2.ReviewMaterial]("review")
        self._halt = threading.Event()
        self._renderer = Renderer(self._halt)
        self.files = ReviewFiles(services.database, objects, redactor, self._renderer, folder, self._halt)
        # An earlier process may have died while it swept, and nothing unswept may stay on this disk.
        shutil.rmtree(folder, ignore_errors=True)

    def review(self, approval_id: str, caller: Principal) -> reviews_pb2.Review:
        """Returns an approval with its material, where it waits and the material is ready within seconds.

        Raises:
            ApiError: `not_found`.
        """
        database = self._services.database
        at = self._services.clock()
        onlooker = Onlooker(caller.person or "", at)
        row, decider = database.read(lambda tx: (sql.approval(tx, approval_id, onlooker), decider_of(tx, caller)))
        if row is None:
            raise approval_not_found(approval_id)
        state = database.read(lambda tx: sql.state(tx, approval_id))
        review = reviews_pb2.Review(
            pending=messages.pending_approval(row, at, decider),
            state=_STATES[state.state],
            decided_at=None if state.decided_at is None else to_timestamp(state.decided_at),
            decided_by=state.decided_by,
        )
        if state.state == ApprovalState.PENDING:
            self._add_material(review, row.run_id, approval_id)
        return review

    def file(self, approval_id: str, output_id: str) -> ReviewedFile:
        """Returns a file of the material of an approval that waits.

        Raises:
            ApiError: `not_found`, also while the material is prepared.
        """
        row = self._services.database.read(lambda tx: approvals_sql.find(tx, approval_id))
        if row is None:
            raise approval_not_found(approval_id)
        stored = self._stored.get(row.run_id, _name(approval_id)) or reviews_pb2.ReviewMaterial()
        return self.files.find(stored, approval_id, output_id)

    def decisions(self, request: reviews_pb2.ListDecisionsRequest) -> reviews_pb2.ListDecisionsResponse:
        """Returns the decided approvals of a run; raises ApiError as `Paging`, then as `find_logged`."""
        paging = Paging(self._services.cursors, request, of=request.run_id)

        def work(tx: Tx) -> list[sql.DecisionRow]:
            find_logged(tx, request.run_id, None)
            return sql.decisions(tx, request.run_id)

        rows = self._services.database.snapshot(work)
        shown, token = paging.page_of(rows, lambda row: (row.decided_at, row.approval_id))
        return reviews_pb2.ListDecisionsResponse(items=[_decision(row) for row in shown], next_page_token=token)

    def all_decisions(
        self, request: reviews_pb2.ListAllDecisionsRequest, workflow_ids: frozenset[str] | None
    ) -> reviews_pb2.ListAllDecisionsResponse:
        """Returns the decisions of all runs of some workflows, newest first; raises ApiError as `Paging`.

        A page with filters may be short or empty and yet have a next page.
        """
        chosen = sql.DecisionFilters(
            workflow_id=request.workflow_id,
            decided_by=request.decided_by,
            state=_decided_state(request.state),
            since=first_millisecond_from(request.decided_since),
        )
        end = first_millisecond_from(request.decided_before) if request.HasField("decided_before") else MAX_MS
        paging = Paging(self._services.cursors, request, of=json_text.write([*chosen, end]))
        decided_at, approval_id = paging.after or (end, "")
        before = sql.DecisionPosition(int(decided_at), str(approval_id))
        rows, stopped = self._services.database.read(
            lambda tx: sql.all_decisions(tx, chosen, before, paging.rows_to_read, workflow_ids)
        )
        shown, token = paging.cut(rows, lambda row: (row.decided_at, row.approval_id))
        if token is None and stopped is not None:
            token = paging.token_after(stopped)
        items = [
            reviews_pb2.RunDecision(
                decision=_decision(row),
                run_id=row.run_id,
                workflow_id=row.workflow_id,
                workflow_name=row.workflow_name,
                # If the run's policy redacts, only its events have comment and form, swept.
                comment=None if _redacts(row) else row.comment,
                form=None if _redacts(row) else row.form,
                requested_at=to_timestamp(row.requested_at),
            )
            for row in shown
        ]
        return reviews_pb2.ListAllDecisionsResponse(items=items, next_page_token=token)

    def count_pending(
        self, workflow_ids: frozenset[str] | None, *, total_only: bool = False
    ) -> reviews_pb2.CountPendingApprovalsResponse:
        """Returns the number of waiting approvals of some workflows, and unless `total_only` of each gate."""

        def work(tx: Tx) -> reviews_pb2.CountPendingApprovalsResponse:
            total = sql.pending_total(tx, workflow_ids)
            rows = [] if total_only else sql.gates(tx, _MOST_GATES, workflow_ids)
            gates = [reviews_pb2.PendingGate(**row._asdict()) for row in rows]
            return reviews_pb2.CountPendingApprovalsResponse(total=total, gates=gates)

        return self._services.database.snapshot(work)

    def close(self) -> None:
        """Ends preparations under way. Idempotent."""
        self._halt.set()
        self._preparations.close()
        self._renderer.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _add_material(self, review: reviews_pb2.Review, run_id: str, approval_id: str) -> None:
        stored = self._stored.get(run_id, _name(approval_id))
        if stored is not None:
            review.material.CopyFrom(stored)
            return
        try:
            made = self._preparations.result(approval_id, lambda: self._make(run_id, approval_id))
            if made is None:
                review.preparing = True
            else:
                review.material.CopyFrom(made)
        except RedactionError as error:
            review.problem = f"It could not be swept for personal data, so nothing of it is shown: {error}."
        except (OSError, KeyError, EOFError):
            _LOG.exception("What approval %s is about could not be read", approval_id)
            review.problem = "What it is about could not be read."

    def _make(self, run_id: str, approval_id: str) -> reviews_pb2.ReviewMaterial:
        database = self._services.database
        material = make_material(
            database, self._objects, self._redactor, self._renderer, approval_id, self._folder, self._halt
        )
        self._stored.put(run_id, _name(approval_id), material)
        return material


def _decided_state(state: reviews_pb2.ApprovalState.ValueType) -> str:
    """Returns the state that decisions must have; empty for any.

    Raises:
        ApiError: the state is not one of a decision.
    """
    if not state:
        return ""
    name = reviews_pb2.ApprovalState.Name(state).removeprefix("APPROVAL_STATE_").lower()
    if name not in APPROVAL_DECIDED:
        raise invalid("state", "must be approved or rejected")
    return name


def _decision(row: sql.DecisionRow | sql.RunDecisionRow) -> reviews_pb2.Decision:
    return reviews_pb2.Decision(
        approval_id=row.approval_id,
        step=row.step,
        title=row.title,
        state=_STATES[row.state],
        decided_at=to_timestamp(row.decided_at),
        decided_by=row.decided_by or "",
    )


def _redacts(row: sql.RunDecisionRow) -> bool:
    return bool(json_text.parse(row.pii_policy)["mode"] == "redact")


def _name(approval_id: str) -> str:
    # Earlier releases stored material without files that can be had.
    return f"reviews/{approval_id}-2"


class ReviewsServicer(reviews_pb2_grpc.ReviewsServiceServicer):
    """Shows people the approvals that they decide, and past decisions."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    def GetReview(self, request: reviews_pb2.GetReviewRequest, context: grpc.ServicerContext) -> reviews_pb2.Review:
        """Returns an approval with its material."""
        review = self._reviews.review(request.approval_id, principal_of(context))
        if request.without_material:
            review.ClearField("material")
        return review

    def GetReviewFile(
        self, request: reviews_pb2.GetReviewFileRequest, context: grpc.ServicerContext
    ) -> Iterator[reviews_pb2.GetReviewFileResponse]:
        """Yields a file of an approval: a header, then parts."""
        return self._reviews.files.parts(self._reviews.file(request.approval_id, request.output_id), request)

    def GetReviewRows(
        self, request: reviews_pb2.GetReviewRowsRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.ReviewTable:
        """Returns rows of a table of an approval."""
        return self._reviews.files.rows(self._reviews.file(request.approval_id, request.output_id), request.first)

    def AssignApproval(
        self, request: reviews_pb2.AssignApprovalRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.AssignApprovalResponse:
        """Assigns an approval to the caller, or to nobody."""
        self._reviews.inbox.assign(request, principal_of(context))
        return reviews_pb2.AssignApprovalResponse()

    def SnoozeApproval(
        self, request: reviews_pb2.SnoozeApprovalRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.SnoozeApprovalResponse:
        """Snoozes an approval for the caller, or wakes it."""
        self._reviews.inbox.snooze(request, principal_of(context))
        return reviews_pb2.SnoozeApprovalResponse()

    def ListDecisions(
        self, request: reviews_pb2.ListDecisionsRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.ListDecisionsResponse:
        """Returns the decisions of a run, with their authors."""
        return self._reviews.decisions(request)

    def ListAllDecisions(
        self, request: reviews_pb2.ListAllDecisionsRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.ListAllDecisionsResponse:
        """Returns the decisions of all runs, newest first."""
        return self._reviews.all_decisions(request, principal_of(context).workflow_ids)

    def CountPendingApprovals(
        self, request: reviews_pb2.CountPendingApprovalsRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.CountPendingApprovalsResponse:
        """Returns the number of waiting approvals, and of each gate."""
        return self._reviews.count_pending(principal_of(context).workflow_ids, total_only=request.total_only)
