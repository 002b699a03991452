"""SQL that writes and reads the items of fan-outs, table `step_items`."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, bindparam, delete, literal_column, select, update

from backend.common.states import StepStatus
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, RowInsert, ScalarQuery, select_row
from backend.storage.tables.segments import StepItemRow, step_items, steps


class ItemCounts(NamedTuple):
    """Numbers of items of a fan-out: all, completed, and failed."""

    total: int
    completed: int
    failed: int


class EndedItem(NamedTuple):
    """The end of an item's attempt; `value` is JSON text, and None if the item is retried."""

    item_index: int
    status: str
    attempt: int
    value: str | None = None
    value_bytes: int | None = None
    files_count: int | None = None


class ReusableItemRow(NamedTuple):
    """An unchanged, completed item of an ended run, with the size of its value and the number of its files."""

    item_index: int
    value_bytes: int
    files_count: int


class ValueRow(NamedTuple):
    """The value of an item, as JSON text."""

    item_index: int
    value: str


_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
_STEP: Final[BindParameter[str]] = bindparam("of_step")
_INDEX: Final[BindParameter[int]] = bindparam("at_index")
_OF_STEP: Final = (step_items.c.run_id == _RUN, step_items.c.step == _STEP)
_ITEM: Final = (*_OF_STEP, step_items.c.item_index == _INDEX)
_COMPLETED: Final[ColumnElement[str]] = literal_column(f"'{StepStatus.COMPLETED}'")

_ADD = RowInsert(StepItemRow, step_items)
_GET = ScalarQuery[str](select(step_items.c.item).where(*_ITEM))
_END = Command(
    update(step_items)
    .where(*_ITEM)
    .values({name: bindparam(f"new_{name}") for name in EndedItem._fields if name != "item_index"})
)
_COUNT = Command(
    update(steps)
    .where(steps.c.run_id == _RUN, steps.c.step == _STEP)
    .values({f"items_{name}": bindparam(f"new_{name}") for name in ItemCounts._fields})
)
_VALUES = Query(
    ValueRow,
    select_row(ValueRow, step_items)
    .where(*_OF_STEP, step_items.c.item_index > _INDEX, step_items.c.value.is_not(None))
    .order_by(step_items.c.item_index)
    .limit(bindparam("most")),
)
_REMOVE = Command(delete(step_items).where(*_OF_STEP))

_ENDED = step_items.alias("ended")
_OF_ENDED = (
    _ENDED.c.run_id == bindparam("of_ended"),
    _ENDED.c.step == step_items.c.step,
    _ENDED.c.item_index == step_items.c.item_index,
)
_REUSABLE = Query(
    ReusableItemRow,
    select(*(_ENDED.c[name] for name in ReusableItemRow._fields))
    .select_from(step_items)
    .join(_ENDED, _ENDED.c.item_index == step_items.c.item_index)
    .where(*_OF_STEP, *_OF_ENDED, _ENDED.c.status == _COMPLETED, _ENDED.c.item == step_items.c.item)
    .order_by(_ENDED.c.item_index),
)
_REUSE = Command(
    update(step_items)
    .where(*_ITEM)
    .values(
        {"status": _COMPLETED}
        | {
            name: select(_ENDED.c[name]).where(*_OF_ENDED).scalar_subquery()
            for name in ("value", "value_bytes", "files_count")
        }
    )
)


def add_items(tx: Tx, run_id: str, step: str, first: int, items: Iterable[str]) -> None:
    """Writes pending items, as JSON texts, with indexes from `first` on."""
    rows = [
        StepItemRow(run_id, step, index, StepStatus.PENDING.value, 0, item, None, None, None)
        for index, item in enumerate(items, first)
    ]
    tx.insert(_ADD, rows)


def item(tx: Tx, run_id: str, step: str, index: int) -> str:
    """Returns an item as JSON text."""
    return tx.scalar_one(_GET, of_run_id=run_id, of_step=step, at_index=index)


def end_items(tx: Tx, run_id: str, step: str, ended: Iterable[EndedItem], counts: ItemCounts) -> None:
    """Writes the ends of attempts, and the item counts of the step."""
    tx.many(
        _END,
        [
            {"of_run_id": run_id, "of_step": step, "at_index": one.item_index}
            | {f"new_{name}": value for name, value in one._asdict().items()}
            for one in ended
        ],
    )
    count_items(tx, run_id, step, counts)


def count_items(tx: Tx, run_id: str, step: str, counts: ItemCounts) -> None:
    """Writes the item counts of a step."""
    tx.announce(run_id)
    named = {f"new_{name}": count for name, count in counts._asdict().items()}
    tx.enqueue(_COUNT, of_run_id=run_id, of_step=step, **named)


def reusable_items(tx: Tx, run_id: str, step: str, ended: str) -> list[ReusableItemRow]:
    """Returns completed items of the run `ended` that equal the item at the same index of this run."""
    return tx.all(_REUSABLE, of_run_id=run_id, of_step=step, of_ended=ended)


def reuse_items(tx: Tx, run_id: str, step: str, ended: str, indexes: Iterable[int]) -> None:
    """Completes items with the values of the equal items of the run `ended`."""
    given = {"of_run_id": run_id, "of_step": step, "of_ended": ended}
    tx.many(_REUSE, [given | {"at_index": index} for index in indexes])


def values_after(tx: Tx, run_id: str, step: str, index: int, most: int) -> list[ValueRow]:
    """Returns up to `most` values of items with an index above `index`, in order."""
    return tx.all(_VALUES, of_run_id=run_id, of_step=step, at_index=index, most=most)


def remove_items(tx: Tx, run_id: str, step: str) -> None:
    """Deletes the items of a completed step, whose value contains theirs."""
    tx.enqueue(_REMOVE, of_run_id=run_id, of_step=step)
