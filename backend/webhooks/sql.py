"""SQL of webhooks and of the log of their deliveries, as administrators see and change them."""

from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Select, Text, bindparam, delete, func, insert, literal_column, select, tuple_, update

from backend.storage.database import Tx
from backend.storage.purging import Purge
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.keys import api_keys
from backend.storage.tables.webhooks import WebhookDeliveryRow, WebhookRow, webhook_deliveries, webhooks

MAX_COUNTED: Final = 10_000


class KeyStateRow(NamedTuple):
    """Whether a key is revoked."""

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
    """Returns how many webhooks a key has."""
    return tx.scalar_one(_COUNT_OF_KEY, of_key_id=key_id)


def key_state(tx: Tx, key_id: str) -> KeyStateRow | None:
    """Returns whether a key is revoked; None for one that does not exist."""
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
    """Returns how many deliveries of a webhook wait, up to `MAX_COUNTED`."""
    return tx.scalar_one(_COUNT_PENDING, of_webhook_id=webhook_id)


def deliveries(tx: Tx, webhook_id: str, *, before: int, before_id: str, limit: int) -> list[WebhookDeliveryRow]:
    """Returns deliveries, newest first, that come after the message `before_id` of the time `before`."""
    return tx.all(_DELIVERIES, of_webhook_id=webhook_id, before=before, before_id=before_id, limit=limit)


def delivery(tx: Tx, webhook_id: str, message_id: str) -> WebhookDeliveryRow | None:
    """Returns one delivery, or None."""
    return tx.first(_DELIVERY, of_webhook_id=webhook_id, of_message_id=message_id)
