"""`workflow-api audit`: records of the audit trail, listed or exported."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from console.rendering.exports import FORMATS, head_of, lines_of
from contract.times import parse_date_time
from deploy.cli.option_names import LIST_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc, read_option
from deploy.cli.output.printing import Form, TableColumn, print_json, print_table
from deploy.cli.output.records import PAGE, record_of
from deploy.cli.run_start import workflow_definition
from deploy.client.backend import BackendClient, connected
from deploy.failures import CommandError
from workflow_api.v1 import audit_pb2, deployment_pb2, keys_pb2, runs_pb2, users_pb2, workflows_pb2

EXPORT_SECONDS: Final = 600.0


def command(
    target: Annotated[
        str | None, typer.Option("--target", metavar="ID", help="Only changes of this key, run, workflow, …")
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="ACTOR", help="Only changes by this one, as `user:ana`.")
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", metavar="ACTION", help="Only changes of this kind, as `key.rotated`.")
    ] = None,
    search: Annotated[str, typer.Option("--search", metavar="TEXT", help="Only changes with this text in them.")] = "",
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="ISO 8601 date-time; 90 days are shown.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="ISO 8601 date-time; now when not given.")] = "",
    limit: Annotated[int | None, typer.Option("--limit", help="Most records, 1 to 200. Default: 50.")] = None,
    export: Annotated[
        str,
        typer.Option("--export", metavar="|".join(FORMATS), help="Write the newest 100,000 of them; it is audited."),
    ] = "",
    cursor: Annotated[str, typer.Option("--cursor", help="`next_page_token` of the previous page.")] = "",
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List changes, newest first: who made which, and when."""
    asked: dict[str, Any] = {
        "target": target,
        "actor": actor,
        "action": action,
        "search": search,
        "since": read_option("--since", parse_date_time, since),
        "until": read_option("--until", parse_date_time, until),
    }
    if export:
        write_export(grpc, export, audit_pb2.ExportAuditRecordsRequest(**asked))
        return
    request = audit_pb2.ListAuditRecordsRequest(**asked, page_size=limit, page_token=cursor)
    with option_names(LIST_OPTIONS), connected(grpc) as backend:
        page = record_of(backend.call(backend.audit.ListAuditRecords, request))
        if target is not None and not page["items"]:
            refuse_unknown(backend, target)
    if as_json:
        print_json(page)
        return
    print_table(page["items"], AUDIT_COLUMNS, none="No change.", utc=utc)
    if page["next_page_token"]:
        print(f"\nMore with --cursor {page['next_page_token']}")


def write_export(grpc: str, form: str, request: audit_pb2.ExportAuditRecordsRequest) -> None:
    """Writes the matching records to standard output, as they arrive."""
    if form not in FORMATS:
        raise typer.BadParameter(f"{form!r} is no format; allowed are {', '.join(FORMATS)}", param_hint="--export")
    head = head_of(form)
    with option_names(LIST_OPTIONS), connected(grpc) as backend:
        for part in backend.stream(backend.audit.ExportAuditRecords, request, EXPORT_SECONDS):
            sys.stdout.write(head + lines_of(part, form))
            head = ""


def refuse_unknown(backend: BackendClient, target: str) -> None:
    """Raises CommandError if no object has this id; only called without records, which deleted objects have."""
    prefix = target.partition("_")[0]
    if prefix == "ak":
        backend.call(backend.keys.GetKey, keys_pb2.GetKeyRequest(key_id=target))
    elif prefix == "wf":
        workflow_definition(backend, target, None)
    elif prefix == "run":
        backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=target))
    elif prefix in _RESOURCES:
        request = workflows_pb2.GetResourceRequest(kind=_RESOURCES[prefix], resource=target)
        backend.call(backend.workflows.GetResource, request)
    elif prefix != "apr" and target not in _other_targets(backend):
        raise CommandError(
            f"There is no change of {target}: --target takes the id of a key, a run, a workflow or another resource, "
            "an approval or the deployment, or the name of a user.",
            code="not_found",
        )


def _other_targets(backend: BackendClient) -> Iterator[str]:
    yield backend.call(backend.deployment.GetDeployment, deployment_pb2.GetDeploymentRequest()).deployment_id
    for page in backend.pages(backend.users.ListUsers, users_pb2.ListUsersRequest(page_size=PAGE)):
        yield from (user.name for user in page.items)


_RESOURCES: Final = {
    "env": workflows_pb2.RESOURCE_KIND_ENVIRONMENT,
    "con": workflows_pb2.RESOURCE_KIND_CONNECTOR,
    "agt": workflows_pb2.RESOURCE_KIND_AGENT,
    "kg": workflows_pb2.RESOURCE_KIND_KNOWLEDGE_GRAPH,
}

AUDIT_COLUMNS: Final = (
    TableColumn("AT", "at", Form.TIME, rank=0),
    TableColumn("ACTOR", "actor", Form.TEXT, rank=1),
    TableColumn("ACTION", "action", rank=0),
    TableColumn("TARGET", "target", rank=2),
    TableColumn("DETAILS", "details", Form.TEXT, rank=3),
)
