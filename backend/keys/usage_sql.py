"""SQL of usage records: one for each request, kept for 90 days and counted by the hour (contract 22.9, 27.3)."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import bindparam, insert, literal_column, select, update

from backend.clock import HOUR_MS, milliseconds_of
from backend.storage.database import Tx
from backend.storage.purging import Purge
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.keys import UsageHourRow, UsageRow, usage_hours, usage_records
from workflow_api.v1 import usage_pb2

_INSERT = Command(insert(usage_records), [column.name for column in usage_records.columns])
_BATCH_KNOWN = ScalarQuery[str](
    select(usage_records.c.batch_id).where(usage_records.c.batch_id == bindparam("batch_id")).limit(literal_column("1"))
)
_NEWEST = (
    select_row(UsageRow, usage_records)
    .where(usage_records.c.at >= bindparam("since"))
    .order_by(usage_records.c.at.desc(), usage_records.c.batch_id, usage_records.c.position.desc())
    .limit(bindparam("limit"))
)
_OF_ALL = Query(UsageRow, _NEWEST)
_OF_KEY = Query(UsageRow, _NEWEST.where(usage_records.c.key_id == bindparam("key_id")))

_COUNTED: Final = ("hour", "key_id", "method", "route", "status")
_FIRST_OF_HOUR = Command(insert(usage_hours), [*_COUNTED, "calls"])
_MORE = Command(
    update(usage_hours)
    .where(*(usage_hours.c[name] == bindparam(f"of_{name}") for name in _COUNTED))
    .values(calls=usage_hours.c.calls + bindparam("more"))
)
_HOURS = (
    select_row(UsageHourRow, usage_hours)
    .where(usage_hours.c.hour >= bindparam("since"))
    .order_by(usage_hours.c.hour.desc(), *(usage_hours.c[name] for name in _COUNTED[1:]))
    .limit(bindparam("limit"))
)
_HOURS_OF_ALL = Query(UsageHourRow, _HOURS)
_HOURS_OF_KEY = Query(UsageHourRow, _HOURS.where(usage_hours.c.key_id == bindparam("key_id")))

purge_records = Purge(usage_records, usage_records.c.at)
purge_hours = Purge(usage_hours, usage_hours.c.hour)


def keep(tx: Tx, batch_id: str, records: Sequence[usage_pb2.UsageRecord]) -> None:
    """Writes a batch, unless it was written before."""
    if tx.exists(_BATCH_KNOWN, batch_id=batch_id):
        return
    tx.many(
        _INSERT,
        (
            {
                "batch_id": batch_id,
                "position": position,
                "at": milliseconds_of(record.at),
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
    hours = Counter((_hour_of(r.at), r.key_id, r.method, r.route, r.status) for r in records)
    for values, calls in hours.items():
        of_hour = dict(zip(_COUNTED, values, strict=True))
        if not tx.run(_MORE, more=calls, **{f"of_{name}": value for name, value in of_hour.items()}):
            tx.enqueue(_FIRST_OF_HOUR, calls=calls, **of_hour)


def _hour_of(time: Timestamp) -> int:
    at = milliseconds_of(time)
    return at - at % HOUR_MS


def newest(tx: Tx, *, key_id: str | None, since: int, limit: int) -> list[UsageRow]:
    """Returns usage records, newest first."""
    if key_id is None:
        return tx.all(_OF_ALL, since=since, limit=limit)
    return tx.all(_OF_KEY, key_id=key_id, since=since, limit=limit)


def hours(tx: Tx, *, key_id: str | None, since: int, limit: int) -> list[UsageHourRow]:
    """Returns how many calls each hour had, by key, method, route and status; the newest hour first."""
    if key_id is None:
        return tx.all(_HOURS_OF_ALL, since=since, limit=limit)
    return tx.all(_HOURS_OF_KEY, key_id=key_id, since=since, limit=limit)
