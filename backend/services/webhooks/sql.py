"""SQL of webhooks, of the log of their deliveries, and of the outbox to which changes of runs write."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    Select,
    Text,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from backend.common.clock import DAY_MS
from backend.common.ids import new_id
from backend.common.json_text import canonical
from backend.services.webhooks.rules import ANNOUNCED, RUN_EVENTS, WebhookEvent
from backend.storage.database import Tx
from backend.storage.retention import RowRetention
from backend.storage.sql_expressions import Purge, containing
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import NO_CHILD, runs
from backend.storage.tables.webhooks import WebhookDeliveryRow, WebhookRow, webhook_deliveries, webhooks

MAX_COUNTED: Final = 10_000


class KeyStateRow(NamedTuple):
    """A key, and the time when it was revoked, if it was."""

    key_id: str
    revoked_at: int | None


_COLUMNS: Final = tuple(column.name for column in webhooks.columns)
_OF_WEBHOOK = webhooks.c.webhook_id == bindparam("of_webhook_id")
_GET = Query(WebhookRow, select_row(WebhookRow, webhooks).where(_OF_WEBHOOK))
_PAGE = (
    select_row(WebhookRow, webhooks)
    .where(
        tuple_(webhooks.c.created_at, webhooks.c.webhook_id)
        < tuple_(bindparam("before", type_=BigInteger), bindparam("before_id", type_=Text))
    )
    .order_by(webhooks.c.created_at.desc(), webhooks.c.webhook_id.desc())
    .limit(bindparam("limit"))
)
_OF_ALL = Query(WebhookRow, _PAGE)
_OF_KEY = Query(WebhookRow, _PAGE.where(webhooks.c.key_id == bindparam("of_key_id")))
_COUNT_OF_KEY = ScalarQuery[int](
    select(func.count()).select_from(webhooks).where(webhooks.c.key_id == bindparam("of_key_id"))
)
_KEY = Query(KeyStateRow, select_row(KeyStateRow, api_keys).where(api_keys.c.key_id == bindparam("of_key_id")))
_INSERT = Command(insert(webhooks), list(_COLUMNS))
_EDIT = Command(
    update(webhooks)
    .where(_OF_WEBHOOK)
    .values({name: bindparam(f"new_{name}") for name in _COLUMNS if name not in {"webhook_id", "key_id", "created_at"}})
)
_DELETE = Command(delete(webhooks).where(_OF_WEBHOOK))

_DELIVERY_OF_WEBHOOK = webhook_deliveries.c.webhook_id == bindparam("of_webhook_id")
_IS_PENDING = webhook_deliveries.c.state == literal_column("'pending'")
_DELIVERIES = Query(
    WebhookDeliveryRow,
    select_row(WebhookDeliveryRow, webhook_deliveries)
    .where(
        _DELIVERY_OF_WEBHOOK,
        tuple_(webhook_deliveries.c.occurred_at, webhook_deliveries.c.message_id)
        < tuple_(bindparam("before", type_=BigInteger), bindparam("before_id", type_=Text)),
    )
    .order_by(webhook_deliveries.c.occurred_at.desc(), webhook_deliveries.c.message_id.desc())
    .limit(bindparam("limit")),
)
_DELIVERY = Query(
    WebhookDeliveryRow,
    select_row(WebhookDeliveryRow, webhook_deliveries).where(
        _DELIVERY_OF_WEBHOOK, webhook_deliveries.c.message_id == bindparam("of_message_id")
    ),
)
_SOME_PENDING: Select[int] = (
    select(literal_column("1"))
    .select_from(webhook_deliveries)
    .where(_DELIVERY_OF_WEBHOOK, _IS_PENDING)
    .limit(literal_column(str(MAX_COUNTED)))
)
_COUNT_PENDING = ScalarQuery[int](select(func.count()).select_from(_SOME_PENDING.subquery()))

purge = Purge(webhook_deliveries, webhook_deliveries.c.occurred_at)


def get(tx: Tx, webhook_id: str) -> WebhookRow | None:
    """Returns a webhook, or None."""
    return tx.first(_GET, of_webhook_id=webhook_id)


def newest(tx: Tx, key_id: str | None, *, before: int, before_id: str, limit: int) -> list[WebhookRow]:
    """Returns webhooks of all keys or of one, newest first, that come after `before_id`, created at `before`."""
    asked = {"before": before, "before_id": before_id, "limit": limit}
    return tx.all(_OF_ALL, **asked) if key_id is None else tx.all(_OF_KEY, of_key_id=key_id, **asked)


def count_of_key(tx: Tx, key_id: str) -> int:
    """Returns the number of a key's webhooks."""
    return tx.scalar_one(_COUNT_OF_KEY, of_key_id=key_id)


def key_state(tx: Tx, key_id: str) -> KeyStateRow | None:
    """Returns the state of a key, revoked or not; None if it does not exist."""
    return tx.first(_KEY, of_key_id=key_id)


def add(tx: Tx, row: WebhookRow) -> None:
    """Writes a new webhook."""
    tx.enqueue(_INSERT, **row._asdict())


def edit(tx: Tx, row: WebhookRow) -> None:
    """Writes a changed webhook that was read in the same transaction."""
    tx.enqueue(_EDIT, of_webhook_id=row.webhook_id, **{f"new_{name}": value for name, value in row._asdict().items()})


def remove(tx: Tx, webhook_id: str) -> None:
    """Removes a webhook with its deliveries."""
    tx.enqueue(_DELETE, of_webhook_id=webhook_id)


def count_pending(tx: Tx, webhook_id: str) -> int:
    """Returns the number of waiting deliveries of a webhook, up to `MAX_COUNTED`."""
    return tx.scalar_one(_COUNT_PENDING, of_webhook_id=webhook_id)


def deliveries(tx: Tx, webhook_id: str, *, before: int, before_id: str, limit: int) -> list[WebhookDeliveryRow]:
    """Returns deliveries, newest first, that come after the message `before_id` of the time `before`."""
    return tx.all(_DELIVERIES, of_webhook_id=webhook_id, before=before, before_id=before_id, limit=limit)


def delivery(tx: Tx, webhook_id: str, message_id: str) -> WebhookDeliveryRow | None:
    """Returns one delivery, or None."""
    return tx.first(_DELIVERY, of_webhook_id=webhook_id, of_message_id=message_id)


FLAGS: Final[Mapping[WebhookEvent, Column[int]]] = {
    WebhookEvent.RUN_ENDED: webhooks.c.run_ended,
    WebhookEvent.RUN_WAITING: webhooks.c.run_waiting_for_approval,
    WebhookEvent.RUN_ERASED: webhooks.c.run_erased,
    WebhookEvent.APPROVAL_REMINDED: webhooks.c.approval_reminded,
    WebhookEvent.APPROVAL_EXPIRED: webhooks.c.approval_expired,
    WebhookEvent.SCHEDULE_SKIPPED: webhooks.c.schedule_skipped,
    WebhookEvent.SCHEDULE_FAILED: webhooks.c.schedule_failed,
}
"""Flag column by event: whether a webhook subscribes to it."""

_RUN: BindParameter[str] = bindparam("of_run_id")
_AT = cast(bindparam("at_ms"), BigInteger)
_OF_RUN: Final = (
    webhook_deliveries.c.webhook_id == webhooks.c.webhook_id,
    webhook_deliveries.c.run_id == runs.c.run_id,
)
_LAST = select(func.max(webhook_deliveries.c.ordinal)).where(*_OF_RUN).scalar_subquery()
_ONE_IS_PENDING = (
    select(webhook_deliveries.c.ordinal)
    .where(*_OF_RUN, webhook_deliveries.c.state == literal_column("'pending'"))
    .exists()
)
_MESSAGE_COLUMNS: Final = (
    "webhook_id",
    "message_id",
    "run_id",
    "ordinal",
    "event",
    "run_status",
    "occurred_at",
    "state",
    "due_at",
    "attempts",
)


def _add(event: WebhookEvent) -> Command:
    """Makes the insert of one message for each webhook that subscribes to the event, except those of revoked keys."""
    messages = (
        select(
            webhooks.c.webhook_id,
            cast(bindparam("new_message_id"), Text),
            runs.c.run_id,
            func.coalesce(_LAST, literal_column("0")) + literal_column("1"),
            literal_column(f"'{event}'"),
            runs.c.status,
            _AT,
            literal_column("'pending'"),
            # Messages of one run are sent one after the other.
            case((_ONE_IS_PENDING, None), else_=_AT),
            literal_column("0"),
        )
        .select_from(runs)
        .join(webhooks, webhooks.c.key_id == runs.c.key_id)
        .join(api_keys, api_keys.c.key_id == webhooks.c.key_id)
        .where(
            runs.c.run_id == _RUN,
            NO_CHILD,
            FLAGS[event] == literal_column("1"),
            api_keys.c.revoked_at.is_(None),
        )
    )
    return Command(insert(webhook_deliveries).from_select(_MESSAGE_COLUMNS, messages))


_ADD: Final[Mapping[WebhookEvent, Command]] = {event: _add(event) for event in RUN_EVENTS}


def _add_of_schedule(event: WebhookEvent) -> Command:
    """Makes the insert of one message for each webhook that subscribes to the event and whose key has the workflow."""
    messages = (
        select(
            webhooks.c.webhook_id,
            cast(bindparam("new_message_id"), Text),
            literal_column("1"),
            literal_column(f"'{event}'"),
            literal_column("''"),
            _AT,
            literal_column("'pending'"),
            _AT,
            literal_column("0"),
            cast(bindparam("new_data"), Text),
        )
        .select_from(webhooks)
        .join(api_keys, api_keys.c.key_id == webhooks.c.key_id)
        .where(
            FLAGS[event] == literal_column("1"),
            api_keys.c.revoked_at.is_(None),
            or_(
                api_keys.c.access_mode != literal_column("'explicit'"),
                api_keys.c.access_workflow_ids.like(bindparam("of_workflow", type_=Text), escape="\\"),
            ),
        )
    )
    columns = [*(name for name in _MESSAGE_COLUMNS if name != "run_id"), "data"]
    return Command(insert(webhook_deliveries).from_select(columns, messages))


_ADD_OF_SCHEDULE: Final[Mapping[WebhookEvent, Command]] = {
    event: _add_of_schedule(event) for event in WebhookEvent if event not in RUN_EVENTS
}


def add_messages(tx: Tx, event: WebhookEvent, run_id: str, at: int) -> None:
    """Writes the messages of a change of a run, after the change, under the run's lock."""
    tx.announce(ANNOUNCED)
    tx.enqueue(_ADD[event], of_run_id=run_id, new_message_id=new_id("msg"), at_ms=at)


def add_schedule_messages(tx: Tx, event: WebhookEvent, workflow_id: str, data: str, at: int) -> None:
    """Writes the messages of a decision on a schedule; `data` is their JSON. They are sent in no order."""
    tx.announce(ANNOUNCED)
    tx.enqueue(
        _ADD_OF_SCHEDULE[event],
        new_message_id=new_id("msg"),
        at_ms=at,
        new_data=data,
        of_workflow=containing(canonical(workflow_id)),
    )


RETENTION: Final = (RowRetention("webhook_deliveries", 30 * DAY_MS, purge),)
