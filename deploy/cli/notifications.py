"""`workflow-api notifications`: targets that operators are notified at."""

from typing import Annotated, Final

import typer

from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc
from deploy.cli.output.printing import Form, TableColumn, print_json, print_table
from deploy.cli.output.records import record_of
from deploy.client.backend import connected
from deploy.failures import CommandError
from workflow_api.v1 import deployment_health_pb2 as pb

_TEST_SECONDS: Final = 60.0

_COLUMNS: Final = (
    TableColumn("TARGET", "name", rank=0),
    TableColumn("LAST SENT", "delivered_at", Form.TIME),
    TableColumn("LAST FAILED", "failed_at", Form.TIME),
    TableColumn("FAILURE", "error", rank=0),
    TableColumn("WAITING", "pending", Form.NUMBER),
    TableColumn("EVENTS", lambda record: ", ".join(record["events"]), Form.TEXT, rank=2),
)

command = typer.Typer()


@command.command("list")
def list_targets(utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """List targets, with the outcome of their last attempts."""
    with connected(grpc) as backend:
        health = backend.call(backend.deployment_health.GetDeploymentHealth, pb.GetDeploymentHealthRequest())
    items = [record_of(each) for each in health.notification_targets]
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, _COLUMNS, none="No target yet: name one in [notifications] of the settings.", utc=utc)


@command.command("test")
def send_test(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The target's name in the settings.")],
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Send a test message to a target; exits with 1 if it did not take it."""
    request = pb.SendTestNotificationRequest(name=name)
    with connected(grpc) as backend:
        answer = backend.call(backend.deployment_health.SendTestNotification, request, _TEST_SECONDS)
    if answer.error:
        raise CommandError(f"The test of the target {name} failed: {answer.error}.", code="notification_failed")
    if as_json:
        print_json({"name": name, "sent": True})
    else:
        print(f"The target {name} took the message.")
