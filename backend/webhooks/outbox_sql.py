"""SQL of the outbox: it writes the messages of a run's change in the transaction of that change."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    Text,
    bindparam,
    case,
    cast,
    func,
    insert,
    literal_column,
    select,
)

from backend.ids import new_id
from backend.storage.database import Tx
from backend.storage.statements import Command
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs
from backend.storage.tables.webhooks import webhook_deliveries, webhooks
from backend.webhooks.events import ANNOUNCED, Event

FLAGS: Final[Mapping[Event, Column[int]]] = {
    Event.RUN_ENDED: webhooks.c.run_ended,
    Event.RUN_WAITING: webhooks.c.run_waiting_for_approval,
    Event.RUN_ERASED: webhooks.c.run_erased,
}
"""The column that says whether a webhook tells of an event."""

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
_COLUMNS: Final = (
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


def _add(event: Event) -> Command:
    """Returns the insert of one message for each webhook that tells of the event; a revoked key's tell of nothing."""
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
        .where(runs.c.run_id == _RUN, FLAGS[event] == literal_column("1"), api_keys.c.revoked_at.is_(None))
    )
    return Command(insert(webhook_deliveries).from_select(_COLUMNS, messages))


_ADD: Final[Mapping[Event, Command]] = {event: _add(event) for event in Event}


def add_messages(tx: Tx, event: Event, run_id: str, at: int) -> None:
    """Writes the messages of a change of a run, after the change, under the run's lock."""
    tx.announce(ANNOUNCED)
    tx.enqueue(_ADD[event], of_run_id=run_id, new_message_id=new_id("msg"), at_ms=at)
