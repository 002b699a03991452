"""SQL of usage: records of requests, kept for 90 days, and counts by the hour, for 400 (contract 22.9, 27.1, 27.3)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
    text,
    tuple_,
)

from backend.common.clock import DAY_MS, HOUR_MS, MAX_MS
from backend.storage.database import Tx
from backend.storage.retention import RowRetention
from backend.storage.sql_expressions import Purge
from backend.storage.statements import Command, Query, RowInsert, ScalarQuery, select_row
from backend.storage.tables.keys import (
    KeyHourRow,
    UsageBatchRow,
    UsageHourRow,
    UsageRow,
    usage_batches,
    usage_hours,
    usage_records,
)
from contract.call_groups import GROUP_MS, NOT_MEASURED, calls_in
from workflow_api.v1.usage_pb2 import CallGroup

HourKey = tuple[int, str, str, str, int]
"""Columns by which calls are counted: beginning of the hour, key, method, route and status."""

_HOUR_KEY: Final = ("hour", "key_id", "method", "route", "status")
# SQL that both dialects know, for which SQLAlchemy has two constructs.
_ADD = Command(
    text(
        f"INSERT INTO usage_hours ({', '.join(_HOUR_KEY)}, calls)"  # noqa: S608 - ours
        f" VALUES ({', '.join(f':{name}' for name in _HOUR_KEY)}, :calls)"
        f" ON CONFLICT ({', '.join(_HOUR_KEY)}) DO UPDATE SET calls = usage_hours.calls + excluded.calls"
    )
)
_HOURS = (
    select_row(UsageHourRow, usage_hours)
    .where(
        usage_hours.c.hour >= bindparam("since"),
        # The index serves the first of these two conditions.
        usage_hours.c.hour <= bindparam("before"),
        or_(
            usage_hours.c.hour < bindparam("before"),
            tuple_(*(usage_hours.c[name] for name in _HOUR_KEY[1:]))
            > tuple_(*(bindparam(f"after_{name}", type_=usage_hours.c[name].type) for name in _HOUR_KEY[1:])),
        ),
    )
    .order_by(usage_hours.c.hour.desc(), *(usage_hours.c[name] for name in _HOUR_KEY[1:]))
    .limit(bindparam("limit"))
)
_HOURS_OF_ALL = Query(UsageHourRow, _HOURS)
_HOURS_OF_KEY = Query(UsageHourRow, _HOURS.where(usage_hours.c.key_id == bindparam("key_id")))

MOST_KEYS: Final = 200
_KEY_IDS: Final = [f"key_id_{number}" for number in range(MOST_KEYS)]
_ZERO: Final[ColumnElement[int]] = literal_column("0")
_REFUSED: Final = case((usage_hours.c.status >= literal_column("400"), usage_hours.c.calls), else_=_ZERO)
_OF_KEYS = Query(
    KeyHourRow,
    select_row(
        KeyHourRow,
        usage_hours,
        # PostgreSQL's sum is a decimal number.
        calls=cast(func.sum(usage_hours.c.calls), BigInteger),
        refused=cast(func.sum(_REFUSED), BigInteger),
    )
    .where(
        usage_hours.c.key_id.in_([bindparam(name) for name in _KEY_IDS]),
        usage_hours.c.hour >= bindparam("since"),
        usage_hours.c.hour < bindparam("until"),
    )
    .group_by(usage_hours.c.hour, usage_hours.c.key_id)
    .order_by(usage_hours.c.hour.desc(), usage_hours.c.key_id),
)

purge_hours = Purge(usage_hours, usage_hours.c.hour)


def add_hours(tx: Tx, counts: Mapping[HourKey, int]) -> None:
    """Adds call counts to hours."""
    tx.many(_ADD, [dict(zip(_HOUR_KEY, hour_key, strict=True), calls=calls) for hour_key, calls in counts.items()])


def hours(
    tx: Tx, *, key_id: str | None, since: int, until: int, after: Sequence[str | int] | None, limit: int
) -> list[UsageHourRow]:
    """Returns the number of calls of each hour by key, method, route and status, the newest hour first.

    The hours began from `since` on, before `until`; `after` is the last row of the page before, as its `HourKey`.
    """
    hour, *kind = after or (until - 1, "", "", "", 0)
    asked = {"since": since, "before": hour, "limit": limit}
    asked |= {f"after_{name}": value for name, value in zip(_HOUR_KEY[1:], kind, strict=True)}
    return tx.all(_HOURS_OF_ALL, **asked) if key_id is None else tx.all(_HOURS_OF_KEY, key_id=key_id, **asked)


def of_keys(tx: Tx, key_ids: Sequence[str], *, since: int, until: int) -> list[KeyHourRow]:
    """Returns the number of calls of up to `MOST_KEYS` keys in each hour, the newest hour first.

    The hours began from `since` on, before `until`.
    """
    if not key_ids:
        return []
    named = dict(zip_longest(_KEY_IDS, key_ids, fillvalue=key_ids[0]))
    return tx.all(_OF_KEYS, since=since, until=until, **named)


Position = tuple[int, str, int]
"""Time of a record, its batch and its position in the batch."""

_ROWS_OF_FIRST_READ: Final = 8
_ROWS_OF_A_READ: Final = 64

_INSERT = RowInsert(UsageBatchRow, usage_batches)
_ONE: Final[ColumnElement[int]] = literal_column("1")
_BATCH_KNOWN = ScalarQuery[str](
    select(usage_batches.c.batch_id).where(usage_batches.c.batch_id == bindparam("batch_id")).limit(_ONE)
)
# Newest first by their last records.
_BATCHES = (
    select_row(UsageBatchRow, usage_batches)
    .where(
        usage_batches.c.last_at >= bindparam("since"),
        # The index serves the first of these two conditions.
        usage_batches.c.last_at <= bindparam("last_at"),
        or_(
            usage_batches.c.last_at < bindparam("last_at"),
            tuple_(usage_batches.c.batch_id, usage_batches.c.position)
            > tuple_(bindparam("after_batch_id"), bindparam("after_position")),
        ),
        usage_batches.c.first_at <= bindparam("before"),
    )
    .order_by(usage_batches.c.last_at.desc(), usage_batches.c.batch_id, usage_batches.c.position)
    .limit(bindparam("limit"))
)
_BATCHES_OF_ALL = Query(UsageBatchRow, _BATCHES)
_BATCHES_OF_KEY = Query(UsageBatchRow, _BATCHES.where(usage_batches.c.key_id == bindparam("key_id")))
_SINGLE = (
    select_row(UsageRow, usage_records, calls=_ONE)
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
_SINGLE_OF_ALL = Query(UsageRow, _SINGLE)
_SINGLE_OF_KEY = Query(UsageRow, _SINGLE.where(usage_records.c.key_id == bindparam("key_id")))

purge_records = Purge(usage_records, usage_records.c.at)
purge_batches = Purge(usage_batches, usage_batches.c.last_at)


def add_batch(tx: Tx, batch_id: str, groups: Sequence[CallGroup]) -> None:
    """Writes a batch, unless it was written before."""
    # Only lists of usage read these rows, and their answers are not cached.
    tx.keeps_caches_valid = True
    if tx.exists(_BATCH_KNOWN, batch_id=batch_id):
        return
    hours: Counter[HourKey] = Counter()
    rows: list[UsageBatchRow] = []
    position = 0
    for group in groups:
        key_id, first_at, last_at = group.key_id, min(group.times), max(group.times)
        rows.append(UsageBatchRow(batch_id, position, key_id, first_at, last_at, group.SerializeToString()))
        position += len(group.times)
        for number, calls in _calls_by_kind(group).items():
            kind = group.kinds[number]
            hours[first_at - first_at % HOUR_MS, key_id, kind.method, kind.route, kind.status] += calls
    tx.insert(_INSERT, rows)
    add_hours(tx, hours)


def _calls_by_kind(group: CallGroup) -> Counter[int]:
    if not group.calls:
        return Counter(group.kind)
    numbers: Counter[int] = Counter()
    for number, calls in zip(group.kind, group.calls, strict=True):
        numbers[number] += calls
    return numbers


def newest(tx: Tx, *, key_id: str | None, since: int, after: Sequence[str | int] | None, limit: int) -> list[UsageRow]:
    """Returns usage records, newest first, after a position: time, batch and position in the batch."""
    at, batch_id, position = after or (MAX_MS, "", 0)
    place = int(at), str(batch_id), int(position)
    asked = {"since": since, "before": place[0], "after_batch_id": place[1], "before_position": place[2]}
    asked["limit"] = limit
    single = tx.all(_SINGLE_OF_ALL, **asked) if key_id is None else tx.all(_SINGLE_OF_KEY, key_id=key_id, **asked)
    return sorted([*single, *_of_batches(tx, key_id, since, place, limit)], key=_newest_first)[:limit]


def _newest_first(row: UsageRow) -> Position:
    return -row.at, row.batch_id, -row.position


def _of_batches(tx: Tx, key_id: str | None, since: int, after: Position, limit: int) -> list[UsageRow]:
    """Returns at least the first `limit` records after a position from batches, which may overlap in time."""
    at, batch_id, position = after
    begin = -at, batch_id, -position
    found: list[UsageRow] = []
    rows = _ROWS_OF_FIRST_READ
    asked: dict[str, object] = {"since": since, "before": at, "after_batch_id": "", "after_position": -1}
    # A row that ends later has no record so old.
    asked["last_at"] = min(at - at % GROUP_MS + GROUP_MS - 1, MAX_MS)
    while True:
        asked["limit"] = rows
        batches = (
            tx.all(_BATCHES_OF_ALL, **asked) if key_id is None else tx.all(_BATCHES_OF_KEY, key_id=key_id, **asked)
        )
        for batch in batches:
            found += [row for row in _records_of(batch) if row.at >= since and _newest_first(row) > begin]
        if len(batches) < rows:
            return found
        last = batches[-1]
        # Unread rows end no later than the last read row, so their records are no newer.
        if sum(row.at > last.last_at for row in found) >= limit:
            return found
        asked |= {"last_at": last.last_at, "after_batch_id": last.batch_id, "after_position": last.position}
        rows = _ROWS_OF_A_READ


def _records_of(batch: UsageBatchRow) -> Iterator[UsageRow]:
    group = CallGroup.FromString(batch.calls)
    for place, call in enumerate(calls_in(group)):
        at, key_id, (method, route, status, reason), address, request_id, took = call
        duration_us = None if took == NOT_MEASURED else took
        calls = group.calls[place] if group.calls else 1
        position = batch.position + place
        yield UsageRow(
            batch.batch_id, position, at, key_id, method, route, status, address, reason, request_id, duration_us, calls
        )


RETENTION: Final = (
    RowRetention("usage_records", 90 * DAY_MS, purge_records),
    # A row may hold thousands of records.
    RowRetention("usage_batches", 90 * DAY_MS, purge_batches, batch=100),
    RowRetention("usage_hours", 400 * DAY_MS, purge_hours),
)
