"""SQL of deliveries: due messages, claims on them, and outcomes of attempts."""

from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    update,
)

from backend.services.webhooks.rules import ANNOUNCED
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs
from backend.storage.tables.webhooks import webhook_deliveries, webhooks


class DueWebhookRow(NamedTuple):
    """An active webhook, and the time when its next message is due."""

    webhook_id: str
    url: str
    secret: str
    previous_secret: str | None
    previous_secret_expires_at: int | None
    due_at: int


class ClaimedMessageRow(NamedTuple):
    """A message that this process has claimed to send."""

    webhook_id: str
    message_id: str
    run_id: str | None
    ordinal: int
    event: str
    run_status: str
    occurred_at: int
    attempts: int
    first_attempt_at: int
    workflow_id: str | None
    client_reference: str | None
    resumed_from: str | None
    data: str | None


_WEBHOOK: BindParameter[str] = bindparam("of_webhook_id")
_MESSAGE: BindParameter[str] = bindparam("of_message_id")
_RUN: BindParameter[str] = bindparam("of_run_id")
_CLAIM: BindParameter[str] = bindparam("of_claim")
_AT: BindParameter[int] = bindparam("at_ms")
_ONE: ColumnElement[int] = literal_column("1")
_PENDING: ColumnElement[str] = literal_column("'pending'")

_IS_DUE: Final = (
    # The condition of the partial index.
    webhook_deliveries.c.due_at.is_not(None),
    webhook_deliveries.c.due_at <= _AT,
    webhook_deliveries.c.state == _PENDING,
)
_FIRST_DUE = (
    select(func.min(webhook_deliveries.c.due_at))
    .where(webhook_deliveries.c.webhook_id == webhooks.c.webhook_id, *_IS_DUE)
    .scalar_subquery()
)
_DUE = Query(
    DueWebhookRow,
    select_row(DueWebhookRow, webhooks, due_at=_FIRST_DUE)
    .join(api_keys, api_keys.c.key_id == webhooks.c.key_id)
    .where(webhooks.c.paused_at.is_(None), api_keys.c.revoked_at.is_(None), _FIRST_DUE.is_not(None)),
)
_SOME_DUE = (
    select(webhook_deliveries.c.webhook_id, webhook_deliveries.c.message_id)
    .where(webhook_deliveries.c.webhook_id == _WEBHOOK, *_IS_DUE)
    .order_by(webhook_deliveries.c.due_at)
    .limit(bindparam("most"))
)
_TAKE = Command(
    update(webhook_deliveries)
    .where(
        tuple_(webhook_deliveries.c.webhook_id, webhook_deliveries.c.message_id).in_(_SOME_DUE),
        # Checked again for the locked row, because a late attempt may be recorded at this moment.
        *_IS_DUE,
        select(_ONE)
        .select_from(webhooks)
        .where(webhooks.c.webhook_id == _WEBHOOK, webhooks.c.paused_at.is_(None))
        .exists(),
    )
    .values(
        claim=_CLAIM,
        due_at=bindparam("lapses_at"),
        # A claim of a process that died counts as one attempt, because it may have been made.
        attempts=case(
            (webhook_deliveries.c.claim.is_(None), webhook_deliveries.c.attempts + _ONE),
            else_=webhook_deliveries.c.attempts,
        ),
        first_attempt_at=func.coalesce(webhook_deliveries.c.first_attempt_at, _AT),
        last_attempt_at=_AT,
    )
)
_TAKEN = Query(
    ClaimedMessageRow,
    select_row(ClaimedMessageRow, webhook_deliveries, runs)
    .outerjoin(runs, runs.c.run_id == webhook_deliveries.c.run_id)
    .where(
        webhook_deliveries.c.webhook_id == _WEBHOOK,
        webhook_deliveries.c.due_at.is_not(None),
        webhook_deliveries.c.due_at == bindparam("lapses_at"),
        webhook_deliveries.c.claim == _CLAIM,
    ),
)

_OF_CLAIM: Final = (
    webhook_deliveries.c.webhook_id == _WEBHOOK,
    webhook_deliveries.c.message_id == _MESSAGE,
    webhook_deliveries.c.claim == _CLAIM,
    webhook_deliveries.c.state == _PENDING,
)
_OUTCOME: Final = {"claim": null(), "last_status": bindparam("new_status"), "last_error": bindparam("new_error")}
_FINISH = Command(
    update(webhook_deliveries)
    .where(*_OF_CLAIM)
    .values({**_OUTCOME, "state": bindparam("new_state"), "due_at": null(), "finished_at": _AT})
)
_RETRY = Command(update(webhook_deliveries).where(*_OF_CLAIM).values({**_OUTCOME, "due_at": bindparam("next_at")}))
_RELEASE = Command(
    update(webhook_deliveries)
    .where(*_OF_CLAIM)
    .values(claim=null(), due_at=_AT, attempts=webhook_deliveries.c.attempts - _ONE)
)
# The first pending message, which a later redelivery may have made pending again.
_NEXT = (
    select(func.min(webhook_deliveries.c.ordinal))
    .where(
        webhook_deliveries.c.webhook_id == _WEBHOOK,
        webhook_deliveries.c.run_id == _RUN,
        webhook_deliveries.c.state == _PENDING,
    )
    .scalar_subquery()
)
_RELEASE_NEXT = Command(
    update(webhook_deliveries)
    .where(
        webhook_deliveries.c.webhook_id == _WEBHOOK,
        webhook_deliveries.c.run_id == _RUN,
        webhook_deliveries.c.ordinal == _NEXT,
        webhook_deliveries.c.due_at.is_(None),
    )
    .values(due_at=_AT)
)
_CLEAR_FAILING_SINCE = Command(
    update(webhooks)
    .where(webhooks.c.webhook_id == _WEBHOOK, webhooks.c.failing_since.is_not(None))
    .values(failing_since=null())
)
_SET_FAILING_SINCE = Command(
    update(webhooks)
    .where(
        webhooks.c.webhook_id == _WEBHOOK,
        # A time in the future was recorded by a clock that was ahead.
        or_(webhooks.c.failing_since.is_(None), webhooks.c.failing_since > _AT),
    )
    .values(failing_since=_AT)
)
_FAILING_SINCE = ScalarQuery[int](
    select(webhooks.c.failing_since).where(webhooks.c.webhook_id == _WEBHOOK, webhooks.c.failing_since.is_not(None))
)
_PAUSE = Command(
    update(webhooks)
    .where(webhooks.c.webhook_id == _WEBHOOK, webhooks.c.paused_at.is_(None))
    .values(paused_at=_AT, paused_reason=bindparam("new_reason"))
)

_EARLIER = webhook_deliveries.alias("earlier")
_FIRST_OF_ITS_RUN = ~(
    select(_ONE)
    .select_from(_EARLIER)
    .where(
        _EARLIER.c.webhook_id == webhook_deliveries.c.webhook_id,
        _EARLIER.c.run_id == webhook_deliveries.c.run_id,
        _EARLIER.c.state == _PENDING,
        _EARLIER.c.ordinal < webhook_deliveries.c.ordinal,
    )
    .exists()
)
_FROM_THE_FIRST_ATTEMPT: Final = {"attempts": literal_column("0"), "first_attempt_at": null(), "claim": null()}
_RESTART = Command(
    update(webhook_deliveries)
    .where(webhook_deliveries.c.webhook_id == _WEBHOOK, webhook_deliveries.c.state == _PENDING)
    .values({**_FROM_THE_FIRST_ATTEMPT, "due_at": case((_FIRST_OF_ITS_RUN, cast(_AT, BigInteger)), else_=null())})
)
_REDELIVER = Command(
    update(webhook_deliveries)
    .where(webhook_deliveries.c.webhook_id == _WEBHOOK, webhook_deliveries.c.message_id == _MESSAGE)
    .values({**_FROM_THE_FIRST_ATTEMPT, "state": _PENDING, "due_at": _AT, "finished_at": null()})
)


def due_webhooks(tx: Tx, until: int) -> list[DueWebhookRow]:
    """Returns the active webhooks with a message due by `until`."""
    return tx.all(_DUE, at_ms=until)


def claim(tx: Tx, webhook_id: str, claim_id: str, at: int, lapses_at: int, most: int) -> list[ClaimedMessageRow]:
    """Claims up to `most` due messages of an active webhook until `lapses_at`, longest due first.

    Claims of one webhook are made under one lock, so that no two processes get the same message.
    """
    taken = tx.run(_TAKE, of_webhook_id=webhook_id, of_claim=claim_id, at_ms=at, lapses_at=lapses_at, most=most)
    return tx.all(_TAKEN, of_webhook_id=webhook_id, of_claim=claim_id, lapses_at=lapses_at) if taken else []


def finish(
    tx: Tx, row: ClaimedMessageRow, claim_id: str, state: str, at: int, *, status: int | None, error: str | None
) -> bool:
    """Ends a delivery, and makes the next message of its run due; returns False if another process has the claim."""
    finished = tx.run(
        _FINISH,
        of_webhook_id=row.webhook_id,
        of_message_id=row.message_id,
        of_claim=claim_id,
        new_state=state,
        new_status=status,
        new_error=error,
        at_ms=at,
    )
    if finished and row.run_id is not None:
        tx.enqueue(_RELEASE_NEXT, of_webhook_id=row.webhook_id, of_run_id=row.run_id, at_ms=at)
    return bool(finished)


def retry(
    tx: Tx, row: ClaimedMessageRow, claim_id: str, next_at: int, *, status: int | None, error: str | None
) -> bool:
    """Sets the time of the next attempt; returns False if another process has the claim."""
    return bool(
        tx.run(
            _RETRY,
            of_webhook_id=row.webhook_id,
            of_message_id=row.message_id,
            of_claim=claim_id,
            new_status=status,
            new_error=error,
            next_at=next_at,
        )
    )


def release(tx: Tx, row: ClaimedMessageRow, claim_id: str, at: int) -> None:
    """Gives up the claim of an attempt that was cut short."""
    tx.announce(ANNOUNCED)
    tx.enqueue(_RELEASE, of_webhook_id=row.webhook_id, of_message_id=row.message_id, of_claim=claim_id, at_ms=at)


def record_success(tx: Tx, webhook_id: str) -> None:
    """Records that an attempt at a webhook succeeded."""
    tx.enqueue(_CLEAR_FAILING_SINCE, of_webhook_id=webhook_id)


def record_failure(tx: Tx, webhook_id: str, at: int) -> int:
    """Records that an attempt failed; returns the time since which every attempt has failed."""
    tx.enqueue(_SET_FAILING_SINCE, of_webhook_id=webhook_id, at_ms=at)
    since = tx.scalar(_FAILING_SINCE, of_webhook_id=webhook_id)
    return at if since is None else since


def pause(tx: Tx, webhook_id: str, reason: str, at: int) -> bool:
    """Pauses a webhook; returns False if it is paused already."""
    return bool(tx.run(_PAUSE, of_webhook_id=webhook_id, new_reason=reason, at_ms=at))


def restart_messages(tx: Tx, webhook_id: str, at: int) -> None:
    """Makes all waiting messages due now, with all attempts again; no other change may run at the same time."""
    tx.announce(ANNOUNCED)
    tx.enqueue(_RESTART, of_webhook_id=webhook_id, at_ms=at)


def redeliver(tx: Tx, webhook_id: str, message_id: str, at: int) -> None:
    """Makes a message due once more, with all attempts again."""
    tx.announce(ANNOUNCED)
    tx.enqueue(_REDELIVER, of_webhook_id=webhook_id, of_message_id=message_id, at_ms=at)
