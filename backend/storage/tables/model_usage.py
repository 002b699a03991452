"""Tables of the tokens and prices of calls to models: by attempt of a step, and by day.

They hold numbers and ids without content, so an erasure of a run and the deletion of a key keep their rows.
"""

from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    Table,
    Text,
    cast,
    func,
    literal_column,
    select,
)

from backend.storage.tables.metadata import METADATA

model_usage = Table(
    "model_usage",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("step", Text, primary_key=True),
    # The index of the item of a fan-out, from 0; -1 where there is none.
    Column("item_index", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    # In the form `provider:model`.
    Column("model", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("model_calls", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    # Part of `input_tokens`.
    Column("cached_tokens", BigInteger, nullable=False),
    # Millionths of a US dollar; null where the model's price is unknown.
    Column("cost_microusd", BigInteger),
    Index(None, "at"),
)


class ModelUsageRow(NamedTuple):
    """Use of one model by one attempt of a step, or of an item of its fan-out."""

    run_id: str
    step: str
    item_index: int
    attempt: int
    model: str
    at: int
    model_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_microusd: int | None


# Sums of `model_usage`, written in the same transaction; quotas and pages of usage read them.
model_usage_days = Table(
    "model_usage_days",
    METADATA,
    # Days since the epoch, in UTC.
    Column("day", Integer, primary_key=True),
    # Empty for runs that no key started.
    Column("key_id", Text, primary_key=True),
    Column("workflow_id", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("model_calls", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    # Of calls with a known price.
    Column("cost_microusd", BigInteger, nullable=False),
    Column("unpriced_calls", BigInteger, nullable=False),
    Index(None, "key_id", "day"),
)


def model_use_of_day(
    key_id: ColumnElement[str], day: ColumnElement[int]
) -> tuple[ColumnElement[int], ColumnElement[int]]:
    """Returns input and output tokens, and the cost in millionths of a US dollar, of a key's runs on a UTC day."""
    table = model_usage_days.c

    def total(value: ColumnElement[int]) -> ColumnElement[int]:
        # A sum on PostgreSQL is a decimal number, and null for no rows.
        summed = cast(func.coalesce(func.sum(value), literal_column("0")), BigInteger)
        return select(summed).where(table.key_id == key_id, table.day == day).scalar_subquery()

    return total(table.input_tokens + table.output_tokens), total(table.cost_microusd)


class ModelUsageDayRow(NamedTuple):
    """Use of one model by the runs of one key and workflow on one UTC day."""

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
