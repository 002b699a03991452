"""SQL of the audit trail: who changed what, and when; kept for 400 days (contract 27.4, 22.10)."""

import json
from collections.abc import Mapping

from sqlalchemy import bindparam, insert, or_

from backend.ids import new_id
from backend.storage.database import Tx
from backend.storage.purging import Purge
from backend.storage.statements import Command, Query, select_row
from backend.storage.tables.audit import AuditRow, audit_records

_INSERT = Command(insert(audit_records), [column.name for column in audit_records.columns])
_TRAIL = (
    select_row(AuditRow, audit_records)
    .where(
        audit_records.c.at >= bindparam("since"),
        # The index serves the first of these two conditions.
        audit_records.c.at <= bindparam("before"),
        or_(audit_records.c.at < bindparam("before"), audit_records.c.audit_id < bindparam("before_id")),
    )
    .order_by(audit_records.c.at.desc(), audit_records.c.audit_id.desc())
    .limit(bindparam("limit"))
)
_OF_ALL = Query(AuditRow, _TRAIL)
_OF_TARGET = Query(AuditRow, _TRAIL.where(audit_records.c.target == bindparam("target")))

purge = Purge(audit_records, audit_records.c.at)


def record(
    tx: Tx, *, at: int, actor: str, action: str, target: str, details: Mapping[str, object] | None = None
) -> None:
    """Writes one audit record, in the transaction of the change that it records.

    `action` is a noun and a past participle, as `key.rotated`; `details` never hold a secret or content of a run.
    """
    tx.enqueue(
        _INSERT,
        audit_id=new_id("aud"),
        at=at,
        actor=actor,
        action=action,
        target=target,
        details=json.dumps(details or {}, separators=(",", ":"), sort_keys=True),
    )


def trail(tx: Tx, *, since: int, before: int, before_id: str, target: str | None, limit: int) -> list[AuditRow]:
    """Returns audit records, newest first, that come after the record `before_id` written at `before`."""
    asked = {"since": since, "before": before, "before_id": before_id, "limit": limit}
    return tx.all(_OF_ALL, **asked) if target is None else tx.all(_OF_TARGET, target=target, **asked)
