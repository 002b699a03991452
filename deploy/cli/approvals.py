"""`workflow-api approvals`: pending approvals, the material for deciding them, and their decisions."""

import time
from functools import partial
from typing import Annotated, Final

import typer

from console.rendering.formatting import duration, json_lines
from deploy.cli.following.follower import status_after_decision
from deploy.cli.option_names import APPROVAL_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc
from deploy.cli.output.printing import (
    Form,
    Record,
    TableColumn,
    print_details,
    print_json,
    print_line,
    print_lines,
    print_table,
)
from deploy.cli.output.records import PAGE, items_of, record_of
from deploy.cli.output.run_details import starter
from deploy.cli.run_inputs import text_or_file
from deploy.client.backend import connected
from workflow_api.v1 import reviews_pb2, runs_pb2

POLL_SECONDS: Final = 1.0

command = typer.Typer()

ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL_ID", help="The approval.")]
Comment = Annotated[str | None, typer.Option("--comment", help="Why, at most 2000 characters.")]
FormValues = Annotated[
    str | None,
    typer.Option("--form", metavar="JSON|@FILE", help="Values of its form, a JSON object or a file with one."),
]


@command.command("list")
def list_approvals(grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """List pending approvals, the nearest deadline first, then the oldest."""
    with option_names(APPROVAL_OPTIONS), connected(grpc) as backend:
        request = runs_pb2.ListPendingApprovalsRequest(page_size=PAGE, by_deadline=True)
        pages = backend.pages(backend.runs.ListPendingApprovals, request)
        items = items_of(pages)
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, APPROVAL_COLUMNS, none="No approval is pending.")


@command.command("show")
def show(approval_id: ApprovalId, utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Show an approval and what it is about; of one that is decided, who decided it."""
    with option_names(APPROVAL_OPTIONS), connected(grpc) as backend:
        request = reviews_pb2.GetReviewRequest(approval_id=approval_id)
        # Sweeping large material for personal data takes longer than a call may take.
        while (review := backend.call(backend.reviews.GetReview, request)).preparing:
            time.sleep(POLL_SECONDS)
    record = record_of(review)
    if as_json:
        print_json(record)
        return
    print_details(record, APPROVAL_DETAILS, utc=utc)
    if record["problem"]:
        print_line(f"\n{record['problem']}")
    if record["material"]:
        print_material(record["material"])


@command.command("approve")
def approve(
    approval_id: ApprovalId,
    form: FormValues = None,
    comment: Comment = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Approve; the run continues in a new segment."""
    decide(approval_id, approve=True, comment=comment, form=form, grpc=grpc, as_json=as_json)


@command.command("reject")
def reject(approval_id: ApprovalId, comment: Comment = None, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Reject; the run fails, or the model is told that its call is not made."""
    decide(approval_id, approve=False, comment=comment, grpc=grpc, as_json=as_json)


def decide(
    approval_id: str, *, approve: bool, comment: str | None, grpc: str, as_json: bool, form: str | None = None
) -> None:
    """Records a decision and prints the status of the run."""
    values = None if form is None else text_or_file("--form", form)
    with option_names(APPROVAL_OPTIONS), connected(grpc) as backend:
        request = runs_pb2.DecideApprovalRequest(approval_id=approval_id, approve=approve, comment=comment, form=values)
        record = record_of(backend.call(backend.runs.DecideApproval, request))
        record["status"] = status_after_decision(backend, record["run_id"], approved=approve)
    if as_json:
        print_json(record)
    else:
        print(f"{approval_id} is {'approved' if approve else 'rejected'}; {record['run_id']} is {record['status']}.")


def print_material(material: Record) -> None:
    """Prints values and files of the steps that an approval needs, then the inputs of the run."""
    if material["redacted"]:
        print("\nPersonal data is replaced by its type in brackets, as the PII policy of the run asks.")
    for step in material["steps"]:
        print_text(f"Step {step['step']}: value", step["value"])
        for file in step["files"]:
            print_file(file)
        if step["files_total"] > len(step["files"]):
            print_line(f"\n{step['files_total'] - len(step['files'])} more files are not shown.")
    print_text("Input text", material["input_text"])
    print_text("Parameters", material["parameters"])
    print_text("Copied inputs", material["inputs_manifest"])


def print_call(call: Record | None) -> None:
    """Prints the call of a tool that an approval is about, if it is about one."""
    if call is not None:
        print_lines(f"\nCall of {call['tool']} with exactly these arguments\n{json_lines(call['arguments'])}")


def print_text(title: str, text: Record | None) -> None:
    """Prints a text below its title; nothing if the text is empty."""
    if text is None or text["text"] in {"", "{}", "null"}:
        return
    print_lines(f"\n{title}\n{text['text'].rstrip()}")
    if text["cut"]:
        print("The rest is not shown.")


def print_file(file: Record) -> None:
    """Prints the beginning of a file below its path."""
    title = f"{file['path']} ({file['media_type']}, {file['size_bytes']:,} bytes)"
    if file["problem"]:
        print_line("")
        print_line(f"{title}: not shown. {file['problem']}")
    elif file["text"]:
        print_text(title, file["text"])
    else:
        print_line("")
        print_line(title)
        names = file["table"]["columns"]
        columns = [TableColumn(name, partial(cell_of, place), Form.TEXT) for place, name in enumerate(names)]
        print_table(file["table"]["rows"], columns, none="No row.")
        if file["table"]["cut"]:
            print("The rest is not shown.")


def cell_of(place: int, row: Record) -> str:
    """Returns one cell of a row, which may be shorter than others."""
    cells = row["cells"]
    return str(cells[place]) if place < len(cells) else ""


def approvers_text(record: Record) -> str | None:
    """Returns the persons and roles that alone may decide an approval; None without a restriction."""
    approvers = record["approvers"]
    return approvers and ", ".join([*(f"role {role}" for role in approvers["roles"]), *approvers["people"]])


APPROVAL_COLUMNS: Final = (
    TableColumn("APPROVAL ID", "approval_id", rank=0),
    TableColumn("WORKFLOW", "workflow_name", Form.TEXT, rank=2),
    TableColumn("STEP", "step", rank=3),
    TableColumn("TITLE", "title", Form.TEXT, rank=1),
    TableColumn("REFERENCE", "client_reference", Form.TEXT, rank=5),
    TableColumn("DEADLINE", "deadline_at", Form.TIME, rank=3),
    TableColumn("WAITING", lambda record: duration(record["waiting_ms"]), rank=4),
    TableColumn("STARTED BY", starter, Form.TEXT, rank=7),
    TableColumn("RUN ID", "run_id", rank=6),
)

APPROVAL_DETAILS: Final = (
    TableColumn("approval_id", "approval_id"),
    TableColumn("state", "state"),
    TableColumn("decided_by", "decided_by"),
    TableColumn("decided_at", "decided_at", Form.TIME),
    TableColumn("title", "title"),
    TableColumn("instructions", "instructions"),
    TableColumn("tool", lambda record: record["tool_call"] and record["tool_call"]["tool"]),
    TableColumn("arguments", lambda record: record["tool_call"] and record["tool_call"]["arguments"]),
    TableColumn("summary", "summary"),
    TableColumn("step", "step"),
    TableColumn("workflow", lambda record: f"{record['workflow_name']} ({record['workflow_id']})"),
    TableColumn("version", "version"),
    TableColumn("run_id", "run_id"),
    TableColumn("client_reference", "client_reference"),
    TableColumn("labels", "labels"),
    TableColumn("triggered_by", "triggered_by"),
    TableColumn("started_by", starter),
    TableColumn("requested_at", "requested_at", Form.TIME),
    TableColumn("waiting", lambda record: duration(record["waiting_ms"]) if record["state"] == "pending" else None),
    TableColumn("deadline_at", "deadline_at", Form.TIME),
    TableColumn("on_deadline", lambda record: record["on_deadline"] if record["deadline_at"] else None),
    TableColumn("reminded_at", "reminded_at", Form.TIME),
    TableColumn("approvers", approvers_text),
    TableColumn("form", lambda record: record["form_schema"] and record["form_schema"].text),
)
