"""`workflow-api approvals`: pending approvals and their decisions."""

from typing import Annotated, Final

import typer

from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.printing import Column, print_json, print_table
from deploy.cli.records import record_of
from deploy.client.backend import connected
from workflow_api.v1 import runs_pb2

command = typer.Typer()

ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL_ID", help="The approval.")]
Comment = Annotated[str | None, typer.Option("--comment", help="Why, at most 2000 characters.")]


@command.command("list")
def list_approvals(grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """List every approval that waits, oldest first."""
    with connected(grpc) as backend:
        answer = backend.call(backend.runs.ListPendingApprovals, runs_pb2.ListPendingApprovalsRequest())
    items = record_of(answer)["items"]
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, APPROVAL_COLUMNS, none="No approval is pending.")


@command.command("approve")
def approve(approval_id: ApprovalId, comment: Comment = None, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Approve; the run goes on in a new segment."""
    decide(approval_id, approve=True, comment=comment, grpc=grpc, as_json=as_json)


@command.command("reject")
def reject(approval_id: ApprovalId, comment: Comment = None, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Reject; the run fails."""
    decide(approval_id, approve=False, comment=comment, grpc=grpc, as_json=as_json)


def decide(approval_id: str, *, approve: bool, comment: str | None, grpc: str, as_json: bool) -> None:
    """Records a decision and prints the status of the run."""
    with connected(grpc) as backend:
        request = runs_pb2.DecideApprovalRequest(approval_id=approval_id, approve=approve, comment=comment)
        record = record_of(backend.call(backend.runs.DecideApproval, request))
    if as_json:
        print_json(record)
    else:
        print(f"{approval_id} is {'approved' if approve else 'rejected'}; {record['run_id']} is {record['status']}.")


APPROVAL_COLUMNS: Final = (
    Column("APPROVAL ID", "approval_id"),
    Column("WORKFLOW", "workflow_name"),
    Column("STEP", "step"),
    Column("TITLE", "title"),
    Column("INSTRUCTIONS", "instructions"),
    Column("RUN ID", "run_id"),
    Column("REQUESTED", "requested_at"),
)
