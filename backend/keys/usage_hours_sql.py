"""SQL of usage counted by the hour, kept for 400 days (contract 27.3)."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final

from sqlalchemy import BigInteger, ColumnElement, bindparam, case, cast, func, literal_column, or_, text, tuple_

from backend.storage.database import Tx
from backend.storage.purging import Purge
from backend.storage.statements import Command, Query, select_row
from backend.storage.tables.keys import KeyHourRow, UsageHourRow, usage_hours

Counted = tuple[int, str, str, str, int]
"""What calls are counted by: when the hour began, key, method, route and status."""

_COUNTED: Final = ("hour", "key_id", "method", "route", "status")
# In the words of both dialects, which SQLAlchemy has two constructs for.
_ADD = Command(
    text(
        f"INSERT INTO usage_hours ({', '.join(_COUNTED)}, calls)"  # noqa: S608 - ours
        f" VALUES ({', '.join(f':{name}' for name in _COUNTED)}, :calls)"
        f" ON CONFLICT ({', '.join(_COUNTED)}) DO UPDATE SET calls = usage_hours.calls + excluded.calls"
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
            tuple_(*(usage_hours.c[name] for name in _COUNTED[1:]))
            > tuple_(*(bindparam(f"after_{name}", type_=usage_hours.c[name].type) for name in _COUNTED[1:])),
        ),
    )
    .order_by(usage_hours.c.hour.desc(), *(usage_hours.c[name] for name in _COUNTED[1:]))
    .limit(bindparam("limit"))
)
_HOURS_OF_ALL = Query(UsageHourRow, _HOURS)
_HOURS_OF_KEY = Query(UsageHourRow, _HOURS.where(usage_hours.c.key_id == bindparam("key_id")))

KEYS_AT_ONCE: Final = 200
_KEY_IDS: Final = [f"key_id_{number}" for number in range(KEYS_AT_ONCE)]
_ZERO: Final[ColumnElement[int]] = literal_column("0")
_REFUSED: Final = case((usage_hours.c.status >= literal_column("400"), usage_hours.c.calls), else_=_ZERO)
_OF_KEYS = Query(
    KeyHourRow,
    select_row(
        KeyHourRow,
        usage_hours,
        # PostgreSQL adds them up as a decimal number.
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


def add(tx: Tx, counts: Mapping[Counted, int]) -> None:
    """Adds numbers of calls."""
    tx.many(_ADD, [dict(zip(_COUNTED, counted, strict=True), calls=calls) for counted, calls in counts.items()])


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


def of_keys(tx: Tx, key_ids: Sequence[str], *, since: int, until: int) -> list[KeyHourRow]:
    """Returns how many calls each of up to `KEYS_AT_ONCE` keys made in each hour, the newest hour first.

    The hours began from `since` on, before `until`.
    """
    if not key_ids:
        return []
    named = dict(zip_longest(_KEY_IDS, key_ids, fillvalue=key_ids[0]))
    return tx.all(_OF_KEYS, since=since, until=until, **named)
