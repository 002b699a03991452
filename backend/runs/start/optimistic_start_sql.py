"""SQL of a start in one statement, for a database to which every statement is a round trip.

It leaves what the functions of `start_store` leave, but only where it meets the facts that the start was judged by. Of
the rules it knows nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, bindparam, cast, func, literal_column, select
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert

from backend.runs.start import sql
from backend.runs.start.new_run import NewRun
from backend.storage.database import SingleRoundTrip, has_locks
from backend.storage.statements import prepare
from backend.storage.tables.keys import daily_usage
from backend.storage.tables.runs import idempotency_records, runs, segments, steps

_STEP_COLUMNS: Final = tuple(column.name for column in steps.columns)
_ZERO: Final[ColumnElement[int]] = literal_column("0")
_FACTS: Final = sql.FACTS.cte("facts")
_COUNTERS: Final = ("active_runs", "runs_started")
_OTHERS: Final = [
    column.key for column in _FACTS.columns if column.key not in {*_COUNTERS, "fingerprint", "run_id", "first_used_at"}
]


def _given(prefix: str, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A parameter with its type, which PostgreSQL does not guess in a query."""
    return cast(bindparam(f"{prefix}_{column.key}"), column.type)


def _each(prefix: str, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """As `_given`, for a list of which every member is a row."""
    return func.unnest(cast(bindparam(f"{prefix}_{column.key}"), ARRAY(column.type)))


_FITS: Final = (
    select(literal_column("true").label("yes"))
    .select_from(_FACTS)
    .where(
        has_locks(),
        _FACTS.c.fingerprint.is_(None),
        *(_FACTS.c[name].is_not_distinct_from(_given("foreseen", _FACTS.c[name])) for name in _OTHERS),
        *(func.coalesce(_FACTS.c[name], _ZERO) <= _given("foreseen", _FACTS.c[name]) for name in _COUNTERS),
    )
    .cte("fits")
)


def _insert(prefix: str, table: Table, columns: Sequence[str], given: Any = _given) -> Insert:
    rows = select(*(given(prefix, table.c[name]) for name in columns)).select_from(_FITS)
    return insert(table).from_select(columns, rows)


_START = prepare(
    select(_FACTS, select(_FITS.c.yes).scalar_subquery().label("fits")).add_cte(
        _insert("record", idempotency_records, idempotency_records.columns.keys()).cte("new_record"),
        _insert("run", runs, sql.RUN_COLUMNS).cte("new_run"),
        _insert("step", steps, _STEP_COLUMNS, _each).cte("new_steps"),
        _insert("segment", segments, sql.SEGMENT_COLUMNS).cte("new_segment"),
        _insert("usage", daily_usage, daily_usage.columns.keys())
        .on_conflict_do_update(
            index_elements=["key_id", "day"],
            set_={"runs_started": daily_usage.c.runs_started + _given("usage", daily_usage.c.runs_started)},
        )
        .cte("counted"),
    )
)


def start(
    single_round_trip: SingleRoundTrip,
    facts: Any,
    new: NewRun,
    record: Mapping[str, Any],
    day: int,
    *,
    lock_key: str,
    claim: str,
) -> Any:
    """Starts a run where the facts are as foreseen: gives those that it met, and `fits`, which is then true.

    Raises as `AtOnce`, whose are `of` and `claim`.
    """
    usage = {"key_id": record["key_id"], "day": day, "runs_started": 1}
    rows = {"foreseen": facts._asdict(), "record": record, "run": new.run, "segment": new.segment, "usage": usage}
    given = {f"{prefix}_{name}": value for prefix, row in rows.items() for name, value in row.items()}
    given |= {f"step_{name}": [step[name] for step in new.steps] for name in _STEP_COLUMNS}
    return single_round_trip(
        _START,
        lock_key=lock_key,
        claim=claim,
        of_key_id=record["key_id"],
        of_idempotency_key=record["idempotency_key"],
        of_day=day,
        **given,
    )
