"""`workflow-api audit`: who changed what, and when."""

from typing import Annotated, Final

import typer

from deploy.cli.option_names import LIST_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc, read_option
from deploy.cli.printing import Column, Form, print_json, print_table
from deploy.cli.records import record_of
from deploy.client.backend import connected
from edge.codec.date_times import parse_date_time
from workflow_api.v1 import audit_pb2


def command(
    target: Annotated[
        str | None, typer.Option("--target", metavar="ID", help="Only changes of this key, run, workflow, …")
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="ISO 8601 date-time; 90 days are shown.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="ISO 8601 date-time; now when not given.")] = "",
    limit: Annotated[int | None, typer.Option("--limit", help="Most records, 1 to 200. Default: 50.")] = None,
    cursor: Annotated[str, typer.Option("--cursor", help="`next_page_token` of the previous page.")] = "",
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List changes, newest first: who made which, and when."""
    request = audit_pb2.ListAuditRecordsRequest(
        target=target,
        since=read_option("--since", parse_date_time, since),
        until=read_option("--until", parse_date_time, until),
        page_size=limit,
        page_token=cursor,
    )
    with option_names(LIST_OPTIONS), connected(grpc) as backend:
        page = record_of(backend.call(backend.audit.ListAuditRecords, request))
    if as_json:
        print_json(page)
        return
    print_table(page["items"], AUDIT_COLUMNS, none="No change.", utc=utc)
    if page["next_page_token"]:
        print(f"\nMore with --cursor {page['next_page_token']}")


AUDIT_COLUMNS: Final = (
    Column("AT", "at", Form.TIME, rank=0),
    Column("ACTOR", "actor", Form.TEXT, rank=1),
    Column("ACTION", "action", rank=0),
    Column("TARGET", "target", rank=2),
    Column("DETAILS", "details", Form.TEXT, rank=3),
)
