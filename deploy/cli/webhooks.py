"""`workflow-api webhooks`: webhooks of keys, and their deliveries."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from contract.fields import spellings
from contract.times import duration_of
from deploy.cli.option_names import WEBHOOK_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, KeyId, Utc, overlap_in_hours
from deploy.cli.output.printing import Form, Record, TableColumn, print_details, print_json, print_table
from deploy.cli.output.records import PAGE, items_of, record_of, with_nulls
from deploy.client.backend import connected
from workflow_api.v1 import webhooks_pb2
from workflow_api.v1.options_pb2 import TIME_UNIT_HOURS

EVENTS: Final = {
    text: webhooks_pb2.WebhookEvent.ValueType(number)
    for number, text in spellings(webhooks_pb2.WebhookEvent.DESCRIPTOR).items()
    if text
}

command = typer.Typer()

WebhookId = Annotated[str, typer.Argument(metavar="WEBHOOK_ID", help="The webhook, wh_ and 26 characters.")]
Events = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="|".join(EVENTS), help="What it tells of; repeatable. New webhooks: all of runs."),
]
Description = Annotated[str | None, typer.Option("--description", help="Description, at most 500 characters.")]
Overlap = Annotated[
    str, typer.Option("--overlap", metavar="24h", help="How long the old secret signs too: 1h, 24h, 3d or 7d.")
]


@command.command("create")
def create(
    key_id: KeyId,
    url: Annotated[str, typer.Option("--url", help="Where messages are sent: an https address.")],
    event: Events = None,
    description: Description = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Create a webhook of a key; show its signing secret once."""
    request = webhooks_pb2.CreateWebhookRequest(
        key_id=key_id, url=url, description=description or "", events=event_values(event or [])
    )
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        _show_secret(backend.call(backend.webhooks.CreateWebhook, request), as_json=as_json)


@command.command("list")
def list_webhooks(
    key_id: Annotated[str | None, typer.Argument(metavar="KEY_ID", help="Only webhooks of this key.")] = None,
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List webhooks, newest first."""
    request = webhooks_pb2.ListWebhooksRequest(key_id=key_id, page_size=PAGE)
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        pages = backend.pages(backend.webhooks.ListWebhooks, request)
        items = [with_nulls(item) for item in items_of(pages)]
    if as_json:
        print_json({"items": items})
    else:
        none = "No webhook yet: make one with `workflow-api webhooks create`."
        print_table(items, WEBHOOK_COLUMNS, none=none, utc=utc)


@command.command("show")
def show(webhook_id: WebhookId, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Show one webhook; never its secret."""
    request = webhooks_pb2.GetWebhookRequest(webhook_id=webhook_id)
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        _show(backend.call(backend.webhooks.GetWebhook, request), as_json=as_json)


@command.command("update")
def update(
    webhook_id: WebhookId,
    url: Annotated[str | None, typer.Option("--url", help="Where messages are sent, those that wait too.")] = None,
    event: Events = None,
    description: Description = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Change the given properties; all others and the secret stay."""
    request = webhooks_pb2.UpdateWebhookRequest(
        webhook_id=webhook_id,
        url=url,
        description=description,
        events=webhooks_pb2.WebhookEventList(events=event_values(event)) if event else None,
    )
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        _show(backend.call(backend.webhooks.UpdateWebhook, request), as_json=as_json)


@command.command("rotate")
def rotate(webhook_id: WebhookId, overlap: Overlap = "24h", grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Issue a new signing secret; the old one signs too for the overlap."""
    request = webhooks_pb2.RotateWebhookSecretRequest(
        webhook_id=webhook_id, overlap=duration_of(overlap_in_hours(overlap), TIME_UNIT_HOURS)
    )
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        _show_secret(backend.call(backend.webhooks.RotateWebhookSecret, request), as_json=as_json)


@command.command("pause")
def pause(webhook_id: WebhookId, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Stop deliveries; what happens meanwhile is kept for 30 days."""
    request = webhooks_pb2.PauseWebhookRequest(webhook_id=webhook_id)
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        _show(backend.call(backend.webhooks.PauseWebhook, request), as_json=as_json)


@command.command("resume")
def resume(webhook_id: WebhookId, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Deliver again, beginning with what waits."""
    request = webhooks_pb2.ResumeWebhookRequest(webhook_id=webhook_id)
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        _show(backend.call(backend.webhooks.ResumeWebhook, request), as_json=as_json)


@command.command("delete")
def delete(webhook_id: WebhookId, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Delete a webhook with its deliveries; its audit trail stays."""
    request = webhooks_pb2.DeleteWebhookRequest(webhook_id=webhook_id)
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        backend.call(backend.webhooks.DeleteWebhook, request)
    if as_json:
        print_json({"webhook_id": webhook_id, "deleted": True})
    else:
        print(f"{webhook_id} is deleted.")


@command.command("deliveries")
def deliveries(
    webhook_id: WebhookId,
    limit: Annotated[int | None, typer.Option("--limit", help="Most deliveries, 1 to 200 (50).")] = None,
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List the newest deliveries, and what came of them."""
    request = webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id, page_size=limit)
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        items = record_of(backend.call(backend.webhooks.ListWebhookDeliveries, request))["items"]
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, DELIVERY_COLUMNS, none="Nothing to deliver yet.", utc=utc)


@command.command("redeliver")
def redeliver(
    webhook_id: WebhookId,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE_ID", help="The message, as `deliveries` lists it.")],
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Deliver a message once more, with the same id."""
    request = webhooks_pb2.RedeliverWebhookMessageRequest(webhook_id=webhook_id, message_id=message_id)
    with option_names(WEBHOOK_OPTIONS), connected(grpc) as backend:
        record = record_of(backend.call(backend.webhooks.RedeliverWebhookMessage, request))
    if as_json:
        print_json(record)
    else:
        print_details(record, DELIVERY_DETAILS)


def event_values(names: Sequence[str]) -> list[webhooks_pb2.WebhookEvent.ValueType]:
    """Returns events by their spelling."""
    unknown = [name for name in names if name not in EVENTS]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r} is not an event; allowed are {', '.join(EVENTS)}", param_hint="--event"
        )
    return [EVENTS[name] for name in names]


def _show(webhook: webhooks_pb2.Webhook, *, as_json: bool) -> None:
    record = with_nulls(record_of(webhook))
    if as_json:
        print_json(record)
    else:
        print_details(record, WEBHOOK_DETAILS)


def _show_secret(made: webhooks_pb2.WebhookWithSecret, *, as_json: bool) -> None:
    record = with_nulls(record_of(made))
    record = {"webhook_id": record.pop("webhook_id"), "secret": record.pop("secret"), **record}
    if as_json:
        print_json(record)
        return
    print_details(record, [TableColumn("secret", "secret"), *WEBHOOK_DETAILS])
    print("\nWrite down the secret: it is not shown again.")


def _state(record: Record) -> object:
    return f"paused ({record['paused_reason']})" if record["paused_reason"] else record["state"]


def _answer(record: Record) -> object:
    return record["last_status"] if record["last_error"] in {None, "status"} else record["last_error"]


WEBHOOK_COLUMNS: Final = (
    TableColumn("WEBHOOK ID", "webhook_id", rank=0),
    TableColumn("KEY ID", "key_id", rank=2),
    TableColumn("URL", "url", Form.TEXT, rank=1),
    TableColumn("STATE", _state, Form.STATUS, rank=0),
    TableColumn("EVENTS", "events", Form.TEXT, rank=4),
    TableColumn("PENDING", "deliveries_pending", Form.NUMBER, rank=2),
    TableColumn("FAILING SINCE", "failing_since", Form.TIME, rank=3),
)

WEBHOOK_DETAILS: Final = (
    TableColumn("webhook_id", "webhook_id"),
    TableColumn("key_id", "key_id"),
    TableColumn("url", "url"),
    TableColumn("description", "description"),
    TableColumn("events", "events"),
    TableColumn("state", _state, Form.STATUS),
    TableColumn("paused_at", "paused_at", Form.TIME),
    TableColumn("failing_since", "failing_since", Form.TIME),
    TableColumn("deliveries pending", "deliveries_pending"),
    TableColumn("created_at", "created_at", Form.TIME),
    TableColumn("rotating_until", "rotating_until", Form.TIME),
)

DELIVERY_COLUMNS: Final = (
    TableColumn("MESSAGE ID", "message_id", rank=0),
    TableColumn("EVENT", "event", rank=0),
    TableColumn("RUN ID", "run_id", rank=1),
    TableColumn("AT", "occurred_at", Form.TIME, rank=3),
    TableColumn("STATE", "state", Form.STATUS, rank=0),
    TableColumn("ATTEMPTS", "attempts", Form.NUMBER, rank=2),
    TableColumn("LAST ANSWER", _answer, rank=1),
    TableColumn("NEXT ATTEMPT", "next_attempt_at", Form.TIME, rank=4),
)

DELIVERY_DETAILS: Final = (
    TableColumn("message_id", "message_id"),
    TableColumn("webhook_id", "webhook_id"),
    TableColumn("event", "event"),
    TableColumn("run_id", "run_id"),
    TableColumn("occurred_at", "occurred_at", Form.TIME),
    TableColumn("state", "state", Form.STATUS),
    TableColumn("next_attempt_at", "next_attempt_at", Form.TIME),
)
