"""SQL that records the use of models by attempts of steps, and reads it by run and by UTC day."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    FromClause,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    text,
    tuple_,
    update,
)

from backend.common.clock import DAY_MS, utc_day
from backend.storage.database import Tx
from backend.storage.retention import RetentionRule, RowRetention
from backend.storage.sql_expressions import Purge
from backend.storage.statements import Command, Query, select_row
from backend.storage.tables.model_usage import ModelUsageRow, model_usage, model_usage_days
from backend.storage.tables.runs import runs
from backend.storage.tables.workflows import workflows


class AttemptUsage(NamedTuple):
    """Use of a model by one attempt of a step; `item_index` is -1 where there is no fan-out.

    `cached_tokens` are part of `input_tokens`. `cost_microusd` is None where the model's price is unknown.
    """

    step: str
    item_index: int
    attempt: int
    model: str
    model_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_microusd: int | None


class UsageSumRow(NamedTuple):
    """Sums of uses of models; `unpriced_calls` have no part in the cost."""

    model_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_microusd: int
    unpriced_calls: int


class StepUsageRow(NamedTuple):
    """Use of one model by all attempts of one step, and of the items of its fan-out."""

    step: str
    model: str
    attempts: int
    model_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_microusd: int
    unpriced_calls: int


class NamedDayRow(NamedTuple):
    """A row of `model_usage_days` with the name of its workflow, None for a removed workflow."""

    day: int
    key_id: str
    workflow_id: str
    model: str
    model_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_microusd: int
    unpriced_calls: int
    workflow_name: str | None


class _OwnerRow(NamedTuple):
    """Key and workflow of a run."""

    key_id: str
    workflow_id: str


_ROW: Final = ModelUsageRow._fields
_DAY_ID: Final = ("day", "key_id", "workflow_id", "model")
_SUMS: Final = UsageSumRow._fields
# SQL that both dialects know, for which SQLAlchemy has two constructs. A repeated insert changes nothing, so a
# transaction whose outcome was lost may be repeated.
_ADD: Final = Command(
    text(
        f"INSERT INTO model_usage ({', '.join(_ROW)})"  # noqa: S608 - ours
        f" VALUES ({', '.join(f':{name}' for name in _ROW)}) ON CONFLICT DO NOTHING"
    )
)
_ADD_TO_DAY: Final = Command(
    text(
        f"INSERT INTO model_usage_days ({', '.join((*_DAY_ID, *_SUMS))})"  # noqa: S608 - ours
        f" VALUES ({', '.join(f':{name}' for name in (*_DAY_ID, *_SUMS))})"
        f" ON CONFLICT ({', '.join(_DAY_ID)}) DO UPDATE SET"
        f" {', '.join(f'{name} = model_usage_days.{name} + excluded.{name}' for name in _SUMS)}"
    )
)
_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
_RUN_SUMS: Final = ("model_calls", "input_tokens", "output_tokens")
_ADD_TO_RUN: Final = Command(
    update(runs)
    .where(runs.c.run_id == _RUN)
    .values({name: runs.c[name] + bindparam(f"more_{name}") for name in _RUN_SUMS})
)
_OWNER: Final = Query(_OwnerRow, select_row(_OwnerRow, runs).where(runs.c.run_id == _RUN))


def _sum(column: ColumnElement[int]) -> ColumnElement[int]:
    # A sum on PostgreSQL is a decimal number, and null for no rows.
    return cast(func.coalesce(func.sum(column), literal_column("0")), BigInteger)


def _sums(table: FromClause) -> dict[str, ColumnElement[int]]:
    unpriced = func.sum(table.c.model_calls).filter(table.c.cost_microusd.is_(None))
    return {
        **{name: _sum(table.c[name]) for name in _SUMS if name != "unpriced_calls"},
        "unpriced_calls": cast(func.coalesce(unpriced, literal_column("0")), BigInteger),
    }


_OF_RUN: Final = Query(UsageSumRow, select_row(UsageSumRow, **_sums(model_usage)).where(model_usage.c.run_id == _RUN))
_STEPS_OF_RUN: Final = Query(
    StepUsageRow,
    select_row(StepUsageRow, model_usage, attempts=func.count(), **_sums(model_usage))
    .where(model_usage.c.run_id == _RUN)
    .group_by(model_usage.c.step, model_usage.c.model)
    .order_by(model_usage.c.step, model_usage.c.model),
)
_DESCENDANTS = select(runs.c.run_id).where(runs.c.run_id == _RUN).cte("descendants", recursive=True)
_DESCENDANTS = _DESCENDANTS.union_all(
    select(runs.c.run_id).where(runs.c.parent_run_id == _DESCENDANTS.c.run_id, runs.c.parent_run_id.is_not(None))
)
_OF_RUN_WITH_CHILDREN: Final = Query(
    UsageSumRow,
    select_row(UsageSumRow, **_sums(model_usage))
    .select_from(_DESCENDANTS)
    .join(model_usage, model_usage.c.run_id == _DESCENDANTS.c.run_id),
)
_DAYS = (
    select_row(NamedDayRow, model_usage_days, workflow_name=workflows.c.name)
    .select_from(model_usage_days)
    .outerjoin(workflows, workflows.c.workflow_id == model_usage_days.c.workflow_id)
    .where(
        model_usage_days.c.day >= bindparam("since"),
        # An index serves the first of these two conditions.
        model_usage_days.c.day <= bindparam("before"),
        or_(
            model_usage_days.c.day < bindparam("before"),
            tuple_(*(model_usage_days.c[name] for name in _DAY_ID[1:]))
            > tuple_(*(bindparam(f"after_{name}", type_=Text) for name in _DAY_ID[1:])),
        ),
    )
    .order_by(model_usage_days.c.day.desc(), *(model_usage_days.c[name] for name in _DAY_ID[1:]))
    .limit(bindparam("limit"))
)
_DAYS_OF_ALL: Final = Query(NamedDayRow, _DAYS)
_DAYS_OF_KEY: Final = Query(NamedDayRow, _DAYS.where(model_usage_days.c.key_id == bindparam("key_id")))


def record(tx: Tx, run_id: str, at: int, usages: Sequence[AttemptUsage]) -> None:
    """Records the use of models by attempts of a run's steps, and adds it once to its run and UTC day."""
    if not usages:
        return
    owner = tx.one(_OWNER, of_run_id=run_id)
    # In a fixed order, so that no two transactions deadlock.
    for usage in sorted(usages, key=lambda usage: usage.model):
        if tx.run(_ADD, run_id=run_id, at=at, **usage._asdict()) == 0:
            continue
        sums = {name: getattr(usage, name) for name in _SUMS if name not in {"cost_microusd", "unpriced_calls"}}
        cost, unpriced = usage.cost_microusd, usage.model_calls if usage.cost_microusd is None else 0
        tx.enqueue(
            _ADD_TO_DAY,
            day=utc_day(at),
            key_id=owner.key_id,
            workflow_id=owner.workflow_id,
            model=usage.model,
            **sums,
            cost_microusd=cost or 0,
            unpriced_calls=unpriced,
        )
        tx.announce(run_id)
        tx.enqueue(_ADD_TO_RUN, of_run_id=run_id, **{f"more_{name}": sums[name] for name in _RUN_SUMS})


def run_sums(tx: Tx, run_id: str) -> UsageSumRow:
    """Returns the sums of a run's own steps."""
    return tx.one(_OF_RUN, of_run_id=run_id)


def run_sums_with_children(tx: Tx, run_id: str) -> UsageSumRow:
    """Returns the sums of a run and of all its descendants."""
    return tx.one(_OF_RUN_WITH_CHILDREN, of_run_id=run_id)


def step_sums(tx: Tx, run_id: str) -> list[StepUsageRow]:
    """Returns the sums of each step of a run by model."""
    return tx.all(_STEPS_OF_RUN, of_run_id=run_id)


def days(
    tx: Tx, *, key_id: str | None, since: int, until: int, after: Sequence[str | int] | None, limit: int
) -> list[NamedDayRow]:
    """Returns the use by UTC day, key, workflow and model, the newest day first.

    The days are from `since` on, before `until`; `after` is the primary key of the last row of the page before.
    """
    day, *rest = after or (until - 1, "", "", "")
    asked = {"since": since, "before": day, "limit": limit}
    asked |= {f"after_{name}": value for name, value in zip(_DAY_ID[1:], rest, strict=True)}
    return tx.all(_DAYS_OF_ALL, **asked) if key_id is None else tx.all(_DAYS_OF_KEY, key_id=key_id, **asked)


_KEPT_MS: Final = 400 * DAY_MS
_PURGE: Final = Purge(model_usage, model_usage.c.at)
_PURGE_DAYS: Final = Purge(model_usage_days, model_usage_days.c.day)
_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class DayRetention:
    """Retention of the sums by UTC day."""

    name: str = "model_usage_days"
    kept_ms: int = _KEPT_MS

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes a batch of days that are over for so long; see `RetentionRule.delete_batch`."""
        return _PURGE_DAYS.delete_batch(tx, utc_day(now - self.kept_ms), _BATCH)


# The sums of a run stay with it.
RETENTION: Final[tuple[RetentionRule, ...]] = (RowRetention("model_usage", _KEPT_MS, _PURGE, _BATCH), DayRetention())
