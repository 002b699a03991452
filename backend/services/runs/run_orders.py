"""Orders of runs by duration, cost and status, among the newest runs that match.

No index can serve these orders with every filter, so a bounded number of runs is read and put in order.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from backend.services.runs.list_sql import RunSummaryRow
from backend.services.runs.rules import STATUS_NUMBERS
from workflow_api.v1.run_lists_pb2 import (
    RUN_ORDER_COST_ASCENDING,
    RUN_ORDER_COST_DESCENDING,
    RUN_ORDER_DURATION_ASCENDING,
    RUN_ORDER_DURATION_DESCENDING,
    RUN_ORDER_STATUS_DESCENDING,
    RunOrder,
)

MOST_ORDERED: Final = 2_000
"""Most runs that are put in order, the newest that match."""

COST_ORDERS: Final = frozenset({RUN_ORDER_COST_ASCENDING, RUN_ORDER_COST_DESCENDING})
_DURATION_ORDERS: Final = frozenset({RUN_ORDER_DURATION_ASCENDING, RUN_ORDER_DURATION_DESCENDING})
_DESCENDING: Final = frozenset({RUN_ORDER_DURATION_DESCENDING, RUN_ORDER_COST_DESCENDING, RUN_ORDER_STATUS_DESCENDING})


class RunPosition(NamedTuple):
    """Position of a run in an order, by ascending values; runs without a value are last, and equal ones newest first.

    `value` is in milliseconds, millionths of a US dollar or a number of `RunStatus`, negative in a descending order.
    """

    without_value: int
    value: int
    older: int
    run_id: str

    @classmethod
    def read(cls, values: Sequence[str | int]) -> "RunPosition":
        """Returns the position of a page token."""
        without_value, value, older, run_id = values
        return cls(int(without_value), int(value), int(older), str(run_id))


def position_in(order: RunOrder.ValueType, row: RunSummaryRow, costs: Mapping[str, int], now: int) -> RunPosition:
    """Returns the position of a run; `costs` has the known costs of runs, in millionths of a US dollar."""
    value = _value(order, row, costs, now)
    if value is None:
        return RunPosition(1, 0, -row.created_at, row.run_id)
    return RunPosition(0, -value if order in _DESCENDING else value, -row.created_at, row.run_id)


def in_order(
    order: RunOrder.ValueType,
    rows: Sequence[RunSummaryRow],
    costs: Mapping[str, int],
    now: int,
    after: RunPosition | None,
) -> list[RunSummaryRow]:
    """Returns the runs behind a position, in their order; see `position_in`."""
    positions = [(position_in(order, row, costs, now), row) for row in rows]
    behind = [each for each in positions if after is None or each[0] > after]
    return [row for _, row in sorted(behind)]


def _value(order: RunOrder.ValueType, row: RunSummaryRow, costs: Mapping[str, int], now: int) -> int | None:
    if order in COST_ORDERS:
        return costs.get(row.run_id)
    if order in _DURATION_ORDERS:
        return None if row.started_at is None else max(0, (row.finished_at or now) - row.started_at)
    return STATUS_NUMBERS[row.status]
