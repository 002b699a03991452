"""SQL of usage records: one for each request, kept for 90 days and counted by the hour (contract 22.9, 27.3)."""

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from sqlalchemy import and_, bindparam, insert, literal_column, or_, select, tuple_, update

from backend.clock import HOUR_MS, MAX_MS
from backend.storage.database import Tx
from backend.storage.purging import Purge
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.keys import UsageHourRow, UsageRow, usage_hours, usage_records
from contract.times import milliseconds_of
from workflow_api.v1 import usage_pb2

_INSERT = Command(insert(usage_records), UsageRow._fields)
_KEY_OF: Final = itemgetter(UsageRow._fields.index("key_id"))
_BATCH_KNOWN = ScalarQuery[str](
    select(usage_records.c.batch_id).where(usage_records.c.batch_id == bindparam("batch_id")).limit(literal_column("1"))
)
_NEWEST = (
    select_row(UsageRow, usage_records)
    .where(
        usage_records.c.at >= bindparam("since"),
        # The index serves the first of these two conditions.
        usage_records.c.at <= bindparam("before"),
        or_(
            usage_records.c.at < bindparam("before"),
            usage_records.c.batch_id > bindparam("after_batch_id"),
            and_(
                usage_records.c.batch_id == bindparam("after_batch_id"),
                usage_records.c.position < bindparam("before_position"),
            ),
        ),
    )
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
    .where(
        usage_hours.c.hour >= bindparam("since"),
        # The index serves the first of these two conditions.
        usage_hours.c.hour <= bindparam("before"),
        or_(
            usage_hours.c.hour < bindparam("before"),
            tuple_(*(usage_hours.c[name] for name in _COUNTED[1:]))
            > tuple_(*(bindparam(f"after_{name}", type_=usage_hours.c[name].type) for name in _COUNTED[1:])),
        ),
    )
    .order_by(usage_hours.c.hour.desc(), *(usage_hours.c[name] for name in _COUNTED[1:]))
    .limit(bindparam("limit"))
)
_HOURS_OF_ALL = Query(UsageHourRow, _HOURS)
_HOURS_OF_KEY = Query(UsageHourRow, _HOURS.where(usage_hours.c.key_id == bindparam("key_id")))

purge_records = Purge(usage_records, usage_records.c.at)
purge_hours = Purge(usage_hours, usage_hours.c.hour)


def keep(tx: Tx, batch_id: str, records: Sequence[usage_pb2.UsageRecord]) -> None:
    """Writes a batch, unless it was written before."""
    # Only lists of usage show it, which are read each time.
    tx.uncounted = True
    if tx.exists(_BATCH_KNOWN, batch_id=batch_id):
        return
    rows: list[tuple[str | int | None, ...]] = []
    hours: Counter[tuple[int, str, str, str, int]] = Counter()
    for position, record in enumerate(records):
        at, key_id, method, route = milliseconds_of(record.at), record.key_id, record.method, record.route
        status, address, reason, request_id = record.status, record.address, record.reason, record.request_id
        took = record.duration_us or None
        rows.append((batch_id, position, at, key_id, method, route, status, address, reason, request_id, took))
        hours[at - at % HOUR_MS, key_id, method, route, status] += 1
    # Rows of a key follow one another in its index, too, which takes a third less time.
    rows.sort(key=_KEY_OF)
    tx.insert(_INSERT, rows)
    for values, calls in hours.items():
        of_hour = dict(zip(_COUNTED, values, strict=True))
        if not tx.run(_MORE, more=calls, **{f"of_{name}": value for name, value in of_hour.items()}):
            tx.enqueue(_FIRST_OF_HOUR, calls=calls, **of_hour)


def newest(tx: Tx, *, key_id: str | None, since: int, after: Sequence[str | int] | None, limit: int) -> list[UsageRow]:
    """Returns usage records, newest first, that come after the position of time, batch and place in the batch."""
    at, batch_id, position = after or (MAX_MS, "", 0)
    asked = {
        "since": since,
        "before": at,
        "after_batch_id": batch_id,
        "before_position": position,
        "limit": limit,
    }
    return tx.all(_OF_ALL, **asked) if key_id is None else tx.all(_OF_KEY, key_id=key_id, **asked)


def hours(
    tx: Tx, *, key_id: str | None, since: int, until: int, after: Sequence[str | int] | None, limit: int
) -> list[UsageHourRow]:
    """Returns how many calls each hour had, by key, method, route and status; the newest hour first.

    They began before `until`, and come after the position of the same five values.
    """
    hour, *kind = after or (until - 1, "", "", "", 0)
    asked = {"since": since, "before": hour, "limit": limit}
    asked |= {f"after_{name}": value for name, value in zip(_COUNTED[1:], kind, strict=True)}
    return tx.all(_HOURS_OF_ALL, **asked) if key_id is None else tx.all(_HOURS_OF_KEY, key_id=key_id, **asked)
