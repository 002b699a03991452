"""A run and what services answer about it."""

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from contract.refusals import Refusal
from tests.unit.console.seen import UNSEEN, Answer, MemoryServices
from workflow_api.v1.logs_pb2 import ListRunLogsResponse
from workflow_api.v1.previews_pb2 import StepPreview, SummaryPreview
from workflow_api.v1.reviews_pb2 import APPROVAL_STATE_PENDING, GetReviewRequest, ListDecisionsResponse, Review
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_RUNNING,
    Approval,
    ListPendingApprovalsResponse,
    ListRunEventsResponse,
    ListRunStepsResponse,
    PendingApproval,
    Run,
    RunCounts,
    RunSummary,
    Segment,
    Step,
)
from workflow_api.v1.workflows_pb2 import ListWorkflowsResponse, Workflow

EVIL = f"<script>alert(1)</script>{UNSEEN}"
HERE = {"run_id": "run_1"}
ONE = "/runs/{run_id}"
_OTHERS = (
    "RunsService/ListRuns",
    "RunsService/CancelRun",
    "RunsService/EraseRunData",
    "RunsService/StartRun",
    "RunsService/ResumeRun",
    "RunListsService/ListChildRuns",
    "LogsService/GetRunLog",
    "PreviewsService/GetOutputPreview",
)


def summary(**other: Any) -> RunSummary:
    fields: dict[str, Any] = {
        "run_id": "run_1",
        "workflow_id": "wf_1",
        "workflow_name": "Digest",
        "version": 2,
        "status": RUN_STATUS_RUNNING,
        "created_at": Timestamp(seconds=1_790_000_000),
        "counts": RunCounts(steps_total=2, steps_completed=1),
    }
    return RunSummary(**{**fields, **other})


def events(last_seq: int, *segments: str) -> ListRunEventsResponse:
    """Returns the answer for a run with `last_seq` events in its latest segment, without the events."""
    begun = [Segment(segment_id=each, ordinal=n, last_seq=last_seq) for n, each in enumerate(segments or ("seg_1",), 1)]
    return ListRunEventsResponse(run_id="run_1", segment_id=begun[-1].segment_id, segments=begun)


def _review(request: GetReviewRequest) -> Review:
    pending = PendingApproval(approval=Approval(approval_id=request.approval_id))
    return Review(pending=pending, state=APPROVAL_STATE_PENDING)


def services(run: Run | None = None, **answers: Any) -> MemoryServices:
    """Returns services that know one run; `answers` adds answers by the name of the RPC."""
    known: dict[str, Answer] = {
        "RunsService/GetRun": run or Run(summary=summary()),
        "ReviewsService/ListDecisions": ListDecisionsResponse(),
        "ReviewsService/GetReview": _review,
        "LogsService/ListRunLogs": ListRunLogsResponse(),
        "RunsService/ListRunSteps": ListRunStepsResponse(items=[Step(step="count", name="Count")]),
        "RunsService/ListPendingApprovals": ListPendingApprovalsResponse(),
        "RunsService/ListRunEvents": events(0),
        "OutputsService/ListOutputs": Refusal("run_not_terminal"),
        "LogsService/GetRunLog": Refusal("not_found"),
        "PreviewsService/GetStepPreview": StepPreview(),
        "PreviewsService/GetSummaryPreview": SummaryPreview(),
        "WorkflowsService/ListWorkflows": ListWorkflowsResponse(items=[Workflow(workflow_id="wf_1", name="Digest")]),
    }
    # By the name of the RPC, which is unlike in every service.
    by_name = {name.rpartition("/")[2]: name for name in [*known, *_OTHERS]}
    return MemoryServices({**known, **{by_name[name]: answer for name, answer in answers.items()}})
