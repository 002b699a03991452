"""Usage records: one for each request, kept for 90 days (SPEC.md, Events)."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, insert, literal_column, select

from backend.keys.tables import usage_records
from backend.storage.database import Tx
from backend.storage.statements import sql
from workflow_api.v1 import keys_pb2

_INSERT = sql(insert(usage_records), [column.name for column in usage_records.columns])
_BATCH_KNOWN = sql(
    select(usage_records.c.batch_id).where(usage_records.c.batch_id == bindparam("batch_id")).limit(literal_column("1"))
)
_NEWEST = (
    select(usage_records)
    .where(usage_records.c.at >= bindparam("since"))
    .order_by(usage_records.c.at.desc(), usage_records.c.batch_id, usage_records.c.position.desc())
    .limit(bindparam("limit"))
)
_OF_ALL = sql(_NEWEST)
_OF_KEY = sql(_NEWEST.where(usage_records.c.key_id == bindparam("key_id")))


def keep(tx: Tx, batch_id: str, records: Sequence[keys_pb2.UsageRecord]) -> None:
    """Writes a batch, unless it was written before."""
    if tx.one(_BATCH_KNOWN, batch_id=batch_id) is not None:
        return
    tx.many(
        _INSERT,
        (
            {
                "batch_id": batch_id,
                "position": position,
                "at": record.at_ms,
                "key_id": record.key_id,
                "method": record.method,
                "route": record.route,
                "status": record.status,
                "address": record.address,
                "reason": record.reason,
                "request_id": record.request_id,
            }
            for position, record in enumerate(records)
        ),
    )


def newest(tx: Tx, *, key_id: str | None, since: int, limit: int) -> list[Any]:
    """Usage records, newest first."""
    if key_id is None:
        return tx.all(_OF_ALL, since=since, limit=limit)
    return tx.all(_OF_KEY, key_id=key_id, since=since, limit=limit)
